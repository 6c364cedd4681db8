"""Batch bodies."""

import pytest

from sprocket.base.errors import MessageTooLarge, WireError
from sprocket.rocketmq.codec import batch

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
    assert batch.split(batch.join([(-1, b"", b"")])) == ([-1], [b""], [b""])


def test_every_cut_is_refused() -> None:
    """Only the cut between two messages leaves a batch."""
    for cut in range(1, len(GOLDEN)):
        if cut == 37:
            assert batch.split(GOLDEN[:cut]).bodies == [b"a"]
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
