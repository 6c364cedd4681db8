"""Settings of what comes over the network: how much of it, and whether it is encrypted."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from sprocket.base.units import GIB, MIB


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitSettings:
    """How much clients may ask for before they are told to wait, or are cut off."""

    connections_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Connections of one port; further ones are closed at once. An idle one "
            "takes about 2 KB, and a file descriptor of the process (`ulimit -n`).",
        ),
    ] = 50_000
    answer_bytes_high: Annotated[
        int,
        Meta(
            ge=1,
            le=GIB,
            description="A connection for which more than this waits, because its client does not "
            "read, is not served until it has read.",
        ),
    ] = MIB
    answer_bytes_max: Annotated[
        int,
        Meta(
            ge=1,
            description="A connection for which more than this waits is closed; only messages "
            "that a client did not ask for can become so many.",
        ),
    ] = 256 * MIB
    all_answer_bytes_max: Annotated[
        int,
        Meta(
            ge=1,
            description="When more than this waits for all slow clients together, the slowest is "
            "closed.",
        ),
    ] = GIB
    unsynced_bytes_max: Annotated[
        int,
        Meta(
            ge=1,
            description="When more than this waits for a slow disk, sends are answered "
            "SYSTEM_BUSY, and their clients try another broker.",
        ),
    ] = 256 * MIB
    async_unsynced_bytes_max: Annotated[
        int,
        Meta(
            ge=0,
            description="The same under async flush, where senders do not wait for the disk: "
            "bytes that are in the system's memory and not on the disk. 0 is a "
            "sixteenth of the machine's memory, a GiB at most.",
        ),
    ] = 0
    cold_reads_max: Annotated[
        int,
        Meta(
            ge=1,
            description="So many requests may wait for reads from the disk; another one is "
            "answered SYSTEM_BUSY.",
        ),
    ] = 10_000
    connection_unsynced_bytes_max: Annotated[
        int,
        Meta(
            ge=1,
            description="When half of the limit for unsynced bytes is reached, a connection that "
            "sent more than this since its last answer is not read until the disk has "
            "caught up.",
        ),
    ] = 4 * MIB


@dataclass(frozen=True, kw_only=True, slots=True)
class TlsSettings:
    """Whether connections are encrypted; files are PEM, and read again when they change."""

    mode: Annotated[
        Literal["off", "permissive", "enforcing"],
        Meta(
            description="`permissive` accepts plain and encrypted connections on the same port, "
            "`enforcing` closes plain ones and needs a certificate; tls.server.mode."
        ),
    ] = "permissive"
    cert_path: Annotated[
        str,
        Meta(
            description="The server's certificate, followed by those that lead to the "
            "authority's. Without one a throw-away certificate is made for the first "
            "client that encrypts, by the package `cryptography` (the extra `tls`): "
            "clients cannot check it."
        ),
    ] = ""
    key_path: Annotated[str, Meta(description="The key of the certificate.")] = ""
    key_password: Annotated[
        str, Meta(description="Of the key, if it is encrypted; better set by the environment.")
    ] = ""
    client_auth: Annotated[
        Literal["none", "optional", "require"],
        Meta(
            description="Whether clients are asked for a certificate that one of `trust_path` has "
            "signed, and must have one (`require`); tls.server.need.client.auth."
        ),
    ] = "none"
    trust_path: Annotated[
        str,
        Meta(
            description="Certificates of the authorities that signed those of clients and "
            "NameServers."
        ),
    ] = ""
    to_nameservers: Annotated[
        bool,
        Meta(
            description="Encrypt the broker's own connections to NameServers; always under "
            "`enforcing`. With `trust_path` their certificates are checked, not their names."
        ),
    ] = False
