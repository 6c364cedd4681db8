"""Encoded rows arrive at a real broker: all, in order where there is one, refused ones named."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from sprocket.base.errors import ClientError
from sprocket.rocketmq.client import MessageQueue, PullStatus, blocking
from sprocket.rocketmq.codec.record import batch
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.spark.rocketmq import read_sink
from sprocket.spark.rocketmq.sink.delivery import Delivery, pieces
from sprocket.spark.rocketmq.sink.pace import Pace
from sprocket.spark.rocketmq.sink.rows import Encoded, Encoder
from sprocket.spark.rocketmq.sink.unique_keys import Writing
from sprocket.testing.clock import FakeClock
from sprocket.testing.local_broker import LocalBroker, small_settings

OPTIONS = read_sink({"nameServer": "n:1", "topic": "orders"})


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    """A broker for all tests here; each has topics of its own."""
    with LocalBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def strict() -> Iterator[LocalBroker]:
    """A broker that takes no more than 40,000 bytes."""
    settings = small_settings()
    store = replace(settings.store, message_bytes_max=40_000)
    with LocalBroker(settings=replace(settings, store=store)) as broker:
        yield broker


def make(broker: LocalBroker, topic: str) -> None:
    """Make a topic of four queues."""
    with blocking.Admin(broker.nameserver) as admin:
        admin.create_topic(topic, queues=4)


def write(
    broker: LocalBroker,
    columns: dict[str, Any],
    *,
    topic: str,
    times: int = 1,
    pace: Pace | None = None,
    bytes_max: int = 4_000_000,
    alone_bytes_min: int = 6_000,
) -> None:
    """Write rows as one task does, each time as a batch of its own."""
    rows = pa.RecordBatch.from_pydict({name: pa.array(some) for name, some in columns.items()})
    with blocking.Producer(broker.nameserver) as producer:
        encoder = Encoder(
            rows.schema.names,
            replace(OPTIONS, target_topic=topic),
            Writing("w", "", 3),
            producer.queues,
            level_max=18,
            alone_bytes_min=alone_bytes_min,
            batch_bytes_max=bytes_max,
        )
        delivery = Delivery(producer, 3, bytes_max=bytes_max, pace=pace)
        for number in range(times):
            delivery.send(encoder.encode(rows, number * rows.num_rows))
        delivery.finish()


def stored(broker: LocalBroker, topic: str) -> dict[int, list[StoredMessage]]:
    """Return the messages of a topic by queue, in order."""
    found: dict[int, list[StoredMessage]] = {}
    with blocking.Puller(broker.nameserver) as puller:
        for queue in puller.queues(topic):
            end = puller.max_offset(queue)
            messages = found.setdefault(queue.queue_id, [])
            while len(messages) < end:
                answer = puller.pull(queue, len(messages), 1024)
                assert answer.status is PullStatus.FOUND
                messages += batch.decode_messages(answer.body)
    return found


def test_rows_for_any_queue(broker: LocalBroker) -> None:
    """Each is there once, with all that it says; they are spread over the queues."""
    make(broker, "free")
    count = 5_000
    columns = {
        "body": [b"%d" % number for number in range(count)],
        "tags": [f"T{number % 3}" if number % 4 else None for number in range(count)],
        "keys": [f"k{number} all" for number in range(count)],
        "flag": [number - 7 for number in range(count)],
    }
    write(broker, columns, topic="free")
    found = stored(broker, "free")
    assert all(found.values())
    messages = sorted((one for some in found.values() for one in some), key=lambda m: int(m.body))
    assert [one.body for one in messages] == columns["body"]
    assert [one.tags or None for one in messages] == columns["tags"]
    assert [" ".join(one.keys) for one in messages] == columns["keys"]
    assert [one.flag for one in messages] == columns["flag"]
    assert len({one.message_id for one in messages}) == count


def test_rows_of_one_key_keep_their_order(broker: LocalBroker) -> None:
    """Over batches, and with rows among them that are sent by themselves."""
    make(broker, "kept")
    count, times = 700, 3
    bodies = [b"%05d" % number * (1_400 if number % 97 == 5 else 1) for number in range(count)]
    sharding = [f"k{number % 10}" for number in range(count)]
    write(broker, {"body": bodies, "shardingKey": sharding}, topic="kept", times=times)
    orders: dict[str, list[bytes]] = {}
    queues: dict[str, set[int]] = {}
    for queue_id, messages in stored(broker, "kept").items():
        for message in messages:
            key = sharding[int(message.body[:5])]
            orders.setdefault(key, []).append(message.body)
            queues.setdefault(key, set()).add(queue_id)
    assert all(len(some) == 1 for some in queues.values())
    for number in range(10):
        assert orders[f"k{number}"] == bodies[number::10] * times


def test_rows_of_named_queues_and_several_topics(broker: LocalBroker) -> None:
    """Each goes where it says."""
    make(broker, "named")
    make(broker, "other")
    columns = {
        "body": ["a", "b", "c", "d"],
        "topic": ["named", "other", "named", "named"],
        "queueId": [2, 1, 2, 3],
    }
    write(broker, columns, topic="")
    named, other = stored(broker, "named"), stored(broker, "other")
    assert [one.body for one in named[2]] == [b"a", b"c"]
    assert [one.body for one in named[3]] == [b"d"]
    assert [one.body for one in other[1]] == [b"b"]


def test_a_delayed_row_waits(broker: LocalBroker) -> None:
    """It is delivered when its level says."""
    make(broker, "late")
    write(broker, {"body": ["now", "later"], "delayLevel": [0, 1]}, topic="late")
    assert [one.body for some in stored(broker, "late").values() for one in some] == [b"now"]
    broker.advance(seconds=2)
    bodies = [one.body for some in stored(broker, "late").values() for one in some]
    assert sorted(bodies) == [b"later", b"now"]


@pytest.mark.parametrize("wrong", [0, 1, 6, 12])
def test_a_row_that_the_broker_refuses_is_named(strict: LocalBroker, wrong: int) -> None:
    """Also if it was sent in a batch with others."""
    make(strict, f"refused{wrong}")
    bodies = [b"x" * (40_001 if number == wrong else 10) for number in range(13)]
    columns = {"body": bodies, "queueId": [1] * 13}
    with pytest.raises(ClientError, match=f"partition 3, row {wrong}: .*exceeds 40000"):
        write(strict, columns, topic=f"refused{wrong}", alone_bytes_min=100_000)


def test_a_broker_that_takes_less_at_once(strict: LocalBroker) -> None:
    """The error says what to do, and does not blame a row; told of it, the sink sends less."""
    make(strict, "strict")
    columns = {"body": [b"x" * 1_000] * 60, "queueId": [1] * 60}
    with pytest.raises(ClientError, match=r"rows 0 to 59: .*give maxMessageBytes"):
        write(strict, columns, topic="strict")
    make(strict, "told")
    write(strict, columns, topic="told", bytes_max=40_000)
    assert len(stored(strict, "told")[1]) == 60


def test_a_rate_limit_cuts_batches(broker: LocalBroker) -> None:
    """No more than a tenth of a second's messages go at once."""
    make(broker, "slow")
    clock = FakeClock()
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        clock.advance(round(seconds * 1000))

    write(broker, {"body": ["x"] * 100}, topic="slow", pace=Pace(100.0, clock, wait))
    assert waits == pytest.approx([0.1] * 9)
    assert sum(map(len, stored(broker, "slow").values())) == 100


