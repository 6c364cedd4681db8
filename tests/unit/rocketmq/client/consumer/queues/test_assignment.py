"""Queues are taken where they should begin, and given up when nothing of them is at work."""

import asyncio
from typing import Any

import pytest

from sprocket.rocketmq.client.consumer.delivery import (
    ConcurrentConsumption,
    ListenerCalls,
    OrderlyConsumption,
)
from sprocket.rocketmq.client.consumer.plan import ConsumerPlan
from sprocket.rocketmq.client.consumer.queues import (
    Assignment,
    BrokerLedger,
    Locks,
    Offsets,
    QueuePuller,
)
from sprocket.rocketmq.client.network import Lease
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.model.group import Subscription
from sprocket.rocketmq.model.offsets import QueueOffset


class Bench:
    """An assignment of group `g` for topic `t` with two queues."""

    def __init__(self, world: Any, listener: Any, *, orderly: bool = False) -> None:
        world.cluster.topics["t"] = 2
        self.lease = lease = Lease("consumer", world.names, world.reach)
        self.instance = instance = lease.begin()
        self.offsets = Offsets("g", BrokerLedger("g", instance.brokers))
        plan = ConsumerPlan(group="g", listener=listener, is_orderly=orderly)

        async def keep(messages: Any, _: int) -> Any:
            return list(messages)

        calls = ListenerCalls(listener, world.clock)

        kind = OrderlyConsumption if orderly else ConcurrentConsumption
        consumption = kind(plan, calls, self.offsets, keep, instance.tasks)
        subscriptions = {"t": Subscription.parse("t", "*")}
        pulling = QueuePuller(plan, instance.brokers, subscriptions, consumption, self.offsets)
        self.assignment = Assignment(plan, lease, self.offsets, pulling)
        self.both = [world.queue(0), world.queue(1)]

    async def change(self, wanted: Any) -> bool:
        """Hold exactly these queues."""
        await self.instance.routes.find("t")
        return await self.assignment.change("t", wanted, self.both)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_queue_goes_when_the_listener_has_returned(world: Any, orderly: bool) -> None:
    """An orderly one keeps its lock so long and cannot be taken back before."""

    async def main() -> None:
        go = asyncio.Event()

        async def listener(_: Any) -> None:
            await go.wait()

        bench = Bench(world, listener, orderly=orderly)
        assert await bench.change(bench.both)
        world.cluster.store("t", 0, b"x")
        await asyncio.sleep(1)
        assert await bench.change(bench.both[1:])
        await asyncio.sleep(1)
        if orderly:
            assert world.cluster.locked["g", "t", 0] == bench.instance.client_id
            assert not await bench.change(bench.both)
        go.set()
        await asyncio.sleep(1)
        assert ("g", "t", 0) not in world.cluster.locked
        assert await bench.change(bench.both)
        assert bench.assignment.queues("t") == bench.both
        await bench.lease.end()

    world.run(main)


def test_a_queue_that_cannot_be_asked_about_is_not_taken(world: Any) -> None:
    """And the call says that it should be repeated."""

    async def main() -> None:
        bench = Bench(world, print)
        code = RequestCode.QUERY_CONSUMER_OFFSET
        world.cluster.on[code] = lambda peer, command: world.cluster.refuse(
            peer, command, ResponseCode.SYSTEM_BUSY, "busy"
        )
        assert not await bench.change(bench.both)
        assert bench.assignment.queues() == []
        world.cluster.on.clear()
        assert await bench.change(bench.both)
        await bench.lease.end()

    world.run(main)


def test_only_locked_queues_are_taken(world: Any) -> None:
    """A broker that does not answer locks nothing."""

    async def main() -> None:
        bench = Bench(world, print, orderly=True)
        world.cluster.locked["g", "t", 1] = "other"
        assert not await bench.change(bench.both)
        assert bench.assignment.queues() == bench.both[:1]
        await world.cluster.stop()
        locks = Locks("g", "me", bench.instance.brokers)
        assert await locks.acquire(lambda: bench.both) == {}
        await locks.release(bench.both)
        await bench.lease.end()

    world.run(main)


def test_a_queue_that_could_not_be_taken_after_all_is_unlocked(world: Any) -> None:
    """The next round may give it to another member, who would wait for the lock's 60 s."""

    async def main() -> None:
        bench = Bench(world, print, orderly=True)
        world.cluster.on[RequestCode.QUERY_CONSUMER_OFFSET] = lambda peer, command: (
            world.cluster.refuse(peer, command, ResponseCode.SYSTEM_ERROR, "not now")
        )
        assert not await bench.change(bench.both)
        assert world.cluster.locked == {}
        await bench.lease.end()

    world.run(main)


