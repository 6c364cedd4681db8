"""Lanes keep order, share requests within limits, and leave nobody waiting."""

import asyncio
from typing import Any

import pytest

from sprocket.base.errors import NotConnected
from sprocket.rocketmq.client import ProducerSettings
from sprocket.rocketmq.client.producer.dialing import Dialer
from sprocket.rocketmq.client.producer.outgoing import Outgoing
from sprocket.rocketmq.client.producer.send_lanes import FreeLane, OrderedLane
from sprocket.rocketmq.client.producer.send_request import SendRequests
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command, response
from sprocket.rocketmq.model.route import BrokerData, MessageQueue, QueueData, TopicRoute
from sprocket.runtime.driver import Peer


class Bench:
    """A lane's surroundings."""

    def __init__(self, world: Any, **settings: Any) -> None:
        self.world = world
        self.instance = world.instance()
        self.ended: list[Outgoing] = []
        self.post = SendRequests("g", ProducerSettings(**settings), world.clock, self.ended.append)
        self.dialer = Dialer(
            self.instance.connections,
            self.instance.routes,
            self.instance.tasks,
            self.instance.settings,
        )

    def message(self, body: bytes, *, alone: bool = False, seconds: float = 60.0) -> Outgoing:
        """Return a message to send."""
        deadline = self.world.clock.monotonic() + seconds
        one = Outgoing("t", body, b"", 0, 0, 0, (body.decode(),), False, alone, deadline)
        one.reply = asyncio.get_running_loop().create_future()
        return one


def test_requests_of_an_ordered_lane_respect_the_limit_and_the_loners(world: Any) -> None:
    """At most `batch_bytes_max` together; a message that must be alone is, in its place."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        bench = Bench(world, batch_bytes_max=250)
        await bench.instance.routes.find("t")
        emptied: list[bool] = []
        lane = OrderedLane(
            world.queue(0), bench.post, bench.dialer, lambda: emptied.append(lane.is_empty)
        )
        for number in range(6):
            lane.put(bench.message(b"%d" % number * 100, alone=number == 3))
        assert not lane.is_empty
        await world.until(lambda: lane.is_empty)
        assert emptied == [True]
        sent = [[body[:1] for body in some] for _, some in world.cluster.sends]
        assert sent == [[b"0", b"1"], [b"2"], [b"3"], [b"4", b"5"]]
        await bench.instance.close()

    world.run(main)


def test_an_ordered_lane_has_one_request_on_the_wire(world: Any) -> None:
    """What comes while it is unanswered waits, however long that takes."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        bench = Bench(world)
        await bench.instance.routes.find("t")
        asked: list[tuple[Peer, Command]] = []
        world.cluster.on[RequestCode.SEND_MESSAGE_V2] = lambda *one: asked.append(one)
        lane = OrderedLane(world.queue(0), bench.post, bench.dialer, lambda: None)
        for number in range(3):
            lane.put(bench.message(b"%d" % number, alone=True))
            await asyncio.sleep(0.5)
        assert [command.body for _, command in asked] == [b"0"]
        world.cluster.on.clear()
        world.cluster.usual(RequestCode.SEND_MESSAGE_V2)(*asked[0])
        await world.until(lambda: lane.is_empty)
        assert world.cluster.bodies("t", 0) == [b"0", b"1", b"2"]
        await bench.instance.close()

    world.run(main)


@pytest.mark.parametrize("failure", ["lost", "busy", "refused", "silent"])
def test_what_failed_goes_out_again_before_what_waits(world: Any, failure: str) -> None:
    """In its own order, whether the connection, the broker or the answer failed."""

    async def main() -> None:
        cluster = world.cluster
        cluster.topics["t"] = 1
        bench = Bench(world, try_timeout_ms=1_000)
        await bench.instance.routes.find("t")
        asked: list[tuple[Peer, Command]] = []
        kinds = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
        for kind in kinds:
            cluster.on[kind] = lambda *one: asked.append(one)
        lane = OrderedLane(world.queue(0), bench.post, bench.dialer, lambda: None)
        for number in range(3):
            lane.put(bench.message(b"%d" % number))
        await world.until(lambda: len(asked) == 1)
        for number in range(3, 6):
            lane.put(bench.message(b"%d" % number))
        cluster.on.clear()
        peer, command = asked[0]
        if failure == "lost":
            await cluster.stop()
            await cluster.start()
        elif failure == "busy":
            cluster.refuse(peer, command, 2, "busy")
        elif failure == "refused":
            cluster.refuse(peer, command, 13, "illegal")
        await world.until(lambda: lane.is_empty)
        assert cluster.bodies("t", 0) == [b"%d" % number for number in range(6)]
        await bench.instance.close()

    world.run(main)


