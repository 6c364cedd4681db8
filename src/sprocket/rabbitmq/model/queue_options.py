"""What a queue does with its messages, after arguments and policies were put together."""

from enum import Enum

from msgspec import Struct


class Overflow(Enum):
    """What a full queue does; the values are those of the argument `x-overflow`."""

    DROP_HEAD = "drop-head"
    """Drop what is first in line until it is not over its limit."""
    REJECT_PUBLISH = "reject-publish"
    """Refuse what is published; a publisher that wants confirms is told."""
    REJECT_PUBLISH_DLX = "reject-publish-dlx"
    """Do the same, and pass on what was refused as a dead letter."""


class QueueOptions(Struct, frozen=True, kw_only=True):
    """The options of one queue that are in force; None where there is no such limit.

    Source: RabbitMQ's arguments `x-…` of the same names, merged with its policies.
    """

    message_ttl_ms: int | None = None
    """How long a message may wait, if its own expiration is not shorter; 0 to ten years."""
    expires_ms: int | None = None
    """How long nobody may use the queue before it is deleted; 1 ms to ten years."""
    max_length: int | None = None
    """How many messages may be ready."""
    max_length_bytes: int | None = None
    """How large the bodies of the ready messages may be together."""
    overflow: Overflow = Overflow.DROP_HEAD
    dead_letter_exchange: str | None = None
    """Where messages go that expire, are rejected or are too many; empty for the default one."""
    dead_letter_routing_key: str | None = None
    """What they are published with instead of the keys that they have."""
    max_priority: int | None = None
    """The highest priority of a queue that has priorities, 0 to 255; it never changes."""
    is_single_active: bool = False
    """Whether one consumer at a time gets everything, and another only when that is gone."""
    counts_deliveries: bool = False
    """Whether messages that come back are told how often, in the header `x-delivery-count`: what a
    queue does that was declared with the type `quorum`."""
    keeps_transient: bool = False
    """Whether messages outlive a restart that were not published as persistent: what a queue does
    that was declared with the type `quorum`."""
    delivery_limit: int | None = None
    """How often a message may come back before it is a dead letter; only of use with the former."""
