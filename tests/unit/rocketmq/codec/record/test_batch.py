"""Batch bodies."""

import random
from collections.abc import Callable

import pytest

from sprocket.base.errors import MessageTooLarge, WireError
from sprocket.rocketmq.codec.record import batch
from sprocket.rocketmq.model.message import Column

GOLDEN = bytes.fromhex(
    "000000250000000000000000000000000000000161000e7801310257414954017472756502"
    "00000022000000000000000000000000000000026262000a57414954017472756502"
)
PARTS = [(0, b"a", b"x\x011\x02WAIT\x01true\x02"), (0, b"bb", b"WAIT\x01true\x02")]


def test_the_golden_batch() -> None:
    """Two messages, byte for byte, and back."""
    assert batch.join(PARTS) == GOLDEN
    parts = batch.split(GOLDEN)
    assert list(zip(*parts, strict=True)) == PARTS
    assert parts.properties[1] == b"WAIT\x01true\x02"


def test_empty_batches_and_bodies() -> None:
    """No message gives no bytes; a message may have neither body nor properties."""
    assert batch.split(b"") == ([], [], [])
    assert list(zip(*batch.split(batch.join([(-1, b"", b"")])), strict=True)) == [(-1, b"", b"")]


def test_every_cut_is_refused() -> None:
    """Only the cut between two messages leaves a batch."""
    for cut in range(1, len(GOLDEN)):
        if cut == 37:
            assert list(batch.split(GOLDEN[:cut]).bodies) == [b"a"]
            continue
        with pytest.raises(WireError, match="batch"):
            batch.split(GOLDEN[:cut])


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        (0, b"\0\0\0\x26", "add up"),
        (16, b"\xff\xff\xff\xff", "claims a body of -1"),
        (16, b"\x7f\xff\xff\xff", "claims a body"),
        (21, b"\xff\xff", "add up"),
        (21, b"\x7f\xff", "add up"),
    ],
)
def test_lengths_must_add_up(at: int, value: bytes, words: str) -> None:
    """The text says which message is wrong."""
    damaged = GOLDEN[:at] + value + GOLDEN[at + len(value) :]
    with pytest.raises(WireError, match=words):
        batch.split(damaged)


def test_properties_have_no_negative_length() -> None:
    """Though such a length would add up."""
    with pytest.raises(WireError, match="at byte 0 has sizes"):
        batch.split(bytes.fromhex(f"{21:08x}{0:032x}ffff") + bytes(40))


def test_properties_have_a_limit() -> None:
    """Their length is an i16."""
    assert len(batch.join([(0, b"", bytes(32767))])) == 22 + 32767
    with pytest.raises(MessageTooLarge):
        batch.join([(0, b"", bytes(32768))])


def outcome(split: Callable[[bytes], batch.BatchParts], data: bytes) -> object:
    """Return the messages as they are, or why there are none."""
    try:
        return list(zip(*split(data), strict=True))
    except WireError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(100))
def test_messages_of_one_size_are_split_as_any_others(seed: int) -> None:
    """Without a look at each: the same messages, and the same errors where a byte is wrong."""
    rng = random.Random(seed)
    sizes = rng.choice((0, 1, 7)), rng.choice((0, 3, 300))
    parts = [
        (rng.choice((0, 0, 5, -1)), rng.randbytes(sizes[0]), rng.randbytes(sizes[1]))
        for _ in range(rng.choice((1, 2, 9)))
    ]
    data = bytearray(batch.join(parts))
    assert list(zip(*batch.split(data), strict=True)) == parts
    assert isinstance(batch.split(data).bodies, Column)
    for _ in range(rng.choice((0, 1, 2))):
        at = rng.choice((0, 3, 12, 15, 16, 19, 20 + sizes[0], 21 + sizes[0]))
        at += 22 + sum(sizes) if len(parts) > 1 and rng.random() < 0.5 else 0
        data[at] = rng.choice((0, 1, data[at] ^ 1, 0xFF))
    if rng.random() < 0.2:
        del data[rng.randrange(len(data)) :]
    assert outcome(batch.split, bytes(data)) == outcome(batch.split_each, bytes(data))
