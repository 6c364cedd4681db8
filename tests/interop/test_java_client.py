"""The unmodified Java client, 4.9.8 and 5.3.3, and mqadmin cannot tell us from RocketMQ."""

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.interop import link, peers, samples
from tests.interop.java_client import JavaClient, Received, Sent
from tests.interop.samples import Sample

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-java"),  # one worker, or each would hold the talk anew
]

QUEUES = 4
GROUP = "interop_group"
TAG = "A"
ONE_VERSION = pytest.mark.parametrize("java", ["5.3.3"], indirect=True)
"""For what the client's version makes no difference to."""


@dataclass(frozen=True, kw_only=True)
class Talk:
    """What was sent, what the producer heard, and what the push consumer was given."""

    samples: list[Sample]
    sent: list[Sent]
    received: list[Received]


@pytest.fixture(scope="module", params=list(peers.CLIENTS))
def java(request: pytest.FixtureRequest, java_of: Callable[[str], JavaClient]) -> JavaClient:
    """Return each version of the Java client."""
    return java_of(request.param)


@pytest.fixture(scope="module")
def topic(java: JavaClient) -> str:
    """Return the topic of this version's talk."""
    return "InteropJava" + java.version.replace(".", "")


@pytest.fixture(scope="module")
def talk(broker: peers.Broker, java: JavaClient, topic: str) -> Talk:
    """Send 3,000 messages in three ways while a push consumer with a tag listens."""
    with link.Link(broker.address) as connection:
        link.create_topic(connection, topic, QUEUES)
    messages = samples.three_thousand(topic)
    wanted = len(samples.tagged(messages, TAG))
    consumer = java.start_consumer(broker.nameserver, topic, TAG, group=GROUP, count=wanted)
    sent = java.send(broker.nameserver, messages)
    return Talk(samples=messages, sent=sent, received=consumer.finish())


def place(message: Sent | Received) -> tuple[int, int]:
    """Return queue id and queue offset."""
    return message.queue_id, message.queue_offset


def check_equal(sample: Sample, sent: Sent, got: Received) -> None:
    """Assert that `got` is `sample` as `sent`: place, ids, tag, keys, flag, properties, body.

    The ids of messages in a batch are left out: the client gives the batch an id too, and RocketMQ
    5.3.3 stores it behind each message's own, so that all messages of a batch read back one id.
    """
    assert place(sent) == place(got)
    if sample.how != "batch":
        assert sent.id == got.id
    assert sent.offset_id == got.offset_id
    assert (sample.tag, sample.keys, sample.flag) == (got.tag, got.keys, got.flag)
    assert sample.properties == {
        name: value for name, value in got.properties.items() if name.startswith("user-")
    }
    assert sample.body == got.body


def test_every_send_is_answered_with_its_place(talk: Talk) -> None:
    """3,000 sends are answered SEND_OK, and fill each queue from 0 without a hole."""
    assert [sent.number for sent in talk.sent] == list(range(3000))
    assert {"SEND_OK"} == {sent.status for sent in talk.sent}
    for queue_id in range(QUEUES):
        offsets = [sent.queue_offset for sent in talk.sent if sent.queue_id == queue_id]
        assert sorted(offsets) == list(range(len(offsets)))


def test_push_consumer_gets_exactly_its_tag(talk: Talk) -> None:
    """Each message with the tag arrives once, equal to what was sent, and nothing else does."""
    wanted = samples.tagged(talk.samples, TAG)
    by_place = {place(got): got for got in talk.received}
    assert sorted(place(talk.sent[number]) for number in wanted) == sorted(
        place(got) for got in talk.received
    )
    for number in wanted:
        sent = talk.sent[number]
        check_equal(talk.samples[number], sent, by_place[place(sent)])


def test_consumer_committed_what_it_consumed(talk: Talk, broker: peers.Broker, topic: str) -> None:
    """When the consumer has shut down, each queue's offset lies past its last message."""
    last = {
        queue_id: max(got.queue_offset for got in talk.received if got.queue_id == queue_id)
        for queue_id in range(QUEUES)
    }
    with link.Link(broker.address) as connection:
        for queue_id in range(QUEUES):
            asked = {"consumerGroup": GROUP, "topic": topic, "queueId": queue_id}
            answer = connection.call(link.QUERY_CONSUMER_OFFSET, asked)
            committed = int(answer.ext["offset"])
            assert last[queue_id] < committed <= link.queue_end(connection, topic, queue_id)


def test_pull_and_queries_find_every_message(
    talk: Talk, broker: peers.Broker, java: JavaClient, topic: str
) -> None:
    """Pull returns all 3,000 as sent; key, unique key and offset id find the right ones."""
    rng = random.Random(samples.SEED)
    by_key, by_id, by_offset_id = (
        rng.sample(range(3000), 20),
        rng.sample(range(2000), 5),  # not of a batch, see check_equal
        rng.sample(range(3000), 5),
    )
    keys = [{"key": talk.samples[number].keys.split()[0]} for number in by_key]
    ids = [{"id": talk.sent[number].id} for number in by_id]
    offset_ids = [{"id": talk.sent[number].offset_id} for number in by_offset_id]
    pulled, found = java.read(broker.nameserver, topic, [*keys, *ids, *offset_ids])
    by_place = {place(got): got for got in pulled}
    assert len(pulled) == len(by_place) == 3000
    for number, sample in enumerate(talk.samples):
        check_equal(sample, talk.sent[number], by_place[place(talk.sent[number])])
    for number, answer in zip([*by_key, *by_id, *by_offset_id], found, strict=True):
        assert answer.error is None
        assert [place(talk.sent[number])] == [place(got) for got in answer.messages]


