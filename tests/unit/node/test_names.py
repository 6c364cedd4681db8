"""A NameServer by itself."""

import pytest
from tests.unit.rocketmq.conftest import RawClient

from sprocket.base.errors import ForeignStore
from sprocket.node.names import NameServerNode
from sprocket.node.run import Node
from sprocket.rocketmq.settings import BrokerSettings, Geometry, ServerSettings, Settings
from sprocket.runtime import driver
from sprocket.testing.disk import SimulatedDisk

SETTINGS = Settings(server=ServerSettings(nameserver_port=0, broker_port=0))


def test_brokers_register_with_each_of_several() -> None:
    """And one that is not there keeps nobody from it; the broker has none of its own."""

    async def main() -> None:
        names = [
            await NameServerNode.start(SETTINGS, "/names", disk=SimulatedDisk()) for _ in range(2)
        ]
        addresses = ("127.0.0.1:1", *(one.address for one in names))
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
            client = await RawClient.open(one.address)
            assert (await client.call(105, {"topic": "TBW102"})).code == 0
            client.peer.close()
        await names[0].stop()
        await node.stop()
        client = await RawClient.open(names[1].address)
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
            await NameServerNode.start(SETTINGS, "/names", disk=disk)

    driver.run(main())


def test_nothing_is_written_until_there_is_something_to_keep() -> None:
    """A NameServer for a moment leaves no folder behind."""
    disk = SimulatedDisk()

    async def main() -> None:
        node = await NameServerNode.start(SETTINGS, "/names", disk=disk)
        await node.stop()

    driver.run(main())
    assert not disk.exists("/names")
