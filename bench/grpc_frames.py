"""Frames of HTTP/2 by which benches call a broker's service of gRPC, without a client's cost."""

import struct
from typing import Final

from sprocket.runtime.http2 import frames, trailers_block
from sprocket.runtime.http2.frames import END_HEADERS, FrameType, Setting

PATH: Final = "/apache.rocketmq.v2.MessagingService/"
WIDE: Final = 1 << 30
"""A window in which everything fits."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    return frames.head(len(payload), kind, flags, stream) + payload


def opening(window: int = WIDE) -> bytes:
    """Return what a client says first; its streams have this window, and all together, unless 0."""
    said = frame(FrameType.SETTINGS, 0, 0, struct.pack(">HI", Setting.INITIAL_WINDOW_SIZE, window))
    wider = frame(FrameType.WINDOW_UPDATE, 0, 0, frames.U32.pack(WIDE)) if window else b""
    return frames.PREFACE + said + wider


def request(path: str, client_id: str, *more: tuple[str, str]) -> bytes:
    """Return the header block of a call, which names no table."""
    said = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "127.0.0.1"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("x-mq-client-id", client_id),
        ("x-mq-language", "PYTHON"),
    ]
    return trailers_block([*said, *more])


def headers(stream: int, block: bytes, flags: int = END_HEADERS) -> bytes:
    """Return a frame of headers."""
    return frame(FrameType.HEADERS, flags, stream, block)


def data(stream: int, message: bytes, flags: int = 0) -> bytes:
    """Return a frame with one message of gRPC."""
    return frame(FrameType.DATA, flags, stream, struct.pack(">BI", 0, len(message)) + message)
