"""A slave keeps its tables like its master's."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.broker_pair import Pair, pair, run
from tests.waits import LONG_SECONDS

from sprocket.base.errors import BrokerRefused, WireError
from sprocket.rocketmq.broker.broker import Broker
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.remoting import Channel, open_channel
from sprocket.rocketmq.replication import TableVersions
from sprocket.rocketmq.server.master import MasterTables, tables
from sprocket.rocketmq.server.nameservers import MasterAddresses

_sleep = asyncio.sleep


def tables_of(both: Pair, slave: Broker, opened: Any = None) -> MasterTables:
    """Return what keeps the tables of a slave like those of its master."""

    async def open_plainly(address: str) -> Channel:
        return await open_channel(address, slave.place.clock)

    address = MasterAddresses(broker=both.master.addresses.broker, slaves="")
    places: Any = SimpleNamespace(
        registration=SimpleNamespace(master=address), open=opened or open_plainly
    )
    return MasterTables(slave, places, TableVersions())


def test_tables_follow_the_masters() -> None:
    """Topics that are new and gone, groups, offsets, modes, delay levels."""

    async def scenario() -> None:
        async with pair() as both:
            master = both.master.broker
            await both.send(3)
            slave = (await both.begin_slave()).broker
            slave.topics.put(TopicConfig(name="Gone", read_queues=1, write_queues=1))
            master.topics.put(TopicConfig(name="New", read_queues=3, write_queues=3))
            master.groups.find("readers")
            master.groups.forbid("readers", "T", is_readable=False)
            slave.groups.forbid("readers", "New", is_readable=False)
            master.offsets.commit("readers", "T", 1, 1)
            master.delay_progress.note(3, 7)
            follower = tables_of(both, slave)
            for _ in range(2):  # the second time nothing is new
                await follower.follow()
                assert slave.topics.get("Gone") is None
                assert slave.topics.get("New") == master.topics.get("New")
                assert slave.groups.get("readers") == master.groups.get("readers")
                assert slave.groups.forbidden == {"readers": {"T": 1}}
                assert slave.offsets.get("readers", "T", 1) == 1
                assert slave.delay_progress.get(3) == 7
            slave.topics.put(TopicConfig(name="Gone", read_queues=1, write_queues=1))
            await follower.follow()
            assert slave.topics.get("Gone") is None

    run(scenario)


async def delete(broker: Broker, topic: str) -> None:
    """Delete a topic, as an administrator does."""
    done = asyncio.Event()
    broker.removal.delete_topic(topic, lambda _: done.set())
    async with asyncio.timeout(LONG_SECONDS):
        await done.wait()


def test_a_topic_that_the_master_has_deleted() -> None:
    """Its queues and offsets are gone; those of one that is only lost from its table stay."""

    async def scenario() -> None:
        async with pair() as both:
            master = both.master.broker
            await both.send(6)
            slave = (await both.begin_slave()).broker
            follower = tables_of(both, slave)
            master.groups.find("readers")
            master.offsets.commit("readers", "T", 0, 2)
            await follower.follow()
            assert slave.offsets.get("readers", "T", 0) == 2
            config = master.topics.existing("T")
            master.topics.remove("T")
            await follower.follow()
            assert slave.store.queue_end("T", 0) == 2
            master.topics.put(config)
            await delete(master, "T")
            await follower.follow()
            assert slave.topics.get("T") is None
            assert slave.store.queue_end("T", 0) == 0
            assert slave.offsets.get("readers", "T", 0) is None
            assert slave.store.deletions.pending == ()

    run(scenario)


def test_a_topic_that_the_master_has_made_again() -> None:
    """What groups had committed of the old one is forgotten."""

    async def scenario() -> None:
        async with pair() as both:
            master = both.master.broker
            await both.send(6)
            slave = (await both.begin_slave()).broker
            follower = tables_of(both, slave)
            for group in ("readers", "others"):
                master.groups.find(group)
                master.offsets.commit(group, "T", 0, 2)
            await follower.follow()
            await delete(master, "T")
            await both.send(3)
            await both.caught_up()
            slave.store.dispatch()
            assert slave.store.queue_end("T", 0) == 1
            master.offsets.commit("others", "T", 0, 1)
            await follower.follow()
            assert slave.offsets.get("readers", "T", 0) is None
            assert slave.offsets.get("others", "T", 0) == 1
            assert slave.store.deletions.pending == ()

    run(scenario)


class Altered:
    """A channel whose answers to one code are others."""

    def __init__(self, channel: Channel, code: RequestCode, answer: Any) -> None:
        self._channel = channel
        self._code = code
        self._answer = answer

    async def ask(self, code: RequestCode, *rest: Any, **more: Any) -> Any:
        """Ask, or answer."""
        if code == self._code:
            return self._answer
        return await self._channel.ask(code, *rest, **more)

    def close(self) -> None:
        """Close it."""
        self._channel.close()


@pytest.mark.parametrize(
    ("code", "answer", "error"),
    [
        (RequestCode.GET_ALL_TOPIC_CONFIG, SimpleNamespace(code=0, body=b"{}"), WireError),
        (RequestCode.GET_ALL_TOPIC_CONFIG, SimpleNamespace(code=0, body=b"x"), WireError),
        (
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            SimpleNamespace(code=0, body=b"{}"),
            WireError,
        ),
        (RequestCode.GET_ALL_CONSUMER_OFFSET, SimpleNamespace(code=1, remark="no"), BrokerRefused),
        (
            RequestCode.GET_BROKER_RUNTIME_INFO,
            SimpleNamespace(code=0, body=bodies.encode(bodies.KeyValueTable({}))),
            WireError,
        ),
    ],
)
def test_answers_that_lack_something(code: RequestCode, answer: Any, error: type) -> None:
    """Nothing is deleted because a master, or who answers in its place, tells nothing."""

    async def scenario() -> None:
        async with pair() as both:
            await both.send(3)
            slave = (await both.begin_slave()).broker
            await tables_of(both, slave).follow()
            topics, groups = list(slave.topics.all()), list(slave.groups.all())

            async def opened(address: str) -> Any:
                return Altered(await open_channel(address, slave.place.clock), code, answer)

            with pytest.raises(error):
                await tables_of(both, slave, opened).follow()
            assert list(slave.topics.all()) == topics
            assert list(slave.groups.all()) == groups
            assert slave.store.queue_end("T", 0) == 1

    run(scenario)


def test_what_is_true_of_a_later_log_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a delayed message would be passed over whose copy is not here."""

    async def scenario() -> None:
        async with pair() as both:
            await both.send(3)
            slave = (await both.begin_slave()).broker
            monkeypatch.setattr(tables, "LOOK_SECONDS", tables.ROUND_SECONDS)
            monkeypatch.setattr(asyncio, "sleep", _at_once)
            both.master.broker.delay_progress.note(3, 7)
            code = RequestCode.GET_BROKER_RUNTIME_INFO
            info = bodies.encode(bodies.KeyValueTable({"commitLogMaxOffset": "1000000"}))

            async def opened(address: str) -> Any:
                channel = await open_channel(address, slave.place.clock)
                return Altered(channel, code, SimpleNamespace(code=0, body=info))

            await tables_of(both, slave, opened).follow()
            assert slave.delay_progress.get(3) == 0
            await tables_of(both, slave).follow()
            assert slave.delay_progress.get(3) == 7

    run(scenario)


async def _at_once(_: float) -> None:
    """Wait for nothing, but let others go on: some wait in the same way for ever."""
    await _sleep(0)
