"""HTTP/2, the server's side: a codec without I/O that `runtime.driver` carries."""

from sprocket.runtime.http2.connection import (
    ConnectionFailed,
    DataReceived,
    Event,
    Http2Connection,
    Limits,
    Octets,
    Stream,
    StreamBegun,
    StreamEnded,
    StreamReset,
    WindowOpened,
)
from sprocket.runtime.http2.frames import ErrorCode
from sprocket.runtime.http2.header_blocks import RequestHead, response_block, trailers_block

__all__ = [
    "ConnectionFailed",
    "DataReceived",
    "ErrorCode",
    "Event",
    "Http2Connection",
    "Limits",
    "Octets",
    "RequestHead",
    "Stream",
    "StreamBegun",
    "StreamEnded",
    "StreamReset",
    "WindowOpened",
    "response_block",
    "trailers_block",
]
