"""What queues are called inside a node."""

from typing import NamedTuple


class QueueName(NamedTuple):
    """A queue, or one of the queues that a queue with priorities consists of.

    Names are text; bytes that are not UTF-8 are kept as lone surrogates (`surrogateescape`).
    """

    vhost: str
    name: str
    priority: int | None = None
    """0 to 255 for the part that has the messages of one priority."""


def name_bytes(name: str) -> bytes:
    """Return a name as it is on the wire and in files: the inverse of `name_text`."""
    return name.encode("utf-8", "surrogateescape")


def name_text(data: bytes) -> str:
    """Return the name that bytes are; those that are not UTF-8 become lone surrogates."""
    return data.decode("utf-8", "surrogateescape")
