"""Keys and values of queues in RocksDB."""

import pytest

from sprocket.base.errors import CorruptRecord
from sprocket.rocketmq.store.queue import QUEUE_UNIT, UNIT_BYTES
from sprocket.rocketmq.store.queue import rocks_keys as keys

UNIT_KEY = bytes.fromhex("00000003 01 616263 01 00000002 01 0000000000000007")
MAX_KEY = bytes.fromhex("00000003 01 616263 01 6d6178 01 00000002")


def test_keys_are_rocketmqs() -> None:
    """19 and 14 bytes and the topic's."""
    prefix = keys.unit_prefix("abc", 2)
    assert prefix + keys.I64.pack(7) == UNIT_KEY
    assert len(UNIT_KEY) == 19 + 3
    assert keys.offset_key("abc", 2, keys.MAX) == MAX_KEY
    assert len(MAX_KEY) == 14 + 3
    assert len(keys.CHECKPOINT_KEY) == 30
    assert keys.unit_prefix("延", 0).startswith(bytes.fromhex("00000003 01 e5bbb6 01"))


def test_units_of_a_queue_lie_together() -> None:
    """In the order of their offsets, before the next queue."""
    prefix = keys.unit_prefix("abc", 2)
    mine = [prefix + keys.I64.pack(offset) for offset in (0, 1, 255, 256, 1 << 40)]
    assert mine == sorted(mine)
    assert mine[-1] < keys.unit_keys_end(prefix) < keys.unit_prefix("abc", 3)


def test_a_value_begins_with_the_unit() -> None:
    """The store time follows."""
    value = keys.VALUE.pack(1, 2, -3, 4)
    assert value[:UNIT_BYTES] == QUEUE_UNIT.pack(1, 2, -3)
    assert len(value) == 28


def test_offset_records_are_read_back() -> None:
    """Whatever the topic's name."""
    for topic in ("abc", "a\x01max\x01", "延迟"):
        for which in (keys.MAX, keys.MIN):
            key = keys.offset_key(topic, 9, which)
            expected = (topic, 9, which, 5, 6)
            assert keys.decode_offset(key, keys.OFFSET_VALUE.pack(5, 6)) == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", bytes(16)),
        (MAX_KEY[:-1], bytes(16)),
        (MAX_KEY, bytes(15)),
        (MAX_KEY, bytes(17)),
        (MAX_KEY.replace(b"max", b"mix"), bytes(16)),
        (MAX_KEY.replace(b"abc", b"a\xffc"), bytes(16)),
        (b"\1" + MAX_KEY[1:], bytes(16)),
    ],
)
def test_other_records_are_refused(key: bytes, value: bytes) -> None:
    """The text shows the bytes."""
    with pytest.raises(CorruptRecord, match=f"key {key.hex()}"):
        keys.decode_offset(key, value)
