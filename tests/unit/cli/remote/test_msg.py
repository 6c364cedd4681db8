"""`sprocket msg` finds messages, shows one, sends one again."""

import threading
from dataclasses import replace

from tests.unit.cli.running import done, refused, rows, run
from tests.waits import LONG_SECONDS

from sprocket.cli.terminal import output
from sprocket.rocketmq.client import (
    ConsumerSettings,
    DeliverLater,
    Message,
    ProducerSettings,
    ReceivedMessage,
    SendResult,
    blocking,
)
from sprocket.rocketmq.codec import trace
from sprocket.rocketmq.model.trace import (
    ConsumeBegan,
    ConsumeEnded,
    ConsumeOutcome,
    Produced,
    Recalled,
    TraceRecord,
)
from sprocket.testing.local_broker import LocalBroker, small_settings


def send(broker: LocalBroker, topic: str, body: bytes, key: str = "k", **more: str) -> SendResult:
    """Send a message with a key."""
    with blocking.Producer(broker.nameserver, group="p") as producer:
        return producer.send(Message(topic, body, tag="t", keys=[key], properties=more))


def test_get_by_either_id(broker: LocalBroker) -> None:
    """The unique key and the offset message id name the same message; both ways are whole."""
    sent = send(broker, "orders", b"coffee", a="1")
    for message_id in (sent.message_id, sent.offset_message_id):
        (found,) = rows(broker, "msg", "get", message_id, "--topic", "orders")
        assert (found["body"], found["queue_offset"]) == ("coffee", sent.queue_offset)
        assert found["properties"]["a"] == "1"
    assert "coffee" in done(broker, "msg", "get", sent.message_id, "-t", "orders")


def test_any_process_makes_unique_keys(broker: LocalBroker) -> None:
    """Where an offset message id has a port they have the number of a process; Java's have."""
    for process in ("0001", "8001", "FFFF"):
        key = f"0A000001{process}18B4AAC21A2B3C4D0000"
        send(broker, "orders", process.encode(), UNIQ_KEY=key)
        (row,) = rows(broker, "msg", "get", key, "-t", "orders")
        assert row["body"] == process


def test_find_by_key(broker: LocalBroker) -> None:
    """All that have the key, and only those."""
    send(broker, "orders", b"1")
    send(broker, "orders", b"2")
    found = rows(broker, "msg", "find", "-t", "orders", "--key", "k")
    assert [row["body"] for row in found] == ["1", "2"]
    said = refused(broker, "msg", "find", "-t", "orders", "--key", "other")
    assert said == "sprocket: topic orders has no message with key other\n"


def test_find_by_time(broker: LocalBroker) -> None:
    """Stored from one time until before another, over all queues, oldest first."""
    times = []
    for number in range(5):
        send(broker, "orders", b"%d" % number)
        times.append(broker.clock.now_ms())
        broker.advance(seconds=1)
    begin, end = (output.time_text(times[n]).replace("Z", "+00:00") for n in (1, 4))
    found = rows(broker, "msg", "find", "-t", "orders", "--from", begin, "--to", end)
    assert [row["body"] for row in found] == ["1", "2", "3"]
    found = rows(broker, "msg", "find", "-t", "orders", "--from", begin, "--limit", 2)
    assert [row["body"] for row in found] == ["1", "2"]


def test_resend(broker: LocalBroker) -> None:
    """The copy says the same under an id of its own, in the same topic or another."""
    done(broker, "topic", "create", "again")
    sent = send(broker, "orders", b"coffee", a="1")
    for target in ([], ["--to", "again"]):
        (row,) = rows(broker, "msg", "resend", sent.message_id, "-t", "orders", *target)
        assert row["topic"] == (target or ["", "orders"])[1]
        (copy,) = rows(broker, "msg", "get", row["offset_id"], "-t", row["topic"])
        assert copy["body"] == "coffee"
        assert copy["unique_key"] != sent.message_id
        assert {n: copy["properties"][n] for n in ("a", "TAGS", "KEYS")} == {
            "a": "1",
            "TAGS": "t",
            "KEYS": "k",
        }


