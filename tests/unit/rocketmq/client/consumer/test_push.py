"""What a push consumer promises: everything once it is done, order, shares, offsets."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from sprocket.base.errors import BrokerRefused, InvalidMessage
from sprocket.rocketmq.client import ConsumerSettings, ReceivedMessage, Sql
from sprocket.rocketmq.client.consumer import PushConsumer
from sprocket.rocketmq.codec import bodies, headers
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import response
from sprocket.rocketmq.model.group import Subscription

Got = list[ReceivedMessage]


def consumer(
    world: Any, listener: Callable[[Got], Any], *, start: Any = "first", **options: Any
) -> PushConsumer:
    """Return a consumer of group `g` in the world."""
    orderly = options.pop("orderly", False)
    return PushConsumer(
        world.names,
        group="g",
        listener=listener,
        orderly=orderly,
        start=start,
        settings=ConsumerSettings(**options),
        **world.reach,
    )


def fill(world: Any, count: int, topic: str = "t", queues: int = 4) -> None:
    """Put messages 0 to count − 1 into a topic, in turn, with the tag A or B."""
    world.cluster.topics[topic] = queues
    for number in range(count):
        tag = "AB"[number // queues % 2]
        world.cluster.store(topic, number % queues, b"%d" % number, world.encoded(TAGS=tag))


def numbers(got: Got) -> list[int]:
    """Return the numbers in the bodies."""
    return [int(message.body) for message in got]


def test_every_message_arrives_and_offsets_are_stored(world: Any) -> None:
    """Messages from before and after the subscription; at close all of them are committed."""

    async def main() -> None:
        got: Got = []
        fill(world, 100)
        async with consumer(world, got.extend) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(got) == 100)
            world.cluster.store("t", 1, b"100")
            await world.until(lambda: len(got) == 101)
            queues = [queue for queue in reader.queues if queue.topic == "t"]
            assert queues == [world.queue(number) for number in range(4)]
        assert sorted(numbers(got)) == list(range(101))
        committed = {number: world.cluster.committed["g", "t", number] for number in range(4)}
        assert committed == {0: 25, 1: 26, 2: 25, 3: 25}
        assert world.cluster.members["g"] == []

    world.run(main)


def test_a_second_life_goes_on_where_the_first_ended(world: Any) -> None:
    """Committed offsets win over `start`."""

    async def main() -> None:
        first: Got = []
        second: Got = []
        fill(world, 40)
        async with consumer(world, first.extend) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(first) == 40)
        world.cluster.store("t", 0, b"40")
        async with consumer(world, second.extend, start="last") as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(second) == 1)
        assert numbers(second) == [40]

    world.run(main)


@pytest.mark.parametrize("kind", ["last", "milliseconds", "datetime"])
def test_a_new_group_starts_where_it_says(world: Any, kind: str) -> None:
    """At the end, or at a time; queues that come later are read from their beginning."""

    async def main() -> None:
        got: Got = []
        fill(world, 8, queues=2)
        await asyncio.sleep(10)
        at_ms = world.clock.now_ms()
        start = {
            "last": "last",
            "milliseconds": at_ms,
            "datetime": datetime.fromtimestamp(at_ms / 1000, UTC),
        }[kind]
        if kind != "last":
            await asyncio.sleep(10)
            world.cluster.store("t", 0, b"8")
        async with consumer(world, got.extend, start=start) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(reader.queues) == 2)
            if kind == "last":
                world.cluster.store("t", 0, b"8")
            world.cluster.topics["t"] = 3
            world.cluster.store("t", 2, b"9")
            await world.until(lambda: len(got) == 2)
        assert sorted(numbers(got)) == [8, 9]

    world.run(main)


def test_only_wanted_tags_arrive(world: Any) -> None:
    """The broker filters by hash; `Aa` and `BB` have one, and the consumer tells them apart."""

    async def main() -> None:
        got: Got = []
        world.cluster.topics["t"] = 1
        for tag in ("Aa", "BB", "C", "Aa"):
            world.cluster.store("t", 0, tag.encode(), world.encoded(TAGS=tag))
        world.cluster.store("t", 0, b"none")
        async with consumer(world, got.extend) as reader:
            await reader.subscribe("t", "Aa || C")
            await world.until(lambda: len(got) == 3)
        assert [message.tag for message in got] == ["Aa", "C", "Aa"]
        assert world.cluster.committed["g", "t", 0] == 5

    world.run(main)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_failing_listener_gets_its_messages_again(world: Any, is_async: bool) -> None:
    """In place, after a pause, where the broker does not take them back.

    Other messages go on meanwhile, but the committed offset does not pass the failed ones.
    """

    async def main() -> None:
        got: Got = []
        failures = 2

        def plain(messages: Got) -> None:
            nonlocal failures
            if failures and b"1" in {message.body for message in messages}:
                failures -= 1
                raise ValueError("not yet")
            got.extend(messages)

        async def waiting(messages: Got) -> None:
            await asyncio.sleep(0.01)
            plain(messages)

        fill(world, 6, queues=1)
        reader = consumer(
            world,
            waiting if is_async else plain,
            batch_messages_max=2,
            redeliver_ms=2_000,
            commit_ms=100,
        )
        async with reader:
            await reader.subscribe("t")
            await world.until(lambda: len(got) == 4)
            await asyncio.sleep(1)
            assert sorted(numbers(got)) == [2, 3, 4, 5]
            assert world.cluster.committed["g", "t", 0] == 0
            await world.until(lambda: len(got) == 6)
            assert got[4].reconsume_times == 2
        assert world.cluster.committed["g", "t", 0] == 6
        # each time the broker was asked to take them back, and refused
        assert world.cluster.seen.count(RequestCode.CONSUMER_SEND_MSG_BACK) == 2

    world.run(main)


def test_a_broker_that_takes_messages_back_gets_them(world: Any) -> None:
    """Then the offset goes on, and they come again from the retry topic under their own topic."""

    async def main() -> None:
        got: Got = []
        cluster = world.cluster

        def listener(messages: Got) -> None:
            if not messages[0].stored.topic.startswith("%RETRY%"):
                raise ValueError("later")
            got.extend(messages)

        def take_back(peer: Any, command: Any) -> None:
            peer.send(response(command, 0))
            cluster.topics["%RETRY%g"] = 1
            cluster.store("%RETRY%g", 0, b"0", world.encoded(RETRY_TOPIC="t"))

        cluster.on[RequestCode.CONSUMER_SEND_MSG_BACK] = take_back
        fill(world, 1, queues=1)
        async with consumer(world, listener) as reader:
            await reader.subscribe("t")
            await world.until(lambda: bool(got))
        assert got[0].topic == "t"
        assert cluster.committed["g", "t", 0] == 1
        assert cluster.committed["g", "%RETRY%g", 0] == 1

    world.run(main)


def test_an_orderly_listener_stops_its_queue_when_it_fails(world: Any) -> None:
    """The same messages again after `suspend_ms`, none of the queue before; other queues go on."""

    async def main() -> None:
        got: Got = []
        failures = 3

        def listener(messages: Got) -> None:
            nonlocal failures
            if failures and messages[0].queue.queue_id == 0:
                failures -= 1
                raise ValueError("not yet")
            got.extend(messages)

        fill(world, 40, queues=2)
        reader = consumer(world, listener, orderly=True, batch_messages_max=4, suspend_ms=1_000)
        began = world.clock.monotonic()
        async with reader:
            await reader.subscribe("t")
            await world.until(lambda: len(got) == 20)
            assert {message.queue.queue_id for message in got} == {1}
            await world.until(lambda: len(got) == 40)
            assert world.clock.monotonic() - began > 3
        first = [number for number in numbers(got) if number % 2 == 0]
        assert first == list(range(0, 40, 2))
        assert world.cluster.locked == {}

    world.run(main)


def test_an_orderly_consumer_reads_only_what_it_has_locked(world: Any) -> None:
    """A queue that somebody else holds is taken when the lock is free."""

    async def main() -> None:
        got: Got = []
        fill(world, 4, queues=2)
        world.cluster.locked["g", "t", 0] = "somebody"
        async with consumer(world, got.extend, orderly=True) as reader:
            await reader.subscribe("t")
            await asyncio.sleep(5)
            assert {message.queue.queue_id for message in got} == {1}
            del world.cluster.locked["g", "t", 0]
            await world.until(lambda: len(got) == 4)

    world.run(main)


def test_a_lost_lock_stops_the_queue_until_it_is_won_again(world: Any) -> None:
    """Nothing is handed out between a renewal that fails and one that succeeds."""

    async def main() -> None:
        got: Got = []
        fill(world, 1, queues=1)
        async with consumer(world, got.extend, orderly=True, lock_ms=1_000) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(got) == 1)
            mine = world.cluster.locked["g", "t", 0]
            world.cluster.locked["g", "t", 0] = "somebody"
            await asyncio.sleep(2)
            world.cluster.store("t", 0, b"1")
            await asyncio.sleep(5)
            assert len(got) == 1
            world.cluster.locked["g", "t", 0] = mine
            await world.until(lambda: len(got) == 2)

    world.run(main)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_group_shares_out_its_queues(world: Any, orderly: bool) -> None:
    """A second member gets half at once, its leaving gives it back, and nothing is lost."""

    async def main() -> None:
        mine: Got = []
        theirs: Got = []
        fill(world, 80)
        async with consumer(world, mine.extend, orderly=orderly) as first:
            await first.subscribe("t")
            await world.until(lambda: len(mine) == 80)
            async with consumer(world, theirs.extend, orderly=orderly) as second:
                await second.subscribe("t")
                world.cluster.notify_ids_changed(world.cluster.members["g"][0], "g")
                await world.until(lambda: len(second.queues) == 2 and len(first.queues) == 2)
                assert not set(first.queues) & set(second.queues)
                for number in range(80, 120):
                    world.cluster.store("t", number % 4, b"%d" % number)
                await world.until(lambda: len(mine) + len(theirs) >= 120)
                assert theirs
            world.cluster.notify_ids_changed(world.cluster.members["g"][0], "g")
            await world.until(lambda: len(first.queues) == 4)
            world.cluster.store("t", 3, b"120")
            await world.until(lambda: 120 in numbers(mine))
        assert set(numbers(mine) + numbers(theirs)) == set(range(121))

    world.run(main)


def test_a_restarted_broker_is_found_again(world: Any) -> None:
    """Pulls, membership and commits go on by themselves, from where they were."""

    async def main() -> None:
        got: Got = []
        fill(world, 8)
        async with consumer(world, got.extend) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(got) == 8)
            await world.cluster.stop()
            await asyncio.sleep(30)
            await world.cluster.start()
            world.cluster.store("t", 2, b"8")
            await world.until(lambda: len(got) == 9, seconds=3)
            await world.until(lambda: bool(world.cluster.members["g"]), seconds=3)
            assert len(reader.queues) == 4
        assert sorted(numbers(got)) == list(range(9))

    world.run(main)


@pytest.mark.parametrize("start", ["first", "last"])
def test_a_topic_that_comes_later_is_read_from_its_beginning(world: Any, start: str) -> None:
    """Subscribing to a topic that does not exist is not an error; its first message arrives."""

    async def main() -> None:
        got: Got = []
        async with consumer(world, got.extend, start=start) as reader:
            await reader.subscribe("late")
            await asyncio.sleep(5)
            world.cluster.store("late", 0, b"0")
            await world.until(lambda: len(got) == 1)

    world.run(main)


def test_an_offset_outside_the_queue_moves_to_the_nearest(world: Any) -> None:
    """After a broker has lost its end (or a committed offset is wrong), reading goes on."""

    async def main() -> None:
        got: Got = []
        fill(world, 3, queues=1)
        world.cluster.committed["g", "t", 0] = 100
        async with consumer(world, got.extend) as reader:
            await reader.subscribe("t")
            await asyncio.sleep(1)
            world.cluster.store("t", 0, b"3")
            await world.until(lambda: len(got) == 1)
        assert world.cluster.committed["g", "t", 0] == 4

    world.run(main)


def test_a_slow_listener_stops_the_pulling(world: Any) -> None:
    """Beyond `cached_messages_max` nothing more is pulled until something is done."""

    async def main() -> None:
        go = asyncio.Event()
        got: Got = []

        async def listener(messages: Got) -> None:
            await go.wait()
            got.extend(messages)

        fill(world, 100, queues=1)
        async with consumer(
            world, listener, pull_messages_max=10, cached_messages_max=20
        ) as reader:
            await reader.subscribe("t")
            await asyncio.sleep(10)
            assert world.cluster.seen.count(RequestCode.PULL_MESSAGE) == 3
            go.set()
            await world.until(lambda: len(got) == 100)

    world.run(main)


def test_unsubscribing_gives_up_the_queues(world: Any) -> None:
    """The offsets are stored, and later messages do not arrive."""

    async def main() -> None:
        got: Got = []
        fill(world, 4, queues=1)
        async with consumer(world, got.extend) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(got) == 4)
            await reader.unsubscribe("t")
            await asyncio.sleep(1)
            assert reader.queues == []
            assert world.cluster.committed["g", "t", 0] == 4
            world.cluster.store("t", 0, b"4")
            await asyncio.sleep(40)
            assert len(got) == 4

    world.run(main)


def test_closing_waits_for_the_listener(world: Any) -> None:
    """What it was given is done before the offset is stored, up to `close_wait_ms`."""

    async def main() -> None:
        begun: Got = []
        ended: Got = []

        async def listener(messages: Got) -> None:
            begun.extend(messages)
            await asyncio.sleep(3 if messages[0].queue.queue_id == 0 else 300)
            ended.extend(messages)

        fill(world, 2, queues=2)
        async with consumer(world, listener, close_wait_ms=10_000) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(begun) == 2)
        assert numbers(ended) == [0]
        assert world.cluster.committed.get(("g", "t", 0)) == 1
        assert world.cluster.committed.get(("g", "t", 1)) in (None, 0)

    world.run(main)


def test_a_second_close_waits_for_the_first(world: Any) -> None:
    """It does not cut off what the first has to say: offsets, and that it leaves the group."""

    async def main() -> None:
        got: Got = []
        fill(world, 4)
        reader = consumer(world, got.extend)
        await reader.start()
        await reader.subscribe("t")
        await world.until(lambda: len(got) == 4)
        release = world.hold(RequestCode.UPDATE_CONSUMER_OFFSET)
        first, second = (asyncio.ensure_future(reader.close()) for _ in "ab")
        await asyncio.sleep(1)
        assert not first.done()
        assert not second.done()
        release()
        await first
        await second
        committed = [world.cluster.committed["g", "t", number] for number in range(4)]
        assert committed == [1] * 4
        assert world.cluster.members["g"] == []

    world.run(main)


def test_heartbeats_come_at_once_and_every_thirty_seconds(world: Any) -> None:
    """The broker knows the member before its first pull, and does not forget it."""

    async def main() -> None:
        fill(world, 1)
        async with consumer(world, lambda *_: None) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(reader.queues) == 4)
            seen = world.cluster.seen
            assert seen.index(RequestCode.HEART_BEAT) < seen.index(RequestCode.PULL_MESSAGE)
            before = seen.count(RequestCode.HEART_BEAT)
            await asyncio.sleep(61)
            assert seen.count(RequestCode.HEART_BEAT) >= before + 2

    world.run(main)


def test_a_refused_pull_is_tried_on(world: Any) -> None:
    """Any refusal is logged once and pulled again after `pull_retry_ms`."""

    async def main() -> None:
        got: Got = []
        fill(world, 1, queues=1)
        world.cluster.on[RequestCode.PULL_MESSAGE] = lambda peer, command: world.cluster.refuse(
            peer, command, ResponseCode.SYSTEM_ERROR, "no"
        )
        async with consumer(world, got.extend) as reader:
            await reader.subscribe("t")
            await asyncio.sleep(5)
            world.cluster.on.clear()
            await world.until(lambda: len(got) == 1)
        assert 4 <= world.cluster.seen.count(RequestCode.PULL_MESSAGE) <= 9

    world.run(main)


def test_wrong_arguments_are_named_at_once(world: Any) -> None:
    """An illegal group or start is an error before anything is asked."""
    with pytest.raises(InvalidMessage, match="group"):
        PushConsumer(world.names, group="a b", listener=print)

    async def main() -> None:
        with pytest.raises(InvalidMessage, match="'first', 'last'"):
            await consumer(world, print, start="middle").start()

    world.run(main)


def test_a_lock_outlives_a_broker_that_is_away_for_a_while(world: Any) -> None:
    """Up to 30 s after its last renewal; after a restart it is renewed at once."""

    async def main() -> None:
        got: Got = []
        fill(world, 1, queues=1)
        async with consumer(world, got.extend, orderly=True) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(got) == 1)
            await world.cluster.stop()
            await asyncio.sleep(60)
            await world.cluster.start()
            world.cluster.store("t", 0, b"1")
            await world.until(lambda: len(got) == 2, seconds=5)
            assert ("g", "t", 0) in world.cluster.locked

    world.run(main)


def test_a_broker_that_goes_back_is_followed(world: Any) -> None:
    """An answer whose next offset lies before ours counts as a moved queue, not as our mistake."""

    async def main() -> None:
        got: Got = []
        fill(world, 4, queues=1)
        async with consumer(world, got.extend) as reader:
            await reader.subscribe("t")
            await world.until(lambda: len(got) == 4)
            answer = headers.PullMessageAnswer(next_begin_offset=2, min_offset=0, max_offset=2)
            world.cluster.on[RequestCode.PULL_MESSAGE] = lambda peer, command: (
                world.cluster.on.clear(),
                peer.send(response(command, ResponseCode.PULL_NOT_FOUND, answer)),
            )
            world.cluster.store("t", 0, b"4")
            await world.until(lambda: len(got) >= 7)
        assert numbers(got)[-3:] == [2, 3, 4]

    world.run(main)


def test_a_broker_that_does_not_hold_is_not_hammered(world: Any) -> None:
    """Without long polling there are at most 20 pulls a second."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        async with consumer(world, lambda _: None, hold_ms=0) as reader:
            await reader.subscribe("t")
            await asyncio.sleep(10)
        assert world.cluster.seen.count(RequestCode.PULL_MESSAGE) <= 201

    world.run(main)


