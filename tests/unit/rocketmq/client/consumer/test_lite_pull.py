"""A lite consumer gives what it is asked for, from where it is told, and commits what is done."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

from sprocket.base.errors import BrokerRefused, ClientError, InvalidMessage
from sprocket.rocketmq.client import ConsumerSettings, ReceivedMessage, Sql
from sprocket.rocketmq.client.consumer import LitePullConsumer
from sprocket.rocketmq.codec import bodies, headers
from sprocket.rocketmq.codec.bodies import QueueOffsets
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.headers import ResetOffset
from sprocket.rocketmq.errors import NoRoute
from sprocket.rocketmq.model.route import MessageQueue


def consumer(world: Any, *, start: Any = "first", **options: Any) -> LitePullConsumer:
    """Return a consumer of group `g`."""
    automatic = options.pop("auto_commit", True)
    return LitePullConsumer(
        world.names,
        group="g",
        start=start,
        auto_commit=automatic,
        settings=ConsumerSettings(**options),
        **world.reach,
    )


def fill(world: Any, count: int, queues: int = 1) -> None:
    """Put messages 0 to count − 1 into topic `t`, in turn, with the tag A or B."""
    world.cluster.topics["t"] = queues
    for number in range(count):
        tag = "AB"[number // queues % 2]
        world.cluster.store("t", number % queues, b"%d" % number, world.encoded(TAGS=tag))


def numbers(messages: Sequence[ReceivedMessage]) -> list[int]:
    """Return the numbers in the bodies."""
    return [int(one.body) for one in messages]


async def take(reader: LitePullConsumer, count: int) -> list[int]:
    """Poll until there are so many; return their numbers."""
    got: list[int] = []
    while len(got) < count:
        got += numbers(await reader.poll())
    return got


def committed(world: Any, queue_id: int = 0) -> int | None:
    """Return what the group has committed for a queue of topic `t`."""
    found: int | None = world.cluster.committed.get(("g", "t", queue_id))
    return found


def test_what_was_polled_is_done_by_the_next_poll(world: Any) -> None:
    """And committed some time later; closing commits the last ones."""

    async def main() -> None:
        fill(world, 60)
        async with consumer(
            world, batch_messages_max=20, pull_messages_max=32, commit_ms=1_000
        ) as reader:
            await reader.subscribe("t")
            assert numbers(await reader.poll()) == list(range(20))
            await asyncio.sleep(3)
            assert committed(world) == 0
            assert numbers(await reader.poll()) == list(range(20, 32))
            await asyncio.sleep(3)
            assert committed(world) == 20
            assert await take(reader, 28) == list(range(32, 60))
            assert await reader.poll(timeout_ms=100) == []
            world.cluster.store("t", 0, b"60")
            assert numbers(await reader.poll()) == [60]
        assert committed(world) == 61
        assert world.cluster.members["g"] == []
        assert RequestCode.PULL_MESSAGE not in world.cluster.seen
        pull = next(one for one in world.cluster.requests if one.code == 361)
        assert pull.header(headers.PullMessage).sys_flag == 16 + 4 + 2

    world.run(main)


def test_an_error_leaves_the_last_ones_undone(world: Any) -> None:
    """They come again in the next life."""

    async def main() -> None:
        fill(world, 30)
        with contextlib.suppress(ValueError):
            async with consumer(world, batch_messages_max=10) as reader:
                await reader.subscribe("t")
                await take(reader, 20)
                raise ValueError("no")
        assert committed(world) == 10
        async with consumer(world) as reader:
            await reader.subscribe("t")
            assert (await take(reader, 20))[0] == 10

    world.run(main)


def test_only_commit_commits_where_it_is_not_automatic(world: Any) -> None:
    """What was given, or what the user says; a seek alone changes nothing."""

    async def main() -> None:
        fill(world, 40)
        async with consumer(world, auto_commit=False, batch_messages_max=10) as reader:
            await reader.subscribe("t")
            await take(reader, 20)
            await asyncio.sleep(30)
            assert committed(world) is None
            await reader.commit()
            assert (committed(world), await reader.committed(world.queue(0))) == (20, 20)
            await take(reader, 10)
            await reader.commit({world.queue(0): 23})
            assert committed(world) == 23
            await reader.seek(world.queue(0), 5)
        assert committed(world) == 23

    world.run(main)


def test_a_commit_that_fails_says_so(world: Any) -> None:
    """And the next one tries again."""

    async def main() -> None:
        fill(world, 1)
        code = RequestCode.UPDATE_CONSUMER_OFFSET
        async with consumer(world, auto_commit=False) as reader:
            await reader.subscribe("t")
            await take(reader, 1)
            world.cluster.on[code] = lambda peer, command: world.cluster.refuse(
                peer, command, ResponseCode.SYSTEM_ERROR, "no"
            )
            with pytest.raises(ClientError, match="commit again"):
                await reader.commit()
            world.cluster.on.clear()
            await reader.commit()
            assert committed(world) == 1

    world.run(main)


def test_a_loop_gets_one_message_after_the_other(world: Any) -> None:
    """A commit within it counts the one in hand, and not the ones behind."""

    async def main() -> None:
        fill(world, 10)
        got: list[int] = []
        async with consumer(world, auto_commit=False) as reader:
            await reader.subscribe("t")
            async for message in reader:
                got.append(int(message.body))
                assert reader.position(world.queue(0)) == len(got)
                if len(got) in (4, 10):
                    await reader.commit()
                    assert committed(world) == len(got)
                if len(got) == 10:
                    break
        assert got == list(range(10))

    world.run(main)


def test_seeking_goes_on_elsewhere(world: Any) -> None:
    """What was pulled of the queue before is not given any more."""

    async def main() -> None:
        fill(world, 100)
        queue = world.queue(0)
        async with consumer(world, batch_messages_max=10) as reader:
            await reader.subscribe("t")
            await take(reader, 10)
            await reader.seek(queue, 95)
            assert reader.position(queue) == 95
            assert await take(reader, 5) == [95, 96, 97, 98, 99]
            await reader.seek_to_begin()
            assert (await take(reader, 10))[0] == 0
            await reader.seek_to_end(queue)
            world.cluster.store("t", 0, b"100")
            assert await take(reader, 1) == [100]
            for wrong in (-1, 102):
                with pytest.raises(InvalidMessage, match="expected 0 to 101"):
                    await reader.seek(queue, wrong)
            with pytest.raises(ClientError, match="t/b/7 is not read"):
                await reader.seek(world.queue(7), 0)
        assert committed(world) == 101

    world.run(main)


def test_seeking_in_one_queue_leaves_what_is_in_hand_of_another(world: Any) -> None:
    """It is not done, and comes again after an error."""

    async def main() -> None:
        fill(world, 40, queues=2)
        with contextlib.suppress(ValueError):
            async with consumer(world, batch_messages_max=5, commit_ms=1_000) as reader:
                await reader.subscribe("t")
                (first, *_) = await reader.poll()
                other = world.queue(1 - first.queue.queue_id)
                while other not in reader.queues:
                    await asyncio.sleep(1)
                await reader.seek(other, 3)
                await asyncio.sleep(3)
                assert committed(world, first.queue.queue_id) == 0
                assert committed(world, other.queue_id) == 3
                raise ValueError("no")
        assert committed(world, first.queue.queue_id) == 0

    world.run(main)


def test_a_paused_queue_gives_nothing(world: Any) -> None:
    """Not what was pulled before either; another queue goes on."""

    async def main() -> None:
        fill(world, 40, queues=2)
        async with consumer(world, batch_messages_max=5) as reader:
            await reader.subscribe("t")
            first = await reader.poll()
            paused = first[0].queue
            reader.pause(paused)
            got = await take(reader, 20)
            assert {number % 2 for number in got} == {1 - paused.queue_id}
            world.cluster.store("t", paused.queue_id, b"40")
            assert await reader.poll(timeout_ms=60_000) == []
            reader.resume()
            rest = await take(reader, 16)
            assert rest[0] == int(first[-1].body) + 2
            assert rest[-1] == 40

    world.run(main)


def test_queues_are_not_assigned_by_a_condition_that_is_refused(world: Any) -> None:
    """What was assigned before stays."""

    async def main() -> None:
        fill(world, 4, queues=2)
        world.cluster.on[RequestCode.CHECK_CLIENT_CONFIG] = lambda peer, command: (
            world.cluster.refuse(peer, command, ResponseCode.SYSTEM_ERROR, "no conditions here")
        )
        async with consumer(world) as reader:
            await reader.assign([world.queue(0)])
            with pytest.raises(BrokerRefused, match="no conditions here"):
                await reader.assign([world.queue(1)], Sql("a > 5"))
            assert reader.queues == [world.queue(0)]

    world.run(main)


def test_queues_can_be_assigned_by_hand(world: Any) -> None:
    """Exactly those, whoever else is in the group; nobody shares them out."""

    async def main() -> None:
        fill(world, 40, queues=4)
        async with (
            consumer(world) as reader,
            LitePullConsumer(world.names, group="g", start="first", **world.reach) as other,
        ):
            assert await reader.topic_queues("t") == [world.queue(number) for number in range(4)]
            for one in (reader, other):
                await one.assign([world.queue(1), world.queue(3)], "B")
            got = await take(reader, 10)
            assert {number % 4 for number in got} == {1, 3}
            assert {number // 4 % 2 for number in got} == {1}
            assert len(await take(other, 10)) == 10
            await asyncio.sleep(60)
            assert reader.queues == other.queues == [world.queue(1), world.queue(3)]
            await reader.assign([world.queue(0)])
            assert reader.queues == [world.queue(0)]
            assert (await take(reader, 10))[0] == 0
            with pytest.raises(ClientError, match="either subscribes or assigns"):
                await reader.subscribe("t")
        assert RequestCode.GET_CONSUMER_LIST_BY_GROUP not in world.cluster.seen

    world.run(main)


def test_a_group_shares_out_and_hands_over(world: Any) -> None:
    """What the first has done is not given to the second."""

    async def main() -> None:
        fill(world, 40, queues=2)
        told: list[Sequence[MessageQueue]] = []
        first = LitePullConsumer(
            world.names, group="g", start="first", on_rebalance=told.append, **world.reach
        )
        await first.subscribe("t")
        async with first:
            await take(first, 40)
            assert await first.poll(0) == []
            await asyncio.sleep(6)  # nothing but the commit keeps the second from reading it again
            async with consumer(world) as second:
                await second.subscribe("t")
                world.cluster.notify_ids_changed(world.cluster.members["g"][0], "g")
                await world.until(lambda: len(second.queues) == 1 == len(first.queues))
                assert await second.poll() == []
                world.cluster.store("t", second.queues[0].queue_id, b"40")
                assert numbers(await second.poll()) == [40]
        assert [len(queues) for queues in told] == [2, 1]

    world.run(main)


def test_a_watcher_is_told_of_new_queues(world: Any) -> None:
    """When the route has changed, and of nothing else."""

    async def main() -> None:
        world.cluster.topics |= {"t": 1, "other": 1}
        told: list[int] = []

        def changed(queues: Sequence[MessageQueue]) -> None:
            told.append(len(queues))
            raise ValueError("a bug of the user's")

        async with consumer(world) as reader:
            assert await reader.watch_topic("t", changed) == [world.queue(0)]
            await reader.topic_queues("other")
            world.cluster.topics |= {"t": 3, "other": 2}
            await asyncio.sleep(40)
            assert told == [3]
            with pytest.raises(NoRoute):
                await reader.watch_topic("absent", changed)

    world.run(main)


def test_a_broker_without_lite_pulls_is_pulled_the_old_way(world: Any) -> None:
    """From the second pull on."""

    async def main() -> None:
        fill(world, 3)
        world.cluster.on[RequestCode.LITE_PULL_MESSAGE] = lambda peer, command: (
            world.cluster.refuse(peer, command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "old")
        )
        async with consumer(world) as reader:
            await reader.subscribe("t")
            assert await take(reader, 3) == [0, 1, 2]
        assert world.cluster.seen.count(RequestCode.LITE_PULL_MESSAGE) == 1

    world.run(main)


def test_offsets_can_be_looked_up(world: Any) -> None:
    """The ends of a queue, and by time."""

    async def main() -> None:
        fill(world, 3)
        await asyncio.sleep(10)
        at_ms = world.clock.now_ms()
        await asyncio.sleep(10)
        world.cluster.store("t", 0, b"3")
        queue = world.queue(0)
        async with consumer(world) as reader:
            await reader.topic_queues("t")
            found = [await reader.min_offset(queue), await reader.max_offset(queue)]
            assert [*found, await reader.offset_by_time(queue, at_ms)] == [0, 4, 3]

    world.run(main)


def test_a_closed_consumer_says_so(world: Any) -> None:
    """Whatever is asked of it; it has no queues, and may be closed again."""

    async def main() -> None:
        reader = consumer(world)
        await reader.close()
        assert reader.queues == []
        for ask in (reader.poll(), reader.commit(), reader.assign([])):
            with pytest.raises(ClientError, match="not open"):
                await ask

    world.run(main)


def test_a_second_close_waits_for_the_first(world: Any) -> None:
    """It does not cut off what the first has to say."""

    async def main() -> None:
        fill(world, 2)
        reader = consumer(world)
        await reader.start()
        await reader.subscribe("t")
        await take(reader, 2)
        release = world.hold(RequestCode.UPDATE_CONSUMER_OFFSET)
        first, second = (asyncio.ensure_future(reader.close()) for _ in "ab")
        await asyncio.sleep(1)
        assert not first.done()
        assert not second.done()
        release()
        await first
        await second
        assert committed(world) == 2
        assert world.cluster.members["g"] == []

    world.run(main)


def test_a_reset_of_an_operator_is_stored(world: Any) -> None:
    """Though only `commit` commits otherwise; the messages come from there on."""

    async def main() -> None:
        fill(world, 10)
        async with consumer(world, auto_commit=False) as reader:
            await reader.subscribe("t")
            await take(reader, 10)
            world.cluster.ask(
                world.cluster.members["g"][0],
                RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
                ResetOffset(topic="t", group="g", timestamp=0),
                bodies.encode(QueueOffsets({world.queue(0): 7})),
                oneway=True,
            )
            assert await take(reader, 3) == [7, 8, 9]
            await world.until(lambda: committed(world) == 7)

    world.run(main)
