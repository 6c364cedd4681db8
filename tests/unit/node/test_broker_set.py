"""Members of a set in one process, with a server that plays etcd."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from tests.broker_pair import until
from tests.fake_etcd import FakeEtcd
from tests.unit.rocketmq.conftest import RawClient, message_ext
from tests.waits import LONG_SECONDS

from sprocket.base.errors import BrokerRefused, SettingsError
from sprocket.base.settings import Loaded
from sprocket.node.broker_set import check_settings
from sprocket.node.host import Host
from sprocket.node.rocketmq import BROKER, NAMESERVER, Node
from sprocket.rocketmq.client import Admin
from sprocket.rocketmq.codec.bodies import SetReplicas
from sprocket.rocketmq.errors import NoRoute
from sprocket.rocketmq.failover import mastership
from sprocket.rocketmq.geometry import GEOMETRY_GROUPS, Geometry
from sprocket.rocketmq.settings import (
    BrokerSettings,
    FailoverSettings,
    ReplicationSettings,
    ServerSettings,
    Settings,
    StoreSettings,
)
from sprocket.rocketmq.store.store import Store
from sprocket.runtime import driver
from sprocket.testing.disk import SimulatedDisk

GEOMETRY = Geometry.small()


class Set:
    """A NameServer, something that plays etcd, and members.

    Attributes:
        more: Groups of settings that members have beside those of a set.
    """

    def __init__(self, etcd: FakeEtcd, nameserver: str, admin: Admin) -> None:
        self.etcd = etcd
        self.nameserver = nameserver
        self.admin = admin
        self.disks = {number: SimulatedDisk() for number in (1, 2)}
        self.hosts: dict[int, Host] = {}
        self.more: dict[str, Any] = {}

    async def start(self, number: int, **ha: Any) -> Host:
        """Start a member."""
        given = {"renewal_ms": 100, "ttl_seconds": 10, "timeout_ms": 8000, **ha}
        settings = Settings(
            server=ServerSettings(broker_port=0),
            broker=BrokerSettings(nameservers=(self.nameserver,)),
            store=StoreSettings(fill_ahead_bytes=0),
            log=GEOMETRY.log,
            queue=GEOMETRY.queue,
            index=GEOMETRY.index,
            ha=FailoverSettings(
                decider=f"etcd://127.0.0.1:{self.etcd.port}", member_id=number, **given
            ),
            **self.more,
        )
        origins = dict.fromkeys(GEOMETRY_GROUPS, "the test")
        loaded: Loaded[object] = Loaded(root=settings, origins=origins)
        host = await Host.start([BROKER], loaded, "/store", disk=self.disks[number])
        self.hosts[number] = host
        return host

    async def stop(self, number: int) -> None:
        """Stop a member."""
        await self.hosts.pop(number).stop()

    async def view(self) -> SetReplicas:
        """Return what whoever answers says of the set."""
        views = await self.admin.failover.views("broker-a")
        return next(iter(views.values()))

    async def master(self, epoch: int = 0) -> RawClient:
        """Wait for the master of a later epoch; return a client of it."""
        found = await self.admin.failover.next_master("broker-a", epoch)
        assert found.master_address is not None
        await self.registered(found.master_address)
        return await RawClient.open(found.master_address)

    async def registered(self, address: str) -> None:
        """Wait until the NameServer has a master of this address."""
        async with asyncio.timeout(LONG_SECONDS):
            while True:
                known = (await self.admin.cluster()).brokers.get("broker-a")
                if known is not None and known.addresses.get(0) == address:
                    return
                await asyncio.sleep(0.05)

    async def same_end(self) -> None:
        """Wait until all members say that their logs end at the same place."""
        async with asyncio.timeout(LONG_SECONDS):
            while True:
                view = await self.view()
                if len({one.log_end for one in (*view.in_sync, *view.others)}) == 1:
                    return
                await asyncio.sleep(0.05)

    async def in_sync(self, count: int) -> None:
        """Wait until so many are in sync."""
        async with asyncio.timeout(LONG_SECONDS):
            while len((await self.view()).in_sync) != count:
                await asyncio.sleep(0.05)


@asynccontextmanager
async def running() -> AsyncIterator[Set]:
    """Run what members need."""
    async with AsyncExitStack() as parts:
        etcd = FakeEtcd()
        await etcd.start()
        parts.push_async_callback(etcd.stop)
        names = Settings(server=ServerSettings(nameserver_port=0))
        loaded: Loaded[object] = Loaded(root=names, origins={})
        nameserver = await Host.start([NAMESERVER], loaded, "/names", disk=SimulatedDisk())
        parts.push_async_callback(nameserver.stop)
        address = nameserver.running["nameserver"].ready["nameserver"]
        admin = await parts.enter_async_context(Admin(address))
        found = Set(etcd, address, admin)
        try:
            yield found
        finally:
            for number in list(found.hosts):
                await found.stop(number)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario."""

    async def main() -> None:
        await scenario()

    driver.run(main())


