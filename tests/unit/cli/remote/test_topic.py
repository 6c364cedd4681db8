"""`sprocket topic` lists, creates, changes, deletes and shows topics of a running broker."""

from tests.unit.cli.running import done, refused, rows, run

from sprocket.rocketmq.client import Message, blocking
from sprocket.testing.local_broker import LocalBroker


def test_create_then_list(broker: LocalBroker) -> None:
    """What was created is listed with its queues."""
    said = done(broker, "topic", "create", "orders", "--queues", 3)
    assert said == "topic orders: 3 queues on broker-a, rw\n"
    listed = {row["topic"]: row for row in rows(broker, "topic", "ls")}
    assert listed["orders"] == {
        "topic": "orders",
        "broker": "broker-a",
        "address": broker.address,
        "read_queues": 3,
        "write_queues": 3,
        "perm": "rw",
        "messages": 0,
    }
    assert "orders" in done(broker, "topic", "ls")


def test_update(broker: LocalBroker) -> None:
    """Queues and permission change, each without the other."""
    done(broker, "topic", "create", "orders", "--queues", 3)
    (row,) = rows(broker, "topic", "update", "orders", "--queues", 5)
    assert (row["read_queues"], row["write_queues"], row["perm"]) == (5, 5, "rw")
    (row,) = rows(broker, "topic", "update", "orders", "--perm", "r")
    assert (row["read_queues"], row["write_queues"], row["perm"]) == (5, 5, "r")
    assert run(broker, "produce", "orders", "x", "--timeout-ms", 200).exit_code == 1
    (row,) = rows(broker, "topic", "update", "orders", "--queues", 2, "--read-queues", 5)
    assert (row["read_queues"], row["write_queues"], row["perm"]) == (5, 2, "r")


def test_show(broker: LocalBroker) -> None:
    """Where it is, what each queue holds, who consumes it."""
    done(broker, "topic", "create", "orders", "--queues", 2)
    with blocking.Producer(broker.nameserver, group="p") as producer:
        for _ in range(3):
            queue = producer.send(Message("orders", b"x"), sharding_key="one").queue
    done(broker, "consume", "orders", "--group", "kitchen", "--from", "first", "--count", 3)
    (shown,) = rows(broker, "topic", "show", "orders")
    assert shown["groups"] == ["kitchen"]
    counts = {row["queue_id"]: row["messages"] for row in shown["queues"]}
    assert counts == {queue.queue_id: 3, 1 - queue.queue_id: 0}
    stored = {row["last_stored_at_ms"] for row in shown["queues"] if row["messages"]}
    assert stored == {broker.clock.now_ms()}
    said = done(broker, "topic", "show", "orders")
    assert "kitchen" in said
    assert broker.address in said


def test_delete(broker: LocalBroker) -> None:
    """Asked for and confirmed, or with --yes; then nobody knows it."""
    done(broker, "topic", "create", "orders")
    assert run(broker, "topic", "delete", "orders", stdin=b"n\n").exit_code == 0
    assert "orders" in {row["topic"] for row in rows(broker, "topic", "ls")}
    kept = rows(broker, "topic", "delete", "orders", stdin=b"n\n")
    assert kept == [{"topic": "orders", "deleted": False}]
    done(broker, "topic", "delete", "orders", "--yes")
    assert "orders" not in {row["topic"] for row in rows(broker, "topic", "ls")}
    assert "orders" in refused(broker, "topic", "delete", "orders", "--yes")
    done(broker, "topic", "create", "orders")
    gone = rows(broker, "topic", "delete", "orders", "--yes")
    assert gone == [{"topic": "orders", "deleted": True}]


def test_bad_input_is_one_line(broker: LocalBroker) -> None:
    """An illegal name, an unknown topic, no such permission, nothing to change."""
    assert "no blanks" in refused(broker, "topic", "create", "no blanks")
    assert "nowhere" in refused(broker, "topic", "show", "nowhere")
    done(broker, "topic", "create", "orders")
    assert "expected r, w, rw or none" in refused(
        broker, "topic", "update", "orders", "--perm", "x"
    )
    assert "say what to change" in refused(broker, "topic", "update", "orders")


def test_attributes(broker: LocalBroker) -> None:
    """They are set when a topic is made, and some are changed later."""
    done(broker, "topic", "create", "table", "--compact", "--attribute", "message.type=FIFO")
    done(broker, "topic", "update", "table", "--attribute", "reserve.time=5")
    done(broker, "topic", "update", "table", "--attribute", "-message.type")
    with blocking.Admin(broker.nameserver) as admin:
        (config,) = admin.topic.config("table").values()
    assert config.attributes == {"cleanup.policy": "COMPACTION", "reserve.time": "5"}
    assert "expected NAME=VALUE" in refused(
        broker, "topic", "update", "table", "--attribute", "reserve.time"
    )


def test_a_compaction_topic_wants_keys(broker: LocalBroker) -> None:
    """It takes no message without one; a message without a body is one more of its key."""
    done(broker, "topic", "create", "table", "--compact", "--queues", 1)
    assert "Required message key is missing" in refused(broker, "produce", "table", "x")
    with blocking.Producer(broker.nameserver, group="p") as producer:
        for body in (b"1", b"2", b""):
            producer.send(Message("table", body, keys=["k"]))
    found = rows(broker, "consume", "table", "--from", "first", "--until-end")
    assert len(found) == 3
