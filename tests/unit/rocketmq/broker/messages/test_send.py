"""The record that a send becomes: its properties, keys, queue and hosts."""

import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, cast

import pytest
import structlog
from msgspec import structs
from tests.timed import waits_of

from sprocket.base.clock import LogClock
from sprocket.base.place import Place
from sprocket.rocketmq.broker.groups import Groups, QueueLocks
from sprocket.rocketmq.broker.messages import DelayLevels, RetryLimit, Sender, Stamp, hide
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.broker.transactions import RecentHalves
from sprocket.rocketmq.broker.transactions.half_records import read_half
from sprocket.rocketmq.codec.record import batch, ids, properties, record
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.message import (
    NewBatch,
    NewHalf,
    NewRecord,
    ProducedMessage,
    SendRequest,
)
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.settings import BrokerSettings, GroupSettings, TopicSettings
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

HERE = b"\x7f\0\0\x01\0\0\x2a\x9f"
THERE = b"\x0a\0\0\x01\0\0\x10\x00"


class Harness:
    """A sender with tables on a simulated disk."""

    def __init__(self, new_unique_key: Callable[[], str] | None = None) -> None:
        disk, clock = SimulatedDisk(), FakeClock()
        disk.make_folder("/s/config")
        self.clock = clock
        self.topics = Topics(Place(disk, "/s", clock), BrokerSettings(), TopicSettings())
        self.groups = Groups(Place(disk, "/s", clock), GroupSettings())
        self.locks = QueueLocks(clock)
        numbers: Iterator[int] = count(1)
        self.asked: list[int] = []
        levels = DelayLevels("1s 5s 10s")
        limit = RetryLimit(self.topics, self.groups, self.locks, below=self._below)
        waits = waits_of(levels, LogClock(clock), clock)
        self.sender = Sender(
            self.topics,
            waits,
            [limit.divert_sent, hide, waits.divert_sent],
            Stamp(
                HERE, BrokerSettings().cluster, new_unique_key or (lambda: f"NEW{next(numbers)}")
            ),
            below=self._below,
        )

    def parts(self, message: ProducedMessage, body: bytes) -> list[NewRecord]:
        """Return the messages of a batch for single queues."""
        found = self.sender.batch(sent(message, body))
        assert isinstance(found, NewBatch)
        return found.records()

    def _below(self, limit: int) -> int:
        self.asked.append(limit)
        return limit - 1


def sent(message: ProducedMessage, body: bytes = b"x") -> SendRequest:
    """Return the request to store a message."""
    return SendRequest(message, body, ids.host_text(THERE))


def header(topic: str = "T", **changes: Any) -> ProducedMessage:
    """Return what a producer says of a message."""
    fields: dict[str, Any] = {
        "topic": topic,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 7,
        "flag": 3,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
    }
    return ProducedMessage(**fields | changes)


def test_fields_are_taken_over() -> None:
    """What the sender says stays; both hosts are ours to say."""
    record = Harness().sender.record(sent(header(reconsume_times=2)))
    assert (record.topic, record.queue_id, record.body) == ("T", 0, b"x")
    assert (record.flag, record.born_at_ms, record.reconsume_times) == (3, 7, 2)
    assert (record.born_host, record.store_host) == (THERE, HERE)


@pytest.mark.parametrize(
    "text",
    ["UNIQ_KEY\x01U\x02A\x01b\x02", "UNIQ_KEY\x01U\x02A\x01b", "A\x01a\x02UNIQ_KEY\x01U\x02A\x01b"],
)
def test_properties_are_added_to_whatever_their_form(text: str) -> None:
    """A missing last separator, or a name twice, does not matter."""
    record = Harness().sender.record(sent(header(properties=text)))
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
    record = Harness().sender.record(sent(header(properties=text)))
    assert properties.decode(record.properties) == {
        "A": "b",
        "UNIQ_KEY": "NEW1",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
    }
    assert record.properties.count(b"CLUSTER") == 1


def test_a_message_without_unique_key_gets_one() -> None:
    """The answer names it."""
    sender = Harness().sender
    text = "UNIQ_KEY\x01U\x02KEYS\x01a  b\x02TAGS\x01t\x02"
    record = sender.record(sent(header(properties=text)))
    assert record.unique_key == "U"
    assert sender.record(sent(header())).unique_key == "NEW1"


