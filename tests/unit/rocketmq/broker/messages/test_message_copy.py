"""A copy is the message itself, elsewhere."""

import pytest

from sprocket.rocketmq.broker.messages import copy_of
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.model.message import NewRecord

HERE = b"\x7f\0\0\x01\0\0\x2a\x9f"
THERE = b"\x0a\0\0\x01\0\0\x10\x00"
V6 = bytes(range(16)) + b"\0\0\x10\x00"


def stored(born_host: bytes = THERE, *, crc_tail: bool = True) -> bytes:
    """Return a stored record."""
    new = NewRecord(
        topic="T",
        queue_id=3,
        body=b"hello",
        properties=properties.encode({"TAGS": "a", "KEYS": "k l", "UNIQ_KEY": "U", "x": "y"}),
        born_host=born_host,
        store_host=HERE,
        flag=-5,
        sys_flag=0x301,
        born_at_ms=7,
        reconsume_times=2,
    )
    return record.encode(
        new, queue_offset=9, physical_offset=100, stored_at_ms=8, crc_tail=crc_tail
    )


@pytest.mark.parametrize("born_host", [THERE, V6])
@pytest.mark.parametrize("crc_tail", [True, False])
def test_everything_but_the_place_stays(born_host: bytes, crc_tail: bool) -> None:
    """The same bytes come of it as of the first, but for offsets and times."""
    data = stored(born_host, crc_tail=crc_tail)
    copy = copy_of(record.decode(data), "T", 3, HERE)
    again = record.encode(
        copy, queue_offset=9, physical_offset=100, stored_at_ms=8, crc_tail=crc_tail
    )
    assert again == data


def test_properties_may_be_changed_before() -> None:
    """And deliveries counted."""
    original = record.decode(stored())
    original.properties["x"] = "z"
    copy = copy_of(original, "U", 0, THERE, more_reconsume_times=1)
    assert (copy.topic, copy.queue_id, copy.reconsume_times) == ("U", 0, 3)
    assert properties.find(copy.properties, "x") == "z"
    assert properties.find(copy.properties, properties.CRC32) is None
