"""What a client of gRPC might send over HTTP/2, and how it goes wrong: for fuzzing what reads it.

A conversation is what one connection brings after the preface: frames that are right, on streams
that begin one after the other, and in some places one that is changed, or that does not belong
there. They are drawn from tables, which costs less than to read them. Everything follows from a
seed, so a number is enough to see the same frames again.
"""

import gzip
import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Final

from tests.unit.runtime.http2.http2_client import (
    ACK,
    END_HEADERS,
    END_STREAM,
    PADDED,
    POST,
    PRIORITY,
    Fields,
    frame,
)

from sprocket.runtime.http2 import trailers_block

DATA, HEADERS, PRIORITY_FRAME, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
Calls = Sequence[tuple[str, bytes]]
STREAMS: Final = range(1, 41, 2)
"""Those of a conversation."""
FRAMES: Final = 24
"""Of a conversation, at most."""
BAD_COUNT: Final = 8_192
"""Changed frames from which is drawn."""
RATES: Final = (0.0, 0.02, 0.1, 0.5)
"""How many frames of a conversation are changed ones."""
_EDGES: Final = (0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 63, 64, 127, 128, 192, 254, 255)
_SIZES: Final = (0, 1, 4, 5, 8, 255, 16_384, 16_385, 65_535, 65_536, 65_537, 1 << 23, (1 << 24) - 1)
REQUEST: Final = b"asked!"
_PACKED: Final = gzip.compress(b"asked", mtime=0)


def enveloped(message: bytes) -> bytes:
    """Return a message as it is sent."""
    return struct.pack(">BI", 0, len(message)) + message


