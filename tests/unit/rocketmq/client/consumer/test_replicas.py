"""Reading from slaves: where a broker says so, where it has no master, where they are preferred."""

from typing import Any

import pytest

from sprocket.base.errors import BrokerRefused
from sprocket.rocketmq.client import ConsumerSettings, ReceivedMessage
from sprocket.rocketmq.client.consumer import Puller, PushConsumer
from sprocket.rocketmq.client.network import PullStatus
from sprocket.rocketmq.codec import headers
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command, response
from sprocket.rocketmq.model.pull import COMMIT
from sprocket.rocketmq.model.route import BrokerData, QueueData, TopicRoute
from sprocket.rocketmq.remoting import Connection
from sprocket.runtime.driver import Peer, Server

SLAVE = "10.0.0.3:10911"


class Slave:
    """A slave of the cluster's broker, as far as reading goes.

    Attributes:
        lags: So many messages of each queue it does not have yet.
        refusal: What it says to pulls; None to answer them.
        pulls: The pulls that it has got.
        names_master: Whether routes name the master.
    """

    def __init__(self, world: Any) -> None:
        self.cluster = world.cluster
        self.lags = 0
        self.refusal: ResponseCode | None = None
        self.pulls: list[headers.PullMessage] = []
        self.names_master = True
        self.committed: dict[int, int] = {}
        self._server: Server | None = None
        world.cluster.route = self.route

    async def start(self) -> "Slave":
        """Listen."""
        host, port = SLAVE.rsplit(":", 1)
        self._server = await self.cluster.serve(Connection, self.handle, host, int(port))
        return self

    async def stop(self) -> None:
        """Be gone."""
        assert self._server is not None
        for peer in list(self._server.peers):
            peer.abort("killed by the test")
        await self._server.close()

    def route(self, queues: int) -> TopicRoute:
        """Return the route of a topic, with the slave."""
        addresses = {0: self.cluster.broker_address} if self.names_master else {}
        return TopicRoute(
            queues=[QueueData(broker_name="b", read_queues=queues, write_queues=queues, perm=6)],
            brokers=[BrokerData(cluster="c", name="b", addresses={**addresses, 1: SLAVE})],
        )

    def handle(self, peer: Peer, command: Command) -> None:
        """Answer a request as RocketMQ's slaves do."""
        if command.code == RequestCode.PULL_MESSAGE:
            self._pull(peer, command)
        elif command.code == RequestCode.GET_MAX_OFFSET:
            asked = command.header(headers.TopicQueue)
            peer.send(response(command, 0, headers.OffsetAnswer(offset=self.end(asked.queue_id))))
        else:
            self.cluster.handle(peer, command)

    def end(self, queue_id: int) -> int:
        """Return the end of a queue of `t` as the slave has it."""
        return max(0, len(self.cluster.log["t", queue_id]) - self.lags)

    def _pull(self, peer: Peer, command: Command) -> None:
        asked = command.header(headers.PullMessage)
        self.pulls.append(asked)
        if self.refusal is not None:
            peer.send(response(command, self.refusal, None, "not to be read"))
            return
        end = self.end(asked.queue_id)
        found = self.cluster.log["t", asked.queue_id][asked.queue_offset : end]
        found = found[: asked.max_msg_nums]
        answer = headers.PullMessageAnswer(
            suggest_which_broker_id=1 if found else 0,
            next_begin_offset=asked.queue_offset + len(found),
            min_offset=0,
            max_offset=end,
        )
        code = ResponseCode.SUCCESS if found else ResponseCode.PULL_RETRY_IMMEDIATELY
        peer.send(response(command, code, answer, body=found))


def fill(world: Any, count: int) -> None:
    """Put messages into the one queue of `t`."""
    world.cluster.topics["t"] = 1
    for number in range(count):
        world.cluster.store("t", 0, b"%d" % number)


def consumer(world: Any, got: list[ReceivedMessage]) -> PushConsumer:
    """Return a consumer that asks for ten messages at a time."""
    settings = ConsumerSettings(pull_messages_max=32)
    return PushConsumer(
        world.names, group="g", listener=got.extend, start="first", settings=settings, **world.reach
    )


def suggest(world: Any, broker_id: int) -> None:
    """Have the master send those that pull to a replica, as one does whose disk they keep busy."""

    def pull(peer: Peer, command: Command) -> None:
        asked = command.header(headers.PullMessage)
        queue = world.cluster.log["t", 0]
        found = queue[asked.queue_offset : asked.queue_offset + asked.max_msg_nums]
        if not found:
            world.cluster.usual(RequestCode.PULL_MESSAGE)(peer, command)
            return
        answer = headers.PullMessageAnswer(
            suggest_which_broker_id=broker_id,
            next_begin_offset=asked.queue_offset + len(found),
            min_offset=0,
            max_offset=len(queue),
        )
        peer.send(response(command, 0, answer, body=found))

    world.cluster.on[RequestCode.PULL_MESSAGE] = pull


