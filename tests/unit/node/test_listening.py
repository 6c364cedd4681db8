"""Addresses of a node."""

import asyncio

import pytest

from sprocket.base.errors import SettingsError
from sprocket.node import listening
from sprocket.rocketmq.server.dispatch import Dispatcher
from sprocket.rocketmq.settings import LimitSettings, ServerSettings


def test_addresses_are_written_as_clients_read_them() -> None:
    """IPv6 in brackets."""
    assert listening.address("1.2.3.4", 5) == "1.2.3.4:5"
    assert listening.address("::1", 5) == "[::1]:5"


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
    assert listening.told_host(ServerSettings(host=host, advertised_host=advertised)) == told


def test_an_address_of_another_machine_is_one_clear_error() -> None:
    """It names the address."""

    async def main() -> None:
        one = listening.Listening(ServerSettings(host="192.0.2.1"), LimitSettings())
        with pytest.raises(SettingsError, match=r"cannot listen on 192\.0\.2\.1:0"):
            await one.open(Dispatcher({}), 0)

    asyncio.run(main())