def test_shared_key_finds_all_its_messages(
    talk: Talk, broker: peers.Broker, java: JavaClient, topic: str
) -> None:
    """A key that several messages share, and one that is not ASCII, find exactly these."""
    keys = ["shared-7", "schlüssel-11"]
    _, found = java.read(broker.nameserver, topic, [{"key": key} for key in keys])
    for key, answer in zip(keys, found, strict=True):
        wanted = [
            place(talk.sent[number])
            for number, sample in enumerate(talk.samples)
            if key in sample.keys.split()
        ]
        assert sorted(wanted) == sorted(place(got) for got in answer.messages)


def test_topic_is_created_by_the_first_send(
    broker: peers.Broker, java: JavaClient, topic: str
) -> None:
    """A send to a topic that nobody created makes it, and pull finds the message."""
    sample = samples.draw(random.Random(1), f"{topic}MadeBySend", "sync")
    sent = java.send(broker.nameserver, [sample])
    pulled, _ = java.read(broker.nameserver, sample.topic, [])
    assert len(pulled) == 1
    check_equal(sample, sent[0], pulled[0])


@ONE_VERSION
def test_mqadmin_lists_one_master_with_its_version(
    talk: Talk, broker: peers.Broker, topic: str, jars: Path, tmp_path: Path
) -> None:
    """`mqadmin clusterList` shows one master at our address, with its version."""
    said = peers.mqadmin(jars, tmp_path, broker.nameserver, "clusterList")
    rows = [line.split() for line in said.splitlines() if broker.address in line]
    assert len(rows) == 1
    assert ["DefaultCluster", "0", broker.address] == [rows[0][0], *rows[0][2:4]]
    assert rows[0][4] == "V5_3_3"


@ONE_VERSION
def test_mqadmin_shows_where_a_topic_is(
    talk: Talk, broker: peers.Broker, topic: str, jars: Path, tmp_path: Path
) -> None:
    """`mqadmin topicRoute` shows our address and the four queues."""
    said = peers.mqadmin(jars, tmp_path, broker.nameserver, "topicRoute", "-t", topic)
    assert f'"{broker.address}"' in said
    assert re.search(r'"readQueueNums"\s*:\s*4', said)
    assert re.search(r'"writeQueueNums"\s*:\s*4', said)


@ONE_VERSION
def test_mqadmin_shows_what_each_queue_holds(
    talk: Talk, broker: peers.Broker, topic: str, jars: Path, tmp_path: Path
) -> None:
    """`mqadmin topicStatus` shows each queue from 0 to what was sent to it."""
    said = peers.mqadmin(jars, tmp_path, broker.nameserver, "topicStatus", "-t", topic)
    rows = [line.split() for line in said.splitlines()]
    shown = {int(row[1]): (int(row[2]), int(row[3])) for row in rows if _is_status(row)}
    count = Counter(sent.queue_id for sent in talk.sent)
    assert {queue_id: (0, count[queue_id]) for queue_id in range(QUEUES)} == shown


@ONE_VERSION
def test_query_by_key(
    talk: Talk, broker: peers.Broker, topic: str, jars: Path, tmp_path: Path
) -> None:
    """`mqadmin queryMsgByKey` shows the message's id, queue and offset."""
    for number in (0, 1500, 2999):  # sent synchronously, asynchronously, in a batch
        sent = talk.sent[number]
        key = talk.samples[number].keys.split()[0]
        arguments = ["queryMsgByKey", "-t", topic, "-k", key]
        said = peers.mqadmin(jars, tmp_path, broker.nameserver, *arguments)
        rows = [line.split() for line in said.splitlines() if _is_found(line.split())]
        assert [[str(sent.queue_id), str(sent.queue_offset)]] == [row[1:] for row in rows]
        assert talk.samples[number].how == "batch" or sent.id == rows[0][0]


def _is_status(row: list[str]) -> bool:
    """Tell whether this is a row `broker-name queue min max time` of topicStatus."""
    return len(row) >= 4 and all(part.isdigit() for part in row[1:4])


def _is_found(row: list[str]) -> bool:
    """Tell whether this is a row `message-id queue offset` of queryMsgByKey."""
    return len(row) == 3 and all(part.isdigit() for part in row[1:])


def test_group_goes_on_after_kill(
    talk: Talk, broker: peers.Broker, java: JavaClient, topic: str
) -> None:
    """After `kill -9` and a restart the group receives what is new, and nothing again."""
    if isinstance(broker, peers.RocketMQ):
        pytest.skip("RocketMQ writes committed offsets every 5 s; a kill may take them back")
    assert isinstance(broker, peers.Sprocket)
    broker.kill()
    broker.start()
    rng = random.Random(2)
    more = [samples.draw(rng, topic, "sync") for _ in range(60)]
    sent = java.send(broker.nameserver, more)
    wanted = samples.tagged(more, TAG)
    consumer = java.start_consumer(broker.nameserver, topic, TAG, group=GROUP, count=len(wanted))
    assert sorted(place(sent[number]) for number in wanted) == sorted(
        place(got) for got in consumer.finish()
    )
