"""What an open consumer does beside handing out: broadcast, pause, give up, give back, tell."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.client import ConsumerSettings, ReceivedMessage
from sprocket.rocketmq.client.consumer import PushConsumer, rebalance
from sprocket.rocketmq.client.consumer.core import ConsumerCore
from sprocket.rocketmq.client.consumer.delivery import DeadLetter, DeliverLater
from sprocket.rocketmq.client.consumer.plan import ConsumerPlan
from sprocket.rocketmq.codec import bodies, headers
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import response
from sprocket.rocketmq.model.route import MessageQueue

Got = list[ReceivedMessage]
BACK = RequestCode.CONSUMER_SEND_MSG_BACK


def consumer(world: Any, listener: Callable[[Got], Any], **options: Any) -> PushConsumer:
    """Return a consumer of group `g` in the world that begins at the first message."""
    own = ("orderly", "broadcast", "strategy", "on_rebalance", "start")
    given = {name: options.pop(name) for name in own if name in options}
    return PushConsumer(
        world.names,
        group="g",
        listener=listener,
        settings=ConsumerSettings(**options),
        **({"start": "first"} | given),
        **world.reach,
    )


def fill(world: Any, count: int, queues: int = 1) -> None:
    """Put messages 0 to count − 1 into topic `t`, in turn."""
    world.cluster.topics["t"] = queues
    for number in range(count):
        world.cluster.store("t", number % queues, b"%d" % number)


def numbers(got: Got) -> list[int]:
    """Return the numbers in the bodies."""
    return [int(message.body) for message in got]


def take_back(world: Any) -> list[headers.SendMessageBack]:
    """Have the broker take messages back; return what it is asked, as it comes."""
    asked: list[headers.SendMessageBack] = []

    def answer(peer: Any, command: Any) -> None:
        asked.append(command.header(headers.SendMessageBack))
        peer.send(response(command, 0))

    world.cluster.on[BACK] = answer
    return asked


@pytest.mark.parametrize("orderly", [False, True])
def test_every_member_that_broadcasts_gets_everything(
    world: Any, tmp_path: Path, orderly: bool
) -> None:
    """Nobody is asked for members, locks or offsets, and nothing is committed at the broker."""

    async def main() -> None:
        mine: Got = []
        theirs: Got = []
        fill(world, 20, queues=2)
        how = {"broadcast": True, "orderly": orderly, "broadcast_folder": str(tmp_path)}
        async with consumer(world, mine.extend, **how) as first:
            await first.subscribe("t")
            async with consumer(world, theirs.extend, **how) as second:
                await second.subscribe("t")
                await world.until(lambda: len(mine) == len(theirs) == 20)
                world.cluster.store("t", 1, b"20")
                await world.until(lambda: len(mine) == len(theirs) == 21)
        assert sorted(numbers(mine)) == sorted(numbers(theirs)) == list(range(21))
        assert world.cluster.committed == {}
        for code in ("GET_CONSUMER_LIST_BY_GROUP", "LOCK_BATCH_MQ", "QUERY_CONSUMER_OFFSET"):
            assert RequestCode[code] not in world.cluster.seen
        pulls = [
            one.header(headers.PullMessage)
            for one in world.cluster.requests
            if one.code == RequestCode.PULL_MESSAGE
        ]
        assert {one.topic for one in pulls} == {"t"}
        assert {one.sys_flag & 1 for one in pulls} == {0}

    world.run(main)


def test_a_second_life_of_a_broadcaster_goes_on_where_the_first_ended(
    world: Any, tmp_path: Path
) -> None:
    """By the file of this machine; what its listener failed with was dropped."""

    async def main() -> None:
        first: Got = []
        second: Got = []
        fill(world, 3)
        how = {"broadcast": True, "broadcast_folder": str(tmp_path), "batch_messages_max": 1}

        def fails_once(messages: Got) -> None:
            first.extend(messages)
            if messages[0].body == b"1":
                raise ValueError("no")

        async with consumer(world, fails_once, **how) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(first) == 3)
            await asyncio.sleep(60)
        world.cluster.store("t", 0, b"3")
        async with consumer(world, second.extend, **how) as reader:
            await reader.subscribe("t")
            await world.until(lambda: bool(second))
        assert numbers(first) == [0, 1, 2]
        assert numbers(second) == [3]
        assert BACK not in world.cluster.seen

    world.run(main)


def test_a_broadcaster_that_cannot_start_leaves_its_folder(world: Any, tmp_path: Path) -> None:
    """It kept the folder locked: who started after it had another one, without the offsets."""

    async def main() -> None:
        how = {"broadcast": True, "broadcast_folder": str(tmp_path)}
        wrong = consumer(world, print, start="middle", **how)
        with pytest.raises(InvalidMessage, match="start 'middle'"):
            await wrong.start()
        async with consumer(world, print, **how):
            assert len(list(tmp_path.iterdir())) == 1

    world.run(main)


def test_nothing_new_is_pulled_while_suspended(world: Any) -> None:
    """Not by a pull that was under way, nor of queues that come meanwhile; later all of it."""

    async def main() -> None:
        got: Got = []
        fill(world, 2)
        async with consumer(world, got.extend) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(got) == 2)
            reader.suspend()
            world.cluster.topics["t"] = 2
            world.cluster.store("t", 0, b"2")
            world.cluster.store("t", 1, b"3")
            await asyncio.sleep(100)
            assert len(got) == 2
            assert len([queue for queue in reader.queues if queue.topic == "t"]) == 2
            reader.resume()
            await world.until(lambda: len(got) == 4)
        assert sorted(numbers(got)) == [0, 1, 2, 3]

    world.run(main)


def test_all_queues_together_are_limited(world: Any) -> None:
    """Each queue has its part of `all_cached_messages_max`; fewer queues have more each."""

    async def main() -> None:
        go = asyncio.Event()

        async def listener(_: Got) -> None:
            await go.wait()

        fill(world, 400, queues=4)
        limits = {"pull_messages_max": 1, "all_cached_messages_max": 40}
        async with consumer(world, listener, **limits) as reader:
            await reader.subscribe("t")
            await asyncio.sleep(10)
            pulls = [
                one.header(headers.PullMessage)
                for one in world.cluster.requests
                if one.code == RequestCode.PULL_MESSAGE
            ]
            highest = max(one.queue_offset for one in pulls if one.topic == "t")
            # the retry topic has no queue here, so four share: a pull goes on at 10, not at 11
            assert highest == 10
            go.set()

    world.run(main)


def test_a_listener_says_when_and_what_comes_again(world: Any) -> None:
    """The level goes to the broker, for the messages that are not done; dead ones say so."""

    async def main() -> None:
        asked = take_back(world)

        def listener(messages: Got) -> None:
            if messages[0].body == b"0":
                raise DeliverLater("busy", level=9, done=1)
            raise DeadLetter("poison")

        fill(world, 3)
        world.cluster.store("t", 0, b"3")
        async with consumer(world, listener, batch_messages_max=3) as reader:
            await reader.subscribe("t")
            await world.until(lambda: world.cluster.committed.get(("g", "t", 0)) == 4)
        levels = [one.delay_level for one in sorted(asked, key=lambda one: one.offset)]
        assert levels == [9, 9, -1]

    world.run(main)


def test_what_takes_too_long_is_given_back(world: Any) -> None:
    """After `consume_timeout_ms`, with level 3; what the listener says later does not count."""

    async def main() -> None:
        asked = take_back(world)
        ended: Got = []

        async def listener(messages: Got) -> None:
            if messages[0].body == b"0":
                await asyncio.sleep(60)
                ended.extend(messages)
                raise ValueError("too late to matter")

        fill(world, 3)
        settings = {"consume_timeout_ms": 20_000, "batch_messages_max": 1, "commit_ms": 100}
        async with consumer(world, listener, **settings) as reader:
            await reader.subscribe("t")
            await asyncio.sleep(19)
            assert asked == []
            await asyncio.sleep(4)
            assert [(one.offset, one.delay_level) for one in asked] == [(0, 3)]
            assert world.cluster.committed["g", "t", 0] == 3
            await asyncio.sleep(50)
            assert len(asked) == len(ended) == 1

    world.run(main)


def test_an_orderly_queue_gives_up_at_last(world: Any) -> None:
    """After `retries_max` a message goes to the dead letters; only then the next ones come."""

    async def main() -> None:
        seen: list[tuple[int, int]] = []

        def listener(messages: Got) -> None:
            seen.extend((int(one.body), one.reconsume_times) for one in messages)
            if messages[0].body == b"1":
                raise ValueError("no")

        world.cluster.topics["%RETRY%g"] = 1
        stored = headers.SendMessageAnswer(msg_id="", queue_id=0, queue_offset=0)
        world.cluster.on[RequestCode.SEND_MESSAGE_V2] = lambda peer, command: peer.send(
            response(command, 0, stored)  # to the dead letters, which nobody reads here
        )
        fill(world, 3)
        settings = {"retries_max": 2, "suspend_ms": 100, "batch_messages_max": 1}
        async with consumer(world, listener, orderly=True, **settings) as reader:
            await reader.subscribe("t")
            await world.until(lambda: world.cluster.committed.get(("g", "t", 0)) == 3)
        assert seen == [(0, 0), (1, 0), (1, 1), (1, 2), (2, 0)]
        sends = [
            one.header(headers.SendMessageV2)
            for one in world.cluster.requests
            if one.code == RequestCode.SEND_MESSAGE_V2
        ]
        assert [(one.reconsume_times, one.max_reconsume_times) for one in sends] == [(3, 2)]
        assert BACK not in world.cluster.seen

    world.run(main)


def test_an_orderly_queue_that_cannot_give_up_stays(world: Any) -> None:
    """While no broker takes it, the message is tried on; its pause is the listener's."""

    async def main() -> None:
        tries: list[float] = []

        def listener(_: Got) -> None:
            tries.append(world.clock.monotonic())
            raise DeliverLater(pause_ms=2_000)

        fill(world, 2)
        async with consumer(world, listener, orderly=True, retries_max=0) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(tries) == 4)
        assert [round(then - now) for now, then in itertools.pairwise(tries)] == [2, 2, 2]
        assert world.cluster.committed.get(("g", "t", 0), 0) == 0

    world.run(main)


