"""Who may send a message elsewhere than its sender said, or refuse it, before it is a record."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from sprocket.rocketmq.model.message import ProducedMessage


class InboundMessage(Struct, gc=False):
    """A message on its way into the log, and where it goes as far as that is known.

    Attributes:
        sent: What its sender says of it.
        topic: Where it goes.
        queue_id: Its queue there.
        properties: What it is stored with, beside the broker's own.
        sys_flag: Its flags there, but for those of its hosts.
    """

    sent: ProducedMessage
    topic: str
    queue_id: int
    properties: dict[str, str]
    sys_flag: int


Diverter: TypeAlias = Callable[[InboundMessage], None]
"""Changes where a message goes, or raises Refused. All of them are asked, one after the other, and
each sees what those before it have changed."""
