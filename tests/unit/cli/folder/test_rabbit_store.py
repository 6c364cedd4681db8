"""`sprocket rabbit-store` looks into the folders of a real RabbitMQ, and into damaged ones."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.rabbit_vhosts import message as vhost_message
from tests.recorded_rabbitmq import CASES, RecordedVhosts
from typer.testing import CliRunner, Result

from sprocket.base.disk import RealDisk, steps
from sprocket.base.progress import unwatched
from sprocket.cli.main import app
from sprocket.cli.terminal import output
from sprocket.rabbitmq.broker.node_folder import NodeFolder
from sprocket.rabbitmq.model.user import User
from sprocket.rabbitmq.settings import AmqpNodeSettings, VhostGeometry, VhostStoreSettings
from sprocket.rabbitmq.store.layout import vhost_folder
from sprocket.rabbitmq.store.vhost import VhostPlace, VhostStore

ORDERS = "628WB79CIFDYO9LJI6DKMI09L/queues/F0LI8Q2L5NQQX8KRJAO1AHU7J"


@pytest.fixture(autouse=True)
def _keep_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands run in this process, which is to keep its own ways."""
    monkeypatch.setattr(output, "end_quietly_with_the_reader", lambda: None)
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Unpack a recorded folder, once."""
    root = tmp_path_factory.mktemp("vhosts")

    def unpack(case: str) -> Path:
        folder = root / case
        if not folder.exists():
            RecordedVhosts(case).unpack(folder)
        return folder

    return unpack


def run(*arguments: object) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(app(), ["rabbit-store", *(str(a) for a in arguments)])


def lines(result: Result) -> list[dict[str, Any]]:
    """The JSON lines that it wrote."""
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def refused(*arguments: object) -> str:
    """Run a command that must fail; return what it says."""
    result = run(*arguments)
    assert result.exit_code == 1
    return result.stderr


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and time of change of every file, times of every folder."""
    return {
        str(path): (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns)
        for path in (folder, *folder.rglob("*"))
    }


