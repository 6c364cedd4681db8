"""Compaction topics: each broker goes on with what the other one has kept, and compacts it."""

from pathlib import Path

import pytest
from tests.interop import peers
from tests.interop.test_store_in_rocketmq import OURS, THEIRS
from tests.interop.test_transactions import ours

from sprocket.rocketmq.client.blocking import Admin, Message, Producer, Puller
from sprocket.rocketmq.codec.record import keyed, record

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-compaction"),
]

TOPIC = "Table"
UNITS_BYTES, LOG_BYTES = 46 * 60, 46 * 600 + 1
"""A file takes 59 messages."""
OUR_SETTINGS = (
    *OURS,
    "compaction.interval_ms=300",
    f"compaction_files.units_bytes={UNITS_BYTES}",
    f"compaction_files.log_bytes={LOG_BYTES}",
)
THEIR_SETTINGS = {
    **THEIRS,
    "compactionScheduleInternal": 300,
    "compactionCqMappedFileSize": UNITS_BYTES,
    "compactionMappedFileSize": LOG_BYTES,
}
KEYS, MESSAGES = 15, 400
NOTED_S = 3.0
"""Both note once a second how far they are."""

View = list[tuple[int, str, bytes]]


def create(broker: peers.Broker) -> None:
    """Create the topic, of one queue."""
    with Admin(broker.nameserver) as admin:
        admin.topic.create(TOPIC, 1, attributes={"+cleanup.policy": "COMPACTION"})


def send(broker: peers.Broker, first: int, count: int) -> dict[str, bytes]:
    """Send messages; return the last value of each key among them."""
    values = {}
    with Producer(broker.nameserver, group="writers") as producer:
        for number in range(first, first + count):
            key, body = f"key {number % KEYS}", b"value %d" % number
            producer.send(Message(TOPIC, body, keys=key.split()))
            values[key] = body
    return values


def view(broker: peers.Broker) -> View:
    """Return what a consumer gets from the beginning on."""
    found: View = []
    with Puller(broker.nameserver) as puller:
        (queue,) = puller.queues(TOPIC)
        offset, end = 0, puller.max_offset(queue)
        while offset < end:
            pulled = puller.pull(queue, offset)
            at = 0
            for message in record.decode_all(pulled.body):
                key = keyed.read(pulled.body, at).key
                found.append((message.queue_offset, key, message.stored_body))
                at += message.store_size
            assert pulled.next_offset > offset
            offset = pulled.next_offset
    return found


def wait_for_round(broker: peers.Broker, sent: int) -> None:
    """Wait until less than half of what was sent is left."""
    peers.wait_until(lambda: len(view(broker)) < sent // 2, "a round of compaction", every=0.5)


def wait_for_end(broker: peers.Broker, sent: int) -> None:
    """Wait until all is seen that was stored: a broker may go on copying after its start."""
    peers.wait_until(lambda: view(broker)[-1][0] == sent - 1, "what was stored", every=0.5)


def check(found: View, values: dict[str, bytes], sent: int) -> None:
    """Assert that the last values are there, and nothing twice."""
    offsets = [offset for offset, _, _ in found]
    assert offsets == sorted(set(offsets))
    assert {key: body for _, key, body in found} == values
    assert offsets[-1] == sent - 1


@pytest.mark.parametrize("end", ["stopped", "killed"])
@pytest.mark.parametrize("first", ["sprocket", "rocketmq"])
def test_each_goes_on_with_the_table_of_the_other(
    first: str, end: str, jars: Path, tmp_path: Path
) -> None:
    """Three brokers one after the other, of which each compacts what it finds."""
    real = peers.RocketMQ(
        jars=jars, folder=tmp_path / "theirs", store=tmp_path / "store", settings=THEIR_SETTINGS
    )
    our = ours(tmp_path, OUR_SETTINGS)
    order: list[peers.Sprocket | peers.RocketMQ] = [our, real, our]
    if first == "rocketmq":
        order = [real, our, real]
    sent, values = 0, dict[str, bytes]()
    for number, broker in enumerate(order):
        with broker:
            if not number:
                create(broker)
            else:
                wait_for_end(broker, sent)
                check(view(broker), values, sent)
            values |= send(broker, sent, MESSAGES)
            sent += MESSAGES
            wait_for_round(broker, sent)
            check(view(broker), values, sent)
            peers.pause(NOTED_S)
            if end == "killed":
                broker.kill()