@pytest.mark.parametrize("name", ["circle", "hash", "config"])
def test_members_with_one_strategy_share_all_queues(world: Any, name: str) -> None:
    """Whatever the strategy, each queue has one reader, as the strategy says."""

    async def main() -> None:
        fill(world, 40, queues=8)
        mine: Got = []
        theirs: Got = []
        told: list[Sequence[MessageQueue]] = []
        queues = [world.queue(number) for number in range(8)]
        strategies: dict[str, Any] = {
            "circle": (rebalance.by_circle, rebalance.by_circle),
            "hash": (rebalance.consistent_hash(), rebalance.consistent_hash()),
            "config": (rebalance.by_config(queues[:3]), rebalance.by_config(queues[3:])),
        }
        ours, others = strategies[name]
        async with consumer(world, mine.extend, strategy=ours, on_rebalance=told.append) as first:
            await first.subscribe("t")
            async with consumer(world, theirs.extend, strategy=others) as second:
                await second.subscribe("t")
                world.cluster.notify_ids_changed(world.cluster.members["g"][0], "g")
                await world.until(
                    lambda: (
                        sorted([*first.queues, *second.queues]) == queues
                        and len(mine) + len(theirs) >= 40
                    )
                )
                if name == "circle":
                    assert {queue.queue_id % 2 for queue in first.queues} in ({0}, {1})
                if name == "config":
                    assert first.queues == queues[:3]
                assert told[-1] == first.queues
        assert set(numbers(mine) + numbers(theirs)) == set(range(40))

    world.run(main)


