"""Where a host listens, and the address under which others reach it."""

import errno
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from sprocket.base import log
from sprocket.base.errors import SettingsError
from sprocket.node.encryption import NodeEncryption
from sprocket.runtime import driver
from sprocket.runtime.driver import (
    Bound,
    Carried,
    ConnectionAdmission,
    ConnectionSettings,
    E,
    Greeter,
    OnEvent,
    PortPolicy,
    Server,
)
from sprocket.runtime.settings import ClientLimits, ListenSettings


class Listening:
    """How the ports of one host are listened on; without `tls`, whoever wants it is refused."""

    def __init__(
        self,
        server: ListenSettings,
        limits: ClientLimits,
        admission: ConnectionAdmission,
        tls: NodeEncryption | None = None,
    ) -> None:
        self._server = server
        self._admission = admission
        self._believes = inside(server.proxies, "server.proxies")
        self._tls = tls
        self._connections = ConnectionSettings(
            limits=limits, idle_seconds_max=server.idle_close_seconds
        )

    async def bind(self, port: int, hint: str = "") -> Bound:
        """Take one port, 0 for any free one; nobody is let in before `open`.

        Args:
            port: Which.
            hint: What people are told to do if somebody has it.

        Raises:
            SettingsError: The port is in use, or the address is not this machine's.
        """
        host = self._server.host
        with _refusing(host, port, hint):
            return await driver.bind(host, port)

    async def open(
        self,
        codec: Callable[[], Carried[E]],
        on_event: OnEvent[E],
        bound: Bound,
        policy: PortPolicy | None = None,
        *,
        name: str = "",
    ) -> Server:
        """Listen on a port as `Site.listen` says; it is the server's from now on."""
        port = self._admission.port(name, self._connections.limits.connections_max)
        with _refusing(bound.host, bound.port):
            return await driver.listen(
                bound,
                codec,
                on_event,
                settings=self._connections,
                policy=policy,
                greet=lambda peer: Greeter(peer, self._tls, self._believes),
                admission=port,
            )


@contextmanager
def _refusing(host: str, port: int, hint: str = "") -> Iterator[None]:
    """Make what the system says of an address a matter of settings."""
    try:
        yield
    except OSError as error:
        advice = f" ({hint})" if hint and error.errno == errno.EADDRINUSE else ""
        raise SettingsError(
            f"cannot listen on {host}:{port}: {error.strerror or error}{advice}"
        ) from error


def inside(given: Iterable[str], setting: str) -> Callable[[str], bool]:
    """Return what says of an IP address whether it is one of some, or in one of some networks.

    Args:
        given: Addresses and networks.
        setting: Where they come from.

    Raises:
        SettingsError: One of them is neither.
    """
    networks = []
    for text in given:
        try:
            networks.append(ipaddress.ip_network(text.strip()))
        except ValueError as error:
            raise SettingsError(
                f"{setting}: {error}; expected addresses and networks such as 10.1.0.0/16"
            ) from error

    def is_one(address: str) -> bool:
        ip = ipaddress.ip_address(address)
        return any(ip in network for network in networks)

    return is_one


_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(\.(?!-)[A-Za-z0-9_-]{1,63})*\.?")
"""A host name, as resolvers take it."""
_ELSEWHERE = "192.0.2.1"
"""An address kept for documents: which of ours leads there is asked, and nothing is sent."""

_log = log.get_logger(__name__)


def own_host(host: str) -> str:
    """Return where this process reaches itself when it listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "localhost": "127.0.0.1"}.get(host, host)  # noqa: S104


def reachable_host(settings: ListenSettings) -> str:
    """Return where clients reach a server that does not put its address into messages."""
    own = own_host(settings.host)
    return own if own == settings.host else settings.advertised_host or own


def advertised_host(settings: ListenSettings) -> str:
    """Return the address or the host name that clients are told.

    Raises:
        SettingsError: It is neither, or an address that no client can reach.
    """
    host = settings.advertised_host or settings.host
    if host == "localhost":
        return "127.0.0.1"
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        if not _NAME.fullmatch(host) or host.replace(".", "").isdecimal():
            raise SettingsError(
                f"server.advertised_host: {host!r}: expected a host name or an IP address, no port"
            ) from None
        return host
    if found.is_unspecified:
        raise SettingsError(
            f"server.advertised_host is needed when listening on {host}: the address that clients "
            "are told to reach the broker at"
        )
    return str(found)


async def stored_ip(settings: ListenSettings) -> str:
    """Return the address that goes into records and ids of messages.

    Of a host name it is what the name stands for now. One that nobody knows, as that of a machine
    whose name is told to others only once it serves, is not a reason not to start: then it is the
    address listened on, or this machine's on its way to others.
    """
    host = advertised_host(settings)
    if _is_address(host):
        return host
    found = await driver.resolve(host)
    if found is not None:
        return found
    own = settings.host if _is_address(settings.host) else "0.0.0.0"  # noqa: S104
    if ipaddress.ip_address(own).is_unspecified:
        own = driver.local_ip(_ELSEWHERE)
    _log.warning("nobody knows the advertised host yet; ids hold this address", host=host, ip=own)
    return own


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
