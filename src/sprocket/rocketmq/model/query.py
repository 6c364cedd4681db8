"""Questions about stored messages and queues, and what answers them."""

from msgspec import Struct, field

from sprocket.rocketmq.model.integers import Int32, Int64


class KeyQuery(Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """Which messages with a key are asked for: the newest ones stored within a span of time."""

    topic: str = ""
    key: str = ""
    max_count: Int32 = field(name="maxNum")
    begin_ms: Int64 = field(name="beginTimestamp")
    end_ms: Int64 = field(name="endTimestamp")
    """Milliseconds since 1970, as `begin_ms`."""
    is_unique_key: bool = field(name="_UNIQUE_KEY_QUERY", default=False)


class QueueUnit(Struct, frozen=True, kw_only=True):
    """One unit of a queue: what it says of a message, and whether that passes a filter."""

    physical_offset: int = field(name="physicOffset")
    size: int = field(name="physicSize")
    tags_code: int = field(name="tagsCode")
    passes: bool = field(name="eval", default=False)


class QueueSpan(Struct, frozen=True):
    """Units of a queue one after the other, and where the queue begins and ends.

    Attributes:
        min_offset: First offset that can be read.
        max_offset: Offset of the queue's next message.
        units: What it has of some messages.
        filter_cost: What a filter by properties has cost, in the units of `MessageFilter.cost`.
    """

    min_offset: int
    max_offset: int
    units: list[QueueUnit]
    filter_cost: int = 0
