"""The record that a send becomes: its properties, keys, queue and hosts."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.broker.delay_levels import DelayLevels
from sprocket.rocketmq.broker.groups import Groups
from sprocket.rocketmq.broker.locks import QueueLocks
from sprocket.rocketmq.broker.send import Sender
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec import batch, properties
from sprocket.rocketmq.codec.headers import SendMessage
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.settings import BrokerSettings, GroupSettings, TopicSettings
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

HERE = b"\x7f\0\0\x01\0\0\x2a\x9f"
THERE = b"\x0a\0\0\x01\0\0\x10\x00"


class Desk:
    """A sender with tables on a simulated disk."""

    def __init__(self) -> None:
        disk, clock = SimulatedDisk(), FakeClock()
        disk.make_folder("/s/config")
        self.clock = clock
        self.topics = Topics(disk, "/s", clock, BrokerSettings(), TopicSettings())
        self.groups = Groups(disk, "/s", clock, GroupSettings())
        self.locks = QueueLocks(clock)
        numbers: Iterator[int] = count(1)
        self.asked: list[int] = []
        self.sender = Sender(
            self.topics,
            self.groups,
            self.locks,
            BrokerSettings(),
            HERE,
            clock,
            DelayLevels("1s 5s 10s"),
            lambda: f"NEW{next(numbers)}",
            below=self._below,
        )

    def _below(self, limit: int) -> int:
        self.asked.append(limit)
        return limit - 1


def header(topic: str = "T", **changes: Any) -> SendMessage:
    """Return the header of a send."""
    fields: dict[str, Any] = {
        "topic": topic,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 7,
        "flag": 3,
        "default_topic": "TBW102",
    }
    return SendMessage(**fields | changes)


def test_fields_are_taken_over() -> None:
    """What the sender says stays; both hosts are ours to say."""
    record = Desk().sender.record(header(reconsume_times=2), b"x", THERE, 479)
    assert (record.topic, record.queue_id, record.body) == ("T", 0, b"x")
    assert (record.flag, record.born_at_ms, record.reconsume_times) == (3, 7, 2)
    assert (record.born_host, record.store_host) == (THERE, HERE)


@pytest.mark.parametrize(
    "text",
    ["UNIQ_KEY\x01U\x02A\x01b\x02", "UNIQ_KEY\x01U\x02A\x01b", "A\x01a\x02UNIQ_KEY\x01U\x02A\x01b"],
)
def test_properties_are_added_to_whatever_their_form(text: str) -> None:
    """A missing last separator, or a name twice, does not matter."""
    record = Desk().sender.record(header(properties=text), b"x", THERE, 479)
    assert properties.decode(record.properties) == {
        "UNIQ_KEY": "U",
        "A": "b",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
    }
    assert record.properties.count(b"\x02") == 5


def test_ours_replace_what_a_client_copied() -> None:
    """A received message that is sent again carries none of the old broker's properties."""
    text = (
        "CLUSTER\x01old\x02TRACE_ON\x01false\x02__CRC32#\x010123456789\x02POP_CK\x01x\x02A\x01b\x02"
    )
    record = Desk().sender.record(header(properties=text), b"x", THERE, 479)
    assert properties.decode(record.properties) == {
        "A": "b",
        "UNIQ_KEY": "NEW1",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
    }
    assert record.properties.count(b"CLUSTER") == 1


def test_keys_and_tag_are_found_in_the_properties() -> None:
    """The unique key first, then each word; a message without one gets one."""
    sender = Desk().sender
    text = "UNIQ_KEY\x01U\x02KEYS\x01a  b\x02TAGS\x01t\x02"
    record = sender.record(header(properties=text), b"x", THERE, 479)
    assert (record.keys, record.tags) == (("U", "a", "b"), "t")
    assert sender.record(header(), b"x", THERE, 479).keys == ("NEW1",)


def test_text_that_is_no_unicode_is_replaced() -> None:
    """It never stops a send half-way."""
    record = Desk().sender.record(header(properties="A\x01\ud800\x02"), b"x", THERE, 479)
    assert properties.decode(record.properties)["A"] == "?"


def test_host_bits_of_a_client_are_cleared() -> None:
    """The hosts themselves say what they are."""
    assert Desk().sender.record(header(sys_flag=0x31), b"x", THERE, 479).sys_flag == 1


