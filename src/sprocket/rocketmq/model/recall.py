"""Taking back a message that waits for its time."""

from msgspec import Struct


class RecallRequest(Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """Which message is to be taken back.

    Attributes:
        topic: Where it is to go.
        recall_handle: What the answer to its send said.
        producer_group: Who asks for it.
    """

    topic: str = ""
    recall_handle: str = ""
    producer_group: str | None = None
