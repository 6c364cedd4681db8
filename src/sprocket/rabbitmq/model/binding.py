"""What leads from an exchange to a queue or to another exchange."""

from typing import NamedTuple

from msgspec import Struct

from sprocket.rabbitmq.model.fields import NO_FIELDS, FieldTable
from sprocket.rabbitmq.model.resource import Resource, ResourceKind


class Destination(NamedTuple):
    """Where a binding leads to, within its virtual host."""

    kind: ResourceKind
    name: str

    def in_vhost(self, vhost: str) -> Resource:
        """Return what permissions and errors call it."""
        return Resource(self.kind, self.name, vhost)


class Binding(Struct, frozen=True, kw_only=True):
    """One binding; two that are equal are the same one.

    Make it by `binding`, so that the order of its arguments makes no difference.
    """

    vhost: str
    source: str
    destination: Destination
    key: str = ""
    arguments: FieldTable = NO_FIELDS


def binding(
    vhost: str,
    source: str,
    destination: Destination,
    key: str = "",
    arguments: FieldTable = NO_FIELDS,
) -> Binding:
    """Return a binding with its arguments sorted by name; those of one name keep their order."""
    ordered = arguments
    if len(arguments) > 1:
        ordered = FieldTable(tuple(sorted(arguments.entries, key=lambda entry: entry[0])))
    return Binding(vhost=vhost, source=source, destination=destination, key=key, arguments=ordered)