SQL = Sql("a > 5")


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (ResponseCode.SYSTEM_ERROR, "The broker does not support consumer to filter message"),
        (ResponseCode.SUBSCRIPTION_PARSE_FAILED, "the expression is of another language"),
    ],
)
def test_a_condition_that_a_broker_refuses_is_told(
    world: Any, is_open: bool, code: ResponseCode, remark: str
) -> None:
    """At the subscription, or at the start; then the consumer reads nothing of the topic."""

    async def main() -> None:
        def refuse(peer: Any, command: Any) -> None:
            asked.append(bodies.decode(bodies.ClientCheck, command.body).subscription)
            world.cluster.refuse(peer, command, code, remark)

        asked: list[Subscription] = []
        world.cluster.topics["t"] = 1
        world.cluster.on[RequestCode.CHECK_CLIENT_CONFIG] = refuse
        reader = consumer(world, list.clear)
        if is_open:
            async with reader:
                with pytest.raises(BrokerRefused, match=remark):
                    await reader.subscribe("t", SQL)
                assert not reader.queues
                await reader.subscribe("t", "tag")
        else:
            await reader.subscribe("t", SQL)
            with pytest.raises(BrokerRefused, match=remark):
                await reader.start()
        assert [(one.topic, one.type, one.expression) for one in asked] == [
            ("t", "SQL92", SQL.text)
        ]

    world.run(main)


def test_a_broker_that_cannot_be_asked_about_a_condition_is_not_heard(world: Any) -> None:
    """It is of an older release, or the topic does not exist yet."""

    async def main() -> None:
        async with consumer(world, list.clear) as reader:
            await reader.subscribe("later", SQL)
            assert RequestCode.CHECK_CLIENT_CONFIG not in world.cluster.seen
            world.cluster.topics["t"] = 1
            await reader.subscribe("t", SQL)
            assert RequestCode.CHECK_CLIENT_CONFIG in world.cluster.seen
            await world.until(lambda: len(reader.queues) == 1)

    world.run(main)
