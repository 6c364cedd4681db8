"""Requests and answers of etcd's gateway: JSON, with octets as base64 and numbers as texts.

What is zero, false or empty is left out of an answer.

Source: etcd 3.4 `rpc.proto` (`Range`, `Txn`, `LeaseGrant`, `LeaseKeepAlive`, `Watch`,
`Authenticate`), and grpc-gateway's mapping of it to JSON.
"""

import base64
from typing import Final, Literal

from msgspec import Struct, field

# What etcd says of an error (`code`): gRPC's numbers.
NOT_FOUND: Final = 5
PERMISSION_DENIED: Final = 7
UNAUTHENTICATED: Final = 16
REFUSED: Final = frozenset({3, NOT_FOUND, PERMISSION_DENIED, 9, 12, UNAUTHENTICATED})
"""With these nothing was done: the request, its lease or its sender is not as it must be."""


def text(octets: bytes) -> str:
    """Return octets as they are written."""
    return base64.b64encode(octets).decode()


def octets(written: str) -> bytes:
    """Return octets that were written. Raises ValueError."""
    return base64.b64decode(written, validate=True)


def end_of(prefix: bytes) -> bytes:
    """Return what follows the last key that begins with a prefix, which ends with `/`."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


class Problem(Struct):
    """The answer to a request that failed."""

    message: str = ""
    error: str = ""
    code: int = 0


class AnswerHeader(Struct):
    """What each answer begins with."""

    cluster_id: str
    revision: str = "0"


class StoredKey(Struct):
    """A key."""

    key: str = ""
    value: str = ""
    create_revision: str = "0"
    mod_revision: str = "0"
    lease: str = "0"


class RangeAnswer(Struct):
    """Keys that were asked for."""

    header: AnswerHeader
    kvs: list[StoredKey] = field(default_factory=list)


class TxnAnswer(Struct):
    """Whether the conditions held."""

    header: AnswerHeader
    succeeded: bool = False


class LeaseAnswer(Struct):
    """A lease, granted or kept alive."""

    ID: str
    TTL: str = "0"


class KeptAlive(Struct):
    """The first message of the stream in which leases are kept alive."""

    result: LeaseAnswer | None = None
    error: Problem | None = None


class TokenAnswer(Struct):
    """What requests of a user are sent with."""

    token: str = ""


class WatchedEvent(Struct):
    """A change of a key."""

    kv: StoredKey
    type: Literal["PUT", "DELETE"] = "PUT"


class Watched(Struct):
    """Changes of one revision."""

    header: AnswerHeader
    events: list[WatchedEvent] = field(default_factory=list)
    canceled: bool = False
    cancel_reason: str = ""
    compact_revision: str = "0"


class WatchMessage(Struct):
    """One message of a watch."""

    result: Watched | None = None
    error: Problem | None = None