def whole_numbers(value: Any) -> Any:
    """Return properties as the client that recorded them showed them: without fractions."""
    if isinstance(value, dict):
        return {name: whole_numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [whole_numbers(one) for one in value]
    return int(value) if isinstance(value, float) else value


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_dump_gives_what_a_client_got_from_the_real_one(
    case: str, unpacked: Callable[[str], Path]
) -> None:
    """Every message of every queue, in order, to the last byte; nothing in the folder changes."""
    folder = unpacked(case)
    before = snapshot(folder)
    recorded = RecordedVhosts(case)
    now_us = recorded.expected["drained_from_us"]
    got: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in lines(run("dump", folder, "--json")):
        if not 0 < (line["expires_at_us"] or 0) <= now_us:
            got.setdefault((line["vhost"], line["queue"]), []).append(line)
    for queue, expected in recorded.messages.items():
        dumped = got.pop(queue, [])
        assert len(dumped) == len(expected)
        for line, wanted in zip(dumped, expected, strict=True):
            if wanted["seq_id"] is None or line["priority"] is not None:
                wanted = {**wanted, "seq_id": line["seq_id"]}
            found = {name: line[name] for name in wanted}
            assert whole_numbers(found) == wanted
    assert got == {}
    assert snapshot(folder) == before


def test_ls_counts_what_is_in_the_queues(unpacked: Callable[[str], Path]) -> None:
    """The first recorded case: 220 messages left, 70 of them delivered."""
    (row,) = lines(run("ls", unpacked("01-journal-only"), "--json"))
    assert row == {
        "vhost": "/",
        "queue": "orders",
        "version": 1,
        "priorities": 0,
        "messages": 220,
        "redelivered": 70,
        "acknowledged": 80,
        "transient": 0,
        "embedded": 220,
        "body_bytes": 13195,
        "clean_stop": True,
    }


def test_ls_writes_a_table(unpacked: Callable[[str], Path]) -> None:
    """With a queue with priorities as one."""
    table = run("ls", unpacked("05-properties-ttl"), "--queue", "prio").stdout.splitlines()
    assert table[0].split()[:3] == ["vhost", "queue", "version"]
    assert table[1].split() == ["/", "prio", "1", "4", "23", "0", "0", "0", "23", "167", "yes"]


def test_get_shows_one_message(unpacked: Callable[[str], Path]) -> None:
    """By its number in the queue; also an acknowledged one."""
    folder = unpacked("01-journal-only")
    (left,) = lines(run("get", folder, "--queue", "orders", "--seq-id", 40, "--json"))
    assert (left["seq_id"], left["state"], left["body_len"]) == (40, "delivered", 53)
    (gone,) = lines(run("get", folder, "--queue", "orders", "--seq-id", 0, "--json"))
    assert gone["state"] == "acknowledged"
    shown = run("get", folder, "--queue", "orders", "--seq-id", 40).stdout
    assert "property delivery_mode  2" in shown
    assert "redelivered             yes" in shown


def test_get_tells_priorities_apart(unpacked: Callable[[str], Path]) -> None:
    """Each has its own numbers."""
    folder = unpacked("05-properties-ttl")
    wanted = ("get", folder, "--queue", "prio", "--seq-id", 1)
    assert "say --vhost and --priority" in refused(*wanted)
    (found,) = lines(run(*wanted, "--priority", 3, "--json"))
    assert (found["priority"], found["seq_id"]) == (3, 1)


def test_dump_writes_lines_for_people(unpacked: Callable[[str], Path]) -> None:
    """Under a head, no more than asked for."""
    text = run("dump", unpacked("05-properties-ttl"), "--queue", "p.cc", "--limit", 1).stdout
    head, line = text.splitlines()
    assert head.split("\t")[:4] == ["vhost", "queue", "priority", "seq id"]
    assert line.split("\t")[:5] == ["/", "p.cc", "", "0", "published"]


def test_dump_with_all_has_what_left_the_queue(unpacked: Callable[[str], Path]) -> None:
    """As far as there are records of it."""
    folder = unpacked("01-journal-only")
    states = [line["state"] for line in lines(run("dump", folder, "--all", "--json"))]
    assert [states.count(one) for one in ("acknowledged", "delivered", "published")] == [
        *(80, 70, 150),
    ]


def test_one_virtual_host_is_chosen(unpacked: Callable[[str], Path]) -> None:
    """By its name, or by its folder."""
    folder = unpacked("05-properties-ttl")
    rows = lines(run("ls", folder, "--vhost", "sprocket/β vhost", "--json"))
    assert [row["queue"] for row in rows] == ["orders"]
    vhosts = folder / "vhosts"
    assert lines(run("ls", vhosts / "B0ETS5NA2DV0A0LZ7C0QFUR8S", "--json")) == rows


def test_what_is_not_there_is_told(unpacked: Callable[[str], Path], tmp_path: Path) -> None:
    """With the nearest name, in one line and with exit code 1."""
    folder = unpacked("01-journal-only")
    assert "no queue 'order'; did you mean orders?" in refused("ls", folder, "--queue", "order")
    assert "no virtual host 'x'" in refused("ls", folder, "--vhost", "x")
    missing = refused("get", folder, "--queue", "orders", "--seq-id", 999)
    assert "queue 'orders' has no message 999" in missing
    assert "say which message" in refused("get", folder, "--queue", "orders")
    assert "there is no virtual host of RabbitMQ" in refused("ls", tmp_path)
    assert "no such folder" in refused("dump", tmp_path / "no")


def test_what_cannot_be_read_is_told_at_the_end(tmp_path: Path) -> None:
    """The other messages are written before."""
    vhosts = Path(RecordedVhosts("01-journal-only").unpack(tmp_path))
    journal = vhosts / ORDERS / "journal.jif"
    data = journal.read_bytes()
    broken = data.replace(b"basic_message", b"basic_massage", 1)
    journal.write_bytes(broken[:-1])
    result = run("dump", vhosts, "--all", "--json")
    assert result.exit_code == 1
    written = [json.loads(line) for line in result.stdout.splitlines()]
    assert "expected the term of a message" in written[0]["error"]
    assert len(written) == 300
    assert "journal.jif at" in result.stderr
    assert "2 faults; all else was read" in result.stderr


def test_names_that_are_no_text_are_spelled_out(tmp_path: Path) -> None:
    """A queue may be called anything."""
    from tests.rabbit_folders import MadeVhost, published

    made = MadeVhost()
    made.put(made.queue("q\udcff").journal, published(0))
    for path, data in made.disk.contents().items():
        target = tmp_path / path.removeprefix("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    (line,) = lines(run("dump", tmp_path, "--json"))
    assert line["queue"] == "q\\xff"
    (row,) = lines(run("ls", tmp_path, "--json"))
    assert row["queue"] == "q\\xff"


def test_check_is_silent_on_an_intact_folder(unpacked: Callable[[str], Path]) -> None:
    """And writes nothing."""
    folder = unpacked("07-journal-over-segment")
    before = snapshot(folder)
    result = run("check", folder)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing is wrong" in result.stderr
    assert snapshot(folder) == before


def test_check_tells_what_is_broken(tmp_path: Path) -> None:
    """With rule, file and position, as a table and as JSON."""
    vhosts = Path(RecordedVhosts("01-journal-only").unpack(tmp_path))
    journal = vhosts / ORDERS / "journal.jif"
    journal.write_bytes(journal.read_bytes()[:-1])
    result = run("check", vhosts, "--json")
    assert result.exit_code == 1
    *_, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert (last["rule"], last["file"]) == ("READABLE", str(journal))
    assert "READABLE" in run("check", vhosts).stdout
    assert "broken rule" in result.stderr


def test_salvage_copies_what_is_whole(tmp_path: Path) -> None:
    """And fails if something was left behind, naming it."""
    vhosts = Path(RecordedVhosts("01-journal-only").unpack(tmp_path))
    (done,) = lines(run("salvage", vhosts, tmp_path / "new", "--json"))
    assert (done["messages"], done["clean_stop"], done["lost"]) == (220, True, [])
    kept = ("seq_id", "state", "redelivered", "body_sha256", "properties_hex")
    before, after = (
        [{name: line[name] for name in kept} for line in lines(run("dump", folder, "--json"))]
        for folder in (vhosts, tmp_path / "new")
    )
    assert after == before
    assert "expected a new or an empty folder" in refused("salvage", vhosts, tmp_path / "new")
    journal = vhosts / ORDERS / "journal.jif"
    data = journal.read_bytes()
    last = data.rindex(b"basic_message")
    journal.write_bytes(data[:last] + b"basic_massage" + data[last + 13 :])
    result = run("salvage", vhosts, tmp_path / "other")
    assert result.exit_code == 1
    assert "cannot be read" in result.stdout
    assert "1 messages or folders were left behind" in result.stderr


@pytest.mark.slow
def test_recover_brings_a_killed_nodes_folder_into_order(tmp_path: Path) -> None:
    """A look changes nothing and tells the same; afterwards all is as a clean stop leaves it."""
    folder = tmp_path / "vhosts"
    RecordedVhosts("04-dirty-kill9").unpack(tmp_path)
    before = snapshot(folder)
    (told,) = lines(run("recover", folder, "--dry-run", "--json"))
    assert snapshot(folder) == before
    expected = lines(run("dump", folder, "--json"))
    (done,) = lines(run("recover", folder, "--json"))
    assert done == told
    assert done["messages"] == len(expected) > 100
    assert sum(row["messages"] for row in done["messages_by_queue"]) == done["messages"]
    assert run("check", folder).exit_code == 0
    places = ("file", "position")
    assert [_without(one, places) for one in lines(run("dump", folder, "--json"))] == [
        _without(one, places) for one in expected
    ]
    (again,) = lines(run("recover", folder, "--json"))
    assert (again["clean_stop"], again["messages"]) == (True, done["messages"])


def _without(row: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def test_recover_is_refused_while_somebody_has_the_folder_open(tmp_path: Path) -> None:
    """And a look is not."""
    RecordedVhosts("01-journal-only").unpack(tmp_path)
    (folder,) = (tmp_path / "vhosts").iterdir()
    lock = RealDisk().lock(f"{folder}/sprocket.lock")
    try:
        assert "is locked" in refused("recover", folder)
        assert run("recover", folder, "--dry-run").exit_code == 0
    finally:
        lock.release()


def delaying(folder: Path) -> None:
    """Leave a folder in which two exchanges keep messages, in a file and in the log."""
    place = VhostPlace(RealDisk(), str(folder / vhost_folder("/")), "/")
    store = VhostStore.open(place, VhostStoreSettings(), VhostGeometry())
    kept = store.delayed
    kept.note_clock(1000, 1)
    for number in (5, 1, 3):
        kept.add("x", vhost_message(number), number * 1_000_000, 1)
    kept.add("gone", vhost_message(9), 2_000_000, 1)
    steps.run(kept.flush_steps())
    kept.drop("gone", 1)
    assert len(steps.run(kept.take_steps(1_000_000, 10))) == 1
    kept.done(1_000_000)
    kept.add("y", vhost_message(4), 4_000_000, 2_000_000)
    store.log.commit()
    store.close()


DUE = [("x", 3_000_000 - 1000, 3), ("y", 4_000_000 - 1000, 4), ("x", 5_000_000 - 1000, 5)]
"""Exchange, due time by the wall clock, and what is in the body."""


def due(folder: Path, *options: str) -> list[tuple[str, int, int]]:
    """Return what `dump` writes of what exchanges keep."""
    return [
        (row["delayed_by"], row["due_at_us"], int(bytes.fromhex(row["body_hex"]).split()[1]))
        for row in lines(run("dump", folder, "--json", *options))
        if row["state"] == "delayed"
    ]


def test_what_exchanges_keep_is_listed_dumped_and_shown(tmp_path: Path) -> None:
    """In the order in which it is due; not what was routed, or went with its exchange."""
    delaying(tmp_path)
    assert due(tmp_path) == DUE
    assert due(tmp_path, "--exchange", "y") == DUE[1:2]
    assert due(tmp_path, "--limit", "2") == DUE[:2]
    rows = lines(run("ls", tmp_path, "--json"))
    assert [(row["exchange"], row["delayed"], row["next_due_at_us"]) for row in rows] == [
        ("x", 2, 2_999_000),
        ("y", 1, 3_999_000),
    ]
    (number,) = (row["number"] for row in lines(run("dump", tmp_path, "--exchange", "y", "--json")))
    (shown,) = lines(run("get", tmp_path, "--exchange", "y", "--number", str(number), "--json"))
    assert (shown["delayed_by"], shown["routing_key"], shown["due_at_us"]) == ("y", "q", 3_999_000)
    assert "body 4" in run("get", tmp_path, "--exchange", "y", "--number", str(number)).stdout
    assert "body 4" in run("dump", tmp_path).stdout
    assert "no exchange 'z' keeps a message" in refused("dump", tmp_path, "--exchange", "z")
    assert "has no message 99" in refused("get", tmp_path, "--exchange", "y", "--number", "99")


def test_what_exchanges_keep_is_salvaged(tmp_path: Path) -> None:
    """And is due at the same time in the new folder, which breaks no rule."""
    delaying(tmp_path / "old")
    (done,) = lines(run("salvage", tmp_path / "old", tmp_path / "new", "--json"))
    assert done["delayed"] == len(DUE)
    assert due(tmp_path / "new") == DUE
    assert run("check", tmp_path / "new").exit_code == 0
    place = VhostPlace(RealDisk(), str(tmp_path / "new" / vhost_folder("/")), "/")
    store = VhostStore.open(place, VhostStoreSettings(), VhostGeometry())
    assert (store.delayed.counts, store.report.damage) == ({"x": 2, "y": 1}, [])
    assert len(steps.run(store.delayed.take_steps(6_000_000, 10))) == len(DUE)
    store.close()


def test_what_exchanges_keep_and_cannot_be_read_is_told(tmp_path: Path) -> None:
    """The rest is shown, and salvaged."""
    delaying(tmp_path / "old")
    (path,) = (tmp_path / "old").rglob("*.run")
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    result = run("dump", tmp_path / "old", "--json")
    assert result.exit_code == 1
    assert "messages cannot be read" in result.stderr
    assert len(result.stdout.splitlines()) == len(DUE) - 1
    result = run("salvage", tmp_path / "old", tmp_path / "new")
    assert "messages cannot be read" in result.stdout


@pytest.mark.parametrize("inside", ["", "/rabbitmq"])
def test_who_is_locked_out_comes_in_again(tmp_path: Path, inside: str) -> None:
    """With a new password, as a new user or an old one, who keeps their other tags."""
    folder, disk, settings = f"{tmp_path}/node{inside}", RealDisk(), AmqpNodeSettings()
    opened = NodeFolder.open(disk, folder, settings, unwatched)
    users = opened.users
    users.remove("guest")
    users.put(User(name="ann", tags=("monitoring",)))
    running = run("administrator", f"{tmp_path}/node", "ann", "--new-password", "secret")
    assert running.exit_code == 1
    assert "ann" not in running.stderr
    opened.close()
    for name in ("ann", "bob"):
        ended = CliRunner().invoke(
            app(), ["rabbit-store", "administrator", f"{tmp_path}/node", name], input="secret\n"
        )
        assert ended.exit_code == 0, ended.stderr
    opened = NodeFolder.open(disk, folder, settings, unwatched)
    users = opened.users
    assert users.log_in("ann", b"secret", is_loopback=False).tags == ("monitoring", "administrator")
    assert users.log_in("bob", b"secret", is_loopback=False).tags == ("administrator",)
    assert users.get("guest") is None
    opened.close()


def test_no_administrator_is_made_where_no_node_is(tmp_path: Path) -> None:
    """A folder with something else stays as it is."""
    (tmp_path / "letters.txt").write_text("dear")
    assert "no AMQP node" in refused("administrator", tmp_path, "ann", "--new-password", "s")
    assert [one.name for one in tmp_path.iterdir()] == ["letters.txt"]