def test_a_strategy_that_fails_changes_nothing(world: Any) -> None:
    """Queues stay as they are, and it is asked again."""

    async def main() -> None:
        calls = 0

        def strategy(queues: Sequence[MessageQueue], _: Any, __: str) -> Sequence[MessageQueue]:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise ValueError("a bug of the user's")
            return queues

        fill(world, 1)
        async with consumer(world, lambda _: None, strategy=strategy) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(reader.queues) == 1)
            await world.until(lambda: calls >= 3)
            assert len(reader.queues) == 1

    world.run(main)


@pytest.mark.parametrize("broadcast", [False, True])
def test_a_heartbeat_says_what_the_consumer_is(world: Any, tmp_path: Path, broadcast: bool) -> None:
    """Model, start, and every subscription; the retry topic only where there are retries."""

    async def main() -> None:
        fill(world, 1)
        how = {"broadcast": broadcast, "broadcast_folder": str(tmp_path), "start": "last"}
        async with consumer(world, lambda _: None, **how) as reader:
            await reader.subscribe("t", "a || b")
            sent = [one for one in world.cluster.requests if one.code == RequestCode.HEART_BEAT]
        (data,) = bodies.decode_heartbeat(sent[-1].body).consumers
        assert data.message_model == ("BROADCASTING" if broadcast else "CLUSTERING")
        assert data.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
        topics = {one.topic: one.expression for one in data.subscriptions}
        retry = {} if broadcast else {"%RETRY%g": "*"}
        assert topics == {"t": "a || b"} | retry

    world.run(main)


