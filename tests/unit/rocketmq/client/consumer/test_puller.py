"""Pulls at offsets of the caller's own, patient while a broker is away."""

import asyncio
from typing import Any

import pytest

from sprocket.base.errors import BrokerRefused, ClientError, NotConnected
from sprocket.rocketmq.client.consumer import Puller
from sprocket.rocketmq.client.network import PullStatus
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.headers import PullMessage
from sprocket.rocketmq.errors import NoRoute
from sprocket.rocketmq.model.route import QueueSlice


def puller(world: Any, **options: Any) -> Puller:
    """Return a puller in the world."""
    return Puller(world.names, **options, **world.reach)


def test_records_come_as_the_broker_has_them(world: Any) -> None:
    """The body is the stored bytes; the numbers say where to go on."""

    async def main() -> None:
        for number in range(3):
            world.cluster.store("t", 0, b"%d" % number)
        async with puller(world) as reading:
            assert await reading.queues("t") == [world.queue(number) for number in range(4)]
            found = await reading.pull(world.queue(0), 1, 10)
            assert found.status is PullStatus.FOUND
            assert found.body == b"".join(world.cluster.log["t", 0][1:])
            assert (found.next_offset, found.min_offset, found.max_offset) == (3, 0, 3)
            assert (await reading.pull(world.queue(0), 3)).status is PullStatus.NO_NEW_MESSAGE
            moved = await reading.pull(world.queue(0), 9)
            assert (moved.status, moved.next_offset) == (PullStatus.OFFSET_MOVED, 3)
            assert await reading.max_offset(world.queue(0)) == 3
            assert await reading.min_offset(world.queue(0)) == 0
            assert await reading.offset_by_time(world.queue(0), 0) == 0
        assert world.cluster.committed == {}
        assert RequestCode.HEART_BEAT not in world.cluster.seen

    world.run(main)


def test_a_slice_is_pulled_answer_by_answer(world: Any) -> None:
    """Up to its end or a size; the first answer may say anything, others lead on."""

    async def main() -> None:
        for number in range(7):
            world.cluster.store("t", 0, b"%d" % number)
        queue = world.queue(0)
        one = len(world.cluster.log["t", 0][0])
        async with puller(world) as reading:

            async def offsets(start: int, end: int, size: int) -> list[int]:
                wanted = [QueueSlice(queue, start, end)]
                found = await reading.pull_slices(wanted, bytes_max=size, count_max=2)
                return [answer.result.next_offset for answer in found]

            assert await offsets(0, 5, 1 << 20) == [2, 4, 5]
            assert await offsets(0, 5, 2 * one + 1) == [2, 4]
            assert await offsets(0, 5, 2 * one) == [2]
            assert await offsets(4, 99, 1 << 20) == [6, 7]
            assert await offsets(5, 5, 1 << 20) == []
            (nothing,) = await reading.pull_slices([QueueSlice(queue, 7, 9)], bytes_max=1)
            assert nothing.result.status is PullStatus.NO_NEW_MESSAGE
            (moved,) = await reading.pull_slices([QueueSlice(queue, 9, 12)], bytes_max=1)
            assert moved.result.status is PullStatus.OFFSET_MOVED
            assert moved.result.next_offset == 7

    world.run(main)


def test_a_slice_ends_before_a_failure(world: Any) -> None:
    """What was answered is given; who asks for the rest is told, and so is who gets nothing."""

    async def main() -> None:
        for number in range(4):
            world.cluster.store("t", 0, b"%d" % number)
        queue = world.queue(0)
        async with puller(world) as reading:
            await reading.queues("t")

            def refuse_at_two(peer: Any, command: Any) -> None:
                if command.header(PullMessage).queue_offset == 2:
                    world.cluster.refuse(peer, command, ResponseCode.NO_PERMISSION, "not you")
                    return
                del world.cluster.on[RequestCode.PULL_MESSAGE]
                world.cluster.handle(peer, command)
                world.cluster.on[RequestCode.PULL_MESSAGE] = refuse_at_two

            world.cluster.on[RequestCode.PULL_MESSAGE] = refuse_at_two
            wanted = [QueueSlice(queue, 0, 4)]
            found = await reading.pull_slices(wanted, bytes_max=1 << 20, count_max=1)
            assert [answer.result.next_offset for answer in found] == [1, 2]
            with pytest.raises(BrokerRefused, match="not you"):
                await reading.pull_slices([QueueSlice(queue, 2, 4)], bytes_max=1, count_max=1)

    world.run(main)


