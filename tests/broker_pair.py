"""Two brokers with the same log in one process, over sockets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.unit.rocketmq.conftest import RawClient, message_ext
from tests.waits import LONG_SECONDS

from sprocket.node.rocketmq import Node
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.settings import (
    BrokerSettings,
    ReplicationSettings,
    RightsSettings,
    ServerSettings,
    Settings,
    StoreSettings,
)
from sprocket.runtime import driver
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

SLAVE = ReplicationSettings(role="slave", broker_id=1)
NO_RIGHTS = RightsSettings()
PLAIN_STORE = StoreSettings(fill_ahead_bytes=0)


async def begin(
    replication: ReplicationSettings,
    disk: SimulatedDisk,
    nameservers: tuple[str, ...] = (),
    clock: FakeClock | None = None,
    rights: RightsSettings = NO_RIGHTS,
    store: StoreSettings = PLAIN_STORE,
) -> Node:
    """Start a broker, with a NameServer of its own if none is given."""
    settings = Settings(
        server=ServerSettings(nameserver_port=0, broker_port=0),
        broker=BrokerSettings(nameservers=nameservers),
        store=store,
        replication=replication,
        rights=rights,
    )
    return await Node.start(
        settings,
        "/store",
        disk=disk,
        clock=clock,
        geometry=Geometry.small(),
        has_nameserver=not nameservers,
    )


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(LONG_SECONDS):
        while not holds():
            await asyncio.sleep(0.005)


class Pair:
    """A master, and perhaps a slave."""

    def __init__(self, master: Node, client: RawClient, store: StoreSettings) -> None:
        self._store = store
        self.master = master
        self.client = client
        self.slave_disk = SimulatedDisk()
        self.slave: Node | None = None
        self.is_stopped = False

    async def begin_slave(self, replication: ReplicationSettings = SLAVE) -> Node:
        """Start the slave, and wait until it has what the master has."""
        names = (self.master.addresses.nameserver,)
        slave = self.slave = await begin(replication, self.slave_disk, names, store=self._store)
        await self.caught_up()
        return slave

    async def caught_up(self) -> None:
        """Wait until the slave has all, and has said so."""
        slaves, end = self.master.broker.slaves, self.master.broker.store.written
        assert slaves is not None
        await until(lambda: any(one.acknowledged == end for one in slaves.all))

    async def stop_master(self) -> None:
        """Stop the master, and wait until the slave has noticed."""
        await self.master.stop()
        self.is_stopped = True

    async def stop_slave(self) -> None:
        """Stop it."""
        if self.slave is not None:
            slave, self.slave = self.slave, None
            await slave.stop()

    async def send(self, count: int = 1) -> set[int]:
        """Send messages; return the codes of the answers."""
        answers = [
            self.client.send(310, message_ext(e=number % 3), b"%d" % number * 50)
            for number in range(count)
        ]
        return {(await one).code for one in answers}


@asynccontextmanager
async def pair(*, store: StoreSettings = PLAIN_STORE, **replication: Any) -> AsyncIterator[Pair]:
    """Run a master."""
    given = {"slaves": True, **replication}
    master = await begin(ReplicationSettings(**given), SimulatedDisk(), store=store)
    found = Pair(master, await RawClient.open(master.addresses.broker), store)
    try:
        yield found
    finally:
        await found.stop_slave()
        if not found.is_stopped:
            await master.stop()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario."""

    async def main() -> None:
        await scenario()

    driver.run(main())
