"""Places of inner batches and of records for light queues, and what is refused."""

from typing import Any

import pytest
from tests.stores import new

from sprocket.base.errors import CorruptRecord, MessageTooLarge
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.errors import MessageIllegal
from sprocket.rocketmq.model.message import INNER_BATCH, NEED_UNWRAP, NewRecord
from sprocket.rocketmq.store.log import OffsetAssigner, check_queue

BATCH = INNER_BATCH | NEED_UNWRAP


def made(topic: str = "topic", sys_flag: int = 0, **pairs: str) -> NewRecord:
    """Return a new record with these properties."""
    record = new(topic, sys_flag=sys_flag)
    encoded = properties.encode(pairs)
    return NewRecord(
        topic, 0, b"x", encoded, record.born_host, record.store_host, sys_flag=sys_flag
    )


def placing(**changes: Any) -> OffsetAssigner:
    """Return what gives places; `batches` has batch queues, light queues are on."""
    options: Any = {"light_queues": True, "record_bytes_max": 1000, **changes}
    return OffsetAssigner({"batches"}, **options)


def said(record: NewRecord) -> dict[str, str]:
    """Return the properties about places."""
    found = properties.decode(record.properties)
    return {name: value for name, value in found.items() if name.startswith("INNER_")}


def test_a_plain_record_takes_the_next_place() -> None:
    """What the batch took before counts first."""
    record = made(TAGS="T")
    place = placing().place(record, {}, {("topic", 0): 5})
    assert (place.record, place.queue_offset, place.extra) == (record, 5, None)
    assert place.after == {("topic", 0): 6}
    assert placing().place(record, {("topic", 0): 9}, {("topic", 0): 5}).queue_offset == 9
    assert placing().place(record, {}, {}).queue_offset == 0


def test_prepared_records_take_none() -> None:
    """Nor do rolled back ones."""
    for sys_flag in (4, 12):
        place = placing().place(made(sys_flag=sys_flag), {}, {("topic", 0): 5})
        assert (place.queue_offset, place.after) == (0, {})


def test_an_inner_batch_takes_a_place_for_each_message() -> None:
    """And carries the first of them; what a producer says about it does not count."""
    record = made("batches", BATCH, INNER_NUM="7", INNER_BASE="99", A="b")
    place = placing().place(record, {}, {("batches", 0): 5})
    assert said(place.record) == {"INNER_NUM": "7", "INNER_BASE": "5"}
    assert place.after == {("batches", 0): 12}
    assert place.extra is not None
    assert place.extra.count == 7
    assert properties.find(place.record.properties, "A") == "b"


@pytest.mark.parametrize("number", [None, "0", "-1", "x", "32768", "07"])
def test_an_inner_batch_must_say_how_many(number: str | None) -> None:
    """A number from 1 to what a unit can count."""
    pairs = {} if number is None else {"INNER_NUM": number}
    with pytest.raises(MessageIllegal, match="INNER_NUM"):
        placing().place(made("batches", BATCH, **pairs), {}, {})
    one = placing().place(made("batches", BATCH, INNER_NUM="1"), {}, {})
    assert one.after == {("batches", 0): 1}


def test_only_batch_queues_take_inner_batches() -> None:
    """Elsewhere consumers would not find the messages."""
    with pytest.raises(MessageIllegal, match="no batch queues"):
        placing().place(made("topic", BATCH, INNER_NUM="2"), {}, {})


def test_light_queues_give_their_next_places() -> None:
    """In the order of the names; one that is named twice gives one place."""
    record = made(INNER_MULTI_DISPATCH="%LMQ%a,%LMQ%b,%LMQ%a", INNER_MULTI_QUEUE_OFFSET="1,2,3")
    place = placing().place(record, {}, {("%LMQ%a", 0): 7, ("topic", 0): 1})
    assert said(place.record)["INNER_MULTI_QUEUE_OFFSET"] == "7,0,7"
    assert place.after == {("topic", 0): 2, ("%LMQ%a", 0): 8, ("%LMQ%b", 0): 1}
    assert place.extra is not None
    assert place.extra.light == (("%LMQ%a", 7), ("%LMQ%b", 0), ("%LMQ%a", 7))


def test_without_light_queues_nobody_can_claim_a_place() -> None:
    """A producer's own offsets are taken away, so that recovery does not believe them."""
    record = made(INNER_MULTI_DISPATCH="%LMQ%a", INNER_MULTI_QUEUE_OFFSET="0")
    place = placing(light_queues=False).place(record, {}, {})
    assert said(place.record) == {"INNER_MULTI_DISPATCH": "%LMQ%a"}
    assert place.extra is None
    retry = placing().place(made("%RETRY%g", INNER_MULTI_DISPATCH="%LMQ%a"), {}, {})
    assert retry.after == {("%RETRY%g", 0): 1}


@pytest.mark.parametrize("names", ["other", "%LMQ%a,other", "%LMQ%a/b", "%LMQ%" + "x" * 123])
def test_names_that_are_no_light_queues_are_refused(names: str) -> None:
    """RocketMQ takes them and dispatches nothing more."""
    with pytest.raises(MessageIllegal, match="cannot be the name"):
        placing().place(made(INNER_MULTI_DISPATCH=names, X="%"), {}, {})


def test_records_for_light_queues_have_no_slack() -> None:
    """The whole record counts, where else it is the body."""
    placing().check_size(1000)
    with pytest.raises(MessageTooLarge, match="1001 bytes"):
        placing().check_size(1001)


@pytest.mark.parametrize(
    ("topic", "queue_id", "error"),
    [
        ("t" * 128, 0, MessageTooLarge),
        ("é" * 64, 0, MessageTooLarge),
        ("%RETRY%" + "g" * 249, 0, MessageTooLarge),
        ("%DLQ%" + "g" * 123, 0, MessageTooLarge),
        ("t", 1 << 31, MessageTooLarge),
        ("t", -1, MessageTooLarge),
        ("a/b", 0, CorruptRecord),
    ],
)
def test_queues_that_cannot_be_are_refused(
    topic: str, queue_id: int, error: type[Exception]
) -> None:
    """By the bytes of the topic: 127, of a retry topic 255."""
    with pytest.raises(error):
        check_queue(topic, queue_id)


def test_the_longest_topics() -> None:
    """One byte less is taken."""
    assert check_queue("t" * 127, (1 << 31) - 1) == 0
    assert check_queue("%RETRY%" + "g" * 248, 0) == 0
