"""A NameServer by itself."""

import pytest
from tests.unit.rocketmq.conftest import RawClient

from sprocket.base.errors import ForeignStore
from sprocket.base.settings import Loaded
from sprocket.node.host import Host
from sprocket.node.rocketmq import NAMESERVER, Node
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.settings import BrokerSettings, ServerSettings, Settings
from sprocket.runtime import driver
from sprocket.testing.disk import SimulatedDisk

SETTINGS = Settings(server=ServerSettings(nameserver_port=0, broker_port=0))


async def start(disk: SimulatedDisk) -> Host:
    """Start a NameServer by itself."""
    return await Host.start([NAMESERVER], Loaded(root=SETTINGS, origins={}), "/names", disk=disk)


def address(host: Host) -> str:
    """Return where it can be reached."""
    return host.running["nameserver"].ready["nameserver"]


def test_brokers_register_with_each_of_several() -> None:
    """And one that is not there keeps nobody from it; the broker has none of its own."""

    async def main() -> None:
        names = [await start(SimulatedDisk()) for _ in range(2)]
        addresses = ("127.0.0.1:1", *map(address, names))
        settings = Settings(server=SETTINGS.server, broker=BrokerSettings(nameservers=addresses))
        node = await Node.start(
            settings,
            "/store",
            disk=SimulatedDisk(),
            geometry=Geometry.small(),
            has_nameserver=False,
        )
        assert node.addresses.nameserver == ""
        for one in names:
            client = await RawClient.open(address(one))
            assert (await client.call(105, {"topic": "TBW102"})).code == 0
            client.peer.close()
        await names[0].stop()
        await node.stop()
        client = await RawClient.open(address(names[1]))
        assert (await client.call(105, {"topic": "TBW102"})).code == 17
        client.peer.close()
        await names[1].stop()

    driver.run(main())


def test_a_damaged_table_stops_the_start() -> None:
    """Rather than being written over."""
    disk = SimulatedDisk()
    disk.make_folder("/names")
    file = disk.open("/names/kvConfig.json", write=True, create=True)
    file.write([b"{"], 0)

    async def main() -> None:
        with pytest.raises(ForeignStore, match=r"kvConfig\.json"):
            await start(disk)

    driver.run(main())


def test_nothing_is_written_until_there_is_something_to_keep() -> None:
    """A NameServer for a moment leaves no folder behind."""
    disk = SimulatedDisk()

    async def main() -> None:
        node = await start(disk)
        await node.stop()

    driver.run(main())
    assert not disk.exists("/names")