def sends(*headers: ProducedMessage, body: bytes = b"x") -> list[SendRequest]:
    """Return sends as their handler gives them."""
    return [sent(header, body) for header in headers]


PLAIN = "UNIQ_KEY\x01U%d\x02KEYS\x01k\x02"
TEXTS = [
    "UNIQ_KEY\x01U\x02",
    "A\x01b\x02UNIQ_KEY\x01U\x02TAGS\x01t\x02",
    "UNIQ_KEY\x01U\x02A\x01b",
    "A\x01b\x02",
    "",
    "UNIQ_KEY\x01\x02A\x01b\x02",
    "MY_UNIQ_KEY\x01U\x02UNIQ_KEY\x01V\x02",
    "MY_UNIQ_KEY\x01U\x02",
    "UNIQ_KEY\x01U\x02UNIQ_KEY\x01V\x02",
    "UNIQ_KEY\x01U\x02A\x01b\x01c\x02",
    "UNIQ_KEY\x01U\x02A\x02",
    "UNIQ_KEY\x01U\x02\x02",
    "UNIQ_KEY\x01U\x02DELAY\x012\x02",
    "UNIQ_KEY\x01U\x02CLUSTER\x01old\x02",
    "UNIQ_KEY\x01schl\u00fcssel\x02",
    "UNIQ_KEY\x01\ud800\x02",
    "UNIQ_KEY\x01U\x02TRAN_MSG\x01true\x02",
    "UNIQ_KEY\x01U\x02__CRC32#\x010123456789\x02",
]
TRANSACTIONAL = "TRAN_MSG\x01true\x02"
HALVES = [
    f"{TRANSACTIONAL}UNIQ_KEY\x01U\x02PGROUP\x01p\x02",
    f"UNIQ_KEY\x01U\x02PGROUP\x01p\x02{TRANSACTIONAL}",
    f"UNIQ_KEY\x01U\x02{TRANSACTIONAL}TAGS\x01t\x02",
    f"PGROUP\x01p\x02{TRANSACTIONAL}",
    f"UNIQ_KEY\x01U\x02{TRANSACTIONAL}{TRANSACTIONAL}",
    f"UNIQ_KEY\x01U\x02X{TRANSACTIONAL}A\x01b\x02",
    f"UNIQ_KEY\x01U\x02{TRANSACTIONAL}DELAY\x012\x02",
    f"UNIQ_KEY\x01U\x02{TRANSACTIONAL}REAL_TOPIC\x01X\x02",
    f"UNIQ_KEY\x01U\x02{TRANSACTIONAL}__transactionId__\x01X\x02",
    f"UNIQ_KEY\x01U\x02{TRANSACTIONAL}CHECK_IMMUNITY_TIME_IN_SECONDS\x015\x02",
    f"UNIQ_KEY\x01U\x02{TRANSACTIONAL}TRAN_PREPARED_QUEUE_OFFSET\x013\x02",
    f"UNIQ_KEY\x01U\x02{TRANSACTIONAL}TRANSACTION_CHECK_TIMES\x013\x02",
    f"PGROUP\x01p\x02MY_PGROUP\x01no\x02{TRANSACTIONAL}PGROUP\x01q\x02UNIQ_KEY\x01U\x02",
    f"UNIQ_KEY\x01U\x02{TRANSACTIONAL}A\x01\x02",
    f"UNIQ_KEY\x01U\x02{TRANSACTIONAL}A\x01ö\x02",
    f"UNIQ_KEY\x01U\x02{TRANSACTIONAL}A\x01b",
    "UNIQ_KEY\x01U\x02TRAN_MSG\x01TRUE\x02",
    "UNIQ_KEY\x01U\x02TRAN_MSG\x01no\x02",
]
HEADERS = [
    *[{"properties": text} for text in TEXTS],
    {"properties": PLAIN, "queue_id": -1},
    {"properties": PLAIN, "queue_id": 4},
    {"properties": PLAIN, "queue_id": 99},
    {"properties": PLAIN, "topic": "%RETRY%g", "reconsume_times": 99},
    {"properties": PLAIN, "topic": "NEW"},
    {"properties": PLAIN, "topic": "SCHEDULE_TOPIC_XXXX"},
    {"properties": PLAIN, "topic": "COMPACT"},
    {"properties": PLAIN, "topic": "TYPED"},
    {"properties": PLAIN, "sys_flag": 4},
    *[{"properties": text, "sys_flag": 4} for text in HALVES],
    {"properties": HALVES[0], "sys_flag": 0x31},
    {"properties": HALVES[0], "sys_flag": 0x84},
    {"properties": HALVES[0], "queue_id": -1},
    {"properties": HALVES[0], "queue_id": 2},
    {"properties": HALVES[0], "queue_id": 4},
    {"properties": HALVES[0], "topic": "COMPACT"},
    {"properties": HALVES[0], "topic": "TYPED"},
    {"properties": HALVES[0], "topic": "NEW"},
    {"properties": HALVES[0], "reconsume_times": 1},
    {"properties": HALVES[0] + "DELAY\x012\x02", "reconsume_times": 1},
    {"properties": PLAIN, "sys_flag": 0x31},
]


