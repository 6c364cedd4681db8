"""What a client of AMQP might send, and how it goes wrong: for fuzzing whatever reads it.

Everything follows from a seed, so a number is enough to see the same bytes again.
"""

import random
from collections.abc import Iterator
from typing import get_type_hints

from tests.amqp import frame, header, message, method, publish

from sprocket.rabbitmq.codec.amqp import frames, methods, properties
from sprocket.rabbitmq.model.fields import Field, FieldKind, FieldTable, ScaledInteger, long_string
from sprocket.rabbitmq.model.properties import BasicProperties

TABLE = FieldTable(
    (
        ("x-message-ttl", Field(FieldKind.SIGNED_INT, 1000)),
        ("x-dead-letter-exchange", long_string("dlx")),
        ("flag", Field(FieldKind.BOOL, True)),
        ("small", Field(FieldKind.BYTE, -1)),
        ("ratio", Field(FieldKind.DOUBLE, 0.5)),
        ("price", Field(FieldKind.DECIMAL, ScaledInteger(2, 999))),
        ("since", Field(FieldKind.TIMESTAMP, 1_700_000_000)),
        ("nothing", Field(FieldKind.VOID, None)),
        ("raw", Field(FieldKind.BINARY, b"\x00\xff")),
        ("CC", Field(FieldKind.ARRAY, (long_string("a"), long_string("b")))),
        ("inner", Field(FieldKind.TABLE, FieldTable((("k", long_string("v")),)))),
    )
)
FULL = properties.encode(
    BasicProperties(
        content_type="application/json",
        content_encoding="utf-8",
        headers=TABLE,
        delivery_mode=2,
        priority=4,
        correlation_id="0d7c",
        reply_to="amq.rabbitmq.reply-to",
        expiration="60000",
        message_id="m-1",
        timestamp=1_700_000_000,
        type="task",
        user_id="guest",
        app_id="app",
    )
)
_ARGUMENTS = {
    "octet": 1,
    "short": 1,
    "long": 1,
    "longlong": 1,
    "bit": False,
    "shortstr": "name",
    "longstr": b"long",
    "table": TABLE,
}
_EDGES = (0, 1, 2, 3, 4, 7, 8, 9, 40, 60, 127, 128, 200, 206, 254, 255)
_SIZES = (0, 1, 4, 7, 8, 255, 256, 4088, 4096, 4097, 131072, 131073, 1 << 31, (1 << 32) - 1)
_SIGNS = b"tbBsuIilLfdDSxAFTVUz\x00"


def good_units() -> list[bytes]:
    """Return each method that a client may send, on channel 1, and some messages."""
    found = []
    for layout in methods.layouts():
        if layout.senders & methods.CLIENT and not layout.has_content and layout.class_id != 10:
            hints = get_type_hints(layout.kind, include_extras=True).values()
            values = [_ARGUMENTS[hint.__metadata__[0]] for hint in hints]
            found.append(method(1, layout.kind(*values)))
    ends = [one for one in found if one[7:11] in (b"\x00\x14\x00\x28", b"\x00\x14\x00\x29")]
    found = [one for one in found if one not in ends]
    pieces = publish(1) + header(1, 6, FULL) + frame(3, 1, b"abc") + frame(3, 1, b"def")
    found += [message(1, b"body", "key", FULL), message(1, b""), pieces] * 4
    return [*found, frames.HEARTBEAT, *ends]


def mutated_units(seed: int, count: int) -> Iterator[bytes]:
    """Give what was changed in one to four places each.

    Args:
        seed: The same one gives the same bytes.
        count: How many to give.
    """
    chance = random.Random(seed)
    corpus = good_units()
    for _ in range(count):
        unit = bytearray(chance.choice(corpus))
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            _change(chance, unit, corpus)
        yield bytes(unit)


def _change(chance: random.Random, unit: bytearray, corpus: list[bytes]) -> None:
    """Change one place; heads of frames and what lies in methods more often than bodies."""
    if not unit:
        unit += chance.choice(corpus)
    place = min(chance.choice((chance.randrange(12), chance.randrange(len(unit)))), len(unit) - 1)
    match chance.randrange(11):
        case 0:
            unit[place] = chance.randrange(256)
        case 1:
            unit[place] ^= 1 << chance.randrange(8)
        case 2:
            unit[place] = chance.choice(_EDGES)
        case 3:
            unit[place : place + 4] = chance.choice(_SIZES).to_bytes(4, "big")
        case 4:
            del unit[place : place + chance.choice((1, 2, 4, 50))]
            _fit(chance, unit)
        case 5:
            unit[place:place] = chance.randbytes(chance.choice((1, 2, 4, 50)))
            _fit(chance, unit)
        case 6:
            unit[place] = chance.choice(_SIGNS)
        case 7:
            unit += chance.choice(corpus)
        case 8:
            other = chance.choice(corpus)
            unit[place:] = other[chance.randrange(len(other)) :]
        case 9:
            del unit[place:]
        case _:
            unit[min(place, len(unit) - 1)] = chance.choice(_SIGNS)
            _fit(chance, unit)


def _fit(chance: random.Random, unit: bytearray) -> None:
    """Mostly make the size of the only frame fit again: so it gets to the parsers."""
    if chance.random() < 0.8 and len(unit) >= frames.OVERHEAD_BYTES:
        unit[3:7] = (len(unit) - frames.OVERHEAD_BYTES).to_bytes(4, "big")
        unit[-1] = frames.END
