"""The id of a transaction as clients of gRPC get it: it says which half message is meant.

    message id . offset of the half message in its queue . its place in the log

The proxy of RocketMQ keeps that in memory, and does not know it any more after a restart.
"""

import re
from typing import Final

from msgspec import Struct

from sprocket.rocketmq.codec.grpc.status import Code, Declined

_FORM: Final = re.compile(r"(.*)\.([0-9]{1,19})\.([0-9]{1,19})", re.ASCII | re.DOTALL)


class TransactionId(Struct, frozen=True):
    """What an id says.

    Attributes:
        message_id: The id that the producer gave the message.
        half_offset: The half message's offset in the queue of half messages.
        place: Where it lies, bytes into the log.
    """

    message_id: str
    half_offset: int
    place: int


def encode(message_id: str, half_offset: int, place: int) -> str:
    """Return the text of an id."""
    return f"{message_id}.{half_offset}.{place}"


def decode(text: str) -> TransactionId:
    """Return what an id says. Raises Declined: INVALID_TRANSACTION_ID."""
    if not text.strip():
        raise Declined(Code.INVALID_TRANSACTION_ID, "transaction id cannot be empty")
    found = _FORM.fullmatch(text)
    if found is None:
        raise Declined(Code.INVALID_TRANSACTION_ID, f"there is no transaction {text[:200]}")
    return TransactionId(found[1], int(found[2]), int(found[3]))
