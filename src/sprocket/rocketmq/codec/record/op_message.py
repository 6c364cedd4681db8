"""The body of an op message, which names half messages that have ended.

See `docs/formats/half-messages.md`.
"""

from collections.abc import Iterable


def encode(ended: Iterable[int]) -> bytes:
    """Return the body for offsets in the queue of half messages."""
    return "".join([f"{offset}," for offset in ended]).encode()


def decode(body: bytes) -> list[int]:
    """Return the offsets that a body names, of any release of RocketMQ; others are passed over."""
    return [int(text) for text in body.decode("ascii", "replace").split(",") if text.isdecimal()]
