"""What is sent back comes again, later each time, and ends with the dead letters."""

from typing import Any

import pytest
import structlog
from msgspec.structs import replace

from sprocket.base.place import Place
from sprocket.rocketmq.broker.groups import Groups
from sprocket.rocketmq.broker.messages import DelayLevels, RetryService
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.model.message import NewRecord, SendBackRequest
from sprocket.rocketmq.model.topic import READ
from sprocket.rocketmq.settings import (
    DELAY_LEVELS,
    BrokerSettings,
    GroupSettings,
    StoreSettings,
    TopicSettings,
)
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

HERE = b"\x7f\0\0\x01\0\0\x2a\x9f"
THERE = b"\x0a\0\0\x01\0\0\x10\x00"


class Harness:
    """A store with one consumed message, and tables on a simulated disk."""

    def __init__(self) -> None:
        disk, clock = SimulatedDisk(), FakeClock()
        self.store = Store.open(
            disk, "/s", StoreSettings(fill_ahead_bytes=0), clock, Geometry.small()
        )
        self.topics = Topics(Place(disk, "/s", clock), BrokerSettings(), TopicSettings())
        self.groups = Groups(Place(disk, "/s", clock), GroupSettings())
        self.back = RetryService(
            self.store,
            self.topics,
            self.groups,
            DelayLevels(DELAY_LEVELS),
            HERE,
            below=lambda limit: limit - 1,
        )

    def stored(self, reconsume_times: int = 0, topic: str = "T", **found: str) -> int:
        """Store a message; return where it lies."""
        spot = self.store.append(
            NewRecord(
                topic,
                2,
                b"hello",
                properties.encode({"UNIQ_KEY": "U", "TAGS": "a", **found}),
                THERE,
                HERE,
                flag=7,
                sys_flag=1,
                born_at_ms=5,
                reconsume_times=reconsume_times,
            )
        )
        self.store.write()
        return int(spot.physical_offset)

    def group(self, **changes: Any) -> None:
        """Give group g other settings."""
        self.groups.put([replace(self.groups.find("g"), **changes)])

    def sent_back(self, offset: int, level: int = 0, **more: Any) -> NewRecord:
        """Return the record for a message sent back by a recent client."""
        record = self.back.record(asked_for(offset, level, **more))
        assert record is not None
        return record


def asked_for(offset: int, level: int = 0, **more: Any) -> SendBackRequest:
    """Return what a consumer asks for that gives a message back."""
    return SendBackRequest(offset=offset, group="g", delay_level=level, **more)


def found_in(record: NewRecord) -> dict[str, str]:
    """Return a record's properties."""
    return properties.decode(record.properties)


def test_a_message_waits_for_its_retry() -> None:
    """Everything of it stays; where it came from, which it was and how often it came is noted."""
    harness = Harness()
    offset = harness.stored()
    record = harness.sent_back(offset)
    assert (record.topic, record.queue_id) == ("SCHEDULE_TOPIC_XXXX", 2)
    assert (record.body, record.flag, record.sys_flag, record.born_at_ms) == (b"hello", 7, 1, 5)
    assert (record.born_host, record.store_host, record.reconsume_times) == (THERE, HERE, 1)
    assert found_in(record) == {
        "UNIQ_KEY": "U",
        "TAGS": "a",
        "RETRY_TOPIC": "T",
        "ORIGIN_MESSAGE_ID": f"7F00000100002A9F{offset:016X}",
        "WAIT": "false",
        "DELAY": "3",
        "REAL_TOPIC": "%RETRY%g",
        "REAL_QID": "0",
    }


def test_where_it_came_from_first_is_kept() -> None:
    """A message of the retry topic has both already."""
    harness = Harness()
    offset = harness.stored(1, "%RETRY%g", RETRY_TOPIC="T", ORIGIN_MESSAGE_ID="first", REAL_QID="9")
    found = found_in(harness.sent_back(offset))
    assert (found["RETRY_TOPIC"], found["ORIGIN_MESSAGE_ID"]) == ("T", "first")
    assert (found["DELAY"], found["REAL_QID"]) == ("4", "0")


def test_the_ladder_has_sixteen_steps() -> None:
    """10 s, 30 s and so on up to 2 h, then the dead letters."""
    harness = Harness()
    records = [harness.sent_back(harness.stored(times)) for times in range(18)]
    levels = [found_in(one)["DELAY"] for one in records]
    assert levels == [*(str(level) for level in range(3, 19)), "0", "0"]
    assert {one.topic for one in records[16:]} == {"%DLQ%g"}


