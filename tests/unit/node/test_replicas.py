"""Two brokers with the same log, over sockets: what clients are told, and what the slave has."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.broker_pair import SLAVE, begin, pair, run, until
from tests.replicas import assert_same
from tests.unit.rocketmq.conftest import RawClient
from tests.waits import LONG_SECONDS

from sprocket.base.disk import replace_file
from sprocket.base.errors import SettingsError
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.settings import ReplicationSettings, RightsSettings
from sprocket.testing.disk import SimulatedDisk


def test_a_slave_has_what_its_master_has() -> None:
    """What there was, what comes, and what came while it was away; it makes its own queues."""

    async def scenario() -> None:
        async with pair() as both:
            assert await both.send(60) == {0}
            slave = await both.begin_slave()
            assert_same(both.master.broker.store, slave.broker.store)
            assert await both.send(60) == {0}
            await both.caught_up()
            assert_same(both.master.broker.store, slave.broker.store)
            await both.stop_slave()
            assert await both.send(60) == {0}
            slave = await both.begin_slave()
            assert_same(both.master.broker.store, slave.broker.store)
            route = await RawClient.open(both.master.addresses.nameserver)
            found = msgspec.json.decode((await route.call(105, {"topic": "T"})).body)
            (broker,) = found["brokerDatas"]
            assert set(broker["brokerAddrs"]) == {"0", "1"}

    run(scenario)


def test_what_a_slave_refuses() -> None:
    """With the codes of RocketMQ's; and it stores nothing of its own."""

    async def scenario() -> None:
        async with pair() as both:
            await both.send()
            slave = await both.begin_slave()
            end = slave.broker.store.end
            client = await RawClient.open(slave.addresses.broker)
            for code in (10, 310, 320, 36):
                assert (await client.call(code)).code == ResponseCode.SYSTEM_BUSY
            for code in (RequestCode.END_TRANSACTION, RequestCode.RECALL_MESSAGE):
                assert (await client.call(code)).code == ResponseCode.SLAVE_NOT_AVAILABLE
            assert (await client.call(222)).code == ResponseCode.SYSTEM_ERROR
            offset = await client.call(30, {"topic": "T", "queueId": 0})
            assert (offset.code, offset.ext_map()["offset"]) == (0, "1")
            assert slave.broker.store.end == end
            assert slave.broker.refusal is None

    run(scenario)


def test_a_master_and_its_slave_are_told_by_907() -> None:
    """As `mqadmin haStatus` asks."""

    async def scenario() -> None:
        async with pair() as both:
            await both.send(3)
            slave = await both.begin_slave()
            end = both.master.broker.store.written
            said = msgspec.json.decode((await both.client.call(907)).body)
            assert (said["master"], said["masterCommitLogMaxOffset"]) == (True, end)
            (one,) = said["haConnectionInfo"]
            assert (one["slaveAckOffset"], one["diff"], one["inSync"]) == (end, 0, True)
            assert said["inSyncSlaveNums"] == 1
            client = await RawClient.open(slave.addresses.broker)
            said = msgspec.json.decode((await client.call(907)).body)
            link = said["haClientRuntimeInfo"]
            assert (said["master"], link["activated"], link["maxOffset"]) == (False, True, end)

    run(scenario)


def test_a_send_to_a_synchronous_pair_waits_for_the_slave() -> None:
    """Without one it is stored and told so; consumers see what was answered."""

    async def scenario() -> None:
        async with pair(role="sync_master", slaves=False) as both:
            store = both.master.broker.store
            assert await both.send(2) == {ResponseCode.SLAVE_NOT_AVAILABLE}
            assert store.queue_end("T", 0) == 1
            slave = await both.begin_slave()
            assert await both.send(2) == {0}
            assert slave.broker.store.synced == store.written
            assert store.queue_end("T", 0) == 2
            await both.stop_slave()
            slaves = both.master.broker.slaves
            assert slaves is not None
            await until(lambda: not slaves.all)
            assert await both.send(2) == {ResponseCode.SLAVE_NOT_AVAILABLE}
            assert store.queue_end("T", 0) == 3

    run(scenario)


