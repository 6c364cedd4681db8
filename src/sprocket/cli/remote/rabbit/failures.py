"""What may go wrong when a broker is asked over its HTTP API."""

from collections.abc import Iterable, Mapping
from typing import Any

from sprocket.base.errors import BrokerRefused, ClientError
from sprocket.base.nearest import hint

NOT_FOUND = 404
"""HTTP's status."""


class NoSuchResource(BrokerRefused):
    """The broker has no queue, exchange, user or other resource of that name."""


class ForeignAnswer(ClientError):
    """Whoever answered does not speak the HTTP API of RabbitMQ."""


def no_such(
    what: str, name: str, rows: Iterable[Mapping[str, Any]], vhost: str | None = None
) -> NoSuchResource:
    """Return the error about a name that is not there; it suggests the nearest.

    Args:
        what: What it was to be the name of.
        name: The name.
        rows: What is there; each has a `name`.
        vhost: Where; None where names are of the whole broker.
    """
    where = "" if vhost is None else f" in virtual host {vhost!r}"
    known = {str(row.get("name")) for row in rows if vhost in (None, row.get("vhost", vhost))}
    return NoSuchResource(NOT_FOUND, f"there is no {what} {name!r}{where}{hint(name, known)}")
