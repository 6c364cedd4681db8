"""A slave keeps its tables like its master's."""

from types import SimpleNamespace
from typing import Any

from tests.broker_pair import pair, run

from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.remoting import Channel, open_channel
from sprocket.rocketmq.server.master import MasterTables
from sprocket.rocketmq.server.nameservers import MasterAddresses


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
            master.offsets.commit("readers", "T", 1, 1)
            master.delay_progress.note(3, 7)

            async def opened(address: str) -> Channel:
                return await open_channel(address, slave.place.clock)

            address = MasterAddresses(broker=both.master.addresses.broker, slaves="")
            places: Any = SimpleNamespace(registration=SimpleNamespace(master=address), open=opened)
            tables = MasterTables(slave, places)
            for _ in range(2):  # the second time nothing is new
                await tables.follow()
                assert slave.topics.get("Gone") is None
                assert slave.topics.get("New") == master.topics.get("New")
                assert slave.groups.get("readers") == master.groups.get("readers")
                assert slave.offsets.get("readers", "T", 1) == 1
                assert slave.delay_progress.get(3) == 7

    run(scenario)
