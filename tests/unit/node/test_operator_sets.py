"""Members of a set in one process, about which nobody decides but an operator."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests import certificates
from tests.interop import peers
from tests.unit.node.test_broker_set import GEOMETRY, sent
from tests.unit.rocketmq.conftest import RawClient
from tests.waits import LONG_SECONDS

from sprocket.base.clock import SystemClock
from sprocket.base.errors import ClientError, SettingsError
from sprocket.base.settings import Loaded
from sprocket.node.broker_role import brokers_tls
from sprocket.node.broker_set import check_settings
from sprocket.node.host import Host
from sprocket.node.rocketmq import BROKER, NAMESERVER
from sprocket.rocketmq.client import Admin
from sprocket.rocketmq.codec.bodies import SetReplicas, SetReplicasTable, decode
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.headers import NoFields
from sprocket.rocketmq.geometry import GEOMETRY_GROUPS
from sprocket.rocketmq.remoting import open_channel
from sprocket.rocketmq.settings import (
    BrokerSettings,
    FailoverSettings,
    ReplicationSettings,
    ServerSettings,
    Settings,
    StoreSettings,
    TlsSettings,
)
from sprocket.runtime import driver
from sprocket.testing.disk import SimulatedDisk

LATE = 12
"""FLUSH_SLAVE_TIMEOUT: stored, and not acknowledged by all that must have it."""


class Pair:
    """A NameServer and two members, each of which knows where the other one is."""

    def __init__(self, nameserver: str, admin: Admin) -> None:
        self.nameserver = nameserver
        self.admin = admin
        self.ports = {number: peers.free_port((0, 1)) for number in (1, 2)}
        self.disks = {number: SimulatedDisk() for number in (1, 2)}
        self.hosts: dict[int, Host] = {}
        self.tls = TlsSettings()

    async def start(self, number: int) -> None:
        """Start a member."""
        settings = Settings(
            server=ServerSettings(broker_port=self.ports[number], vip_port=False),
            broker=BrokerSettings(nameservers=(self.nameserver,)),
            store=StoreSettings(fill_ahead_bytes=0),
            log=GEOMETRY.log,
            queue=GEOMETRY.queue,
            index=GEOMETRY.index,
            replication=ReplicationSettings(ack_timeout_ms=300),
            tls=self.tls,
            ha=FailoverSettings(
                decider="operator",
                others=(f"127.0.0.1:{self.ports[3 - number]}",),
                member_id=number,
                renewal_ms=50,
                timeout_ms=1000,
            ),
        )
        origins = dict.fromkeys(GEOMETRY_GROUPS, "the test")
        loaded: Loaded[object] = Loaded(root=settings, origins=origins)
        self.hosts[number] = await Host.start([BROKER], loaded, "/store", disk=self.disks[number])

    async def stop(self, number: int) -> None:
        """Stop a member; a master hands over first."""
        await self.hosts.pop(number).stop()

    async def view(self, number: int) -> SetReplicas | None:
        """Return what a member says of the set, None if nothing."""
        with suppress(ClientError):
            for one in (await self.admin.failover.views("broker-a")).values():
                if one.answered_by is not None and one.answered_by.broker_id == number:
                    return one
        return None

    async def until(self, number: int, holds: Callable[[SetReplicas], bool]) -> SetReplicas:
        """Wait until a member says something of the set."""
        async with asyncio.timeout(LONG_SECONDS):
            while True:
                view = await self.view(number)
                if view is not None and holds(view):
                    return view
                await asyncio.sleep(0.02)

    async def leads(self, number: int) -> RawClient:
        """Wait until a member is master; return a client of it."""
        await self.until(number, lambda one: one.master_broker_id == number and is_open(one))
        return await RawClient.open(f"127.0.0.1:{self.ports[number]}")

    async def in_sync(self, number: int, members: set[int]) -> None:
        """Wait until a member says that so many are in sync."""
        await self.until(number, lambda one: {each.broker_id for each in one.in_sync} == members)

    async def begin(self) -> RawClient:
        """Start both, and have the first one begin."""
        for number in (1, 2):
            await self.start(number)
        await self.until(1, lambda one: len(one.others) == 2)
        await self.admin.failover.begin("broker-a", [1])
        client = await self.leads(1)
        await self.in_sync(1, {1, 2})
        await self.in_sync(2, {1, 2})
        return client


def is_open(view: SetReplicas) -> bool:
    """Say whether the member that answers is master, with its broker open."""
    return view.answered_by is not None and view.answered_by.phase == "MASTER"


def run(scenario: Callable[[Pair], Awaitable[None]]) -> None:
    """Run a scenario."""

    async def main() -> None:
        async with running() as pair:
            await scenario(pair)

    driver.run(main())


@asynccontextmanager
async def running() -> AsyncIterator[Pair]:
    """Run what members need."""
    async with AsyncExitStack() as parts:
        names = Settings(server=ServerSettings(nameserver_port=0))
        loaded: Loaded[object] = Loaded(root=names, origins={})
        nameserver = await Host.start([NAMESERVER], loaded, "/names", disk=SimulatedDisk())
        parts.push_async_callback(nameserver.stop)
        address = nameserver.running["nameserver"].ready["nameserver"]
        admin = await parts.enter_async_context(Admin(address))
        pair = Pair(address, admin)
        try:
            yield pair
        finally:
            for number in list(pair.hosts):
                await pair.stop(number)


def test_a_master_that_is_stopped_hands_over() -> None:
    """The other one goes on without it, and waits for it again once it has caught up."""

    async def scenario(pair: Pair) -> None:
        client = await pair.begin()
        assert await sent(client, 10) == {0}
        await pair.stop(1)
        client = await pair.leads(2)
        assert await sent(client, 10) == {0}
        await pair.start(1)
        await pair.in_sync(2, {1, 2})
        await pair.in_sync(1, {1, 2})
        assert await sent(client, 10) == {0}

    run(scenario)


def test_a_master_waits_for_its_slave_until_an_operator_says_otherwise() -> None:
    """What is stored meanwhile is answered as late."""

    async def scenario(pair: Pair) -> None:
        client = await pair.begin()
        await pair.stop(2)
        assert await sent(client, 3) == {LATE}
        await pair.admin.failover.designate("broker-a", 1)
        await pair.in_sync(1, {1})
        client = await pair.leads(1)
        assert await sent(client, 3) == {0}

    run(scenario)


def test_an_operator_names_the_other_one_when_both_were_killed() -> None:
    """Alone neither leads; the one that was named does, and the master before follows it."""

    async def scenario(pair: Pair) -> None:
        client = await pair.begin()
        assert await sent(client, 10) == {0}
        killed = {number: disk.kill() for number, disk in pair.disks.items()}
        for number in (1, 2):
            await pair.stop(number)
        pair.disks.update(killed)
        await pair.start(2)
        view = await pair.until(2, lambda one: one.master_broker_id == 1)
        assert not is_open(view)
        await pair.admin.failover.designate("broker-a", 2)
        client = await pair.leads(2)
        assert await sent(client, 3) == {0}
        await pair.start(1)
        await pair.until(1, lambda one: one.master_broker_id == 2)
        await pair.in_sync(2, {1, 2})
        await pair.in_sync(1, {1, 2})

    run(scenario)


def test_a_master_leads_again_once_it_has_met_the_other_one() -> None:
    """It waits for the same members as before."""

    async def scenario(pair: Pair) -> None:
        client = await pair.begin()
        assert await sent(client, 10) == {0}
        killed = {number: disk.kill() for number, disk in pair.disks.items()}
        for number in (1, 2):
            await pair.stop(number)
        pair.disks.update(killed)
        await pair.start(1)
        view = await pair.until(1, lambda one: one.master_broker_id == 1)
        assert not is_open(view)
        await pair.start(2)
        client = await pair.leads(1)
        await pair.in_sync(1, {1, 2})
        async with asyncio.timeout(LONG_SECONDS):
            while await sent(client, 1) != {0}:  # the slave is not back yet
                continue

    run(scenario)


@pytest.mark.parametrize(
    ("ha", "named"),
    [
        (FailoverSettings(decider="operator", member_id=1), "ha.others"),
        (FailoverSettings(decider="etcd://a", member_id=1, others=("a:1",)), "ha.others"),
    ],
)
def test_settings_that_do_not_fit(ha: FailoverSettings, named: str) -> None:
    """Others are named where an operator decides, and only there."""
    with pytest.raises(SettingsError, match=named):
        check_settings(Settings(ha=ha))


def test_members_that_take_no_plain_connections_ask_each_other(tmp_path: Path) -> None:
    """Over TLS: each knows what the other one reports of itself."""
    made = certificates.make(tmp_path)

    async def scenario(pair: Pair) -> None:
        pair.tls = TlsSettings(mode="enforcing", cert_path=made.cert, key_path=made.key)
        for number in (1, 2):
            await pair.start(number)
        tls, code = brokers_tls(pair.tls), RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
        for number in (1, 2):
            channel = await open_channel(f"127.0.0.1:{pair.ports[number]}", SystemClock(), tls=tls)
            known: set[int | None] = set()
            async with asyncio.timeout(LONG_SECONDS):
                while known != {1, 2}:
                    answer = await channel.ask(code, NoFields(), timeout_ms=10_000)
                    view = decode(SetReplicasTable, answer.body).sets["broker-a"]
                    known = {one.broker_id for one in view.others}
            channel.close()

    run(scenario)
