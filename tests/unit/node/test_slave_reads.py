"""Consumers at a slave: what they get, where they are sent, and what they commit there."""

from typing import Any

from tests.broker_pair import pair, run, until
from tests.unit.rocketmq.conftest import RawClient

from sprocket.node.rocketmq import Node
from sprocket.rocketmq.client.consumer import Puller
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.settings import ReplicationSettings, StoreSettings

COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4


def pull_ext(offset: int, flag: int = SUBSCRIPTION, hold_ms: int = 0) -> dict[str, Any]:
    """Return the fields of a pull of T/0."""
    return {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": 0,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": flag,
        "commitOffset": 1,
        "suspendTimeoutMillis": hold_ms,
        "subVersion": 0,
        "subscription": "*",
    }


async def pull(client: RawClient, offset: int, **more: int) -> Command:
    """Pull from T/0."""
    return await client.call(11, pull_ext(offset, **more))


def told(answer: Command) -> tuple[int, int, int]:
    """Return code, next offset, and the broker to ask next."""
    ext = answer.ext_map()
    return answer.code, int(ext["nextBeginOffset"]), int(ext["suggestWhichBrokerId"])


def give_topic(slave: Node) -> None:
    """Give a slave the topic of the messages, which it would ask for after some seconds."""
    slave.broker.topics.make_internal("T", 4)


def test_a_slave_answers_pulls() -> None:
    """As long as its master is there it lets nobody wait, and sends on who is near the end."""

    async def scenario() -> None:
        async with pair() as both:
            await both.send(3)
            slave = await both.begin_slave()
            give_topic(slave)
            client = await RawClient.open(slave.addresses.broker)
            answer = await pull(client, 0)
            assert told(answer) == (ResponseCode.SUCCESS, 1, 0)
            assert [one.body for one in record.decode_all(answer.body)] == [b"0" * 50]
            again = ResponseCode.PULL_RETRY_IMMEDIATELY
            for offset in (1, 7):
                waiting = pull_ext(offset, SUBSCRIPTION | SUSPEND, 20_000)
                assert told(await client.call(11, waiting)) == (again, offset, 0)
            assert (await client.call(361, pull_ext(0))).code == ResponseCode.SUCCESS
            ext = {"topic": "T", "queueId": 0}
            for code in (30, 31):
                found = (await client.call(code, ext)).ext_map()["offset"]
                assert found == (await both.client.call(code, ext)).ext_map()["offset"]
            place = record.decode_all(answer.body)[0].physical_offset
            by_id = await client.call(33, {"offset": place, "topic": "T"})
            assert by_id.body == answer.body
            found_by_key = await client.call(
                12,
                {
                    "topic": "T",
                    "key": "U1",
                    "maxNum": 9,
                    "beginTimestamp": 0,
                    "endTimestamp": 1 << 60,
                },
            )
            assert len(record.decode_all(found_by_key.body)) == 3

    run(scenario)


def test_a_slave_without_its_master_lets_pulls_wait() -> None:
    """And takes commits, which it has by itself until the master is there again."""

    async def scenario() -> None:
        async with pair() as both:
            await both.send(3)
            slave = await both.begin_slave()
            give_topic(slave)
            client = await RawClient.open(slave.addresses.broker)
            await both.stop_master()
            waits = SUBSCRIPTION | SUSPEND
            found = ResponseCode.PULL_NOT_FOUND
            await until(lambda: slave.broker.hold.count == 0)
            answers = [told(await pull(client, offset, flag=waits, hold_ms=1)) for offset in (1, 7)]
            while answers[0][0] != found:  # it notices soon
                answers = [
                    told(await pull(client, offset, flag=waits, hold_ms=1)) for offset in (1, 7)
                ]
            assert answers == [(found, 1, 0), (found, 7, 0)]
            held = client.send(11, pull_ext(1, waits, 20_000))
            await until(lambda: slave.broker.hold.count == 1)
            assert not held.done()
            commit = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": 1}
            assert (await client.call(15, commit)).code == ResponseCode.SUCCESS
            asked = await client.call(14, {"consumerGroup": "g", "topic": "T", "queueId": 0})
            assert asked.ext_map()["offset"] == "1"
            assert (await client.call(310, {})).code == ResponseCode.SYSTEM_BUSY

    run(scenario)


def test_a_slave_that_is_not_to_be_read() -> None:
    """It refuses as RocketMQ's does; all else it answers."""

    async def scenario() -> None:
        async with pair(slave_reads=False) as both:
            await both.send()
            slave = await both.begin_slave(
                ReplicationSettings(role="slave", broker_id=1, slave_reads=False)
            )
            client = await RawClient.open(slave.addresses.broker)
            for code in (11, 361):
                assert (await client.call(code)).code == ResponseCode.SYSTEM_BUSY
            answer = await client.call(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": 0})
            assert answer.ext_map()["offset"] == "1"

    run(scenario)


def test_readers_far_behind_are_sent_to_the_slave() -> None:
    """If there is one; and it keeps them until they are near the end."""

    async def scenario() -> None:
        store = StoreSettings(fill_ahead_bytes=0, bytes_in_memory=2000)
        async with pair(store=store) as both:
            await both.send(30)  # of some 150 bytes
            assert told(await pull(both.client, 0, flag=SUBSCRIPTION))[2] == 0
            slave = await both.begin_slave()
            give_topic(slave)
            client = await RawClient.open(slave.addresses.broker)
            ext = {**pull_ext(0), "maxMsgNums": 1}
            for one in (both.client, client):
                assert told(await one.call(11, ext)) == (ResponseCode.SUCCESS, 1, 1)
                assert told(await one.call(11, {**ext, "queueOffset": 9}))[2] == 0
            await both.stop_slave()
            slaves = both.master.broker.slaves
            assert slaves is not None
            await until(lambda: not slaves.count)
            assert told(await both.client.call(11, ext))[2] == 0

    run(scenario)


def test_a_puller_that_prefers_slaves() -> None:
    """It gets everything from the slave, and asks the master for nothing."""

    async def scenario() -> None:
        async with pair() as both:
            await both.send(30)
            slave = await both.begin_slave()
            give_topic(slave)
            names = both.master.addresses.nameserver
            async with Puller(names, replica="prefer") as puller:
                queues = await puller.queues("T")

                async def read() -> int:
                    found = [await puller.pull(queue, 0) for queue in queues]
                    return sum(len(record.decode_all(one.body)) for one in found)

                assert await read() == 30
                assert slave.broker.stats.got == 30
                assert both.master.broker.stats.got == 0

    run(scenario)