def test_a_negative_queue_is_one_of_those_written() -> None:
    """Of a topic without write queues it is 0, as in RocketMQ."""
    desk = Desk()
    desk.topics.put(TopicConfig(name="T", read_queues=9, write_queues=3))
    assert desk.sender.record(header(queue_id=-1), b"x", THERE, 479).queue_id == 2
    assert desk.asked == [3]
    desk.topics.put(TopicConfig(name="Z", read_queues=1, write_queues=0))
    assert desk.sender.record(header("Z", queue_id=-1), b"x", THERE, 479).queue_id == 0
    assert desk.sender.record(header("T", queue_id=8), b"x", THERE, 479).queue_id == 8
    with pytest.raises(RequestRefused) as refused:
        desk.sender.record(header("T", queue_id=9), b"x", THERE, 479)
    assert refused.value.code == 29


def test_compacted_topics_need_keys() -> None:
    """A store of RocketMQ may hold such a topic."""
    desk = Desk()
    desk.topics.put(TopicConfig(name="T", attributes={"cleanup.policy": "COMPACTION"}))
    with pytest.raises(RequestRefused) as refused:
        desk.sender.record(header(), b"x", THERE, 479)
    assert refused.value.code == 13
    assert desk.sender.record(header(properties="KEYS\x01k\x02"), b"x", THERE, 479)


def test_retries_become_dead_letters_beyond_their_limit() -> None:
    """The request's own limit counts for clients from 3.4.9 on, else the group's."""
    sender = Desk().sender
    retry = "%RETRY%g"
    for times, own, version, dead in (
        (16, None, 479, False),
        (17, None, 479, True),
        (3, 2, 479, True),
        (3, 2, 120, False),
        (17, 99, 479, False),
    ):
        made = header(retry, reconsume_times=times, max_reconsume_times=own)
        record = sender.record(made, b"x", THERE, version)
        assert record.topic == ("%DLQ%g" if dead else retry), (times, own, version)
        assert (b"DELAY\x01-1" in record.properties) == dead


def test_groups_with_locks_do_not_retry() -> None:
    """They consume in order; what fails for good is a dead letter."""
    desk = Desk()
    desk.locks.lock("g", "c", [MessageQueue("T", "b", 0)])
    assert desk.sender.record(header("%RETRY%g"), b"x", THERE, 479).topic == "%DLQ%g"
    desk.clock.advance(60_000)
    assert desk.sender.record(header("%RETRY%g"), b"x", THERE, 479).topic == "%RETRY%g"


def test_retry_topics_need_no_template() -> None:
    """They are made with one queue when the template cannot serve."""
    desk = Desk()
    desk.sender.record(header("%RETRY%g", default_topic="none"), b"x", THERE, 479)
    made = desk.topics.get("%RETRY%g")
    assert made is not None
    assert made.write_queues == 1


def test_parts_of_a_batch_keep_their_own_properties() -> None:
    """The batch's are added where they do not stand in for the part's key."""
    body = batch.join([(1, b"a", b"UNIQ_KEY\x01P\x02TAGS\x01t\x02"), (2, b"b", b"A\x01own\x02")])
    made = header(properties="UNIQ_KEY\x01BATCH\x02A\x01shared\x02WAIT\x01true")
    first, second = Desk().sender.records(made, body, THERE)
    assert (first.keys, first.tags, first.flag, bytes(first.body)) == (("P",), "t", 1, b"a")
    assert (second.keys, second.flag) == (("NEW1",), 2)
    found = properties.decode(first.properties)
    assert (found["A"], found["WAIT"], found["CLUSTER"]) == ("shared", "true", "DefaultCluster")
    assert properties.decode(second.properties)["A"] == "shared"
    assert second.properties.count(b"A\x01") == 1, "in the place of the part's own"
    assert {first.queue_id, second.queue_id} == {0}


def test_what_a_batch_and_its_part_agree_on_is_stored_once() -> None:
    """Java gives WAIT to both; names that are the broker's own are never taken from the batch."""
    part = "UNIQ_KEY\x01P\x02WAIT\x01true\x02"
    made = header(properties="WAIT\x01true\x02CLUSTER\x01theirs\x02")
    (one,) = Desk().sender.records(made, batch.join([(0, b"a", part.encode())]), THERE)
    ours = "MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"
    assert one.properties.decode() == part + ours


@pytest.mark.parametrize("body", [b"", b"x" * 21, b"\xff" * 40])
def test_a_body_that_is_no_batch_is_refused(body: bytes) -> None:
    """With 1 and a reason."""
    with pytest.raises(RequestRefused) as refused:
        Desk().sender.records(header(), body, THERE)
    assert refused.value.code == 1
