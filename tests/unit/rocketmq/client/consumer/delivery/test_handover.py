"""A loop in place of a listener: done when the next is asked for, nothing lost when it is left."""

import asyncio
import contextlib
import itertools
from typing import Any

import pytest

from sprocket.base.errors import ClientError
from sprocket.rocketmq.client import ConsumerSettings, ReceivedMessage
from sprocket.rocketmq.client.consumer import PushConsumer
from sprocket.rocketmq.codec import headers
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import response


def consumer(world: Any, *, orderly: bool = False, **options: Any) -> PushConsumer:
    """Return a consumer of group `g` without a listener."""
    settings = ConsumerSettings(**options)
    return PushConsumer(
        world.names, group="g", orderly=orderly, start="first", settings=settings, **world.reach
    )


def fill(world: Any, count: int, queues: int = 1) -> None:
    """Put messages 0 to count − 1 into topic `t`, in turn."""
    world.cluster.topics["t"] = queues
    for number in range(count):
        world.cluster.store("t", number % queues, b"%d" % number)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_message_is_done_when_the_next_is_asked_for(world: Any, orderly: bool) -> None:
    """Not while the loop is at it; the one with which the loop was left comes again."""

    async def main() -> None:
        got: list[int] = []
        fill(world, 10)
        async with consumer(world, orderly=orderly, commit_ms=100) as reader:
            await reader.subscribe("t")
            async for message in reader:
                got.append(int(message.body))
                if got[-1] == 4:
                    await asyncio.sleep(1)
                    assert world.cluster.committed["g", "t", 0] == 4
                    break
        assert world.cluster.committed["g", "t", 0] == 4
        async with consumer(world, orderly=orderly) as reader:
            await reader.subscribe("t")
            async for message in reader:
                got.append(int(message.body))
                if got[-1] == 9:
                    reader.done(message)
                    break
        assert got == [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9]
        assert world.cluster.committed["g", "t", 0] == 10

    world.run(main)


def test_the_next_loop_gets_what_the_last_was_left_with(world: Any) -> None:
    """Also after an error; other messages are not passed over."""

    async def main() -> None:
        got: list[bytes] = []
        fill(world, 3)
        async with consumer(world, orderly=True) as reader:
            await reader.subscribe("t")
            with contextlib.suppress(ValueError):
                async for _ in reader:
                    raise ValueError("no")
            await asyncio.sleep(0.01)
            async for message in reader:
                got.append(message.body)
                if len(got) == 3:
                    break
        assert got == [b"0", b"1", b"2"]

    world.run(main)


def test_a_loop_says_what_comes_again(world: Any) -> None:
    """Later, with a level, or never; the loop goes on meanwhile."""

    async def main() -> None:
        asked: list[tuple[int, int]] = []

        def take_back(peer: Any, command: Any) -> None:
            header = command.header(headers.SendMessageBack)
            asked.append((header.origin_msg_id != "", header.delay_level))
            peer.send(response(command, 0))

        world.cluster.on[RequestCode.CONSUMER_SEND_MSG_BACK] = take_back
        fill(world, 4)
        async with consumer(world) as reader:
            await reader.subscribe("t")
            async for message in reader:
                match message.body:
                    case b"0":
                        reader.later(message, "busy", level=5)
                    case b"1":
                        reader.dead_letter(message, "poison")
                    case b"3":
                        reader.done(message)
                        break
            with pytest.raises(ClientError, match="in no loop's hand"):
                reader.done(message)
        assert [level for _, level in asked] == [5, -1]
        assert world.cluster.committed["g", "t", 0] == 4

    world.run(main)


def test_several_loops_share_the_messages(world: Any) -> None:
    """Each message goes to one of them; all end when the consumer is closed."""

    async def main() -> None:
        got: list[list[int]] = [[], [], []]
        fill(world, 30, queues=3)
        reader = consumer(world)
        await reader.start()
        await reader.subscribe("t")

        async def loop(mine: list[int]) -> None:
            async for message in reader:
                await asyncio.sleep(0.1)
                mine.append(int(message.body))

        tasks = [asyncio.ensure_future(loop(mine)) for mine in got]
        await world.until(lambda: sum(map(len, got)) == 30)
        await reader.close()
        for task in tasks:
            await task
        assert sorted(itertools.chain(*got)) == list(range(30))
        assert all(got)
        assert {world.cluster.committed["g", "t", number] for number in range(3)} == {10}

    world.run(main)


def test_closing_waits_for_the_message_in_hand(world: Any) -> None:
    """It is done; those that no loop has taken are not, and nobody fails."""

    async def main() -> None:
        fill(world, 5)
        reader = consumer(world)
        await reader.start()
        await reader.subscribe("t")
        taken = asyncio.Event()

        async def loop() -> None:
            async for _ in reader:
                taken.set()
                await asyncio.sleep(3)

        task = asyncio.ensure_future(loop())
        await taken.wait()
        began = world.clock.monotonic()
        await reader.close()
        assert 2 < world.clock.monotonic() - began < 4
        await task
        assert world.cluster.committed["g", "t", 0] == 1
        assert RequestCode.CONSUMER_SEND_MSG_BACK not in world.cluster.seen

    world.run(main)


def test_a_queue_that_went_away_is_not_handed_on(world: Any) -> None:
    """What waited of it is dropped: somebody else has it now."""

    async def main() -> None:
        got: list[ReceivedMessage] = []
        fill(world, 5)
        async with consumer(world) as reader:
            await reader.subscribe("t")
            await asyncio.sleep(5)
            await reader.unsubscribe("t")

            async def loop() -> None:
                async for message in reader:
                    got.append(message)

            task = asyncio.ensure_future(loop())
            await asyncio.sleep(5)
        await task
        assert got == []

    world.run(main)


def test_a_consumer_has_a_listener_or_loops(world: Any) -> None:
    """Not both."""
    reader = PushConsumer(world.names, group="g", listener=lambda _: None)
    with pytest.raises(ClientError, match="has a listener"):
        aiter(reader)
