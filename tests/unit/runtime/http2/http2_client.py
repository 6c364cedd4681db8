"""What a client of HTTP/2 sends, and how it reads what a server sends; for tests."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import hpack

from sprocket.runtime.http2 import Event, Http2Connection, Limits, frames

END_STREAM, END_HEADERS, PADDED, PRIORITY, ACK = 1, 4, 8, 32, 1
POST = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/service/Method"),
    (":authority", "here:8081"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
)
Fields = Sequence[tuple[str, str]]


@dataclass
class Clock:
    """Stands where it is put."""

    now: float = 0.0

    def __call__(self) -> float:
        """Return seconds."""
        return self.now


@dataclass
class Client:
    """One client, its tables, and a server to which it speaks."""

    limits: Limits = field(default_factory=Limits)
    clock: Clock = field(default_factory=Clock)
    encoder: hpack.Encoder = field(default_factory=hpack.Encoder)
    decoder: hpack.Decoder = field(default_factory=hpack.Decoder)
    answer: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        """Begin a connection."""
        self.server = Http2Connection(self.limits, self.clock)
        self.tell(frames.PREFACE + frame(4, 0, 0))

    def tell(self, data: bytes) -> Sequence[Event]:
        """Have the server read bytes; what it says by itself goes to `answer`."""
        events = self.server.receive(data)
        for event in events:
            match event:
                case frames_out if hasattr(frames_out, "buffers"):
                    self.answer += b"".join(frames_out.buffers)
                case failed if hasattr(failed, "octets"):
                    self.answer += failed.octets
        return events

    def headers(self, stream: int, fields: Fields = POST, flags: int = END_HEADERS) -> bytes:
        """Return a HEADERS frame."""
        return frame(1, flags, stream, self.encoder.encode(list(fields)))

    def fields(self, block: bytes) -> list[tuple[str, str]]:
        """Read a header block of the server's."""
        return [(str(name), str(value)) for name, value in self.decoder.decode(block)]

    def said(self) -> list[tuple[int, int, int, bytes]]:
        """Return what the server has said by itself since the last time."""
        found = read(bytes(self.answer))
        self.answer.clear()
        return found


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame as RFC 9113 draws it."""
    size = len(payload)
    head = struct.pack(">BHBBI", size >> 16, size & 0xFFFF, kind, flags, stream)
    return head + payload


def read(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """Return type, flags, stream and payload of whole frames."""
    found = []
    while data:
        high, low, kind, flags, stream = struct.unpack_from(">BHBBI", data)
        size = high << 16 | low
        found.append((kind, flags, stream, data[9 : 9 + size]))
        assert len(data) >= 9 + size, "half a frame"
        data = data[9 + size :]
    return found
