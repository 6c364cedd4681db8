"""Addresses of a node."""

import asyncio
import ipaddress

import pytest

from sprocket.base.errors import SettingsError
from sprocket.node import listening
from sprocket.rocketmq.remoting import Connection
from sprocket.runtime import driver
from sprocket.runtime.driver import ConnectionAdmission, Peer
from sprocket.runtime.settings import ClientLimits, ListenSettings


def ignore(_peer: Peer, _event: object) -> None:
    """Handle nothing."""


@pytest.mark.parametrize(
    ("host", "advertised", "own", "told"),
    [
        ("0.0.0.0", "10.0.0.1", "127.0.0.1", "10.0.0.1"),  # noqa: S104
        ("::", "", "::1", "::1"),
        ("10.0.0.2", "10.0.0.1", "10.0.0.2", "10.0.0.2"),
        ("localhost", "", "127.0.0.1", "127.0.0.1"),
    ],
)
def test_who_is_reached_where(host: str, advertised: str, own: str, told: str) -> None:
    """This process by itself, and the NameServer by others."""
    assert listening.own_host(host) == own
    assert listening.reachable_host(ListenSettings(host=host, advertised_host=advertised)) == told


@pytest.mark.parametrize(
    ("host", "advertised", "stored"),
    [
        ("127.0.0.1", "10.0.0.1", "10.0.0.1"),
        ("127.0.0.1", "LocalHost", "127.0.0.1"),
        ("127.0.0.2", "no_such_name.invalid", "127.0.0.2"),
    ],
)
def test_ids_hold_an_address_whatever_clients_are_told(
    host: str, advertised: str, stored: str
) -> None:
    """That of the name; of a name that nobody knows yet, where the broker listens."""
    settings = ListenSettings(host=host, advertised_host=advertised)
    assert asyncio.run(listening.stored_ip(settings)) == stored


def test_a_name_that_nobody_knows_is_no_reason_not_to_start() -> None:
    """Listening everywhere, ids hold the address by which this machine reaches others."""
    settings = ListenSettings(host="0.0.0.0", advertised_host="no_such_name.invalid")  # noqa: S104
    found = ipaddress.ip_address(asyncio.run(listening.stored_ip(settings)))
    assert not found.is_unspecified


def test_an_address_of_another_machine_is_one_clear_error() -> None:
    """It names the address."""

    async def main() -> None:
        one = listening.Listening(
            ListenSettings(host="192.0.2.1"), ClientLimits(), ConnectionAdmission()
        )
        with pytest.raises(SettingsError, match=r"cannot listen on 192\.0\.2\.1:0"):
            await one.bind(0)

    asyncio.run(main())


def test_a_port_that_somebody_took_meanwhile_is_one_clear_error() -> None:
    """Two processes may take it as long as neither listens; the second one is told."""

    async def main() -> None:
        one = listening.Listening(ListenSettings(), ClientLimits(), ConnectionAdmission())
        first = await one.bind(0)
        second = await one.bind(first.port)
        server = await one.open(Connection, ignore, first)
        with pytest.raises(SettingsError, match=rf"cannot listen on 127\.0\.0\.1:{first.port}"):
            await one.open(Connection, ignore, second)
        await server.close()

    asyncio.run(main())
    driver.run(main())


def test_nobody_is_let_in_before_it_is_open() -> None:
    """A connection is refused, not kept waiting, while a store is opened."""

    async def main() -> None:
        one = listening.Listening(ListenSettings(), ClientLimits(), ConnectionAdmission())
        bound = await one.bind(0)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", bound.port)
        server = await one.open(Connection, ignore, bound)
        _, writer = await asyncio.open_connection("127.0.0.1", bound.port)
        writer.close()
        await server.close()

    asyncio.run(main())
    driver.run(main())


@pytest.mark.parametrize(
    ("proxies", "address", "counts"),
    [
        ((), "127.0.0.1", False),
        ((), "10.1.2.3", False),
        (("10.1.0.0/16", "::1"), "10.1.2.3", True),
        (("10.1.0.0/16", "::1"), "::1", True),
        (("10.1.0.0/16", "::1"), "10.2.0.1", False),
        (("10.1.2.3",), "10.1.2.3", True),
    ],
)
def test_nobody_is_a_proxy_who_is_not_named(
    proxies: tuple[str, ...], address: str, counts: bool
) -> None:
    """Else whoever is in a private network claims to be this machine."""
    assert listening.inside(proxies, "server.proxies")(address) is counts


def test_a_proxy_that_is_no_network_is_one_clear_error() -> None:
    """It names the setting."""
    with pytest.raises(SettingsError, match=r"server\.proxies: .*10\.1\.0\.1/16"):
        listening.inside(["10.1.0.1/16"], "server.proxies")
