"""Questions about stored messages and queues, and what answers them."""

from msgspec import Struct, field


class QueueUnit(Struct, frozen=True, kw_only=True):
    """One unit of a queue: what it says of a message, and whether that passes a filter."""

    physical_offset: int = field(name="physicOffset")
    size: int = field(name="physicSize")
    tags_code: int = field(name="tagsCode")
    passes: bool = field(name="eval", default=False)