def _outcome(found: object) -> object:
    if isinstance(found, Refused):
        return found.why, found.remark
    assert isinstance(found, NewRecord)
    pairs = properties.decode(found.properties)
    plain = NewRecord(*structs.astuple(found)[: len(NewRecord.__struct_fields__)])
    return structs.replace(plain, properties=b""), pairs, pairs["UNIQ_KEY"] == found.unique_key


def _check_half(found: object) -> bool:
    """Say whether it is a half message, which then says what would be read of it in the log."""
    if not isinstance(found, NewHalf):
        return False
    stored = record.encode(found, queue_offset=7, physical_offset=9, stored_at_ms=11, crc_tail=True)
    recent = RecentHalves()
    recent.add(found, 7, 9, 11)
    kept, read = recent.take(9), read_half(memoryview(stored))
    assert kept is not None
    assert structs.astuple(kept)[1:] == structs.astuple(read)[1:]
    return _outcome(kept.record) == _outcome(read.record)


def _harness(new_unique_key: Callable[[], str] | None = None) -> Harness:
    harness = Harness(new_unique_key)
    harness.topics.put(TopicConfig(name="T", read_queues=9, write_queues=3))
    compaction = TopicConfig(name="COMPACT", attributes={"cleanup.policy": "COMPACTION"})
    harness.topics.put(TopicConfig(name="TYPED", attributes={"message.type": "NORMAL"}))
    harness.topics.put(compaction)
    return harness


@pytest.mark.parametrize("beside", [0, 2])
@pytest.mark.parametrize("changes", HEADERS)
def test_many_at_once_become_what_each_would_be(changes: dict[str, Any], beside: int) -> None:
    """Whatever it is that asks for a closer look, and beside others that do not."""
    given = header(**changes)
    single, many = _harness(), _harness()
    try:
        expected: object = single.sender.record(sent(given))
    except Refused as refused:
        expected = refused
    plain = [header(properties=PLAIN % number) for number in range(beside)]
    found = many.sender.records(sends(*plain[:1], given, *plain[1:]))
    assert len(found) == 1 + beside
    where = min(1, beside)
    assert _outcome(found[where]) == _outcome(expected)
    assert isinstance(found[where], NewHalf) == _check_half(found[where])
    del found[where]
    for number, one in enumerate(found):
        assert isinstance(one, NewRecord)
        assert (one.unique_key, one.queue_id) == (f"U{number}", 0)
        assert one == single.sender.record(sent(plain[number]))


@pytest.mark.parametrize("flag", [0, 4])
def test_any_three_at_once_become_what_each_would_be(flag: int) -> None:
    """What one lacks is not made good by another."""
    rng = random.Random(1)
    every = [*TEXTS, *HALVES]
    drawn = [rng.choices(every, k=3) for _ in range(300)]
    for texts in [["UNIQ_KEY\x01U\x02A\x01b", HALVES[0], "UNIQ_KEY\x01U\x02\x02"], *drawn]:
        single, many = _harness(), _harness()
        given = [header(properties=text, sys_flag=flag) for text in texts]
        for one, found in zip(given, many.sender.records(sends(*given)), strict=True):
            try:
                expected: object = single.sender.record(sent(one))
            except Refused as refused:
                expected = refused
            assert _outcome(found) == _outcome(expected)
            assert isinstance(found, NewHalf) == _check_half(found)


def test_a_body_is_needed_by_each() -> None:
    """Also of a message that is plain otherwise."""
    (found,) = _harness().sender.records(sends(header(properties=PLAIN), body=b""))
    assert isinstance(found, Refused)