def test_a_level_that_the_consumer_names_counts() -> None:
    """Beyond the last it is the last; a negative one gives the message up."""
    harness = Harness()
    offset = harness.stored(4)
    assert [harness.sent_back(offset, level).queue_id for level in (1, 5, 99)] == [0, 4, 17]
    record = harness.sent_back(offset, -1)
    assert (record.topic, record.queue_id, record.reconsume_times) == ("%DLQ%g", 0, 5)
    found = found_in(record)
    assert (found["DELAY"], found["RETRY_TOPIC"], "REAL_TOPIC" in found) == ("0", "T", False)


def test_a_dead_letter_is_told_in_the_log() -> None:
    """With its group and topic, and how often it failed; a retry is not."""
    harness = Harness()
    with structlog.testing.capture_logs() as logs:
        harness.sent_back(harness.stored(15))
        harness.sent_back(harness.stored(16))
    (line,) = [one for one in logs if one["event"] == "a message became a dead letter"]
    assert (line["group"], line["topic"], line["failures"]) == ("g", "T", 16)


def test_topics_are_made_as_they_are_needed() -> None:
    """The retry topic with the group's queues, the dead letters with one, both for everything."""
    harness = Harness()
    harness.group(retry_queues=3)
    record = harness.sent_back(harness.stored(), unit_mode=True)
    assert found_in(record)["REAL_QID"] == "2"
    retry = harness.topics.get("%RETRY%g")
    assert retry is not None
    assert (retry.read_queues, retry.perm, retry.sys_flag) == (3, 6, 2)
    assert harness.topics.get("%DLQ%g") is None
    harness.sent_back(harness.stored(), -1)
    dead = harness.topics.get("%DLQ%g")
    assert dead is not None
    assert (dead.read_queues, dead.write_queues, dead.perm) == (1, 1, 6)


def test_limits_of_group_and_client() -> None:
    """The client's counts if it names one, the group's otherwise."""
    harness = Harness()
    harness.group(retry_times_max=1)
    offset = harness.stored(1)
    assert harness.sent_back(offset).topic == "%DLQ%g"
    assert harness.sent_back(offset, max_reconsume_times=2).topic == "SCHEDULE_TOPIC_XXXX"


def test_a_group_without_retries_gets_none() -> None:
    """Which is a success, and makes nothing."""
    harness = Harness()
    harness.group(retry_queues=0)
    assert harness.back.record(asked_for(harness.stored())) is None
    assert harness.topics.get("%RETRY%g") is None


def test_a_broker_that_is_closed_to_writing_takes_nothing_back() -> None:
    """Not even for a group that wants no retries; an unknown group shows first."""
    harness = Harness()
    offset = harness.stored()
    harness.group(retry_queues=0)
    harness.topics.use(TopicSettings(permission=4))
    with pytest.raises(Refused, match="sending message is forbidden") as refused:
        harness.back.record(asked_for(offset))
    assert refused.value.why is Refusal.NO_PERMISSION
    harness.groups.use(GroupSettings(auto_create=False))
    with pytest.raises(Refused) as refused:
        harness.back.record(SendBackRequest(offset=offset, group="h", delay_level=0))
    assert refused.value.why is Refusal.NO_GROUP
    harness.topics.use(TopicSettings(permission=2))
    assert harness.back.record(asked_for(offset)) is None


def test_what_cannot_be_done_is_refused_by_its_code() -> None:
    """No message there, a closed topic, a group that may not be."""
    harness = Harness()
    offset = harness.stored()
    for bad in (offset + 1, -1, 10**12, -(1 << 63)):
        with pytest.raises(Refused, match=f"failed, {bad}") as refused:
            harness.sent_back(bad)
        assert refused.value.why is Refusal.OTHER
    retry = harness.topics.get("%RETRY%g")
    assert retry is not None
    harness.topics.put(replace(retry, perm=READ))
    with pytest.raises(Refused) as refused:
        harness.sent_back(offset)
    assert refused.value.why is Refusal.NO_PERMISSION
    with pytest.raises(Refused) as refused:
        harness.back.record(SendBackRequest(offset=offset, group="a b", delay_level=0))
    assert refused.value.why is Refusal.NO_GROUP
