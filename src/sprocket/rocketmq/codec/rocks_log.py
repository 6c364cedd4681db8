"""The frames of RocksDB's manifest, as far as it takes to tell whether the last one is whole.

    manifest = *block                        ; each but the last has 32 KiB
    block    = *fragment [up to 6 × zero]    ; where no head has room
    fragment = crc (u32)  size (u16)  kind (u8)  size × octet      ; little-endian
    kind     = 1 whole record | 2 its first fragment | 3 a middle one | 4 its last

RocksDB itself checks sums, and takes a record that is cut for one that was being written.

Source: RocksDB `log_format.h`; docs/formats/rights.md.
"""

import struct

from sprocket.base.errors import WireError
from sprocket.base.units import KIB

_BLOCK = 32 * KIB
_HEAD = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_BEGINS = (_WHOLE, _FIRST)
_ENDS = (_WHOLE, _LAST)


def check_ends(data: bytes) -> None:
    """Check that a manifest has at least one record, and ends where its last record does.

    Raises:
        WireError: It is cut, or a head in it is damaged.
    """
    at, is_open = 0, False
    while at < len(data):
        room = _BLOCK - at % _BLOCK
        if room < _HEAD.size:
            at += room
            continue
        if len(data) - at < _HEAD.size:
            raise WireError(f"it ends at {len(data)}, within the head of a record at {at}")
        _, size, kind = _HEAD.unpack_from(data, at)
        end = at + _HEAD.size + size
        if not _WHOLE <= kind <= _LAST or size > room - _HEAD.size:
            raise WireError(f"at {at} there is not the head of a record")
        if end > len(data):
            raise WireError(f"it ends at {len(data)}, within a record that ends at {end}")
        if is_open is (kind in _BEGINS):
            raise WireError(f"at {at} there is a part of another record")
        at, is_open = end, kind not in _ENDS
    if is_open or not data:
        raise WireError(f"it ends at {len(data)}, where a record goes on")
