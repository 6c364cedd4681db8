"""`sprocket produce` sends what it is given, from an argument, a file or stdin."""

from pathlib import Path

from tests.unit.cli.running import done, refused, rows

from sprocket.rocketmq.client import ReceivedMessage, blocking
from sprocket.testing.local_broker import LocalBroker


def stored(broker: LocalBroker, topic: str, message_id: str) -> ReceivedMessage:
    """Return a message of the broker."""
    with blocking.Admin(broker.nameserver) as admin:
        found = admin.view(message_id, topic)
    assert found is not None
    return found


def test_one_message_with_all_it_can_have(broker: LocalBroker) -> None:
    """Body, tag, keys and properties arrive; the answer says where it lies."""
    given = ["--tag", "hot", "--key", "k1", "--key", "k2", "--property", "a=1=2"]
    (row,) = rows(broker, "produce", "orders", "one coffee", *given)
    found = stored(broker, "orders", row["offset_message_id"])
    assert (found.body, found.tag, found.keys) == (b"one coffee", "hot", ("k1", "k2"))
    assert found.properties["a"] == "1=2"
    assert (row["queue_id"], row["queue_offset"]) == (found.queue.queue_id, found.queue_offset)
    assert row["message_id"] == found.message_id
    assert row["status"] == "OK"


def test_each_line_of_stdin_is_one(broker: LocalBroker) -> None:
    """Bytes as they are, without the end of the line; an empty line is an empty message or none."""
    sent = rows(broker, "produce", "orders", stdin="ä\r\nb\n".encode())
    bodies = [stored(broker, "orders", row["offset_message_id"]).body for row in sent]
    assert bodies == ["ä".encode(), b"b"]


def test_a_file_is_one(broker: LocalBroker, tmp_path: Path) -> None:
    """Its content, whatever it is."""
    (tmp_path / "body").write_bytes(bytes(range(256)))
    (row,) = rows(broker, "produce", "orders", "--file", tmp_path / "body")
    assert stored(broker, "orders", row["offset_message_id"]).body == bytes(range(256))


def test_a_sharding_key_keeps_one_queue(broker: LocalBroker) -> None:
    """Twenty copies lie in one queue, one behind the other."""
    sent = rows(broker, "produce", "orders", "x", "--count", 20, "--sharding-key", "customer")
    assert len({row["queue_id"] for row in sent}) == 1
    assert [row["queue_offset"] for row in sent] == list(range(20))


def test_a_delay_level(broker: LocalBroker) -> None:
    """The message waits until its time has come."""
    rows(broker, "produce", "orders", "later", "--delay", 3)
    read = ("consume", "orders", "--from", "first", "--until-end")
    assert rows(broker, *read) == []
    broker.advance(seconds=10)
    assert [row["body"] for row in rows(broker, *read)] == ["later"]


def test_people_get_a_line_each(broker: LocalBroker) -> None:
    """On stdout where each lies, on stderr how many there were."""
    said = done(broker, "produce", "orders", "x", "--count", 2)
    assert [line.split()[:2] for line in said.splitlines()] == [["orders", "queue"]] * 2


def test_bad_input_is_one_line(broker: LocalBroker, tmp_path: Path) -> None:
    """Two bodies, a property without a value, a file that is not there, an illegal topic."""
    assert "one of them" in refused(broker, "produce", "t", "x", "--file", tmp_path)
    assert "NAME=VALUE" in refused(broker, "produce", "t", "x", "--property", "alone")
    assert "missing" in refused(broker, "produce", "t", "--file", tmp_path / "missing")
    assert "no blanks" in refused(broker, "produce", "no blanks", "x")
