"""`sprocket store` looks into the recorded stores of a real broker, and into damaged ones."""

import json
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.recorded import in_our_names, unpack_archive
from tests.stores import maintain, new
from typer.testing import CliRunner, Result

from sprocket.base.disk import RealDisk
from sprocket.cli.main import app
from sprocket.cli.terminal import output
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock

CASES = Path(__file__).resolve().parents[3] / "data" / "rocketmq-5.3.3"
WHOLE = ["01-basic", "05-long-topic", "09-index", "10a-crc-tail", "11a-ipv6-store-host"]
TORN = ["02-kill9-load", "03-torn"]


@pytest.fixture(autouse=True)
def _keep_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands run in this process, which is to keep its own ways."""
    monkeypatch.setattr(output, "end_quietly_with_the_reader", lambda: None)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Unpack a recorded store, once."""
    root = tmp_path_factory.mktemp("stores")

    def unpack(case: str) -> Path:
        folder = root / case
        if not folder.exists():
            unpack_archive(CASES / case / "store.tar.xz", folder)
        return folder / "store"

    return unpack


def run(*arguments: object) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(app(), ["store", *(str(a) for a in arguments)])


def lines(result: Result) -> list[dict[str, object]]:
    """The JSON lines that it wrote."""
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def recorded(case: str) -> list[dict[str, object]]:
    """What the broker's own decoder said of the same log; the CRC tail is not a property to it."""
    with lzma.open(CASES / case / "records.jsonl.xz", "rt", encoding="utf-8") as file:
        return [in_our_names(json.loads(line)) for line in file]


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and time of change of every file, times of every folder."""
    return {
        str(path): (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns)
        for path in (folder, *folder.rglob("*"))
    }


@pytest.mark.slow
@pytest.mark.parametrize("case", [*WHOLE, *TORN])
def test_dump_says_what_the_broker_s_decoder_says(
    case: str, unpacked: Callable[[str], Path]
) -> None:
    """Line by line, to the last property; and nothing in the folder changes."""
    folder = unpacked(case)
    before = snapshot(folder)
    assert lines(run("dump", folder, "--json")) == recorded(case)
    assert snapshot(folder) == before


def test_ls_counts_the_messages(unpacked: Callable[[str], Path]) -> None:
    """Each queue with its offsets, as the broker reported them."""
    folder = unpacked("01-basic")
    said = json.loads((CASES / "01-basic" / "expected.json").read_text(encoding="utf-8"))
    expected = {
        (topic, int(number)): (queue["min"], queue["max"])
        for topic, about in said["topics"].items()
        for number, queue in about["queues"].items()
    }
    rows = lines(run("ls", folder, "--json"))
    found = {(r["topic"], r["queue_id"]): (r["min_offset"], r["max_offset"]) for r in rows}
    assert found == expected
    assert "01-basic" in run("ls", folder).stdout
    topics = lines(run("ls", folder, "--topics", "--json"))
    assert {row["topic"]: row["queue_count"] for row in topics} == {t: 4 for t, _ in expected}
    files = {row["file"] for row in lines(run("ls", folder, "--files", "--json"))}
    assert files == set(said["files"])
    assert "checkpoint" in run("ls", folder, "--files").stdout


def test_get_shows_one_message(unpacked: Callable[[str], Path]) -> None:
    """By its place in a queue and by its physical offset; the same one."""
    folder = unpacked("01-basic")
    wanted = recorded("01-basic")[300]
    place = ["--topic", wanted["topic"], "--queue", wanted["queue_id"]]
    by_queue = run("get", folder, *place, "--offset", wanted["queue_offset"], "--json")
    assert lines(by_queue) == [wanted]
    assert lines(run("get", folder, "--at", wanted["physical_offset"], "--json")) == [wanted]
    assert str(wanted["offset_id"]) in run("get", folder, "--at", wanted["physical_offset"]).stdout


def test_find_by_key_id_and_time(unpacked: Callable[[str], Path]) -> None:
    """Keys that share a hash are told apart."""
    folder = unpacked("09-index")
    records = recorded("09-index")
    wanted = next(r for r in records if "AaAa" in str(r["properties"]).split("'"))
    topic = wanted["topic"]
    expected = [
        r
        for r in records
        if r["topic"] == topic and "AaAa" in dict(r["properties"]).get("KEYS", "").split(" ")  # type: ignore[call-overload]
    ]
    assert lines(run("find", folder, "--topic", topic, "--key", "AaAa", "--json")) == expected
    newest = lines(run("find", folder, "--topic", topic, "--key", "AaAa", "--json", "--limit", 1))
    assert newest == expected[-1:]  # others of the same hash are newer
    assert lines(run("find", folder, "--id", wanted["offset_id"], "--json")) == [wanted]
    unique = ["--topic", topic, "--id", wanted["unique_key"], "--json"]
    assert lines(run("find", folder, *unique)) == [wanted]
    at = ["--topic", topic, "--time", wanted["stored_at_ms"], "--json"]
    first = lines(run("find", folder, *at))
    assert all(r["stored_at_ms"] >= wanted["stored_at_ms"] for r in first)  # type: ignore[operator]
    assert run("find", folder, "--topic", topic, "--key", "AaAa").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ls", "{missing}"], "no such folder"),
        (["check", "{missing}"], "no such folder"),
        (["check", "{empty}"], "there is no store"),
        (["ls", "{foreign}"], "not an offset of 20 digits"),
        (["recover", "{missing}"], "no such folder"),
        (["recover", "{empty}"], "there is no store"),
        (["recover", "{file}"], "expected a store's folder, found a file"),
        (["salvage", "{missing}", "{empty}"], "no such folder"),
        (["salvage", "{store}", "{store}"], "expected a new or an empty folder"),
        (["salvage", "{empty}", "{missing}"], "there is no store"),
        (["ls", "{file}"], "expected a store's folder, found a file"),
        (["dump", "{empty}"], "there is no store"),
        (["get", "{store}"], "say which message"),
        (["get", "{store}", "--at", "1"], "1"),
        (["get", "{store}", "--at", "99999999999"], "past the end"),
        (
            ["get", "{store}", "--topic", "no", "--queue", "0", "--offset", "0"],
            "there is no topic 'no'",
        ),
        (
            ["get", "{store}", "--topic", "Basic-g", "--queue", "0", "--offset", "9999"],
            "not offset",
        ),
        (["find", "{store}"], "say what to find"),
        (["find", "{store}", "--key", "k"], "needs a --topic"),
        (["find", "{store}", "--topic", "Basic-g", "--key", "none"], "nothing found for key none"),
        (["find", "{store}", "--topic", "Basic-g", "--time", "soon"], "is not a time"),
        (["find", "{store}", "--id", "xyz"], "a unique key needs a --topic"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: list[str], said: str, unpacked: Callable[[str], Path], tmp_path: Path
) -> None:
    """Exit code 1, one line on stderr, nothing on stdout."""
    file, empty = tmp_path / "file", tmp_path / "empty"
    file.write_text("x", encoding="utf-8")
    empty.mkdir()
    paths = {"missing": tmp_path / "no", "file": file, "empty": empty}
    (tmp_path / "foreign/commitlog").mkdir(parents=True)
    (tmp_path / "foreign/consumequeue/t/0").mkdir(parents=True)
    (tmp_path / "foreign/commitlog/12345").write_bytes(b"something else")
    paths["foreign"] = tmp_path / "foreign"
    paths["store"] = unpacked("01-basic")
    ended = run(*(a.format(**paths) for a in arguments))
    assert ended.exit_code == 1
    assert ended.stderr.startswith("sprocket: ")
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize("case", ["01-basic", "03-torn-last-cut", "10a-crc-tail"])
def test_commands_that_read_change_nothing(
    case: str, unpacked: Callable[[str], Path], tmp_path: Path
) -> None:
    """No byte, no name, no time; whether the store was stopped or killed."""
    folder = unpacked(case)
    first = recorded(case)[0]
    before = snapshot(folder)
    for command in (
        ["ls", folder],
        ["ls", folder, "--topics"],
        ["ls", folder, "--files"],
        ["get", folder, "--at", 0],
        ["find", folder, "--id", first["offset_id"]],
        ["find", folder, "--topic", first["topic"], "--key", first["unique_key"]],
        ["find", folder, "--topic", first["topic"], "--time", 0],
        ["dump", folder],
        ["check", folder],
        ["salvage", folder, tmp_path / "new"],
    ):
        ended = run(*command)
        assert (ended.exit_code == 0) == (command[0] != "check" or case != "03-torn-last-cut")
        assert bool(ended.stdout) == (command[0] != "check" or ended.exit_code == 1)
        assert snapshot(folder) == before, command


@pytest.mark.slow
def test_a_store_that_is_open_can_be_read(tmp_path: Path) -> None:
    """Its messages are found, and nothing is wrong with it; only repairing it has to wait."""
    folder = str(tmp_path / "store")
    settings, geometry = StoreSettings(fill_ahead_bytes=0), Geometry.small()
    store = Store.open(RealDisk(), folder, settings, FakeClock(), geometry)
    for number in range(40):
        store.append(new("topic", number % 2, b"body", name=f"N{number}"))
    store.write()
    store.sync()
    maintain(store)
    assert len(lines(run("dump", folder, "--json"))) == 40
    assert len(lines(run("find", folder, "--topic", "topic", "--key", "N7", "--json"))) == 1
    assert sum(int(str(row["messages"])) for row in lines(run("ls", folder, "--json"))) == 40
    checked = run("check", folder)
    assert (checked.exit_code, checked.stdout) == (0, "")
    assert "last moments were not judged" in checked.stderr
    assert "is locked" in run("recover", folder).stderr
    store.close()
    assert run("recover", folder).exit_code == 0


@pytest.mark.slow
def test_damage_is_told_after_what_could_be_read(
    unpacked: Callable[[str], Path], tmp_path: Path
) -> None:
    """A record whose head is destroyed is stepped over, and said so."""
    folder = tmp_path / "store"
    shutil.copytree(unpacked("01-basic"), folder)
    records = recorded("01-basic")
    broken = records[100]
    log = min((folder / "commitlog").iterdir())
    with log.open("r+b") as file:
        file.seek(int(str(broken["physical_offset"])))
        file.write(b"\xff" * 40)
    ended = run("dump", folder, "--json")
    assert ended.exit_code == 1
    assert len(ended.stdout.splitlines()) == len(records) - 1
    assert (
        f"no intact record from {broken['physical_offset']} to {records[101]['physical_offset']}"
        in ended.stderr
    )


def test_limit_and_topic(unpacked: Callable[[str], Path]) -> None:
    """The first so many of one topic."""
    folder = unpacked("01-basic")
    topic = "Basic-g"
    expected = [r for r in recorded("01-basic") if r["topic"] == topic][:3]
    found = lines(run("dump", folder, "--json", "--topic", topic, "--limit", 3))
    assert found == expected
    text = run("dump", folder, "--topic", topic, "--limit", 3).stdout.splitlines()
    assert len(text) == 4


@pytest.mark.slow
def test_a_topic_that_is_not_there_is_an_error_that_names_the_nearest(
    unpacked: Callable[[str], Path],
) -> None:
    """Instead of nothing with exit code 0, or of a key that was not found."""
    folder = unpacked("01-basic")
    for words in (
        ["dump", folder, "--topic", "Basic-G"],
        ["find", folder, "--topic", "Basic-G", "--key", "k"],
        ["find", folder, "--topic", "Basic-G", "--time", "0"],
        ["get", folder, "--topic", "Basic-G", "--queue", "0", "--offset", "0"],
    ):
        ended = run(*words)
        assert ended.exit_code == 1, words
        assert "no topic 'Basic-G'" in ended.stderr
        assert "did you mean Basic-" in ended.stderr
