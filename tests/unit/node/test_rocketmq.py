"""A node starts on free ports, says what is wrong in one error, and leaves nothing behind."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.unit.rocketmq.conftest import RawClient, message_ext

from sprocket.base.errors import DiskFailed, ForeignStore, NotConnected, SettingsError, StoreLocked
from sprocket.node.rocketmq import Node
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.settings import BrokerSettings, ServerSettings, Settings
from sprocket.runtime import driver
from sprocket.testing.disk import SimulatedDisk


def settings(**server: Any) -> Settings:
    """Return settings with free ports."""
    return Settings(server=ServerSettings(**{"nameserver_port": 0, "broker_port": 0} | server))


def start(wanted: Settings, folder: str = "/store", disk: SimulatedDisk | None = None) -> Node:
    """Start a node, stop it and return it."""

    async def main() -> Node:
        node = await Node.start(
            wanted, folder, disk=disk or SimulatedDisk(), geometry=Geometry.small()
        )
        await node.stop()
        return node

    return driver.run(main())


def test_free_ports_are_told() -> None:
    """0 is any free port; the addresses have the real ones."""
    addresses = start(settings()).addresses
    assert addresses.nameserver.startswith("127.0.0.1:")
    assert addresses.broker.startswith("127.0.0.1:")
    assert "127.0.0.1:0" not in (addresses.nameserver, addresses.broker)


def test_a_store_goes_on_where_it_was() -> None:
    """The second start finds a clean store, its report says so."""
    disk = SimulatedDisk()
    assert start(settings(), disk=disk).report.end == 0
    assert start(settings(), disk=disk).report.clean


@pytest.mark.parametrize("which", ["nameserver_port", "broker_port"])
def test_a_port_in_use_is_one_clear_error(which: str) -> None:
    """It names the address; the store is not left locked, nor the other port taken."""
    disk = SimulatedDisk()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"cannot listen on 127\.0\.0\.1:{port}"):
            start(settings(**{which: port}), disk=disk)
    start(settings(**{which: port}), disk=disk)


def test_a_locked_store_is_one_clear_error(tmp_path: Path) -> None:
    """Two nodes cannot have one folder."""

    async def main() -> None:
        node = await Node.start(settings(), str(tmp_path / "s"), geometry=Geometry.small())
        with pytest.raises(StoreLocked):
            await Node.start(settings(), str(tmp_path / "s"), geometry=Geometry.small())
        await node.stop()

    driver.run(main())


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    """What is not a store is not made one."""
    (tmp_path / "letters.txt").write_text("dear")

    async def main() -> None:
        with pytest.raises(ForeignStore):
            await Node.start(settings(), str(tmp_path))

    driver.run(main())
    assert (tmp_path / "letters.txt").read_text() == "dear"


def test_what_its_nameserver_keeps_is_not_foreign(tmp_path: Path) -> None:
    """Pairs may be kept before there is a store."""
    (tmp_path / "namesrv").mkdir()
    (tmp_path / "namesrv" / "kvConfig.json").write_text('{"configTable":{}}')

    async def main() -> None:
        node = await Node.start(settings(), str(tmp_path), geometry=Geometry.small())
        await node.stop()

    driver.run(main())


def test_a_damaged_table_stops_the_start() -> None:
    """And the store can be opened again after it was repaired."""
    disk = SimulatedDisk()
    start(settings(), disk=disk)
    for name in ("topics.json", "topics.json.bak"):
        file = disk.open(f"/store/config/{name}", write=True, create=True)
        file.resize(0)
        file.write([b"{"], 0)
    with pytest.raises(ForeignStore, match=r"topics\.json"):
        start(settings(), disk=disk)
    for name in ("topics.json", "topics.json.bak"):
        disk.remove(f"/store/config/{name}")
    start(settings(), disk=disk)


def test_a_failing_disk_stops_the_start() -> None:
    """With the error, and without a lock left behind."""
    disk = SimulatedDisk()
    disk.fail("sync", 1)
    with pytest.raises(DiskFailed):
        start(settings(), disk=disk)
    start(settings(), disk=disk)


@pytest.mark.parametrize(
    ("server", "text"),
    [
        ({"host": "0.0.0.0"}, "advertised_host is needed"),  # noqa: S104
        ({"advertised_host": "some name"}, "a host name or an IP address, no port"),
        ({"advertised_host": "some.name:10911"}, "a host name or an IP address, no port"),
        ({"advertised_host": "1.2.3.4.5"}, "a host name or an IP address, no port"),
    ],
)
def test_clients_must_be_told_an_address(server: dict[str, Any], text: str) -> None:
    """One that they can reach."""
    with pytest.raises(SettingsError, match=text):
        start(settings(**server))


def test_localhost_is_an_address() -> None:
    """It is told as what it stands for."""
    assert start(settings(host="localhost")).addresses.broker.startswith("127.0.0.1:")


@pytest.mark.parametrize("name", ["localhost.", "broker-0.rocketmq", "no_such_name.invalid"])
def test_an_advertised_host_may_be_a_name(name: str) -> None:
    """As in a cluster of containers; clients are told the name, known here or not."""
    assert start(settings(advertised_host=name)).addresses.broker.startswith(f"{name}:")


def test_an_advertised_address_is_what_clients_are_told() -> None:
    """Whatever the node listens on."""
    node = start(settings(advertised_host="10.1.2.3"))
    assert node.addresses.broker.startswith("10.1.2.3:")
    assert node.addresses.nameserver.startswith("127.0.0.1:")


def test_a_wrong_nameserver_is_a_wrong_setting() -> None:
    """It is found before anything runs."""
    wanted = Settings(
        server=ServerSettings(nameserver_port=0, broker_port=0),
        broker=BrokerSettings(nameservers=("nonsense",)),
    )
    with pytest.raises(SettingsError, match="nonsense"):
        start(wanted)


def test_nothing_runs_after_a_stop() -> None:
    """No task is left in the loop."""

    async def main() -> set[str]:
        node = await Node.start(
            settings(), "/store", disk=SimulatedDisk(), geometry=Geometry.small()
        )
        await node.stop()
        return {task.get_name() for task in asyncio.all_tasks()} - {
            asyncio.current_task().get_name()  # type: ignore[union-attr]
        }

    assert driver.run(main()) == set()


def test_listening_everywhere_is_told_as_the_advertised_address() -> None:
    """The node reaches itself all the same."""
    node = start(settings(host="0.0.0.0", advertised_host="10.1.2.3"))  # noqa: S104
    assert node.addresses.nameserver.startswith("10.1.2.3:")
    assert node.addresses.broker.startswith("10.1.2.3:")


def free_pair() -> int:
    """Return a port that is free, as is the one less 2."""
    while True:
        with socket.socket() as high, socket.socket() as low:
            high.bind(("127.0.0.1", 0))
            port = high.getsockname()[1]
            try:
                low.bind(("127.0.0.1", port - 2))
            except OSError:
                continue
            return int(port)


@pytest.mark.parametrize("is_on", [True, False])
def test_the_second_port_answers_all_but_pulls(is_on: bool) -> None:
    """RocketMQ's tools and clients with the VIP channel use it; it can be turned off."""
    port = free_pair()

    async def main() -> None:
        node = await Node.start(
            settings(broker_port=port, vip_port=is_on),
            "/store",
            disk=SimulatedDisk(),
            geometry=Geometry.small(),
        )
        try:
            if not is_on:
                with pytest.raises(NotConnected):
                    await RawClient.open(f"127.0.0.1:{port - 2}")
                return
            client = await RawClient.open(f"127.0.0.1:{port - 2}")
            assert (await client.call(310, message_ext("T"), b"hello")).code == 0
            for code in (11, 361, 200050, 200052, 200054, 200055):
                assert (await client.call(code)).code == 3
            assert (await (await RawClient.open(node.addresses.broker)).call(11)).code != 3
        finally:
            await node.stop()

    driver.run(main())
