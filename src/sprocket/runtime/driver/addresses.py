"""Addresses of connections, as text and as they are compared."""

import asyncio
import ipaddress
import socket
from typing import TypeAlias

CONNECT_SECONDS_MAX = 3.0
"""How long a connection may take to open: its first packet may get lost, and is sent again."""

_SocketName: TypeAlias = tuple[str, int] | tuple[str, int, int, int]
"""Address and port; of IPv6 also flow information and scope."""


async def resolve(host: str, timeout_seconds: float = CONNECT_SECONDS_MAX) -> str | None:
    """Return the first address that a host name stands for, IPv4 before IPv6; None if none does."""
    try:
        async with asyncio.timeout(timeout_seconds):
            found = await asyncio.get_running_loop().getaddrinfo(
                host, None, type=socket.SOCK_STREAM
            )
    except (OSError, TimeoutError, UnicodeError):
        return None
    addresses = sorted(found, key=lambda one: one[0] != socket.AF_INET)
    return str(addresses[0][4][0]).partition("%")[0] if addresses else None


def local_ip(towards: str) -> str:
    """Return this machine's address on the way to `towards`, an IP address; nothing is sent.

    It only makes ids readable and unlikely to repeat, so any failure gives 127.0.0.1.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((str(ipaddress.IPv4Address(towards)), 9))
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return "127.0.0.1"


def address_of(name: _SocketName | None) -> tuple[str, str]:
    """Return a socket's name, and its IP address; IPv4 that came through IPv6 counts as IPv4."""
    host, port = name[:2] if name else ("0.0.0.0", 0)  # noqa: S104 - the peer is gone already
    host = host.removeprefix("::ffff:") if "." in host else host.partition("%")[0]
    return address(host, port), host


def is_loopback(host: str) -> bool:
    """Return whether an IP address is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # no address at all
        return False


def address(host: str, port: int) -> str:
    """Return `host:port`, `[host]:port` of IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