def test_a_slave_that_does_not_answer_is_not_waited_for_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """FLUSH_SLAVE_TIMEOUT: stored, and not seen by consumers."""

    async def scenario() -> None:
        async with pair(role="sync_master", ack_timeout_ms=50) as both:
            await both.send()
            slave = await both.begin_slave()
            assert await both.send(2) == {0}
            monkeypatch.setattr(slave.broker.durable, "_wait", lambda _: None)
            assert await both.send(2) == {ResponseCode.FLUSH_SLAVE_TIMEOUT}
            assert both.master.broker.store.queue_end("T", 0) == 2
            slave.broker.store.give_up_unwritten()

    run(scenario)


async def said_of_link(slave: RawClient) -> dict[str, Any]:
    """Return what a slave says of its link to its master."""
    said = msgspec.json.decode((await slave.call(907)).body)
    found: dict[str, Any] = said["haClientRuntimeInfo"]
    return found


def test_slaves_may_come_from_some_networks_only() -> None:
    """Who comes from elsewhere is sent nothing."""

    async def scenario() -> None:
        async with pair(networks=("10.0.0.0/8",)) as both:
            await both.send()
            names = (both.master.addresses.nameserver,)
            slave = both.slave = await begin(SLAVE, both.slave_disk, names)
            client = await RawClient.open(slave.addresses.broker)
            async with asyncio.timeout(LONG_SECONDS):
                while not (await said_of_link(client))["masterAddr"]:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)  # it has connected and reported by then
            slaves = both.master.broker.slaves
            assert slaves is not None
            assert not slaves.all
            assert (await said_of_link(client))["lastReadTimestamp"] == 0
            assert slave.broker.store.end == 0
        async with pair(networks=("10.0.0.0/8", "127.0.0.1")) as both:
            await both.send()
            slave = await both.begin_slave()
            assert slave.broker.store.end == both.master.broker.store.end

    run(scenario)


RIGHTS = RightsSettings(rules_path="/rules.yml")


def test_a_broker_with_rights_lets_no_slave_in_whom_nobody_named() -> None:
    """It has no port for them, or does not start, if its senders are to wait for one."""

    async def scenario() -> None:
        disk = SimulatedDisk()
        replace_file(disk, "/rules.yml", b"accounts: []")
        node = await begin(ReplicationSettings(slaves=True), disk, rights=RIGHTS)
        assert node.broker.slaves is None
        await node.stop()
        with pytest.raises(SettingsError, match=r"replication\.networks: where slaves may come"):
            await begin(ReplicationSettings(role="sync_master"), disk, rights=RIGHTS)
        named = ReplicationSettings(role="sync_master", networks=("10.0.0.0/8",))
        node = await begin(named, disk, rights=RIGHTS)
        assert node.broker.slaves is not None
        await node.stop()

    run(scenario)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (ReplicationSettings(role="slave"), "0 is the number of the master"),
        (ReplicationSettings(broker_id=1), "a master has 0"),
        (ReplicationSettings(networks=("10.1.0.1/16",)), r"replication\.networks: 10\.1\.0\.1/16"),
    ],
)
def test_a_number_that_does_not_fit_the_role(settings: ReplicationSettings, error: str) -> None:
    """Nothing is opened."""

    async def scenario() -> None:
        with pytest.raises(SettingsError, match=error):
            await begin(settings, SimulatedDisk())

    run(scenario)


def test_sends_are_refused_while_too_few_have_the_log() -> None:
    """If that is asked for; with RocketMQ's code and words, and nothing is stored."""

    async def scenario() -> None:
        async with pair(role="sync_master", in_sync_count_min=2) as both:
            store = both.master.broker.store
            assert await both.send(2) == {ResponseCode.SYSTEM_ERROR}
            back = await both.client.call(36, {"group": "g", "offset": 0, "delayLevel": 0})
            assert (back.code, back.remark) == (1, "in-sync replicas not enough")
            assert store.end == 0
            await both.begin_slave()
            assert await both.send(2) == {0}
            await both.stop_slave()
            slaves = both.master.broker.slaves
            assert slaves is not None
            await until(lambda: not slaves.all)
            assert await both.send(2) == {ResponseCode.SYSTEM_ERROR}

    run(scenario)
