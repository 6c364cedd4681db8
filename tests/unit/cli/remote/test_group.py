"""`sprocket group` shows how far groups are, who is in them, and sets them elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.unit.cli.running import done, refused, rows, run

from sprocket.rocketmq.client import Message, ReceivedMessage, blocking
from sprocket.testing.local_broker import LocalBroker


def send(broker: LocalBroker, count: int) -> None:
    """Send messages to one queue of `orders`, a second apart."""
    with blocking.Producer(broker.nameserver, group="p") as producer:
        for number in range(count):
            producer.send(Message("orders", b"%d" % number), sharding_key="one")
            broker.advance(seconds=1)


def consume(broker: LocalBroker, group: str, count: int) -> list[str]:
    """Consume some messages as a member of a group, from the first on; return their bodies."""
    found = rows(broker, "consume", "orders", "--group", group, "--from", "first", "--count", count)
    return [row["body"] for row in found]


@contextmanager
def member(broker: LocalBroker, group: str) -> Iterator[list[ReceivedMessage]]:
    """Have a member of a group connected; give what it received."""
    got: list[ReceivedMessage] = []
    with blocking.PushConsumer(
        broker.nameserver, group=group, listener=got.extend, start="last"
    ) as consumer:
        consumer.subscribe("orders", "a || b")
        yield got


def lag(broker: LocalBroker, group: str) -> int:
    """Return how many messages a group has not consumed."""
    return sum(row["lag"] for row in rows(broker, "group", "show", group))


def test_progress(broker: LocalBroker) -> None:
    """Committed, end and lag of each queue; and of the whole in the list."""
    send(broker, 5)
    assert consume(broker, "kitchen", 2) == ["0", "1"]
    (row,) = [row for row in rows(broker, "group", "show", "kitchen") if row["max_offset"]]
    assert (row["topic"], row["committed_offset"], row["max_offset"]) == ("orders", 2, 5)
    assert row["lag"] == 3
    listed = {row["group"]: row for row in rows(broker, "group", "ls")}
    assert listed["kitchen"]["lag"] == 3
    assert listed["kitchen"]["topics"] == ["orders"]
    assert listed["kitchen"]["members"] == 0


def test_reset(broker: LocalBroker) -> None:
    """To the first, to the last, to a time: there it goes on."""
    send(broker, 5)
    begin_ms = broker.clock.now_ms() - 5_000
    assert consume(broker, "kitchen", 5) == ["0", "1", "2", "3", "4"]
    for to, left in (("first", 5), ("last", 0), (begin_ms + 3_000, 2)):
        done(broker, "group", "reset", "kitchen", "-t", "orders", "--to", to)
        assert lag(broker, "kitchen") == left
    assert consume(broker, "kitchen", 2) == ["3", "4"]


def test_clone(broker: LocalBroker) -> None:
    """The second group goes on where the first one is."""
    send(broker, 4)
    consume(broker, "kitchen", 3)
    done(broker, "group", "clone", "kitchen", "bar")
    assert consume(broker, "bar", 1) == ["3"]


def test_what_was_cloned_is_told(broker: LocalBroker) -> None:
    """Where the second group goes on, of the topics that were cloned and of no other."""
    send(broker, 4)
    done(broker, "produce", "drinks", "tea")
    consume(broker, "kitchen", 3)
    done(broker, "consume", "drinks", "--group", "bar", "--from", "first", "--count", 1)
    for only in ((), ("-t", "orders")):
        found = rows(broker, "group", "clone", "kitchen", "bar", *only)
        assert {row["topic"] for row in found} == {"orders"}
        assert {row["broker"] for row in found} == {"broker-a"}
        assert max(row["committed_offset"] for row in found) == 3


def test_connections(broker: LocalBroker) -> None:
    """Who is connected, with what; nobody is an error."""
    send(broker, 1)
    with member(broker, "kitchen"):
        (row,) = rows(broker, "group", "connections", "kitchen")
        assert row["model"] == "CLUSTERING"
        assert "orders: a || b" in row["subscriptions"]
        assert row["address"].startswith("127.0.0.1:")
    assert "nobody" in refused(broker, "group", "connections", "kitchen")


def test_create_and_delete(broker: LocalBroker) -> None:
    """A group is there before its first member, and gone when it was deleted."""
    done(broker, "group", "create", "kitchen", "--retries", 3)
    with blocking.Admin(broker.nameserver) as admin:
        (found,) = admin.group.get("kitchen").values()
    assert (found.retry_times_max, found.consume_enable) == (3, True)
    assert "kitchen" in {row["group"] for row in rows(broker, "group", "ls")}
    (created,) = rows(broker, "group", "create", "kitchen", "--retries", 4, "--disabled")
    assert created == {
        "group": "kitchen",
        "broker": "broker-a",
        "retries": 4,
        "retry_queues": 1,
        "broadcast": True,
        "enabled": False,
    }
    run(broker, "group", "delete", "kitchen", stdin=b"n\n")
    kept = rows(broker, "group", "delete", "kitchen", stdin=b"n\n")
    assert kept == [{"group": "kitchen", "deleted": False}]
    assert "kitchen" in {row["group"] for row in rows(broker, "group", "ls")}
    done(broker, "group", "delete", "kitchen", "--yes")
    assert "kitchen" not in {row["group"] for row in rows(broker, "group", "ls")}
    done(broker, "group", "create", "kitchen")
    gone = rows(broker, "group", "delete", "kitchen", "--yes")
    assert gone == [{"group": "kitchen", "deleted": True}]


def test_bad_input_is_one_line(broker: LocalBroker) -> None:
    """Unknown groups and topics, and what is not a place."""
    assert "no broker knows group 'nowhere'" in refused(
        broker, "group", "delete", "nowhere", "--yes"
    )
    assert "no blanks" in refused(broker, "group", "create", "no blanks")
    send(broker, 1)
    assert "is not a time" in refused(
        broker, "group", "reset", "kitchen", "-t", "orders", "--to", "soon"
    )
    assert "missing" in refused(
        broker, "group", "reset", "kitchen", "-t", "missing", "--to", "first"
    )