def _with_path(path: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
    """Return a request's fields with another path, and more of them."""
    said = [(name, path if name == ":path" else value) for name, value in POST]
    return [*said, *more]


def _indexed(block: bytes) -> bytes:
    """Return a block of one literal as one that goes to the table."""
    return b"\x40" + block[1:]


def blocks(paths: Sequence[str], fields: Fields) -> list[bytes]:
    """Return header blocks of requests for these paths, and of wrong ones."""
    found = [trailers_block(_with_path(path, *fields)) for path in paths]
    first = paths[0]
    kept = _indexed(trailers_block([("x-kept", "value")]))
    for more in (
        [("grpc-encoding", "gzip")],
        [("grpc-encoding", "br")],
        [("grpc-timeout", "10S")],
        [("grpc-timeout", "soon")],
        [("content-length", "11")],
        [("x-long", "y" * 300)],
        [("Upper", "x")],
        [("connection", "close")],
        [(f"a{number}", "") for number in range(100)],
    ):
        found.append(trailers_block(_with_path(first, *fields, *more)))
    usual = trailers_block(_with_path(first, *fields))
    found += [usual + kept, usual + b"\xbe", usual + b"\xbf", b"\x20\x3f\xe1\x1f" + usual]
    found += [b"\x83\x86\x84", usual[:-1], b"", b"\x20" * 3 + usual, usual + b"\xbe" * 600]
    return found


def beginnings(calls: Calls, fields: Fields) -> Mapping[int, list[bytes]]:
    """Return what begins a call, by the number of its stream.

    Args:
        calls: Paths of methods, each with a request.
        fields: What else a client says with each.
    """
    paths = [path for path, _ in calls]
    all_blocks = blocks(paths, fields)
    found: dict[int, list[bytes]] = {}
    for stream in STREAMS:
        whole = [frame(DATA, END_STREAM, stream, enveloped(said)) for _, said in calls]
        usual = [frame(HEADERS, END_HEADERS, stream, block) for block in all_blocks[: len(paths)]]
        others = [frame(HEADERS, END_HEADERS, stream, block) for block in all_blocks[len(paths) :]]
        block = all_blocks[0]
        padded = bytes((4,)) + block + bytes(4)
        priority = struct.pack(">IB", 0, 9) + block
        others += [
            frame(HEADERS, END_HEADERS | END_STREAM, stream, block),
            frame(HEADERS, END_HEADERS | PADDED, stream, padded),
            frame(HEADERS, END_HEADERS | PRIORITY, stream, priority),
            frame(HEADERS, 0, stream, block[:20])
            + frame(CONTINUATION, END_HEADERS, stream, block[20:]),
        ]
        short = [head + body for head, body in zip(usual, whole, strict=True)]
        found[stream] = [*short * 8, *usual * 8, *others]
    return found


def continuations() -> Mapping[int, list[bytes]]:
    """Return what may follow, by the number of a stream."""
    found: dict[int, list[bytes]] = {}
    packed = struct.pack(">BI", 1, len(_PACKED)) + _PACKED
    said = enveloped(REQUEST)
    for stream in STREAMS:
        bodies = [said, said * 3, said[:4], said[4:], packed, b"", bytes(2_000)]
        found[stream] = [
            *[frame(DATA, flags, stream, body) for body in bodies for flags in (0, END_STREAM)],
            frame(DATA, PADDED, stream, b"\x02" + said + bytes(2)),
            frame(HEADERS, END_HEADERS | END_STREAM, stream, trailers_block([("sum", "1")])),
            frame(RST, 0, stream, struct.pack(">I", 8)),
            frame(RST, 0, stream, struct.pack(">I", 0)),
            *[frame(WINDOW, 0, stream, struct.pack(">I", size)) for size in (1, 5_000, 1 << 20)],
            frame(PRIORITY_FRAME, 0, stream, struct.pack(">IB", 0, 9)),
            *of_connection(),
        ]
    return found


def of_connection() -> list[bytes]:
    """Return frames of no stream."""
    settings = [(4, 0), (4, 65_535), (4, 10), (5, 16_384), (1, 0), (3, 100), (6, 1 << 14), (99, 1)]
    return [
        frame(PING, 0, 0, b"12345678"),
        frame(PING, ACK, 0, b"12345678"),
        frame(SETTINGS, 0, 0),
        frame(SETTINGS, ACK, 0),
        *[frame(SETTINGS, 0, 0, struct.pack(">HI", *one)) for one in settings],
        *[frame(WINDOW, 0, 0, struct.pack(">I", size)) for size in (1, 9_000)],
        frame(GOAWAY, 0, 0, bytes(8)),
        frame(99, 0, 0, b"unknown"),
    ]


def bad_frames(chance: random.Random, corpus: Sequence[bytes]) -> Iterator[bytes]:
    """Give frames that were changed in one to three places each."""
    while True:
        unit = bytearray(chance.choice(corpus))
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            _change(chance, unit, corpus)
        yield bytes(unit)


def _change(chance: random.Random, unit: bytearray, corpus: Sequence[bytes]) -> None:
    """Change one place; heads more often than what follows them."""
    if not unit:
        unit += chance.choice(corpus)
    place = min(chance.choice((chance.randrange(12), chance.randrange(len(unit)))), len(unit) - 1)
    match chance.randrange(10):
        case 0:
            unit[place] = chance.randrange(256)
        case 1:
            unit[place] ^= 1 << chance.randrange(8)
        case 2:
            unit[place] = chance.choice(_EDGES)
        case 3:
            unit[:3] = chance.choice(_SIZES).to_bytes(3, "big")
        case 4:
            unit[3:4] = bytes((chance.randrange(11),))
        case 5:
            unit[4:5] = bytes((chance.randrange(256),))
        case 6:
            unit[5:9] = chance.choice((0, 1, 2, 3, 99, 1 << 31, (1 << 32) - 1)).to_bytes(4, "big")
        case 7:
            del unit[place : place + chance.choice((1, 2, 4, 50))]
            _fit(chance, unit)
        case 8:
            unit[place:place] = chance.randbytes(chance.choice((1, 2, 4, 50)))
            _fit(chance, unit)
        case _:
            other = chance.choice(corpus)
            unit[place:] = other[chance.randrange(len(other)) :]
            _fit(chance, unit)


def _fit(chance: random.Random, unit: bytearray) -> None:
    """Mostly make the size fit again, so that what follows gets to the parsers."""
    if chance.random() < 0.8 and len(unit) >= 9:
        unit[:3] = (len(unit) - 9).to_bytes(3, "big")


def floods() -> list[bytes]:
    """Return what is too much at once."""
    block = trailers_block(POST)
    return [
        frame(PING, 0, 0, bytes(8)) * 1_100,
        frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 9) * 1_100),
        frame(HEADERS, 0, 1, block) + frame(CONTINUATION, 0, 1) * 10,
        frame(HEADERS, END_HEADERS, 1, bytes(17_000)),
    ]


class Conversations:
    """Draws conversations.

    Args:
        seed: The same one gives the same.
        calls: Paths of methods, one that is not served among them, each with a request.
        fields: What else a client says with each.
    """

    def __init__(self, seed: int, calls: Calls, fields: Fields = ()) -> None:
        self._chance = random.Random(seed)
        self._begin, self._follow = beginnings(calls, fields), continuations()
        corpus = [one for table in (self._begin, self._follow) for one in table[3]]
        given = bad_frames(self._chance, [*corpus, *of_connection()])
        self._bad = [next(given) for _ in range(BAD_COUNT)]
        self._rates = cycle(RATES)
        self._floods = floods()

    def draw(self) -> list[bytes]:
        """Return what a connection brings; one frame each, but for calls that are short."""
        chance = self._chance
        random_, choice = chance.random, chance.choice
        rate = next(self._rates)
        found: list[bytes] = []
        last = -1
        for _ in range(FRAMES):
            if rate and random_() < rate:
                found.append(choice(self._bad))
            elif last < 0 or (random_() < 0.35 and last < STREAMS[-1]):
                last += 2
                found.append(choice(self._begin[last]))
            else:
                found.append(choice(self._follow[1 + 2 * int(random_() * (last + 1) / 2)]))
        if random_() < 0.002:
            found.append(choice(self._floods))
        return found
