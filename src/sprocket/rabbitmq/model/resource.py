"""What permissions and errors are about: an exchange or a queue of a virtual host."""

from enum import Enum
from typing import NamedTuple


class ResourceKind(Enum):
    """The values are RabbitMQ's words, in texts and in definitions."""

    EXCHANGE = "exchange"
    QUEUE = "queue"

    # Members are equal only to themselves; the hash of an Enum is made in Python, and took half of
    # the time of a look-up of a permission.
    __hash__ = object.__hash__


class Resource(NamedTuple):
    """A name, and what it is the name of; there need not be such a thing."""

    kind: ResourceKind
    name: str
    vhost: str

    @property
    def text(self) -> str:
        """How RabbitMQ names it in errors, such as `queue 'q' in vhost '/'`."""
        return f"{self.kind.value} '{self.name}' in vhost '{self.vhost}'"


def exchange_resource(name: str, vhost: str) -> Resource:
    """Return an exchange as a resource."""
    return Resource(ResourceKind.EXCHANGE, name, vhost)


def queue_resource(name: str, vhost: str) -> Resource:
    """Return a queue as a resource."""
    return Resource(ResourceKind.QUEUE, name, vhost)
