"""`sprocket store check`, `recover`, `salvage` and `convert` tell what they find and do."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.stores import new
from typer.testing import CliRunner, Result

from sprocket.base.disk import RealDisk
from sprocket.base.place import Place
from sprocket.cli.folder import repair
from sprocket.cli.main import app
from sprocket.cli.terminal import output
from sprocket.rocketmq.broker.groups import ConsumerOffsets
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock


@pytest.fixture(autouse=True)
def _keep_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands run in this process, which is to keep its own ways."""
    monkeypatch.setattr(output, "end_quietly_with_the_reader", lambda: None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store of thirty messages that was stopped."""
    root = tmp_path / "store"
    settings = StoreSettings(fill_ahead_bytes=0)
    store = Store.open(RealDisk(), str(root), settings, FakeClock(), Geometry.small())
    for number in range(30):
        store.append(new("topic", number % 2, b"body", name=f"N{number}"))
    store.write()
    store.close()
    return root


def run(*arguments: object) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(app(), ["store", *(str(a) for a in arguments)])


def damage(folder: Path, position: int = 89) -> None:
    """Change a byte of the log, of the first body if not told otherwise."""
    with (folder / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(position)
        file.write(b"\xff")


def only(result: Result) -> dict[str, Any]:
    """The one JSON object that it wrote."""
    (line,) = result.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_check_is_silent_about_a_whole_store(folder: Path) -> None:
    """But for a word to the person who asked."""
    for flags in ([], ["--json"]):
        ended = run("check", folder, *flags)
        assert (ended.exit_code, ended.stdout) == (0, "")
        assert ended.stderr == f"sprocket: {folder}: nothing is wrong\n"


def test_check_tells_each_broken_rule(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For programs and for people, who see the first ones if there are many."""
    damage(folder)
    ended = run("check", folder, "--json")
    assert ended.exit_code == 1
    assert only(ended) == {
        "rule": "LOG_RECORD",
        "file": str(folder / "commitlog" / f"{0:020d}"),
        "position": 0,
        "expected": "an intact record",
        "found": only(ended)["found"],
        "physical_offset": 0,
    }
    assert "LOG_RECORD" in run("check", folder).stdout
    for path in (folder / "consumequeue").rglob("0" * 20):
        path.unlink()
    monkeypatch.setattr(repair, "SHOWN_MAX", 1)
    ended = run("check", folder)
    assert "the first 1 are shown" in ended.stderr
    assert "QUEUE" not in ended.stdout


def test_recover_does_what_a_start_does(folder: Path) -> None:
    """After a clean stop nothing; the whole log only if it is told to."""
    damage(folder)
    assert only(run("recover", folder, "--json"))["damage"] == []
    found = only(run("recover", folder, "--whole", "--json"))
    assert (found["records"], [one["start"] for one in found["damage"]]) == (29, [0])
    assert run("check", folder).exit_code == 0
    damage(folder, 600)
    ended = run("recover", folder, "--whole")
    assert "stepped over" in ended.stdout
    assert "recovered" in ended.stdout


def test_recover_brings_the_tables_up_to_date(folder: Path) -> None:
    """What a kill has left in their journals, for who reads the files alone; and lost topics."""
    offsets = ConsumerOffsets(Place(RealDisk(), str(folder), FakeClock()))
    offsets.commit("group", "topic", 0, 5)
    file = folder / "config" / "consumerOffset.json"
    assert not file.exists()
    topics = folder / "config" / "topics.json"
    assert only(run("recover", folder, "--json"))["tables"] == [str(topics), str(file)]
    assert '"topicName":"topic"' in topics.read_text()
    assert '"topic@group":{0:5' in file.read_text()
    assert run("check", folder).exit_code == 0


def test_salvage_says_what_it_left_behind(folder: Path, tmp_path: Path) -> None:
    """Ranges, and messages by queue; the new store is whole."""
    damage(folder)
    found = only(run("salvage", folder, tmp_path / "one", "--json"))
    assert (found["records"], found["lost"]) == (29, {"topic/0": 1})
    assert run("check", tmp_path / "one").exit_code == 0
    lines = [line.split() for line in run("salvage", folder, tmp_path / "two").stdout.splitlines()]
    assert ["records", "29"] in lines
    assert [line[0] for line in lines if line].count("lost") == 1  # above its table only
    assert ["left", "behind"] in lines
    assert lines[-2:] == [["queue", "messages"], ["topic/0", "1"]]


def test_convert_moves_the_queues(folder: Path) -> None:
    """There and back; nothing is wrong with the store, and its queues are the same."""
    pytest.importorskip("rocksdict")
    queues = run("ls", folder, "--json").stdout
    found = only(run("convert", folder, "rocksdb", "--json"))
    assert (found["source"], found["target"], found["units"]) == ("files", "rocksdb", 30)
    assert run("check", folder).exit_code == 0
    assert run("ls", folder, "--json").stdout == queues
    assert "converted" in run("convert", folder, "files").stdout
    assert run("check", folder).exit_code == 0
    assert run("ls", folder, "--json").stdout == queues


def test_convert_refuses_what_it_cannot_do(folder: Path) -> None:
    """An engine that there is not, a store that was not closed."""
    assert "no engine 'paper'" in run("convert", folder, "paper").stderr
    (folder / "abort").write_text("1", encoding="utf-8")
    ended = run("convert", folder, "rocksdb")
    assert (ended.exit_code, ended.stderr.count("\n")) == (1, 1)
    assert "sprocket store recover" in ended.stderr


def test_recover_shows_how_far_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it counts at the moment, in lines on stderr where that is not a terminal."""
    monkeypatch.setattr(output, "LINE_SECONDS", 0.0)
    result = run("recover", folder, "--whole", "--json")
    assert result.exit_code == 0
    told = re.findall(r"bytes of log checked: ([\d,]+)", result.stderr)
    scanned = [int(done.replace(",", "")) for done in told]
    assert scanned
    assert scanned == sorted(scanned)
    assert only(result)["bytes_scanned"] >= scanned[-1] > 0
