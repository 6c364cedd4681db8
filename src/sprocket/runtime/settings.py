"""Settings of every server: where it listens, how much clients may take, what is encrypted.

A product that needs more settings in one of these groups derives a group of its own from it.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta

from sprocket.base.units import GIB, MIB


@dataclass(frozen=True, kw_only=True, slots=True)
class ListenSettings:
    """Where servers listen, and which proxies they trust."""

    host: str = "127.0.0.1"
    """Address to listen on. Brokers and clients of other machines need `0.0.0.0` here and
    `advertised_host` set; there is no authentication."""
    advertised_host: str = ""
    """Address or host name under which clients reach the broker. Message ids hold its address, as
    it is found at the start; if a name has none then, this machine's address. Empty: `host`."""
    proxies: tuple[str, ...] = ()
    """Addresses and networks (`10.0.0.5`, `10.1.0.0/16`) of load balancers that name the client
    that they serve in a header of the PROXY protocol. A machine in one of these networks can claim
    any address. Connections of others that send such a header are closed, by default all."""
    idle_close_seconds: Annotated[int, Meta(ge=1, le=86400)] = 120
    """A connection without any traffic for this time is closed."""
    handshake_seconds: Annotated[float, Meta(gt=0, le=86400)] = 10
    """A client that has not identified itself within this time is disconnected. Where clients log
    in, a whole login or a request with the right password identifies them, elsewhere a request."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientLimits:
    """How much clients may leave unread before they are cut off."""

    connections_max: Annotated[int, Meta(ge=1)] = 50_000
    """Connections of one port. An idle one takes about 2 KB, and a file descriptor of the process
    (`ulimit -n`). A quarter of the descriptors is reserved for its own files, and the ports share
    the rest. When all are in use, a new connection replaces the oldest one whose client has not
    identified itself yet; if there is none, the new one is closed."""
    answer_bytes_high: Annotated[int, Meta(ge=1, le=GIB)] = MIB
    """A connection for which more than this waits, because its client does not read, is not served
    until it has read."""
    answer_bytes_max: Annotated[int, Meta(ge=1)] = 256 * MIB
    """A connection for which more than this waits is closed; only messages that a client did not
    ask for can amount to that."""
    all_answer_bytes_max: Annotated[int, Meta(ge=1)] = GIB
    """When more than this waits for all slow clients together, the slowest is closed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EncryptionSettings:
    """Whether connections are encrypted; files are PEM, and read again when they change."""

    mode: Literal["off", "permissive", "enforcing"] = "permissive"
    """`permissive` accepts plain and encrypted connections on the same port, `enforcing` closes
    plain ones and needs a certificate."""
    cert_path: str = ""
    """The server's certificate, followed by those that lead to the authority's. Without one a
    throw-away certificate is made for the first client that encrypts, by the package `cryptography`
    (the extra `tls`): clients cannot check it."""
    key_path: str = ""
    """The key of the certificate."""
    key_password: str = ""
    """Of the key, if it is encrypted; better set by the environment."""
    client_auth: Literal["none", "optional", "require"] = "none"
    """Whether clients are asked for a certificate that one of `trust_path` has signed, and must
    have one (`require`)."""
    trust_path: str = ""
    """Certificates of the authorities that signed those of clients, and of servers that this one
    connects to."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthSettings:
    """Where the process reports its health, and when it gives up."""

    port: Annotated[int, Meta(ge=0, le=65535)] | Literal["off"] = "off"
    """Port of `/health` (HTTP), 0 is any free one. It needs no login; it reports only
    whether the process is alive, ready, and stores what it is sent."""
    refusing_seconds_max: Annotated[float, Meta(ge=0, le=31_536_000)] = 0
    """After a store has refused messages for this time, since a sync failed or the disk is full,
    the process stops in order and exits with code 1, so that its supervisor starts it again, here
    or elsewhere. 0 means never: clients that only read are then served on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostSettings:
    """The groups that a host reads itself; a product may add settings to them."""

    server: ListenSettings = field(default_factory=ListenSettings)
    limits: ClientLimits = field(default_factory=ClientLimits)
    tls: EncryptionSettings = field(default_factory=EncryptionSettings)
    health: HealthSettings = field(default_factory=HealthSettings)
