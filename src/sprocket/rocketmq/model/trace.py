"""Traces: what producers and consumers note about a message, each in a record of its own.

Times are milliseconds since 1970, by the clock of whoever noted them; costs are milliseconds.

Source: RocketMQ `TraceContext`, `TraceBean`, `TraceConstants`.
"""

from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct


class MessageKind(IntEnum):
    """What was sent."""

    NORMAL = 0
    HALF = 1
    COMMITTED = 2
    DELAYED = 3
    ORDERED = 4


class ConsumeOutcome(IntEnum):
    """How a consumer's listener ended."""

    SUCCESS = 0
    TIMED_OUT = 1
    RAISED = 2
    RETURNED_NOTHING = 3
    FAILED = 4


class Produced(Struct, frozen=True, kw_only=True):
    """A message was sent, or could not be."""

    at_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str = ""
    keys: str = ""
    store_host: str
    """`host:port` of the broker."""
    body_bytes: int
    cost_ms: int
    kind: MessageKind = MessageKind.NORMAL
    offset_message_id: str = ""
    is_success: bool
    client_host: str = ""


class ConsumeBegan(Struct, frozen=True, kw_only=True):
    """A consumer's listener was given a message."""

    at_ms: int
    region: str
    group: str
    request_id: str
    """Ties it to the end."""
    message_id: str
    retries: int = 0
    """How often it was delivered before."""
    keys: str = ""


class ConsumeEnded(Struct, frozen=True, kw_only=True):
    """The listener has ended."""

    request_id: str
    message_id: str
    cost_ms: int
    is_success: bool
    keys: str = ""
    outcome: ConsumeOutcome | None = None
    at_ms: int | None = None
    group: str = ""


class TransactionEnded(Struct, frozen=True, kw_only=True):
    """A producer said how a transaction ended."""

    at_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str = ""
    keys: str = ""
    store_host: str
    kind: MessageKind = MessageKind.COMMITTED
    transaction_id: str
    state: str
    """`COMMIT_MESSAGE`, `ROLLBACK_MESSAGE` or `UNKNOW`."""
    was_asked: bool


class Recalled(Struct, frozen=True, kw_only=True):
    """A delayed message was called back."""

    at_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    is_success: bool


TraceRecord: TypeAlias = Produced | ConsumeBegan | ConsumeEnded | TransactionEnded | Recalled
