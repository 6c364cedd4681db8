"""The end of a transaction, as a producer says it, and the question a broker asks when it does not.

Source: RocketMQ `EndTransactionRequestHeader`, `CheckTransactionStateRequestHeader`.
"""

from enum import Enum, IntEnum

from msgspec import Struct

from sprocket.rocketmq.model.integers import Int64
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


class TransactionEnd(Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """Of which transaction a producer speaks.

    Attributes:
        producer_group: Its own group.
        tran_state_table_offset: The half message's offset in the queue of half messages.
        commit_log_offset: Where that lies in the log.
        from_transaction_check: Whether the broker had asked.
    """

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    from_transaction_check: bool = False


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
