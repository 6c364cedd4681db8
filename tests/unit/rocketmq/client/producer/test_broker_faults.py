"""Brokers that are slow or away are avoided, for as long as the table says."""

import asyncio
from typing import Any

import pytest

from sprocket.rocketmq.client import Message, Producer, ProducerSettings
from sprocket.rocketmq.client.producer.broker_faults import BrokerFaults, probe
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import Command, response
from sprocket.rocketmq.model.route import BrokerData, QueueData, TopicRoute
from sprocket.runtime.driver import Peer
from sprocket.testing.clock import FakeClock

OTHER = "10.0.0.3:10911"


@pytest.mark.parametrize(
    ("latency_s", "avoid_s"),
    [
        (0.0, 0),
        (0.05, 0),
        (0.549, 0),
        (0.55, 2),
        (1.8, 5),
        (3.0, 6),
        (4.999, 6),
        (5.0, 10),
        (14.9, 10),
        (15.0, 30),
        (99.0, 30),
    ],
)
def test_a_broker_is_avoided_by_how_late_it_was(latency_s: float, avoid_s: int) -> None:
    """The table of 5.3.3, row by row."""
    clock = FakeClock()
    faults = BrokerFaults(clock)
    faults.note("b", latency_s, is_failed=False, is_reachable=True)
    assert faults.is_available("b") == (avoid_s == 0)
    clock.advance(max(0, 1000 * avoid_s - 1))
    assert faults.is_available("b") == (avoid_s == 0)
    clock.advance(2)
    assert faults.is_available("b")
    assert faults.is_available("never heard of")


def test_a_failure_counts_as_ten_seconds_and_is_not_called_off() -> None:
    """A quick answer makes the broker reachable, not available."""
    clock = FakeClock()
    faults = BrokerFaults(clock)
    faults.note("b", 0.001, is_failed=True, is_reachable=False)
    assert (faults.is_available("b"), faults.is_reachable("b")) == (False, False)
    clock.advance(5_000)
    faults.note("b", 0.6, is_failed=False, is_reachable=True)
    assert (faults.is_available("b"), faults.is_reachable("b")) == (False, True)
    clock.advance(4_999)
    assert not faults.is_available("b")
    clock.advance(2)
    assert faults.is_available("b")


def two_brokers(world: Any) -> None:
    """Give topic `t` a queue on each of two brokers, b and c."""

    def route(peer: Peer, command: Command) -> None:
        found = TopicRoute(
            queues=[
                QueueData(broker_name=name, read_queues=1, write_queues=1, perm=6) for name in "bc"
            ],
            brokers=[
                BrokerData(cluster="c", name="b", addresses={0: world.cluster.broker_address}),
                BrokerData(cluster="c", name="c", addresses={0: OTHER}),
            ],
        )
        peer.send(response(command, 0, body=[bodies.encode(found, quoted=True)]))

    world.cluster.on[RequestCode.GET_ROUTEINFO_BY_TOPIC] = route


def test_messages_go_round_a_slow_broker_but_keys_do_not(world: Any) -> None:
    """After one late answer the other broker gets what may go anywhere, for two seconds."""
    two_brokers(world)
    slow: list[bool] = [True]

    async def main() -> None:
        await world.cluster.start_one(OTHER)
        usual = world.cluster.usual(RequestCode.SEND_MESSAGE_V2)
        loop = asyncio.get_running_loop()

        def late(peer: Peer, command: Command) -> None:
            at_b = peer in world.cluster.servers[1].peers
            loop.call_later(0.6 if at_b and slow else 0, usual, peer, command)

        world.cluster.on[RequestCode.SEND_MESSAGE_V2] = late
        settings = ProducerSettings(avoid_slow_brokers=True)
        async with Producer(world.names, settings=settings, **world.reach) as sender:
            first = [await sender.send(Message("t", b"x")) for _ in range(4)]
            assert {one.queue.broker_name for one in first[:2]} == {"b", "c"}
            assert {one.queue.broker_name for one in first[2:]} == {"c"}
            keyed = await sender.send(Message("t", b"x"), queue=world.queue(0))
            assert keyed.queue.broker_name == "b"
            slow.clear()
            await asyncio.sleep(2)
            later = [await sender.send(Message("t", b"x")) for _ in range(2)]
            assert {one.queue.broker_name for one in later} == {"b", "c"}

    world.run(main)


def test_probing_asks_until_there_is_an_answer(world: Any) -> None:
    """Every two seconds at most; a broker that no route names is forgotten."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        instance = world.instance()
        await instance.routes.find("t")
        faults = BrokerFaults(world.clock)
        probing = probe(faults, instance.connections, instance.routes, ProducerSettings())
        instance.tasks.spawn(probing, "probe")
        faults.note("b", 0, is_failed=True, is_reachable=False)
        faults.note("gone", 0, is_failed=True, is_reachable=False)
        world.cluster.on[RequestCode.GET_MAX_OFFSET] = lambda *_: None
        await asyncio.sleep(6.5)
        assert world.cluster.seen.count(RequestCode.GET_MAX_OFFSET) == 2
        assert not faults.is_reachable("b")
        assert faults.is_reachable("gone")
        del world.cluster.on[RequestCode.GET_MAX_OFFSET]
        await asyncio.sleep(4)
        assert faults.is_reachable("b")
        await instance.close()

    world.run(main)
