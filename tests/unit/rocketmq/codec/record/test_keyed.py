"""A record as compaction sees it: its key, whether it is a value, and copies elsewhere."""

import pytest
from tests.stores import new

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.record import keyed, record


def stored(
    body: bytes = b"body", *, crc_tail: bool = True, place: int = 100, **pairs: str
) -> bytes:
    """Return a record."""
    one = new(body=body, keys=tuple(pairs.values()))
    return record.encode(
        one, queue_offset=7, physical_offset=place, stored_at_ms=1, crc_tail=crc_tail
    )


def test_the_key_is_the_whole_text() -> None:
    """Not its words."""
    known = keyed.read(stored(a="order", b="7"))
    assert (known.key, known.has_body, known.entry.queue_offset) == ("order 7", True, 7)
    assert keyed.read(stored()).key == ""
    assert keyed.read(stored(a=" ")).key == ""
    assert not keyed.read(stored(b"", a="k")).has_body


@pytest.mark.parametrize("crc_tail", [True, False])
def test_a_copy_names_its_place(crc_tail: bool) -> None:
    """With a checksum that fits it, and is the same message."""
    one = stored(crc_tail=crc_tail, a="k")
    copy = keyed.moved(one, 5000)
    decoded = record.decode(copy, check_tail=True)
    assert (decoded.physical_offset, decoded.stored_body) == (5000, b"body")
    assert keyed.is_same(one, copy)
    assert not keyed.is_same(one, stored(b"other", crc_tail=crc_tail, a="k"))


def test_a_wrong_checksum_stays_wrong() -> None:
    """A copy does not hide damage."""
    one = bytearray(stored(a="k"))
    one[40] ^= 1
    with pytest.raises(WireError):
        record.decode(keyed.moved(one, 9), check_tail=True)
    one[-30] ^= 1
    body = bytearray(stored(a="k"))
    body[88] ^= 1
    assert keyed.read(body).key == "k"
    with pytest.raises(WireError):
        keyed.read(body, check_crc=True)
