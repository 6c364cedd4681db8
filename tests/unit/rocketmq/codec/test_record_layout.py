"""Where the parts of a stored message lie."""

import pytest
from tests.unit.rocketmq.codec.given import new_record, stored

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import record_layout
from sprocket.rocketmq.codec.record import ids
from sprocket.rocketmq.codec.record_layout import parts


def test_parts_follow_each_other() -> None:
    """Body, topic and properties of record A, wherever in the bytes it begins."""
    for before in (b"", b"abc"):
        data = before + stored(new_record(), crc_tail=True) + b"behind"
        fields, body, topic, topic_end, end = parts(data, len(before))
        assert data[body : body + fields[14]] == b"hello"
        assert record_layout.topic_text(data, topic, topic_end) == "TopicTest"
        assert data[end:] == b"behind"
        assert data[topic_end + 2 :].startswith(b"UNIQ_KEY")


def test_the_time_of_storing_moves_with_the_born_host() -> None:
    """It is found from the first 76 bytes."""
    six = ids.host_bytes("::1", 1)
    for new in (new_record(), new_record(born_host=six), new_record(store_host=six)):
        data = stored(new)[: record_layout.STORED_AT_MS_END]
        assert record_layout.stored_at_ms(data) == 1_700_000_000_123
        assert record_layout.stored_at_ms(b"ab" + data, 2) == 1_700_000_000_123


def test_digits_stand_least_significant_first() -> None:
    """Filled up with zeros at the right."""
    assert record_layout.crc_digits(1199406633) == b"3366049911"
    assert record_layout.crc_digits(0) == b"0000000000"
    assert record_layout.crc_digits(120) == b"0210000000"


def test_only_a_tail_can_be_wrong() -> None:
    """A record without one is not, nor is one whose last property only looks similar."""
    plain = stored(new_record())
    assert record_layout.tail_fits(plain, 0, len(plain)) is None
    data = bytearray(stored(new_record(), crc_tail=True))
    assert record_layout.tail_fits(data, 0, len(data)) is True
    data[-2] ^= 1
    assert record_layout.tail_fits(data, 0, len(data)) is False
    data[-20] ^= 1
    assert record_layout.tail_fits(data, 0, len(data)) is None
    for at in (-20, -12, -1):
        data = bytearray(stored(new_record(), crc_tail=True))
        data[at] ^= 4
        assert (
            record_layout.tail_fits(data, 0, len(data)) is False
        )  # the digits show that it was one


def test_properties_that_end_in_a_zero_were_not_written() -> None:
    """Unless there are none, and then it is their length; a producer's own zero is closed off."""
    data = bytearray(stored(new_record()))
    data[-1] = 0
    assert record_layout.tail_fits(data, 0, len(data)) is False
    bare = stored(new_record(properties=b""))
    assert record_layout.tail_fits(bare, 0, len(bare)) is None
    closed = stored(new_record(properties=b"a\x01b\0"))
    assert closed.endswith(b"a\x01b\0\x02")
    assert record_layout.tail_fits(closed, 0, len(closed)) is None


def test_bytes_before_the_beginning_are_no_record() -> None:
    """A position below 0 would count from the end."""
    data = stored(new_record())
    with pytest.raises(WireError, match="too few"):
        parts(data, -len(data))