def test_a_dead_letter_goes_back(broker: LocalBroker) -> None:
    """To the topic that it names, without what told of its deliveries."""
    done(broker, "topic", "create", "orders")
    dead = send(broker, "%DLQ%g", b"x", RETRY_TOPIC="orders", ORIGIN_MESSAGE_ID="0A")
    (row,) = rows(broker, "msg", "resend", dead.message_id, "-t", "%DLQ%g")
    assert row["topic"] == "orders"
    (copy,) = rows(broker, "msg", "get", row["offset_id"], "-t", "orders")
    assert "RETRY_TOPIC" not in copy["properties"]
    lost = send(broker, "%DLQ%g", b"y")
    assert "--to" in refused(broker, "msg", "resend", lost.message_id, "-t", "%DLQ%g")


def test_dead_letters_of_a_group_go_back_once(broker: LocalBroker) -> None:
    """By group, time or key; what was sent is not sent again, unless that is asked for."""
    done(broker, "topic", "create", "orders")
    keys = ("a", "b", "c", "d")
    dead = []
    for key in keys:
        dead.append(send(broker, "%DLQ%g", key.encode(), key, RETRY_TOPIC="orders"))
        broker.advance(seconds=1)

    def resend(*words: object) -> list[str]:
        found = rows(broker, "msg", "resend", "--group", "g", *words)
        assert [row["topic"] for row in found] == ["orders"] * len(found)
        return [row["status"] for row in found]

    def bodies() -> list[str]:
        read = rows(broker, "consume", "orders", "--from", "first", "--until-end")
        return sorted(row["body"] for row in read)

    assert resend("--dry-run") == ["NOT_SENT"] * 4
    assert bodies() == []
    assert resend("--key", "b") == ["OK"]
    assert resend("--since", broker.clock.now_ms() - 2_000) == ["OK"] * 2
    assert resend("--dry-run", "--limit", 2) == ["NOT_SENT", "SENT_BEFORE"]
    assert resend() == ["OK", *["SENT_BEFORE"] * 3]
    assert bodies() == [*keys]
    ended = done(broker, "msg", "resend", dead[1].message_id, "--group", "g")
    assert f"{dead[1].message_id} was sent to orders before" in ended
    assert resend("--once-more", "--key", "b") == ["OK"]
    assert bodies() == ["a", "b", "b", "c", "d"]


def test_what_does_not_say_where_it_came_from_stops_no_other(broker: LocalBroker) -> None:
    """It is told at the end."""
    done(broker, "topic", "create", "orders")
    lost = send(broker, "%DLQ%g", b"x")
    send(broker, "%DLQ%g", b"y", RETRY_TOPIC="orders")
    ended = run(broker, "msg", "resend", "--group", "g")
    assert ended.exit_code == 1
    told = f"sprocket: {lost.message_id} does not say where it came from: name --to"
    assert ended.stderr.splitlines() == ["sprocket: 1 sent", told]
    assert [
        row["body"] for row in rows(broker, "consume", "orders", "--from", "first", "--until-end")
    ] == ["y"]


def test_direct(broker: LocalBroker) -> None:
    """The connected member consumes it now, though it has consumed it before."""
    sent = send(broker, "orders", b"coffee")
    got: list[ReceivedMessage] = []
    with blocking.PushConsumer(
        broker.nameserver, group="kitchen", listener=got.extend, start="last"
    ) as consumer:
        consumer.subscribe("orders")
        words = ["msg", "direct", sent.message_id, "-t", "orders", "-g", "kitchen"]
        (row,) = rows(broker, *words)
    assert row["result"] == "CR_SUCCESS"
    assert [one.body for one in got] == [b"coffee"]
    assert "nobody" in refused(broker, *words)


def test_bad_input_is_one_line(broker: LocalBroker) -> None:
    """No such message, no such topic, nothing to look for."""
    send(broker, "orders", b"x")
    assert "has no message 7F00" in refused(broker, "msg", "get", "7F00", "-t", "orders")
    assert "nowhere" in refused(broker, "msg", "get", "7F00", "-t", "nowhere")
    assert "--key" in refused(broker, "msg", "find", "-t", "orders")
    assert "--group" in refused(broker, "msg", "resend", "7F00")
    assert "--since" in refused(broker, "msg", "resend", "-t", "orders")
    assert "--limit" in refused(broker, "msg", "resend", "7F00", "-t", "orders", "--limit", 1)