def test_what_fails_for_one_message_fails_for_no_other() -> None:
    """Whatever it is: its handler answers it."""
    none_left: Iterator[str] = iter(())
    harness = _harness(none_left.__next__)
    first, second = harness.sender.records(sends(header(), header(properties=PLAIN)))
    assert isinstance(first, StopIteration)
    assert isinstance(second, NewRecord)


PARTS = [*TEXTS[:3], TEXTS[3], *TEXTS[5:8], TEXTS[9], TEXTS[13], TEXTS[14]]


@pytest.mark.parametrize("shared", ["", "WAIT\x01true\x02", "A\x01c\x02", "TAGS\x01t\x02"])
@pytest.mark.parametrize("text", PARTS)
def test_parts_beside_plain_ones_become_what_each_would_be(text: str, shared: str) -> None:
    """A batch of one and a batch of three differ in nothing but their number."""
    plain = "UNIQ_KEY\x01P\x02WAIT\x01true\x02"
    made = header(properties=shared)
    single = [
        Harness().parts(made, batch.join([(0, b"a", one.encode())]))[0]
        for one in (plain, text, plain)
    ]
    parts = [(0, b"a", one.encode()) for one in (plain, text, plain)]
    many = Harness().parts(made, batch.join(parts))
    for one, other in zip(single, many, strict=True):
        assert properties.decode(one.properties) == properties.decode(other.properties)
        assert one.properties[-1] == other.properties[-1] == 2


_TWO_KEYS = "UNIQ_KEY\x01P\x02UNIQ_KEY\x01Q\x02"


@pytest.mark.parametrize(
    "texts",
    [
        ("", _TWO_KEYS),
        ("A\x01b\x02", _TWO_KEYS),
        ("MY_UNIQ_KEY\x01b\x02", _TWO_KEYS),
        ("UNIQ_KEY\x01P\x02A", "UNIQ_KEY\x01Q\x02"),
        ("UNIQ_KEY\x01P", "UNIQ_KEY\x01Q\x02"),
        ("UNIQ_KEY\x01P\x02", "A\x01b\x02UNIQ_KEY\x01Q"),
        ("UNIQ_KEY\x01P\x02\x02", "UNIQ_KEY\x01Q"),
        ("UNIQ_KEY\x01P", "UNIQ_KEY\x01Q\x02\x02A\x01b\x02"),
        ("A\x01b\x02" + _TWO_KEYS, "A\x01b\x02"),
    ],
)
@pytest.mark.parametrize("turned", [1, -1])
def test_what_one_message_lacks_another_does_not_make_up(
    texts: tuple[str, str], turned: int
) -> None:
    """All are looked at together; each has its own key and its end all the same."""
    given = texts[::turned]
    parts = batch.join([(0, b"a", text.encode()) for text in given])
    for one, text in zip(Harness().parts(header(), parts), given, strict=True):
        _has_all(one, text)
    headers = [header(properties=text) for text in given]
    for found, text in zip(_harness().sender.records(sends(*headers)), given, strict=True):
        assert isinstance(found, NewRecord)
        _has_all(found, text)
        assert found.unique_key == properties.decode(found.properties)["UNIQ_KEY"]


TWICE = "A\x01b\x02UNIQ_KEY\x01Q\x02C\x01d\x02A\x01b\x02"
ONCE = "A\x01b\x02UNIQ_KEY\x01Q\x02"


@pytest.mark.parametrize("turned", [1, -1])
@pytest.mark.parametrize(
    ("more", "other"),
    [
        ("", TWICE),
        ("A\x01b\x02", TWICE),
        ("XA\x01b\x02", TWICE),
        ("XA\x01b\x02A\x01c\x02", ONCE),
        ("A\x01b\x02A\x01c\x02", ONCE),
        ("A\x01b\x02", ONCE),
    ],
)
def test_what_a_batch_shares_each_part_gets(more: str, other: str, turned: int) -> None:
    """Whatever another part has instead, and whatever like it this one has."""
    texts = (f"{more}UNIQ_KEY\x01P\x02", other)[::turned]
    parts = batch.join([(0, b"a", text.encode()) for text in texts])
    made = header(properties="A\x01b\x02")
    for one in Harness().parts(made, parts):
        assert properties.decode(one.properties)["A"] == "b"


