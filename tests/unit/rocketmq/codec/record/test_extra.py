"""What few records carry: batches, light queues, delays; and that plain ones carry nothing."""

import pytest

from sprocket.rocketmq.codec.record import Extra, extra
from sprocket.rocketmq.model.internal import SCHEDULE_TOPIC
from sprocket.rocketmq.model.message import INNER_BATCH


def found(topic: str = "T", sys_flag: int = 0, **pairs: str) -> Extra | None:
    """Return what is extra about a record with these properties."""
    text = "\x02".join(["", *(f"{name}\x01{value}" for name, value in pairs.items()), ""])
    return extra.find(topic, sys_flag, text.encode())


def light(names: str, offsets: str, topic: str = "T") -> tuple[tuple[str, int], ...]:
    """Return the light queues of a record."""
    it = found(topic, INNER_MULTI_DISPATCH=names, INNER_MULTI_QUEUE_OFFSET=offsets)
    return () if it is None else it.light


def test_plain_records_have_nothing_extra() -> None:
    """Nor does one with a percent sign, or a delay in a topic of its own."""
    assert found(TAGS="T") is None
    assert found(TAGS="100%") is None
    assert found(DELAY="3") is None
    assert found(INNER_NUM="3") is None


@pytest.mark.parametrize(
    ("number", "count"), [("7", 7), ("1", 1), ("32767", 32767), ("32768", 1), ("0", 1), ("x", 1)]
)
def test_an_inner_batch_says_how_many_it_holds(number: str, count: int) -> None:
    """Up to what a unit can count; what is not a number counts as one message."""
    it = found(sys_flag=INNER_BATCH, INNER_NUM=number)
    assert count == (1 if it is None else it.count)


def test_an_inner_batch_without_a_number_is_one_message() -> None:
    """The flag alone says nothing."""
    assert found(sys_flag=INNER_BATCH) is None


@pytest.mark.parametrize(
    ("level", "expected"), [("3", 3), ("99", 99), ("0", 0), ("-1", 0), ("x", 0), ("1" * 20, 0)]
)
def test_a_delayed_message_has_a_level(level: str, expected: int) -> None:
    """In the topic of delayed messages, if it is a number above 0."""
    it = found(SCHEDULE_TOPIC, DELAY=level)
    assert expected == (0 if it is None else it.delay_level)


def test_light_queues_and_their_offsets_belong_together() -> None:
    """In the order of the names; a name may stand there twice."""
    assert light("%LMQ%a", "0") == (("%LMQ%a", 0),)
    assert light("%LMQ%c,%LMQ%a", "12,3") == (("%LMQ%c", 12), ("%LMQ%a", 3))


@pytest.mark.parametrize(
    ("names", "offsets"),
    [
        ("%LMQ%a,%LMQ%b", "1"),
        ("%LMQ%a", "1,2"),
        ("%LMQ%a", "-1"),
        ("%LMQ%a", "x"),
        ("%LMQ%a", str(1 << 63)),
        ("%LMQ%../x", "1"),
        ("other%", "1"),
    ],
)
def test_what_makes_no_sense_is_no_light_queue(names: str, offsets: str) -> None:
    """Lists of different length, offsets that are none, names that are none."""
    assert light(names, offsets) == ()


def test_some_topics_are_never_light() -> None:
    """Retries, system topics, delayed messages."""
    for topic in ("%RETRY%g", "rmq_sys_wheel_timer", SCHEDULE_TOPIC):
        assert light("%LMQ%a", "0", topic) == ()
    assert found(INNER_MULTI_DISPATCH="%LMQ%a") is None
    assert found(INNER_MULTI_QUEUE_OFFSET="1%") is None
