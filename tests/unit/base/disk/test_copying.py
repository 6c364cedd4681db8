"""Files and folders are copied while somebody writes them."""

import random

import pytest
from tests.interleaved import InterleavedDisk

from sprocket.base.disk import copying
from sprocket.base.disk.copying import copy_path, copy_tables, copy_tree
from sprocket.base.errors import DiskFailed, FileMissing, ForeignStore
from sprocket.testing.disk import SimulatedDisk

SIZE = 64 * 512


def written(disk: SimulatedDisk, path: str, data: bytes, size: int = 0) -> None:
    """Write a file, which is as long as that at least."""
    disk.make_folder(path.rpartition("/")[0])
    file = disk.open(path, write=True, create=True)
    file.resize(max(size, len(data)))
    file.write([data], 0)
    file.close()


@pytest.mark.parametrize("seed", range(20))
def test_a_file_that_is_being_filled_is_copied_up_to_one_moment(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever range is read when: nothing is missing before what the copy has."""
    monkeypatch.setattr(copying, "CHUNK_BYTES", 512)
    rng = random.Random(seed)
    disk = SimulatedDisk()
    disk.has_holes = seed % 2 == 0
    start = rng.randrange(SIZE // 2)
    written(disk, "/a/log", b"x" * start, SIZE)
    end = start
    log = disk.open("/a/log", write=True)

    def meanwhile() -> None:
        nonlocal end
        more = min(rng.choice((0, 0, 0, 0, 0, 0, 1, 700)), SIZE - end)
        log.write([b"x" * more], end)
        end += more

    disk.make_folder("/b")
    assert copy_path(InterleavedDisk(disk, meanwhile), "/a/log", "/b/log") == SIZE
    data = disk.contents()["/b/log"]
    copied = data.rstrip(b"\0")
    assert start <= len(copied) <= end
    assert copied == b"x" * len(copied)
    assert len(data) == SIZE


def test_a_range_that_never_stays_the_same_is_an_error() -> None:
    """It is read so often and no more."""
    disk = SimulatedDisk()
    written(disk, "/a/log", b"x")
    log = disk.open("/a/log", write=True)
    number = 0

    def meanwhile() -> None:
        nonlocal number
        number += 1
        log.write([bytes([number % 256])], 0)

    with pytest.raises(DiskFailed, match="it changes each time"):
        copy_path(InterleavedDisk(disk, meanwhile), "/a/log", "/b")
    with pytest.raises(FileMissing):
        copy_path(disk, "/none", "/b")


def test_tables_and_journals_belong_together() -> None:
    """A table is replaced, and the journal that it covers goes: never the old one with the new."""
    disk = SimulatedDisk()
    written(disk, "/a/t.json", b"0")
    written(disk, "/a/j.0", b"0")
    written(disk, "/a/below/file", b"static")
    written(disk, "/a/not.me", b"")
    calls = 0

    def meanwhile() -> None:
        nonlocal calls
        calls += 1
        if calls < 40:  # who copies meets each step of it
            number, step = divmod(calls, 4)
            text = b"%d" % (number + 1)
            if step == 0:
                written(disk, f"/a/j.{number + 1}", text)
            elif step == 1:
                written(disk, "/a/t.json.tmp", text)
            elif step == 2:
                disk.rename("/a/t.json.tmp", "/a/t.json")
            elif disk.exists(f"/a/j.{number}"):
                disk.remove(f"/a/j.{number}")

    copy_tables(InterleavedDisk(disk, meanwhile), "/a", "/b", lambda name: name != "not.me")
    found = {path[3:]: data for path, data in disk.contents().items() if path.startswith("/b/")}
    assert found.pop("below/file") == b"static"
    table = int(found.pop("t.json"))
    journals = sorted(int(name.removeprefix("j.")) for name in found)
    assert journals
    assert min(journals) <= table <= max(journals)


def test_tables_that_never_stay_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked at so often and no more."""
    monkeypatch.setattr(copying, "TRIES_MAX", 3)
    disk = SimulatedDisk()
    calls = 0

    def meanwhile() -> None:
        nonlocal calls
        calls += 1
        written(disk, f"/a/{calls}", b"")

    with pytest.raises(DiskFailed, match="replaced 3 times"):
        copy_tables(InterleavedDisk(disk, meanwhile), "/a", "/b")


def test_what_is_removed_meanwhile_is_left_out() -> None:
    """Of a folder that is copied as it is; its holes stay holes."""
    disk = SimulatedDisk()
    for name in "abc":
        written(disk, f"/a/{name}/file", name.encode() * 9, SIZE)
    calls = 0

    def meanwhile() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            disk.remove("/a/b/file")

    copy_tree(InterleavedDisk(disk, meanwhile), "/a", "/t", lambda name: name != "c")
    found = {path: data for path, data in disk.contents().items() if path.startswith("/t")}
    assert found == {"/t/a/file": b"a" * 9 + bytes(SIZE - 9)}
    assert disk.open("/t/a/file").data_end() == 9


def test_a_copy_goes_to_a_new_or_an_empty_folder() -> None:
    """Never over something, be it a file."""
    disk = SimulatedDisk()
    disk.make_folder("/empty")
    written(disk, "/full/x", b"x")
    for target in ("/new", "/empty"):
        copying.require_empty(disk, target)
    for target in ("/full", "/full/x"):
        with pytest.raises(ForeignStore, match=f"^{target}: expected a new or an empty folder$"):
            copying.require_empty(disk, target)


def test_a_copy_lies_outside_of_what_is_copied() -> None:
    """A name that only begins alike does."""
    for target in ("/store2", "/", "/other/store"):
        copying.require_outside(target, "/store")
    for target, source in (("/store", "/store"), ("/store/new", "/store/")):
        with pytest.raises(
            ForeignStore, match=f"^{target}: expected a folder outside of a {source}$"
        ):
            copying.require_outside(target, source, "a ")
