"""Settings of what comes over the network: how much of it, and whether it is encrypted."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from sprocket.base.units import MIB
from sprocket.runtime.settings import ClientLimits, EncryptionSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitSettings(ClientLimits):
    """How much clients may ask for before they are told to wait, or are cut off."""

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
class TlsSettings(EncryptionSettings):
    """Whether connections are encrypted; files are PEM, and read again when they change."""

    to_nameservers: Annotated[
        bool,
        Meta(
            description="Encrypt the broker's own connections to NameServers; always under "
            "`enforcing`. With `trust_path` their certificates are checked, not their names."
        ),
    ] = False
