"""Damage in what is kept of users and policies: all is as it was, or the start is refused."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.rocketmq.store import rights_folders
from tests.unit.rocketmq.store.rights_folders import Kept, files, opened, outcome, put_back
from tests.waits import LONG_SECONDS

from sprocket.base.disk import RealDisk
from sprocket.base.errors import CorruptRecord, DiskFull, StoreError
from sprocket.rocketmq.model.rights import AclUser
from sprocket.rocketmq.store import rights_note, rights_tables
from sprocket.rocketmq.store.rights_tables import RightsTables
from sprocket.testing.disk import SimulatedDisk

HERE = Path(__file__).parent
FLIPPED_EVERY, CUT_EVERY = 31, 64
"""Where there is damage, in bytes; by night there is more of it."""
OTHERS_EVERY = 15
"""How much less of it there is in other folders than in those of a broker that was killed."""
BY_DAY = [
    pytest.param(kind, 1 if kind == "killed" else OTHERS_EVERY, id=kind)
    for kind in rights_folders.LEFT
]
BY_NIGHT = [
    pytest.param(
        kind,
        1 / FLIPPED_EVERY if kind == "killed" else 1 / OTHERS_EVERY,
        id=f"{kind}-often",
        marks=pytest.mark.nightly,
    )
    for kind in rights_folders.LEFT
]


@dataclass(frozen=True)
class Left:
    """A folder, the contents of its files, and what a start finds in them."""

    folder: Path
    contents: Mapping[str, bytes]
    kept: Kept
    is_rocketmq: bool


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, if there can be one: hundreds of starts would wait for the disk."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder in it of its own
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="sprocket-rights-", dir=memory) as folder:
        yield Path(folder)


def made(kind: str, tmp_path: Path) -> Left:
    """Return a folder that a broker left."""
    folder = tmp_path / "left"
    rights_folders.LEFT[kind](tmp_path / "made", folder)
    contents = files(folder)
    kept = opened(folder)
    assert len(kept.users) >= 2
    assert len(kept.acls) >= 3
    return Left(folder, contents, kept, is_rocketmq=kind.startswith("rocketmq"))


def check(left: Left, damaged: Mapping[str, bytes], what: str) -> bool:
    """Start on damaged files; tell whether that was refused."""
    put_back(left.folder, damaged)
    found = outcome(left.folder)
    if isinstance(found, StoreError):
        assert str(left.folder) in str(found), what
        return True
    assert left.kept == found, what
    return False


def flipped(left: Left, step: int) -> Iterator[tuple[str, Mapping[str, bytes]]]:
    """Give files with another one flipped byte each, and which that is."""
    for name, data in left.contents.items():
        for number, at in enumerate(range(0, len(data), spread(name, step))):
            bits = (0xFF, 0x01, 0x80)[number % 3]
            changed = data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]
            yield f"{name} at {at} by {bits:02x}", {**left.contents, name: changed}


def cut(left: Left, step: int) -> Iterator[tuple[str, Mapping[str, bytes]]]:
    """Give files of which another one is cut, and where.

    A write-ahead log of RocketMQ that is cut between two changes is as if the later one was never
    made; nobody could tell.
    """
    for name, data in left.contents.items():
        whole = changes_end(data) if left.is_rocketmq and name.endswith(".log") else ()
        for size in range(0, len(data), spread(name, step)):
            if size not in whole:
                yield f"{name} cut to {size}", {**left.contents, name: data[:size]}


def changes_end(log: bytes) -> set[int]:
    """Return where changes of a short write-ahead log end, and where the first begins.

    Each has a head of 7 bytes, of which the fifth and sixth are its length.
    """
    ends, at = {0}, 0
    while at + 7 <= len(log) <= 32_768 and log[at + 6]:
        at += 7 + int.from_bytes(log[at + 4 : at + 6], "little")
        ends.add(at)
    return ends


def spread(name: str, step: int) -> int:
    """Return how far from each other places are: of no file that nobody reads many are needed."""
    is_read = "OPTIONS-" not in name
    is_other = name.startswith("config/acls/")
    return max(step, 1) * (5 if is_other else 1) * (1 if is_read else 97)


@pytest.mark.parametrize(("kind", "every"), BY_DAY + BY_NIGHT)
def test_a_flipped_byte_changes_nobodys_rights(kind: str, every: float, tmp_path: Path) -> None:
    """Wherever it is."""
    left = made(kind, tmp_path)
    damaged = flipped(left, round(FLIPPED_EVERY * every))
    assert sum(check(left, files, what) for what, files in damaged) > 10


@pytest.mark.parametrize(("kind", "every"), BY_DAY + BY_NIGHT)
def test_a_cut_file_changes_nobodys_rights(kind: str, every: float, tmp_path: Path) -> None:
    """Whichever it is, and if nothing of it is left."""
    left = made(kind, tmp_path)
    damaged = cut(left, round(CUT_EVERY * every))
    assert sum(check(left, files, what) for what, files in damaged) > 10


@pytest.mark.parametrize("kind", ["killed", "rocketmq_killed"])
def test_a_missing_file_changes_nobodys_rights(kind: str, tmp_path: Path) -> None:
    """Nor does a folder in its place, of which no read succeeds."""
    left = made(kind, tmp_path)
    refused = 0
    for name in left.contents:
        others = {other: data for other, data in left.contents.items() if other != name}
        refused += check(left, others, f"{name} is missing")
        refused += check(left, {**others, f"{name}/x": b""}, f"{name} is a folder")
    assert refused >= 8  # the manifests, what names them, and rows


def test_a_read_that_fails_changes_nobodys_rights(tmp_path: Path) -> None:
    """Whichever of them; when the disk is well again all is as it was."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("NOT RUN: no C compiler makes reads fail here")
    library = tmp_path / "failing_reads.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, HERE / "failing_reads.c", "-ldl"], check=True
    )
    rights_folders.killed(tmp_path / "made", tmp_path / "left")
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.rocketmq.store.failing_reads", tmp_path / "left"],
        env={**os.environ, "LD_PRELOAD": str(library)},
        stdout=subprocess.PIPE,
        timeout=LONG_SECONDS,
        check=True,
    )
    said = json.loads(done.stdout)
    assert said["wrong"] == []
    assert len(said["refused"]) > 10
    assert said["reads"] > 20


