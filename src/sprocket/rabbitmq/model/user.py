"""Users, and what they may do in virtual hosts."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"
MD5: Final = "rabbit_password_hashing_md5"
"""RabbitMQ's names of what it makes of passwords."""

IMPERSONATOR: Final = "impersonator"
"""The tag of users that may publish in others' names."""


class User(Struct, frozen=True, kw_only=True):
    """Somebody who may log in."""

    name: str
    password_hash: bytes = b""
    """Four bytes of salt and the digest of salt and password; empty if no password fits."""
    hashing_algorithm: str = SHA256
    tags: tuple[str, ...] = ()
    limits: Mapping[str, int] = msgspec.field(default_factory=dict)
    """`CONNECTIONS_MAX`, `CHANNELS_MAX`; see `model.vhost`."""


class VhostPermission(Struct, frozen=True, kw_only=True):
    """What a user may do in a virtual host, which it may only enter if there is such a value.

    The expressions are looked for anywhere in a name; an empty one fits the empty name alone.
    """

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermission(Struct, frozen=True, kw_only=True):
    """Which routing keys a user may use with a topic exchange; without such a value, all.

    `{username}` and `{vhost}` in the expressions stand for the user's name and the virtual host's.
    """

    user: str
    vhost: str
    exchange: str
    write: str
    read: str
