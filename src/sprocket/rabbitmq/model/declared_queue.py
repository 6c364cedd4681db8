"""A queue, as it was declared; its messages are elsewhere."""

from typing import Final

from msgspec import Struct

from sprocket.rabbitmq.model.exchange import text_of
from sprocket.rabbitmq.model.fields import NO_FIELDS, FieldTable
from sprocket.rabbitmq.model.resource import Resource, queue_resource

QUEUE_TYPE: Final = "x-queue-type"
CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
"""Served by the same durable queue, which then counts how often a message comes back."""


class DeclaredQueue(Struct, frozen=True, kw_only=True):
    """One queue of a virtual host."""

    vhost: str
    name: str
    is_durable: bool = False
    is_auto_delete: bool = False
    """Whether it is deleted with its last consumer."""
    owner: int | None = None
    """The number of the connection that has it for itself, and with which it ends; such a queue is
    never durable."""
    arguments: FieldTable = NO_FIELDS

    @property
    def resource(self) -> Resource:
        """What permissions and errors call it."""
        return queue_resource(self.name, self.vhost)

    @property
    def type(self) -> str:
        """`CLASSIC` or `QUORUM`."""
        return text_of(self.arguments.get(QUEUE_TYPE)) or CLASSIC