@pytest.mark.parametrize("automatic", [False, True])
def test_a_polled_queue_that_goes_is_committed_if_wanted(world: Any, automatic: bool) -> None:
    """Up to what is done; and brokers know what kind of consumer it is."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        for number in range(3):
            world.cluster.store("t", 0, b"%d" % number)
        plan = ConsumerPlan(
            group="g",
            start="first",
            is_auto_commit=automatic,
            settings=ConsumerSettings(commit_ms=100_000, batch_messages_max=2),
        )
        core = ConsumerCore(plan, world.names, world.reach)
        await core.start()
        await core.subscribe("t", "*")
        assert len(await core.opened.polling.poll(5)) == 2
        assert len(await core.opened.polling.poll(5)) == 1
        core.opened.assignment.give_up(world.queue(0))
        await asyncio.sleep(1)
        assert world.cluster.committed == ({("g", "t", 0): 2} if automatic else {})
        sent = [one for one in world.cluster.requests if one.code == RequestCode.HEART_BEAT]
        (data,) = bodies.decode_heartbeat(sent[-1].body).consumers
        assert (data.consume_type, data.message_model) == ("CONSUME_ACTIVELY", "CLUSTERING")
        await core.close()

    world.run(main)


def test_pulls_for_polls_commit_nothing(world: Any) -> None:
    """Though a position is noted: what a user has polled is done when they ask for more."""

    async def main() -> None:
        fill(world, 1)
        plan = ConsumerPlan(group="g", start="first")
        core = ConsumerCore(plan, world.names, world.reach)
        await core.start()
        await core.subscribe("t", "*")
        assert len(await core.opened.polling.poll(5)) == 1
        core.opened.assignment.note_positions()
        world.cluster.store("t", 0, b"1")
        assert len(await core.opened.polling.poll(5)) == 1
        await asyncio.sleep(1)
        pulls = [one for one in world.cluster.requests if one.code == RequestCode.LITE_PULL_MESSAGE]
        flags = {one.header(headers.PullMessage).sys_flag & 1 for one in pulls}
        assert (len(pulls) > 2, flags) == (True, {0})
        await core.close()

    world.run(main)