def test_damage_is_left_as_it_is(tmp_path: Path) -> None:
    """So that a copy, or what RocksDB's own tools say, is not lost by a start."""
    folder = tmp_path / "left"
    rights_folders.killed(tmp_path / "made", folder)
    (manifest,) = (folder / "config/users").glob("MANIFEST-*")
    manifest.write_bytes(manifest.read_bytes()[:-100])
    before = files(folder)
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="Restore the folder config"):
            opened(folder)
    assert files(folder) == before


def test_who_wants_what_is_left_can_have_it(tmp_path: Path) -> None:
    """The note removed, an older folder of users is opened."""
    folder = tmp_path / "store"
    tables = RightsTables(RealDisk(), str(folder))
    tables.put_user(AclUser("root", "old"))
    shutil.copytree(folder / "config/users", tmp_path / "old")
    tables.put_user(AclUser("root", "new"))
    tables.close()
    shutil.rmtree(folder / "config/users")
    with pytest.raises(CorruptRecord, match="0 rows as of change 0, but 1 rows as of change 2"):
        opened(folder)
    shutil.copytree(tmp_path / "old", folder / "config/users")
    with pytest.raises(
        CorruptRecord, match=r"1 rows as of change 1.*remove config/sprocket\.rights"
    ):
        opened(folder)
    (folder / "config/sprocket.rights").unlink()
    assert opened(folder).users == (AclUser("root", "old"),)


def test_rows_of_the_same_change_must_be_the_same(tmp_path: Path) -> None:
    """Two folders may have come to the same number of changes."""
    for name in ("a", "b"):
        tables = RightsTables(RealDisk(), str(tmp_path / name))
        tables.put_user(AclUser("root", name))
        tables.close()
    shutil.rmtree(tmp_path / "a/config/users")
    shutil.copytree(tmp_path / "b/config/users", tmp_path / "a/config/users")
    with pytest.raises(CorruptRecord, match="1 rows as of change 1, but 1 rows"):
        opened(tmp_path / "a")