async def sent(client: RawClient, count: int) -> set[int]:
    """Send messages; return the codes of the answers."""
    asked = [client.send(310, message_ext(e=n % 3), b"%d" % n * 50) for n in range(count)]
    return {(await one).code for one in asked}


def test_members_find_a_master_that_hands_over() -> None:
    """An operator begins; the other one follows, is added, and takes over from the first one."""

    async def scenario() -> None:
        async with running() as members:
            await members.start(1)
            await members.start(2)
            await until(lambda: len(members.etcd.keys) == 2)  # both have said what they are
            assert not (await members.view()).in_sync
            await members.admin.failover.begin("broker-a", [1])
            client = await members.master()
            assert await sent(client, 60) == {0}
            await members.in_sync(2)
            assert await sent(client, 60) == {0}
            loop = asyncio.get_running_loop()
            began = loop.time()
            await members.stop(1)
            second = await members.master(epoch=1)
            print(f"switched in {loop.time() - began:.2f} s")
            assert await sent(second, 60) == {0}
            await members.start(1)
            await members.in_sync(2)
            view = await members.view()
            assert (view.master_broker_id, view.master_epoch) == (2, 2)
            await members.same_end()

    run(scenario)


def test_operators_see_and_say_who_is_master() -> None:
    """By the requests of RocketMQ's controllers; what cannot be is refused with a reason."""

    async def scenario() -> None:
        async with running() as members:
            await members.start(1)
            await members.start(2)
            failover = members.admin.failover
            await until(lambda: len(members.etcd.keys) == 2)
            with pytest.raises(BrokerRefused, match=r"\[7\]"):
                await failover.begin("broker-a", [7])
            with pytest.raises(BrokerRefused, match="has not begun"):
                await failover.designate("broker-a", 2)
            with pytest.raises(NoRoute, match="no master"):
                await failover.hand_over("broker-a")
            assert await failover.master("broker-a") is None
            await failover.begin("broker-a", [1])
            client = await members.master()
            with pytest.raises(BrokerRefused, match="already"):
                await failover.begin("broker-a", [2])
            with pytest.raises(BrokerRefused, match="member 1 is master"):
                await failover.designate("broker-a", 2)
            await members.in_sync(2)
            controller = await client.call(1005)
            assert controller.ext_map()["isLeader"] == "true"
            said = json.loads((await client.call(1006, {}, b'["broker-a"]')).body)
            replicas = said["replicasInfoTable"]["broker-a"]
            assert replicas["masterBrokerId"] == 1
            assert {one["brokerId"] for one in replicas["inSyncReplicas"]} == {1, 2}
            assert replicas["answeredBy"]["phase"] == "MASTER"
            epochs = json.loads((await client.call(1007)).body)
            assert epochs == {
                "clusterName": "DefaultCluster",
                "brokerName": "broker-a",
                "brokerId": 1,
                "epochList": [{"epoch": 1, "startOffset": 0, "endOffset": (1 << 63) - 1}],
                "maxOffset": 0,
            }
            with pytest.raises(BrokerRefused, match="member 1 is not a slave"):
                await failover.hand_over("broker-a", 1)
            await failover.hand_over("broker-a", 2)
            await members.master(epoch=1)
            view = await members.view()
            assert (view.master_broker_id, view.master_epoch) == (2, 2)

    run(scenario)


