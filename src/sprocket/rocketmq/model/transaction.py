"""The end of a transaction, as a producer says it, and the question a broker asks when it does not.

Source: RocketMQ `EndTransactionRequestHeader`, `CheckTransactionStateRequestHeader`.
"""

from enum import Enum, IntEnum

from msgspec import Struct

from sprocket.rocketmq.model.message import NewRecord


class Outcome(Enum):
    """How a transaction ended."""

    COMMIT = "commit"
    ROLLBACK = "rollback"


class TransactionState(IntEnum):
    """What a producer knows of a transaction; the numbers are those of END_TRANSACTION."""

    UNKNOWN = 0
    """Nothing yet: the broker asks, later."""
    COMMIT = 8
    ROLLBACK = 12


class TransactionEnd(Struct, frozen=True, gc=False):
    """What a producer says of a transaction of its own.

    Attributes:
        group: The producer's.
        place: Where the half message lies in the log.
        half_offset: Its offset in the queue of half messages.
        outcome: How the transaction ended.
        was_asked: Whether the broker had asked.
    """

    group: str
    place: int
    half_offset: int
    outcome: Outcome
    was_asked: bool


class TransactionQuestion(Struct, frozen=True, kw_only=True, gc=False):
    """A half message of which nobody has said how its transaction ended.

    Attributes:
        group: Its producers'.
        message: It, as it would be consumed.
        message_id: The id that its producer gave it; also that of the transaction.
        stored_at_ms: When it was stored.
        place: Where it lies in the log now that it is asked about.
        half_offset: Its offset in the queue of half messages then.
    """

    group: str
    message: NewRecord
    message_id: str
    stored_at_ms: int
    place: int
    half_offset: int