def test_no_lock_is_renewed_behind_its_release(world: Any) -> None:
    """A broker may take its time, and handle the later of two requests first."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        lock = world.cluster.usual(RequestCode.LOCK_BATCH_MQ)
        bench = Bench(world, print, orderly=True)
        assert await bench.change(bench.both)
        world.cluster.on[RequestCode.LOCK_BATCH_MQ] = lambda *asked: loop.call_later(
            1, lock, *asked
        )
        renewal = loop.create_task(bench.assignment.renew_locks())
        await asyncio.sleep(0.5)
        bench.assignment.give_up(bench.both[0])
        await renewal
        await asyncio.sleep(3)
        assert [*world.cluster.locked] == [("g", "t", 1)]
        await bench.assignment.leave_all()
        assert world.cluster.locked == {}
        await bench.lease.end()

    world.run(main)


@pytest.mark.parametrize("what", ["left", "taken"])
def test_who_closes_gives_back_what_is_just_being(world: Any, what: str) -> None:
    """A queue is neither held before it is taken nor after it was given up."""

    async def main() -> None:
        go = asyncio.Event()
        loop = asyncio.get_running_loop()
        bench = Bench(world, lambda _: go.wait(), orderly=True)
        if what == "left":
            assert await bench.change(bench.both)
            world.cluster.store("t", 0, b"x")
            await asyncio.sleep(1)
            bench.assignment.give_up(bench.both[0])
            stopping = loop.create_task(bench.assignment.stop())
            await asyncio.sleep(1)
            assert not stopping.done(), "the listener is at work"
            stopping.cancel()
        else:
            world.cluster.on[RequestCode.QUERY_CONSUMER_OFFSET] = lambda *_: None
            taking = loop.create_task(bench.change(bench.both))
            await asyncio.sleep(0.5)
            taking.cancel()
        assert world.cluster.locked
        await bench.assignment.leave_all()
        assert world.cluster.locked == {}
        go.set()
        await bench.lease.end()

    world.run(main)


def test_stopping_hands_out_nothing_more(world: Any) -> None:
    """What is at work returns; then offsets are stored and locks released."""

    async def main() -> None:
        calls: list[int] = []

        async def listener(messages: Any) -> None:
            calls.append(messages[0].queue_offset)
            await asyncio.sleep(1)

        bench = Bench(world, listener, orderly=True)
        await bench.change(bench.both[:1])
        for _ in range(100):
            world.cluster.store("t", 0, b"x")
        await asyncio.sleep(0.5)
        await bench.assignment.stop()
        await asyncio.sleep(10)
        assert len(calls) == 1
        await bench.assignment.leave_all()
        assert world.cluster.committed["g", "t", 0] > 0
        assert world.cluster.locked == {}
        assert bench.assignment.queues() == []
        await bench.lease.end()

    world.run(main)


@pytest.mark.parametrize("ending", ["moved again", "given up", "taken back"])
def test_the_last_move_of_a_queue_decides(world: Any, ending: str) -> None:
    """Whatever becomes of the queue while the listener still has messages of it."""

    async def main() -> None:
        go = asyncio.Event()
        got: list[bytes] = []

        async def listener(messages: Any) -> None:
            got.extend(one.body for one in messages)
            await go.wait()

        bench = Bench(world, listener)
        queue = bench.both[0]
        assert await bench.change(bench.both)
        for body in (b"0", b"1", b"2"):
            world.cluster.store("t", 0, body)
        await world.until(lambda: len(got) == 3)
        first = asyncio.ensure_future(bench.assignment.move(queue, QueueOffset(0)))
        second = asyncio.ensure_future(bench.assignment.move(queue, QueueOffset(2)))
        await asyncio.sleep(1)
        got.clear()
        if ending != "moved again":
            bench.assignment.give_up(queue)
            await asyncio.sleep(1)
        if ending == "taken back":
            assert await bench.change(bench.both)
        go.set()
        assert await first is await second is (ending != "given up")
        await asyncio.sleep(1)
        assert got == ([] if ending == "given up" else [b"2"])
        await bench.lease.end()

    world.run(main)


@pytest.mark.parametrize("count", [2, 1])
def test_of_two_changes_the_last_decides(world: Any, count: int) -> None:
    """And no queue is read twice, though both want it while neither has it."""

    async def main() -> None:
        got: list[bytes] = []
        bench = Bench(world, lambda messages: got.extend(one.body for one in messages))
        release = world.hold(RequestCode.QUERY_CONSUMER_OFFSET)
        first = asyncio.ensure_future(bench.change(bench.both))
        await asyncio.sleep(1)
        second = asyncio.ensure_future(bench.change(bench.both[:count]))
        await asyncio.sleep(1)
        release()
        assert await first
        assert await second
        assert bench.assignment.queues("t") == bench.both[:count]
        world.cluster.store("t", 0, b"x")
        await asyncio.sleep(1)
        assert got == [b"x"]
        await bench.lease.end()

    world.run(main)


def test_what_is_read_again_after_a_move_is_committed_again(world: Any) -> None:
    """Up to the offset that was committed before somebody at the broker set the group back."""

    async def main() -> None:
        async def listener(_: Any) -> None:
            pass

        bench = Bench(world, listener)
        queue, place = bench.both[0], ("g", "t", 0)
        assert await bench.change(bench.both)
        for body in (b"0", b"1"):
            world.cluster.store("t", 0, body)
        await world.until(lambda: bench.offsets.get(queue) == 2)
        await bench.offsets.store()
        assert world.cluster.committed[place] == 2
        world.cluster.committed[place] = 0
        assert await bench.assignment.move(queue, QueueOffset(0))
        await world.until(lambda: bench.offsets.get(queue) == 2)
        await bench.offsets.store()
        assert world.cluster.committed[place] == 2
        await bench.lease.end()

    world.run(main)