def test_get_by_the_offset_id_of_a_broker_that_has_a_name() -> None:
    """The id holds its address and the route its name; both are the same broker."""
    given = small_settings()
    named = replace(given, server=replace(given.server, advertised_host="LocalHost"))
    with LocalBroker(settings=named) as broker:
        send(broker, "orders", b"tea")
        sent = send(broker, "orders", b"coffee")
        assert broker.address.startswith("LocalHost:")
        (found,) = rows(broker, "msg", "get", sent.offset_message_id, "-t", "orders")
        assert (found["body"], found["unique_key"]) == ("coffee", sent.message_id)
        lost = sent.offset_message_id[:-2] + "01"
        assert "has no message" in refused(broker, "msg", "get", lost, "-t", "orders")
        another = "0A000001" + sent.offset_message_id[8:]
        assert "has no message" in refused(broker, "msg", "get", another, "-t", "orders")


def test_a_trace_is_a_timeline(broker: LocalBroker) -> None:
    """Of what producer, broker and consumers noted, in the order of time; others are left out."""
    sent = send(broker, "orders", b"coffee")
    at_ms, message_id = broker.clock.now_ms(), sent.message_id
    records: list[TraceRecord] = [
        ConsumeBegan(
            at_ms=at_ms + 20,
            region="r",
            group="kitchen",
            request_id="q",
            message_id=message_id,
            retries=1,
        ),
        ConsumeEnded(
            request_id="q",
            message_id=message_id,
            cost_ms=7,
            is_success=False,
            outcome=ConsumeOutcome.TIMED_OUT,
        ),
        Produced(
            at_ms=at_ms - 3,
            group="p",
            topic="orders",
            store_host="127.0.0.1:10911",
            body_bytes=6,
            cost_ms=3,
            is_success=True,
            region="r",
            message_id=message_id,
        ),
        Recalled(
            at_ms=at_ms, region="r", group="p", topic="orders", message_id="M", is_success=True
        ),
    ]
    with blocking.Producer(broker.nameserver, group="traces") as producer:
        for one in records:
            body = trace.encode([one])
            producer.send(Message("RMQ_SYS_TRACE_TOPIC", body, keys=[one.message_id]))
    found = rows(broker, "msg", "trace", message_id)
    assert [(row["event"], row["group"], row["spent_ms"], row["result"]) for row in found] == [
        ("sent (normal)", "p", 3, "success"),
        ("stored", "", None, ""),
        ("delivery 2 began", "kitchen", None, ""),
        ("delivery 2 ended", "kitchen", 7, "timed out"),
    ]
    assert [row["noted_at_ms"] for row in found] == [at_ms - 3, at_ms, at_ms + 20, at_ms + 27]
    assert "delivery 2 began" in done(broker, "msg", "trace", message_id)
    said = refused(broker, "msg", "trace", "nobody")
    assert said == "sprocket: topic RMQ_SYS_TRACE_TOPIC has no trace of message nobody\n"


def test_our_own_clients_make_a_timeline(broker: LocalBroker) -> None:
    """Of a message whose first delivery failed, as far as they have got."""
    traced = ProducerSettings(trace=True)
    with blocking.Producer(broker.nameserver, group="shop", settings=traced) as producer:
        sent = producer.send(Message("orders", b"coffee", keys=["order-7"]))
    failed = threading.Event()

    def listener(messages: list[ReceivedMessage]) -> None:
        try:
            raise DeliverLater("closed", level=1)
        finally:
            failed.set()

    with blocking.PushConsumer(
        broker.nameserver,
        group="kitchen",
        listener=listener,
        start="first",
        settings=ConsumerSettings(trace=True),
    ) as consumer:
        consumer.subscribe("orders")
        assert failed.wait(LONG_SECONDS)
    found = rows(broker, "msg", "trace", sent.message_id)
    assert sorted((row["event"], row["group"], row["result"]) for row in found) == [
        ("delivery 1 began", "kitchen", ""),
        ("delivery 1 ended", "kitchen", "failed"),
        ("sent (normal)", "shop", "success"),
        ("stored", "", ""),
    ]