@pytest.mark.parametrize("text", ["UNIQ_KEY\x01P\x02A\x02", "UNIQ_KEY\x01P\x02A\x01b\x01c\x02"])
def test_what_is_no_pair_goes_the_careful_way(text: str) -> None:
    """What is stored then is to the byte what one message by itself becomes."""
    (found,) = _harness().sender.records(sends(header(properties=text)))
    assert found == _harness().sender.record(sent(header(properties=text)))


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[ProducedMessage]:
    """Return the messages that go the careful way, in a list that grows."""
    found: list[ProducedMessage] = []
    record = Sender.record

    def watched(self: Sender, request: SendRequest) -> NewRecord:
        found.append(request.message)
        return record(self, request)

    monkeypatch.setattr(Sender, "record", watched)
    return found


def test_one_text_that_is_not_ascii_holds_up_no_other(looked: list[ProducedMessage]) -> None:
    """All are looked at together still, and only that one goes the careful way."""
    texts = [PLAIN % 0, "TAGS\x01é\x02" + PLAIN % 1, PLAIN % 2]
    found = _harness().sender.records(sends(*[header(properties=text) for text in texts]))
    assert [cast("NewRecord", one).unique_key for one in found] == ["U0", "U1", "U2"]
    assert [one.properties for one in looked] == texts[1:2]


def test_only_compaction_asks_for_a_look_at_each_message(looked: list[ProducedMessage]) -> None:
    """Other attributes of a topic change nothing of what is stored."""
    topics = ("T", "TYPED", "COMPACT")
    _harness().sender.records(sends(*[header(name, properties=PLAIN % 0) for name in topics]))
    assert [one.topic for one in looked] == ["COMPACT"]


def _has_all(record: NewRecord, text: str) -> None:
    """Say that a record has the properties it was sent with, and a key, and the broker's."""
    found = properties.decode(record.properties)
    assert found.pop("UNIQ_KEY").startswith(("P", "Q", "NEW"))
    ours = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}
    sent = properties.decode(text)
    sent.pop("UNIQ_KEY", None)
    assert found == sent | ours


def test_text_that_is_no_unicode_is_replaced() -> None:
    """It never stops a send half-way."""
    record = Harness().sender.record(sent(header(properties="A\x01\ud800\x02")))
    assert properties.decode(record.properties)["A"] == "?"


def test_host_bits_of_a_client_are_cleared() -> None:
    """The hosts themselves say what they are."""
    assert Harness().sender.record(sent(header(sys_flag=0x31))).sys_flag == 1


def test_a_negative_queue_is_one_of_those_written() -> None:
    """Of a topic without write queues it is 0, as in RocketMQ."""
    harness = Harness()
    harness.topics.put(TopicConfig(name="T", read_queues=9, write_queues=3))
    assert harness.sender.record(sent(header(queue_id=-1))).queue_id == 2
    assert harness.asked == [3]
    harness.topics.put(TopicConfig(name="Z", read_queues=1, write_queues=0))
    assert harness.sender.record(sent(header("Z", queue_id=-1))).queue_id == 0
    assert harness.sender.record(sent(header("T", queue_id=8))).queue_id == 8
    with pytest.raises(Refused) as refused:
        harness.sender.record(sent(header("T", queue_id=9)))
    assert refused.value.why is Refusal.INVALID_ARGUMENT


@pytest.mark.parametrize("permission", [4, 0])
def test_a_broker_that_is_closed_to_writing_keeps_topics_in_order(permission: Any) -> None:
    """As RocketMQ has it: one message, among plain ones and in a batch; no other topic's."""
    harness = _harness()
    harness.topics.put(TopicConfig(name="O", order=True))
    harness.topics.use(TopicSettings(permission=permission))
    body = batch.join([(0, b"a", PLAIN.encode())])
    ordered, other = header("O", properties=PLAIN), header(properties=PLAIN)
    refusal = r"broker\[broker-a\] sending message is forbidden"
    with pytest.raises(Refused, match=refusal) as refused:
        harness.sender.record(sent(ordered))
    assert refused.value.why is Refusal.NO_PERMISSION
    with pytest.raises(Refused, match=refusal):
        harness.sender.batch(sent(ordered, body))
    closed, still_open = harness.sender.records(sends(ordered, other))
    assert isinstance(closed, Refused)
    assert isinstance(still_open, NewRecord)
    harness.topics.use(TopicSettings(permission=2))
    (found,) = harness.sender.records(sends(ordered))
    assert isinstance(found, NewRecord)


