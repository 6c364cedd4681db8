"""Where a node listens, and under which address others are told to reach it."""

import ipaddress

from sprocket.base.errors import SettingsError
from sprocket.rocketmq.codec.connection import Connection
from sprocket.rocketmq.server.dispatch import Dispatcher
from sprocket.rocketmq.settings import ServerSettings
from sprocket.runtime import driver
from sprocket.runtime.driver import ConnectionSettings, Server


async def listen(dispatcher: Dispatcher, settings: ServerSettings, port: int) -> Server:
    """Listen on one port. Raises SettingsError if that cannot be."""
    try:
        return await driver.serve(
            lambda: Connection(frame_bytes_max=settings.frame_bytes_max),
            dispatcher,
            settings.host,
            port,
            settings=ConnectionSettings(idle_seconds_max=settings.idle_close_seconds),
        )
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {settings.host}:{port}: {error.strerror or error}"
        ) from error


def address(host: str, port: int) -> str:
    """Return `host:port`, `[host]:port` of IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def own_host(host: str) -> str:
    """Return where this process reaches itself when it listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "localhost": "127.0.0.1"}.get(host, host)  # noqa: S104


def told_host(settings: ServerSettings) -> str:
    """Return where clients reach the NameServer."""
    own = own_host(settings.host)
    return own if own == settings.host else settings.advertised_host or own


def advertised_host(settings: ServerSettings) -> str:
    """Return the address that clients are told, which ids of messages hold too.

    Raises:
        SettingsError: It is no address, or one that no client can reach.
    """
    host = settings.advertised_host or settings.host
    if host == "localhost":
        return "127.0.0.1"
    try:
        found = ipaddress.ip_address(host)
    except ValueError as error:
        raise SettingsError(
            f"server.advertised_host: {host!r} is no IP address, and clients must be told one"
        ) from error
    if found.is_unspecified:
        raise SettingsError(
            f"server.advertised_host is needed when listening on {host}: the address that clients "
            "are told to reach the broker at"
        )
    return str(found)