def test_a_store_from_before_is_the_set_s() -> None:
    """The member that begins keeps what it has; the other one is made anew, and has it, too."""

    async def scenario() -> None:
        async with running() as members:
            for number, count in ((1, 50), (2, 20)):
                alone = await Node.start(
                    Settings(
                        server=ServerSettings(broker_port=0),
                        store=StoreSettings(fill_ahead_bytes=0),
                    ),
                    "/store",
                    disk=members.disks[number],
                    geometry=GEOMETRY,
                    has_nameserver=False,
                )
                client = await RawClient.open(alone.addresses.broker)
                assert await sent(client, count) == {0}
                await alone.stop()
            await members.start(1)
            await members.start(2)
            await until(lambda: len(members.etcd.keys) == 2)
            await members.admin.failover.begin("broker-a", [1])
            client = await members.master()
            offset = await client.call(30, {"topic": "T", "queueId": 0})
            assert offset.ext_map()["offset"] == "17"
            assert await sent(client, 10) == {0}
            await members.in_sync(2)
            await members.same_end()
            assert members.disks[2].list("/store/cut")

    run(scenario)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"member_id": 0}, "ha.member_id"),
        ({"renewal_ms": 3700}, "ha.renewal_ms"),
        ({"user": "me"}, "ha.user"),
        ({"user": "me", "password": "p", "password_path": "f"}, "ha.password_path"),
    ],
)
def test_settings_that_cannot_be(given: dict[str, Any], named: str) -> None:
    """Each names what is to be changed."""
    ha = FailoverSettings(**{"decider": "etcd://h", "member_id": 1, **given})
    with pytest.raises(SettingsError, match=named):
        check_settings(Settings(ha=ha))


@pytest.mark.parametrize(
    "replication",
    [ReplicationSettings(role="slave", broker_id=1), ReplicationSettings(ack="memory")],
)
def test_a_set_decides_roles_itself(replication: ReplicationSettings) -> None:
    """And what is acknowledged is on the disk."""
    ha = FailoverSettings(decider="etcd://h", member_id=1)
    with pytest.raises(SettingsError, match="replication"):
        check_settings(Settings(ha=ha, replication=replication))


def test_a_member_cuts_its_log_at_damage_in_either_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """It pads nothing: a master with padding would have another log than its epochs say."""
    follows: list[bool] = []
    plain = Store.open

    def noting(*given: Any, **more: Any) -> Store:
        follows.append(more["follows"])
        return plain(*given, **more)

    monkeypatch.setattr(Store, "open", noting)

    async def scenario() -> None:
        async with running() as members:
            await members.start(1)
            await until(lambda: len(members.etcd.keys) == 1)
            await members.admin.failover.begin("broker-a", [1])
            await members.master()

    run(scenario)
    assert follows == [True, True], "as a slave, then as a master"


def test_a_topic_and_an_offset_are_there_after_a_hand_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However short before it they were made: the other one is waited for."""
    monkeypatch.setattr(mastership, "TABLES_SECONDS", LONG_SECONDS)  # on a busy machine, too

    async def scenario() -> None:
        async with running() as members:
            for number in (1, 2):
                await members.start(number)
            await until(lambda: len(members.etcd.keys) == 2)  # both have said what they are
            await members.admin.failover.begin("broker-a", [1])
            client = await members.master()
            await members.in_sync(2)
            assert await sent(client, 3) == {0}
            await members.admin.create_topic("late", queues=3)
            where = {"consumerGroup": "TOOLS_CONSUMER", "topic": "T", "queueId": 1}
            assert (await client.call(15, {**where, "commitOffset": 1})).code == 0
            await members.admin.failover.hand_over("broker-a")
            client = await members.master(1)
            answer = await client.call(14, where)
            assert (answer.code, answer.ext_map()["offset"]) == (0, "1")
            assert b'"late"' in (await client.call(21)).body

    run(scenario)