def test_slices_are_pulled_one_after_the_other(world: Any) -> None:
    """Until there are so many bytes, or one does not lead on; the next who asks hears why."""

    async def main() -> None:
        for number in range(12):
            world.cluster.store("t", number % 3, b"%d" % number)
        one = len(world.cluster.log["t", 0][0])
        slices = [QueueSlice(world.queue(0), 1, 4), QueueSlice(world.queue(1), 0, 3)]
        async with puller(world) as reading:

            async def found(*wanted: QueueSlice, size: int = 1 << 20) -> list[tuple[int, int]]:
                answers = await reading.pull_slices(wanted, bytes_max=size, count_max=2)
                assert all(answer.wanted in wanted for answer in answers)
                return [(a.wanted.queue.queue_id, a.result.next_offset) for a in answers]

            assert await found() == []
            assert await found(*slices) == [(0, 3), (0, 4), (1, 2), (1, 3)]
            assert await found(*slices, size=3 * one) == [(0, 3), (0, 4)]
            assert await found(*slices, size=3 * one + 1) == [(0, 3), (0, 4), (1, 2)]
            short = QueueSlice(world.queue(2), 2, 9)
            assert await found(short, *slices) == [(2, 4)]
            short = QueueSlice(world.queue(2), 4, 9)
            assert await found(short, *slices) == [(2, 4)]
            moved = QueueSlice(world.queue(2), 9, 12)
            assert await found(slices[0], moved, slices[1]) == [(0, 3), (0, 4)]

    world.run(main)


def test_many_queues_are_asked_for_at_a_time(world: Any) -> None:
    """The answers are those to single questions; the first failure is the whole's."""

    async def main() -> None:
        world.cluster.topics["t"] = 600
        world.cluster.store("t", 7, b"x")
        world.cluster.store("t", 7, b"y")
        queues = [world.queue(number) for number in range(600)]
        async with puller(world) as reading:
            assert await reading.topics() == ["t"]
            ends = await reading.max_offsets(queues)
            assert ends == {queue: 2 if queue.queue_id == 7 else 0 for queue in queues}
            assert await reading.min_offsets(queues[:3]) == dict.fromkeys(queues[:3], 0)
            assert await reading.max_offsets([]) == {}
            assert await reading.offsets_by_time({queues[7]: 0}) == {queues[7]: 0}
            pulled = await reading.pull_each({queues[7]: 0, queues[8]: 0})
            assert pulled[queues[7]].body == world.cluster.log["t", 7][0]
            assert pulled[queues[8]].status is PullStatus.NO_NEW_MESSAGE
            world.cluster.on[RequestCode.GET_MAX_OFFSET] = lambda peer, command: (
                world.cluster.refuse(peer, command, ResponseCode.NO_PERMISSION, "not you")
            )
            with pytest.raises(BrokerRefused, match="not you"):
                await reading.max_offsets(queues)

    world.run(main)


def test_progress_is_noted_under_the_group(world: Any) -> None:
    """For lag tools; the puller itself goes on wherever its caller says."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        async with puller(world, group="watched") as reading:
            await reading.commit(world.queue(0), 5)
        assert world.cluster.committed == {("watched", "t", 0): 5}

    world.run(main)


def test_a_held_pull_is_answered_by_the_next_message(world: Any) -> None:
    """With `hold_ms` the broker waits instead of saying that there is nothing."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        async with puller(world) as reading:
            waiting = asyncio.ensure_future(reading.pull(world.queue(0), 0, hold_ms=10_000))
            await asyncio.sleep(5)
            assert not waiting.done()
            world.cluster.store("t", 0, b"x")
            assert (await waiting).status is PullStatus.FOUND

    world.run(main)


def test_a_restart_is_waited_for(world: Any) -> None:
    """The same question is asked until the broker is there again."""

    async def main() -> None:
        world.cluster.store("t", 0, b"x")
        async with puller(world, patience_ms=20_000) as reading:
            await reading.queues("t")
            await world.cluster.stop()
            waiting = asyncio.ensure_future(reading.pull(world.queue(0), 0))
            await asyncio.sleep(10)
            await world.cluster.start()
            assert (await waiting).status is PullStatus.FOUND

    world.run(main)


def test_patience_has_an_end(world: Any) -> None:
    """30 s by default, less for a topic that nobody knows, none if so asked."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        async with puller(world) as reading:
            began = world.clock.monotonic()
            with pytest.raises(NoRoute, match="unknown"):
                await reading.queues("unknown")
            assert 3 < world.clock.monotonic() - began <= 5
            await reading.queues("t")
            await world.cluster.stop()
            began = world.clock.monotonic()
            with pytest.raises(NotConnected):
                await reading.max_offset(world.queue(0))
            assert 28 < world.clock.monotonic() - began <= 30
        async with puller(world, patience_ms=0) as reading:
            began = world.clock.monotonic()
            with pytest.raises(NoRoute, match="no NameServer answered"):
                await reading.queues("t")
            assert world.clock.monotonic() == began

    world.run(main)


def test_a_refusal_is_not_repeated(world: Any) -> None:
    """A broker that says no is believed at once."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        world.cluster.on[RequestCode.PULL_MESSAGE] = lambda peer, command: world.cluster.refuse(
            peer, command, ResponseCode.NO_PERMISSION, "not you"
        )
        async with puller(world) as reading:
            with pytest.raises(BrokerRefused, match="PULL_MESSAGE: not you"):
                await reading.pull(world.queue(0), 0)
        assert world.cluster.seen.count(RequestCode.PULL_MESSAGE) == 1

    world.run(main)


def test_a_puller_that_is_not_open_says_so(world: Any) -> None:
    """The error tells what to do."""

    async def main() -> None:
        with pytest.raises(ClientError, match="async with"):
            await puller(world).queues("t")

    world.run(main)