def test_what_a_real_broker_changed_last_holds(tmp_path: Path) -> None:
    """It knows no note, and its write-ahead log is read."""
    rights_folders.rocketmq_killed(tmp_path / "made", tmp_path / "left")
    kept = opened(tmp_path / "left")
    assert [(user.name, user.password) for user in kept.users] == [
        ("dora", "dora-secret"),
        ("root", "newest"),
    ]
    assert [acl.subject for acl in kept.acls] == ["User:bob", "User:dora", "User:root"]
    assert kept == opened(tmp_path / "left")


def test_a_power_cut_within_a_change_refuses_no_start(tmp_path: Path) -> None:
    """The end of the manifest may be torn anywhere then: there is what was, or what was to be."""
    folder = tmp_path / "store"
    tables = RightsTables(RealDisk(), str(folder))
    tables.put_user(AclUser("root", "old"))
    (manifest,) = (folder / "config/users").glob("MANIFEST-*")
    size, note = manifest.stat().st_size, (folder / "config/sprocket.rights").read_bytes()
    tables.put_user(AclUser("root", "new"))
    contents = dict(files(folder))
    tables.close()
    contents["config/sprocket.rights"] = note
    name = str(manifest.relative_to(folder))
    whole = contents[name]
    found = []
    for end in range(size, len(whole) + 1, 3):
        put_back(folder, {**contents, name: whole[:end]})
        (user,) = opened(folder).users
        found.append(user.password)
    assert found == sorted(found, reverse=True)
    assert {*found} == {"old", "new"}


def test_a_power_cut_while_it_is_opened_refuses_no_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What RocksDB then adds to its new manifest says nothing of rows."""
    folder = tmp_path / "store"
    tables = RightsTables(RealDisk(), str(folder))
    tables.put_user(AclUser("root", "old"))
    tables.close()
    kept = opened(folder)

    def cut(*_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr(RightsTables, "_take_note", cut)
    with pytest.raises(InterruptedError):
        RightsTables(RealDisk(), str(folder))
    monkeypatch.undo()
    contents = files(folder)
    for name, data in contents.items():
        if "MANIFEST" in name:
            torn = data + data[-40:-1]
            put_back(folder, {**contents, name: torn})
            assert kept == opened(folder)


def test_a_note_that_is_not_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asked for the change is told; the next start has it, or not."""
    tables = RightsTables(RealDisk(), str(tmp_path))

    def full(*_: object) -> None:
        raise DiskFull("no space left")

    monkeypatch.setattr(rights_note, "replace", full)
    with pytest.raises(DiskFull):
        tables.put_user(AclUser("root", "new"))
    monkeypatch.undo()
    tables.close()
    assert opened(tmp_path).users == (AclUser("root", "new"),)


def test_a_copy_is_not_made_of_what_is_damaged(tmp_path: Path) -> None:
    """Whoever restores it would have fewer users, without a word."""
    folder = tmp_path / "left"
    rights_folders.stopped(tmp_path / "made", folder)
    rights_tables.copy_rights(RealDisk(), str(folder), str(tmp_path / "copy"))
    assert opened(tmp_path / "copy") == opened(folder)
    assert (tmp_path / "copy/config/sprocket.rights").exists()
    shutil.rmtree(folder / "config/users")
    with pytest.raises(CorruptRecord):
        rights_tables.copy_rights(RealDisk(), str(folder), str(tmp_path / "second"))


def test_a_check_tells_of_it(tmp_path: Path) -> None:
    """Without changing anything; what is well is not told of."""
    folder = tmp_path / "left"
    rights_folders.stopped(tmp_path / "made", folder)
    assert list(rights_tables.wrong(RealDisk(), str(folder))) == []
    shutil.rmtree(folder / "config/acls")
    before = files(folder)
    ((path, error),) = rights_tables.wrong(RealDisk(), str(folder))
    assert path == str(folder / "config/acls")
    assert "0 rows as of change 0" in str(error)
    assert list(rights_tables.wrong(SimulatedDisk(), "/store")) == []
    assert files(folder) == before