def test_compacted_topics_need_keys() -> None:
    """In RocketMQ's words; there a message without a body deletes its key."""
    harness = Harness()
    harness.topics.put(TopicConfig(name="T", attributes={"cleanup.policy": "COMPACTION"}))
    for properties_ in ("", "KEYS\x01 \x02"):
        with pytest.raises(Refused, match="Required message key is missing") as refused:
            harness.sender.record(sent(header(properties=properties_)))
        assert refused.value.why is Refusal.ILLEGAL_MESSAGE
    keyed = header(properties="KEYS\x01k\x02")
    assert harness.sender.record(sent(keyed)).body
    assert harness.sender.record(sent(keyed, b"")).body == b""


def test_retries_become_dead_letters_beyond_their_limit() -> None:
    """The request's own limit counts if it names one, else the group's."""
    sender = Harness().sender
    retry = "%RETRY%g"
    for times, own, dead in (
        (16, None, False),
        (17, None, True),
        (3, 2, True),
        (17, 99, False),
    ):
        made = header(retry, reconsume_times=times, max_reconsume_times=own)
        with structlog.testing.capture_logs() as logs:
            record = sender.record(sent(made))
        assert record.topic == ("%DLQ%g" if dead else retry), (times, own)
        told = [one["failures"] for one in logs if one["event"] == "a message became a dead letter"]
        assert told == ([times] if dead else [])
        assert (b"DELAY\x01-1" in record.properties) == dead


def test_groups_with_locks_do_not_retry() -> None:
    """They consume in order; what fails for good is a dead letter."""
    harness = Harness()
    harness.locks.lock("g", "c", [MessageQueue("T", "b", 0)])
    assert harness.sender.record(sent(header("%RETRY%g"))).topic == "%DLQ%g"
    harness.clock.advance(60_000)
    assert harness.sender.record(sent(header("%RETRY%g"))).topic == "%RETRY%g"


def test_retry_topics_need_no_template() -> None:
    """They are made with one queue when the template cannot serve."""
    harness = Harness()
    harness.sender.record(sent(header("%RETRY%g", default_topic="none")))
    made = harness.topics.get("%RETRY%g")
    assert made is not None
    assert made.write_queues == 1


def test_parts_of_a_batch_keep_their_own_properties() -> None:
    """The batch's are added where they do not stand in for the part's key; the answer names its."""
    body = batch.join([(1, b"a", b"UNIQ_KEY\x01P\x02TAGS\x01t\x02"), (2, b"b", b"A\x01own\x02")])
    made = header(properties="UNIQ_KEY\x01BATCH\x02A\x01shared\x02WAIT\x01true")
    first, second = Harness().parts(made, body)
    assert (first.unique_key, first.flag, bytes(first.body)) == ("BATCH", 1, b"a")
    assert second.flag == 2
    assert properties.decode(first.properties)["UNIQ_KEY"] == "P"
    assert properties.decode(second.properties)["UNIQ_KEY"] == "NEW1"
    found = properties.decode(first.properties)
    assert (found["A"], found["WAIT"], found["CLUSTER"]) == ("shared", "true", "DefaultCluster")
    assert properties.decode(second.properties)["A"] == "shared"
    assert second.properties.count(b"A\x01") == 1, "in the place of the part's own"
    assert {first.queue_id, second.queue_id} == {0}


def test_what_a_batch_and_its_part_agree_on_is_stored_once() -> None:
    """Java gives WAIT to both; names that are the broker's own are never taken from the batch."""
    part = "UNIQ_KEY\x01P\x02WAIT\x01true\x02"
    made = header(properties="WAIT\x01true\x02CLUSTER\x01theirs\x02")
    (one,) = Harness().parts(made, batch.join([(0, b"a", part.encode())]))
    ours = "MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02"
    assert one.properties.decode() == part + ours


@pytest.mark.parametrize("body", [b"", b"x" * 21, b"\xff" * 40])
def test_a_body_that_is_no_batch_is_refused(body: bytes) -> None:
    """With 1 and a reason."""
    with pytest.raises(Refused) as refused:
        Harness().sender.batch(sent(header(), body))
    assert refused.value.why is Refusal.OTHER
