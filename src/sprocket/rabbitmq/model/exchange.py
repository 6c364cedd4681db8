"""An exchange, as it was declared."""

from typing import Final

from msgspec import Struct

from sprocket.rabbitmq.model.fields import NO_FIELDS, Field, FieldTable
from sprocket.rabbitmq.model.resource import Resource, exchange_resource

DIRECT: Final = "direct"
FANOUT: Final = "fanout"
TOPIC: Final = "topic"
HEADERS: Final = "headers"
DELAYED: Final = "x-delayed-message"
"""Keeps messages for as long as their header `x-delay` says, then routes as `x-delayed-type`."""

DEFAULT_EXCHANGE: Final = ""
RESERVED_PREFIX: Final = "amq."
"""Names that begin with it are the broker's own."""

ALTERNATE_EXCHANGE: Final = "alternate-exchange"
DELAYED_TYPE: Final = "x-delayed-type"


class Exchange(Struct, frozen=True, kw_only=True):
    """One exchange of a virtual host."""

    vhost: str
    name: str
    type: str
    is_durable: bool = False
    is_auto_delete: bool = False
    """Whether it is deleted with the last binding from it."""
    is_internal: bool = False
    """Whether clients may not publish to it."""
    arguments: FieldTable = NO_FIELDS

    @property
    def resource(self) -> Resource:
        """What permissions and errors call it."""
        return exchange_resource(self.name, self.vhost)

    @property
    def routing_type(self) -> str:
        """How it chooses among its bindings: its type, or what the delayed ones behave like."""
        if self.type != DELAYED:
            return self.type
        return text_of(self.arguments.get(DELAYED_TYPE)) or DIRECT


def text_of(field: Field | None) -> str | None:
    """Return the text of a string; None if the value is not a string."""
    if field is None or not isinstance(field.value, bytes):
        return None
    return field.value.decode("utf-8", "surrogateescape")