def test_a_consumer_goes_where_its_broker_sends_it(world: Any) -> None:
    """And comes back for what the slave does not have. Slaves are told no offsets to store."""

    async def main() -> None:
        slave = await Slave(world).start()
        slave.lags = 20
        suggest(world, 1)
        fill(world, 100)
        got: list[ReceivedMessage] = []
        async with consumer(world, got) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(got) == 100)
        assert [int(one.body) for one in got] == list(range(100))
        assert [one.queue_offset for one in slave.pulls] == [32, 64, 80, 100]
        assert not any(one.sys_flag & COMMIT for one in slave.pulls)
        assert world.cluster.committed["g", "t", 0] == 100
        await slave.stop()

    world.run(main)


def test_a_slave_that_is_not_to_be_read_is_left(world: Any) -> None:
    """Java's clients ask it for ever."""

    async def main() -> None:
        slave = await Slave(world).start()
        slave.refusal = ResponseCode.NO_PERMISSION
        suggest(world, 1)
        fill(world, 100)
        got: list[ReceivedMessage] = []
        async with consumer(world, got) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(got) == 100)
        assert len(slave.pulls) <= 4
        await slave.stop()

    world.run(main)


@pytest.mark.parametrize("names_master", [True, False])
def test_a_consumer_lives_through_the_death_of_the_master(world: Any, names_master: bool) -> None:
    """By its slave, whether the route still has the master or not; then all is as before."""

    async def main() -> None:
        slave = await Slave(world).start()
        fill(world, 40)
        got: list[ReceivedMessage] = []
        async with consumer(world, got) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(got) == 40)
            await world.cluster.stop()
            slave.names_master = names_master
            await world.cluster.start_one(world.cluster.names_address)
            fill(world, 30)
            await world.until(lambda: len(got) == 70)
            idle = len(slave.pulls)
            await world.until(lambda: len(slave.pulls) > idle, 5.0)
            assert len(slave.pulls) < idle + 5  # it does not hold pulls, and is asked now and then
            await world.cluster.start_one(world.cluster.broker_address)
            slave.names_master = True
            fill(world, 5)
            await world.until(lambda: len(got) == 75)
        assert [int(one.body) for one in got] == [*range(40), *range(30), *range(5)]
        assert world.cluster.committed["g", "t", 0] == 75
        await slave.stop()

    world.run(main)


def test_a_consumer_may_begin_without_a_master(world: Any) -> None:
    """Where its group is the slave knows, as it was a while ago."""

    async def main() -> None:
        slave = await Slave(world).start()
        slave.names_master = False
        fill(world, 40)
        world.cluster.committed["g", "t", 0] = 25
        got: list[ReceivedMessage] = []
        async with consumer(world, got) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(got) == 15)
        assert [one.queue_offset for one in got] == list(range(25, 40))
        await slave.stop()

    world.run(main)


def test_a_puller_prefers_a_slave(world: Any) -> None:
    """For bounds and messages; its master is asked for what it lacks, refuses, or is not there."""

    async def main() -> None:
        slave = await Slave(world).start()
        slave.lags = 5
        fill(world, 20)
        queue = world.queue(0)
        async with Puller(world.names, replica="prefer", **world.reach) as puller:
            assert await puller.queues("t") == [queue]
            assert await puller.max_offset(queue) == 15
            found = await puller.pull(queue, 10)
            assert (found.status, found.next_offset) == (PullStatus.FOUND, 15)
            assert RequestCode.PULL_MESSAGE not in world.cluster.seen
            found = await puller.pull(queue, 15)
            assert (found.status, found.next_offset) == (PullStatus.FOUND, 20)
            slave.refusal = ResponseCode.NO_PERMISSION
            assert (await puller.pull(queue, 3)).next_offset == 20
            await slave.stop()
            assert await puller.max_offset(queue) == 20
            assert (await puller.pull(queue, 3)).next_offset == 20
        async with Puller(world.names, **world.reach) as puller:
            await puller.queues("t")
            assert await puller.max_offset(queue) == 20

    world.run(main)


def test_a_refusal_of_the_master_is_told(world: Any) -> None:
    """Whoever was asked before."""

    async def main() -> None:
        slave = await Slave(world).start()
        slave.refusal = ResponseCode.NO_PERMISSION
        world.cluster.on[RequestCode.PULL_MESSAGE] = lambda peer, command: world.cluster.refuse(
            peer, command, ResponseCode.SYSTEM_ERROR, "broken"
        )
        fill(world, 1)
        async with Puller(world.names, replica="prefer", **world.reach) as puller:
            await puller.queues("t")
            with pytest.raises(BrokerRefused, match="broken"):
                await puller.pull(world.queue(0), 0)
        await slave.stop()

    world.run(main)
