"""A virtual host: names, permissions and policies of one do not concern another."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

DEFAULT_VHOST: Final = "/"

QUEUES_MAX: Final = "max-queues"
CONNECTIONS_MAX: Final = "max-connections"
CHANNELS_MAX: Final = "max-channels"
"""Names of limits, of users and of virtual hosts; a negative one limits nothing."""


class Vhost(Struct, frozen=True, kw_only=True):
    """One virtual host."""

    name: str
    description: str | None = None
    tags: tuple[str, ...] = ()
    default_queue_type: str | None = None
    """What queues are declared as whose declaration says nothing, if they can be that."""
    limits: Mapping[str, int] = msgspec.field(default_factory=dict)
    """`QUEUES_MAX`, `CONNECTIONS_MAX`."""


class RemovedVhost(Struct, frozen=True, kw_only=True):
    """One that was deleted; its files are there until this is not any more."""

    name: str


def limit_of(limits: Mapping[str, int], name: str) -> int | None:
    """Return a limit; None if there is none."""
    found = limits.get(name)
    return None if found is None or found < 0 else found