def test_a_queue_that_is_not_there(broker: LocalBroker) -> None:
    """What cannot be stored fails with partition and rows, whatever the reason."""
    make(broker, "gone")
    sent = {"body": ["a", "b", "c"], "queueId": [3, 3, 3]}
    with blocking.Producer(broker.nameserver) as producer:
        encoder = Encoder(
            list(sent),
            replace(OPTIONS, target_topic="gone"),
            Writing("w", "", 3),
            lambda topic: [MessageQueue(topic, broker_name(broker), number) for number in range(9)],
            level_max=18,
            alone_bytes_min=6_000,
            batch_bytes_max=4_000_000,
        )
        delivery = Delivery(producer, 3, bytes_max=4_000_000, pace=None)
        rows = pa.RecordBatch.from_pydict({**sent, "queueId": [8, 8, 8]})
        with pytest.raises(ClientError, match="partition 3, row"):
            send_all(delivery, encoder.encode(rows, 0))


def send_all(delivery: Delivery, encoded: Encoded) -> None:
    """Send rows and wait; a refusal that comes early is seen by `send` already."""
    delivery.send(encoded)
    delivery.finish()


def broker_name(broker: LocalBroker) -> str:
    """Return the name of the broker."""
    with blocking.Puller(broker.nameserver) as puller:
        return puller.queues("gone")[0].broker_name


def test_pieces_of_a_batch() -> None:
    """By rows and by bytes, one row at least, and nothing of an empty one."""
    rows = pa.RecordBatch.from_pydict({"body": [b"x" * 100] * 10})
    assert [one.num_rows for one in pieces(rows, rows_max=4, bytes_max=10_000)] == [4, 4, 2]
    assert [one.num_rows for one in pieces(rows, rows_max=99, bytes_max=320)] == [3, 3, 3, 1]
    assert len(list(pieces(rows, rows_max=99, bytes_max=1))) == 10
    assert list(pieces(rows.slice(0, 0), rows_max=9, bytes_max=9)) == []