def test_an_expired_message_lets_the_next_go(world: Any) -> None:
    """What came behind it goes on without it."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        bench = Bench(world)
        await bench.instance.routes.find("t")
        await world.cluster.stop()
        lane = OrderedLane(world.queue(0), bench.post, bench.dialer, lambda: None)
        short, long = bench.message(b"s", seconds=1), bench.message(b"l")
        lane.put(short)
        lane.put(long)
        await asyncio.sleep(2)
        lane.expire()
        assert bench.ended == [short]
        assert short.reply is not None
        assert "nobody listens" in str(short.reply.exception())
        await world.cluster.start()
        await world.until(lambda: lane.is_empty)
        assert world.cluster.bodies("t", 0) == [b"l"]
        await bench.instance.close()

    world.run(main)


def test_abandoned_messages_end_at_once(world: Any) -> None:
    """In both kinds of lane."""

    async def main() -> None:
        bench = Bench(world)
        lanes: list[Any] = [
            OrderedLane(world.queue(0), bench.post, bench.dialer, lambda: None),
            FreeLane([world.queue(0)], 0, bench.post, bench.dialer),
        ]
        for lane in lanes:
            lane.put(bench.message(b"x"))
            lane.abandon(NotConnected("given up"))
        assert len(bench.ended) == 2
        await bench.instance.close()

    world.run(main)


def test_a_free_message_avoids_the_broker_that_failed_it(world: Any) -> None:
    """While another broker can be reached; and goes back to the first if none else can."""

    async def main() -> None:
        other = "10.0.0.3:10911"
        route = TopicRoute(
            queues=[
                QueueData(broker_name=name, read_queues=1, write_queues=1, perm=6)
                for name in ("b", "c")
            ],
            brokers=[
                BrokerData(cluster="c", name="b", addresses={0: world.cluster.broker_address}),
                BrokerData(cluster="c", name="c", addresses={0: other}),
            ],
        )
        world.cluster.on[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda peer, command: peer.send(
            response(command, 0, body=[bodies.encode(route, quoted=True)])
        )
        await world.cluster.start_one(other)
        bench = Bench(world)
        await bench.instance.routes.find("t")
        for address in (world.cluster.broker_address, other):
            await bench.instance.connections.channel(address)
        lane = FreeLane(bench.instance.routes.publish_queues("t"), 0, bench.post, bench.dialer)
        tried: list[str] = []

        def busy_twice(peer: Peer, command: Command) -> None:
            tried.append(peer.local_address)
            if len(tried) < 3:
                world.cluster.refuse(peer, command, 2, "busy")
            else:
                world.cluster.usual(RequestCode.SEND_MESSAGE_V2)(peer, command)

        world.cluster.on[RequestCode.SEND_MESSAGE_V2] = busy_twice
        one = bench.message(b"x")
        lane.put(one)
        await world.until(lambda: bench.ended == [one])
        assert tried[0] == tried[2] != tried[1]
        await bench.instance.close()

    world.run(main)


def test_queues_take_turns(world: Any) -> None:
    """Messages without a key go round the queues."""

    async def main() -> None:
        world.cluster.topics["t"] = 3
        bench = Bench(world)
        await bench.instance.routes.find("t")
        lane = FreeLane(bench.instance.routes.publish_queues("t"), 0, bench.post, bench.dialer)
        for number in range(6):
            lane.put(bench.message(b"%d" % number))
        await world.until(lambda: len(bench.ended) == 6)
        assert [len(world.cluster.log["t", number]) for number in range(3)] == [2, 2, 2]
        assert isinstance(lane.queues[0], MessageQueue)
        await bench.instance.close()

    world.run(main)


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_lane_finds_the_machine_that_has_taken_the_brokers_place(
    world: Any, is_ordered: bool
) -> None:
    """Within a second of its refusal, as a master is that has handed over: it only refuses."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        bench = Bench(world)
        await bench.instance.routes.find("t")
        asked = world.cluster.seen.count(RequestCode.GET_ROUTEINFO_BY_TOPIC)

        def refuse(peer: Peer, command: Command) -> None:
            peer.send(response(command, ResponseCode.SYSTEM_BUSY, remark="[REJECTREQUEST]"))

        world.cluster.on[RequestCode.SEND_MESSAGE_V2] = refuse
        lane: FreeLane | OrderedLane
        if is_ordered:
            lane = OrderedLane(world.queue(0), bench.post, bench.dialer, lambda: None)
        else:
            lane = FreeLane([world.queue(0)], 0, bench.post, bench.dialer)
        lane.put(bench.message(b"1"))
        await asyncio.sleep(1)
        assert 1 <= world.cluster.seen.count(RequestCode.GET_ROUTEINFO_BY_TOPIC) - asked <= 3
        del world.cluster.on[RequestCode.SEND_MESSAGE_V2]
        await world.until(lambda: len(world.cluster.sends) == 1)
        await bench.instance.close()

    world.run(main)
