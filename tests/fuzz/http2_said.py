"""What must hold of anything that a server of HTTP/2 says."""

import struct

from tests.fuzz.http2_frames import DATA, GOAWAY, HEADERS, RST
from tests.unit.runtime.http2.http2_client import END_STREAM, read

from sprocket.runtime.http2 import ErrorCode


def check_said(said: bytes) -> None:
    """See that it is whole frames, and that nothing is said of what has ended."""
    ended: set[int] = set()
    is_over = False
    for kind, flags, stream, _ in read(said):
        assert not is_over, "something is said after the last words"
        if kind in (DATA, HEADERS):
            assert stream not in ended, "an answer that goes on after its end"
            if flags & END_STREAM:
                ended.add(stream)
        elif kind == RST:
            ended.add(stream)
        is_over = kind == GOAWAY


def goodbye(said: bytes) -> ErrorCode:
    """Return the code with which a connection ends. Raises ValueError if it is none of them."""
    kind, _, stream, payload = read(said)[-1]
    assert (kind, stream) == (GOAWAY, 0)
    return ErrorCode(struct.unpack_from(">I", payload, 4)[0])
