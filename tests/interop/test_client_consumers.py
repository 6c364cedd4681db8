"""Our consumers do the same with Sprocket and with the real RocketMQ 5.3.3.

Every test runs against both; see `tests.interop.test_client_peers` for what that needs.
"""

import asyncio
import contextlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.interop import samples
from tests.interop.both import Peer, run, until
from tests.interop.java_client import JavaClient

from sprocket.rocketmq.client import (
    Admin,
    ConsumerSettings,
    DeadLetter,
    DeliverLater,
    LitePullConsumer,
    Message,
    MessageQueue,
    Producer,
    Puller,
    PushConsumer,
    ReceivedMessage,
    SendResult,
)
from sprocket.rocketmq.client.consumer import rebalance
from sprocket.rocketmq.codec.record import record
from sprocket.runtime import driver

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-client"),  # one worker, or each would start brokers anew
]


async def fill(peer: Peer, topic: str, count: int, queues: int = 4) -> list[SendResult]:
    """Create a topic and send messages 0 to count − 1, in turn to its queues."""
    async with Admin(peer.nameserver) as admin:
        await admin.create_topic(topic, queues=queues)
    return await send(peer, topic, range(count))


async def send(peer: Peer, topic: str, numbers: range) -> list[SendResult]:
    """Send a message for each number, in turn to the queues of a topic."""
    async with Producer(peer.nameserver) as producer, Admin(peer.nameserver) as admin:
        queues = await admin.queues(topic)
        sends = [
            producer.send_soon(Message(topic, b"%d" % number), queue=queues[number % len(queues)])
            for number in numbers
        ]
        await producer.flush()
    return [one.result() for one in sends]


def numbers(messages: list[ReceivedMessage]) -> list[int]:
    """Return the numbers in the bodies."""
    return [int(one.body) for one in messages]


def of(topic: str, consumer: PushConsumer | LitePullConsumer) -> list[MessageQueue]:
    """Return the queues of a topic that a consumer reads."""
    return [queue for queue in consumer.queues if queue.topic == topic]


async def dead_letters(peer: Peer, group: str, count: int) -> list[bytes]:
    """Wait until a group has so many dead letters; return their bodies."""
    topic = f"%DLQ%{group}"
    bodies: list[bytes] = []
    async with Puller(peer.nameserver, patience_ms=60_000) as puller:
        (queue,) = await puller.queues(topic)
        while len(bodies) < count:
            found = await puller.pull(queue, len(bodies), hold_ms=5_000)
            bodies += [one.body for one in record.decode_all(found.body)]
    return bodies


@pytest.mark.parametrize("orderly", [False, True])
def test_everybody_gets_what_is_broadcast(
    peer: Peer, topic: str, orderly: bool, tmp_path: Path
) -> None:
    """Two members get all of it, and a second life goes on where the first ended."""

    async def main() -> None:
        await fill(peer, topic, 200)
        got: list[list[ReceivedMessage]] = [[], [], []]
        how: dict[str, Any] = {
            "group": f"g_{topic}",
            "broadcast": True,
            "orderly": orderly,
            "start": "first",
            "settings": ConsumerSettings(broadcast_folder=str(tmp_path)),
        }
        async with contextlib.AsyncExitStack() as stack:
            for mine in got[:2]:
                one = PushConsumer(peer.nameserver, listener=mine.extend, **how)
                await stack.enter_async_context(one)
                await one.subscribe(topic)
            await until(lambda: len(got[0]) == len(got[1]) == 200, "all messages, twice")
        await send(peer, topic, range(200, 210))
        async with PushConsumer(peer.nameserver, listener=got[2].extend, **how) as again:
            await again.subscribe(topic)
            await until(lambda: len(got[2]) >= 10, "the rest")
        assert sorted(numbers(got[0])) == sorted(numbers(got[1])) == list(range(200))
        assert sorted(numbers(got[2])) == list(range(200, 210))

    run(main)


def test_a_topic_of_batch_queues_is_read_message_by_message(
    peer: Peer, topic: str, java: JavaClient
) -> None:
    """Java's batches are single records there; a lite consumer can begin inside of one."""

    async def main() -> None:
        async with Admin(peer.nameserver) as admin:
            await admin.topic.create(topic, queues=1, attributes={"+queue.type": "BatchCQ"})
        messages = samples.three_thousand(topic)[2_000:2_100]
        await asyncio.to_thread(java.send, peer.nameserver, messages)
        got: list[ReceivedMessage] = []
        async with PushConsumer(
            peer.nameserver, group=f"g_{topic}", listener=got.extend, start="first"
        ) as consumer:
            await consumer.subscribe(topic)
            await until(lambda: len(got) >= 100, "all messages")
        assert sorted(one.queue_offset for one in got) == list(range(100))
        assert sorted(one.body for one in got) == sorted(one.body for one in messages)
        async with LitePullConsumer(peer.nameserver, group=f"l_{topic}") as lite:
            (queue,) = await lite.topic_queues(topic)
            await lite.assign([queue])
            await lite.seek(queue, 30)
            first = (await lite.poll(timeout_ms=30_000))[0]
        assert (first.queue_offset, first.body) == (30, sorted(got, key=_offset)[30].body)

    run(main)


def test_one_message_of_a_batch_that_fails_comes_again_alone(
    peer: Peer, topic: str, java: JavaClient
) -> None:
    """A broker takes no inner batch back, so the message itself is sent to the retry topic."""

    async def main() -> None:
        async with Admin(peer.nameserver) as admin:
            await admin.topic.create(topic, queues=1, attributes={"+queue.type": "BatchCQ"})
        messages = samples.three_thousand(topic)[2_050:2_100]  # the last batch of a hundred
        await asyncio.to_thread(java.send, peer.nameserver, messages)
        got: list[ReceivedMessage] = []

        def listener(received: list[ReceivedMessage]) -> None:
            for message in received:
                got.append(message)
                if message.queue_offset == 7 and not message.reconsume_times:
                    raise ValueError("not this time")

        async with PushConsumer(
            peer.nameserver,
            group=f"g_{topic}",
            listener=listener,
            start="first",
            settings=ConsumerSettings(batch_messages_max=1),
        ) as consumer:
            await consumer.subscribe(topic)
            await until(lambda: len(got) >= 51, "all messages, and one again")
        again = [one for one in got if one.reconsume_times]
        failed = next(one for one in got if one.queue_offset == 7 and not one.reconsume_times)
        assert [(one.body, one.topic, one.tag) for one in again] == [
            (failed.body, topic, failed.tag)
        ]

    run(main)


def _offset(message: ReceivedMessage) -> int:
    return message.queue_offset


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_who_moves_here_from_java_goes_on_from_its_offsets(
    peer: Peer, topic: str, java: JavaClient, host: str
) -> None:
    """Java's file lies under another address of the machine than the one towards the NameServer."""
    nameserver = f"{host}:{peer.nameserver.rpartition(':')[2]}"
    group = f"g_{topic}"

    async def main() -> None:
        await fill(peer, topic, 50)
        moving = java.start_consumer(nameserver, topic, "*", group=group, count=50, broadcast=True)
        assert len(await asyncio.to_thread(moving.finish)) == 50
        await send(peer, topic, range(50, 60))
        got: list[ReceivedMessage] = []
        folder = ConsumerSettings(broadcast_folder=str(java.folder / ".rocketmq_offsets"))
        async with PushConsumer(
            nameserver,
            group=group,
            listener=got.extend,
            broadcast=True,
            start="first",
            settings=folder,
        ) as consumer:
            await consumer.subscribe(topic)
            await until(lambda: len(got) >= 10, "what came after the move")
        assert sorted(numbers(got)) == list(range(50, 60))

    run(main)


def test_what_fails_for_ever_becomes_a_dead_letter(peer: Peer, topic: str) -> None:
    """After as many retries as were asked for, under its own topic each time."""

    async def main() -> None:
        await fill(peer, topic, 3, queues=1)
        seen: dict[bytes, list[int]] = defaultdict(list)
        group = f"g_{topic}"

        def listener(messages: list[ReceivedMessage]) -> None:
            (message,) = messages
            assert message.topic == topic
            seen[message.body].append(message.reconsume_times)
            if message.body == b"1":
                raise ValueError("never")
            if message.body == b"2":
                raise DeadLetter("no use")

        settings = ConsumerSettings(retries_max=2, batch_messages_max=1)
        async with PushConsumer(
            peer.nameserver, group=group, listener=listener, start="first", settings=settings
        ) as consumer:
            await consumer.subscribe(topic)
            await until(lambda: len(seen[b"1"]) == 3, "two retries")
            assert sorted(await dead_letters(peer, group, 2)) == [b"1", b"2"]
        assert seen == {b"0": [0], b"1": [0, 1, 2], b"2": [0]}

    run(main)


def test_an_orderly_queue_goes_on_after_a_dead_letter(peer: Peer, topic: str) -> None:
    """Nothing passes the message that fails, until it is given up."""

    async def main() -> None:
        await fill(peer, topic, 4, queues=1)
        seen: list[tuple[int, int]] = []
        group = f"g_{topic}"

        async def listener(messages: list[ReceivedMessage]) -> None:
            (message,) = messages
            seen.append((int(message.body), message.reconsume_times))
            if message.body == b"1":
                raise DeliverLater(pause_ms=20)

        settings = ConsumerSettings(retries_max=2, batch_messages_max=1)
        async with PushConsumer(
            peer.nameserver,
            group=group,
            listener=listener,
            orderly=True,
            start="first",
            settings=settings,
        ) as consumer:
            await consumer.subscribe(topic)
            await until(lambda: len(seen) == 6, "all messages")
            assert await dead_letters(peer, group, 1) == [b"1"]
        assert seen == [(0, 0), (1, 0), (1, 1), (1, 2), (2, 0), (3, 0)]

    run(main)


@pytest.mark.nightly  # the locks are held for a minute; unit tests hold the locks themselves
def test_order_outlives_a_consumer_that_crashes(peer: Peer, topic: str) -> None:
    """Its queues go to the other member, each from what was committed, in order."""

    async def main() -> None:
        await fill(peer, topic, 400)
        by_queue: dict[int, list[int]] = defaultdict(list)
        group: dict[str, Any] = {
            "group": f"g_{topic}",
            "orderly": True,
            "start": "first",
            "settings": ConsumerSettings(commit_ms=100, batch_messages_max=4),
        }

        async def listener(messages: list[ReceivedMessage]) -> None:
            await asyncio.sleep(0.005)
            by_queue[messages[0].queue.queue_id] += [one.queue_offset for one in messages]

        async def victims(messages: list[ReceivedMessage]) -> None:
            await asyncio.sleep(0.005)
            await cable.forever_if_cut()
            by_queue[messages[0].queue.queue_id] += [one.queue_offset for one in messages]

        cable = Cable()
        victim = PushConsumer(peer.nameserver, listener=victims, connect=cable.connect, **group)
        await victim.start()
        await victim.subscribe(topic)
        async with PushConsumer(peer.nameserver, listener=listener, **group) as heir:
            await heir.subscribe(topic)
            await until(lambda: len(of(topic, victim)) == len(of(topic, heir)) == 2, "two each")
            await until(lambda: len(by_queue) == 4, "all queues to flow")
            cable.cut()
            await send(peer, topic, range(400, 480))
            await until(
                lambda: all(set(by_queue[number]) >= set(range(120)) for number in range(4)),
                "all messages",
            )
            assert len(of(topic, heir)) == 4
        for offsets in by_queue.values():
            firsts = list(dict.fromkeys(offsets))
            assert firsts == list(range(120))
            backward = [b for a, b in itertools.pairwise(offsets) if b <= a]
            assert len(backward) <= 1  # where the heir took over

    run(main)


class Cable:
    """Cut, it leaves a client as a kill does: nothing is stored or said any more."""

    def __init__(self) -> None:
        self._is_cut = False
        self._peers: list[driver.Peer] = []

    async def connect(
        self, factory: Any, on_event: Any, host: str, port: int, **how: Any
    ) -> driver.Peer:
        """Connect, as long as it is whole."""
        await self.forever_if_cut()
        peer = await driver.connect(factory, on_event, host, port, **how)
        self._peers.append(peer)
        return peer

    def cut(self) -> None:
        """End every connection."""
        self._is_cut = True
        for peer in self._peers:
            peer.abort("a test")

    async def forever_if_cut(self) -> None:
        """Go no further once it is cut."""
        if self._is_cut:
            await asyncio.Event().wait()


def by_number(
    queues: Sequence[MessageQueue], members: Sequence[str], me: str
) -> Sequence[MessageQueue]:
    """Share out by the last digit of the queue, as a user might."""
    return [queue for queue in queues if members[queue.queue_id % len(members)] == me]


STRATEGIES: dict[str, Callable[[list[MessageQueue]], rebalance.Strategy]] = {
    "circle": lambda _: rebalance.by_circle,
    "hash": lambda _: rebalance.consistent_hash(),
    "room": lambda _: rebalance.nearby(lambda _: "here", lambda _: "here"),
    "config": lambda queues: rebalance.by_config(queues[:5]),
    "own": lambda _: (
        lambda queues, members, me: [
            queue for queue in queues if members[queue.queue_id % 3 % len(members)] == me
        ]
    ),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_group_shares_out_as_its_strategy_says(peer: Peer, topic: str, strategy: str) -> None:
    """Every queue that the strategy gives to somebody is read once."""

    async def main() -> None:
        await fill(peer, topic, 80, queues=8)
        async with Admin(peer.nameserver) as admin:
            queues = sorted(await admin.queues(topic))
        how: dict[str, Any] = {
            "group": f"g_{topic}",
            "start": "first",
            "strategy": STRATEGIES[strategy](queues),
        }
        wanted = queues[:5] if strategy == "config" else queues
        got: list[ReceivedMessage] = []
        async with contextlib.AsyncExitStack() as stack:
            members = []
            for _ in range(1 if strategy == "config" else 3):
                one = PushConsumer(peer.nameserver, listener=got.extend, **how)
                await stack.enter_async_context(one)
                await one.subscribe(topic)
                members.append(one)
            each_has_some = strategy in ("circle", "own")

            def is_shared_out() -> bool:
                """Tell whether that is so; before all know of each other it may look so, too."""
                shares = [of(topic, one) for one in members]
                read = sorted(queue for share in shares for queue in share)
                return read == wanted and (not each_has_some or all(shares))

            await until(is_shared_out, "each queue to have one reader")
            await until(lambda: len(set(numbers(got))) == 10 * len(wanted), "all messages")

    run(main)


def test_a_lite_consumer_goes_where_it_is_told(peer: Peer, topic: str) -> None:
    """From the beginning, back and forth, to a time; paused, and on from what was committed."""

    async def main() -> None:
        sent = await fill(peer, topic, 100, queues=1)
        queue = sent[0].queue
        how: dict[str, Any] = {"group": f"g_{topic}", "start": "first"}

        async def take(consumer: LitePullConsumer, count: int) -> list[int]:
            got: list[int] = []
            while len(got) < count:
                got += numbers(await consumer.poll())
            return got

        async with LitePullConsumer(peer.nameserver, **how) as consumer:
            await consumer.subscribe(topic)
            assert await take(consumer, 100) == list(range(100))
            await consumer.seek(queue, 40)
            assert (await take(consumer, 60))[0] == 40
            await asyncio.sleep(0.01)
            later = await send(peer, topic, range(100, 110))
            async with Admin(peer.nameserver) as admin:
                first = await admin.view(later[0].message_id, topic)
            assert first is not None
            at = await consumer.offset_by_time(queue, first.stored_at_ms)
            assert at == 100
            await consumer.seek(queue, at)
            assert await take(consumer, 10) == list(range(100, 110))
            consumer.pause(queue)
            await send(peer, topic, range(110, 111))
            assert await consumer.poll(500) == []
            consumer.resume(queue)
            assert await take(consumer, 1) == [110]
            await consumer.seek_to_begin(queue)
            assert (await take(consumer, 32))[0] == 0
            await consumer.commit({queue: 105})
            await consumer.seek_to_end(queue)
        async with Admin(peer.nameserver) as admin:
            assert await admin.max_offset(queue) == 111
        async with LitePullConsumer(peer.nameserver, auto_commit=False, **how) as again:
            await again.assign([queue])
            assert await again.committed(queue) == 111
            await again.commit({queue: 109})
        async with LitePullConsumer(peer.nameserver, **how) as last:
            await last.assign([queue])
            assert await take(last, 2) == [109, 110]

    run(main)


def test_a_loop_gets_the_messages_of_a_group(peer: Peer, topic: str) -> None:
    """One by one; what it wants later comes later, and a second life goes on after the break."""

    async def main() -> None:
        await fill(peer, topic, 50)
        got: list[int] = []

        async def loop(count: int) -> None:
            async with PushConsumer(peer.nameserver, group=f"g_{topic}", start="first") as one:
                await one.subscribe(topic)
                async for message in one:
                    number = int(message.body)
                    if number == 7 and not message.reconsume_times:
                        one.later(message, "not yet", level=1)
                        continue
                    got.append(number)
                    if len(got) == count:
                        one.done(message)
                        break

        await loop(50)
        assert sorted(got) == list(range(50))
        await send(peer, topic, range(50, 60))
        await loop(60)
        assert sorted(got) == list(range(60))

    run(main)


def test_a_suspended_consumer_waits(peer: Peer, topic: str) -> None:
    """And gets everything once it is resumed."""

    async def main() -> None:
        await fill(peer, topic, 10)
        got: list[ReceivedMessage] = []
        async with PushConsumer(
            peer.nameserver, group=f"g_{topic}", listener=got.extend, start="first"
        ) as consumer:
            await consumer.subscribe(topic)
            await until(lambda: len(got) == 10, "the first messages")
            consumer.suspend()
            await send(peer, topic, range(10, 20))
            await asyncio.sleep(0.5)
            assert len(got) == 10
            consumer.resume()
            await until(lambda: len(got) == 20, "the rest")

    run(main)


@pytest.mark.parametrize("kind", ["push", "orderly", "lite"])
def test_a_group_is_reset_to_a_time(peer: Peer, topic: str, kind: str) -> None:
    """While it consumes: it goes on at the first message of that time, and from there on."""

    async def main() -> None:
        await fill(peer, topic, 20, queues=1)
        await asyncio.sleep(0.01)
        (later, *_) = await send(peer, topic, range(20, 30))
        group = f"g_{topic}"
        got: list[ReceivedMessage] = []
        async with contextlib.AsyncExitStack() as stack:
            admin = await stack.enter_async_context(Admin(peer.nameserver))
            settings = ConsumerSettings(hold_ms=1_000)
            how: dict[str, Any] = {"group": group, "start": "first", "settings": settings}
            if kind == "lite":
                lite = LitePullConsumer(peer.nameserver, **how)
                await stack.enter_async_context(lite)
                await lite.subscribe(topic)

                async def poll() -> None:
                    while True:
                        got.extend(await lite.poll())

                polling = asyncio.ensure_future(poll())
                stack.callback(polling.cancel)
            else:
                orderly = kind == "orderly"
                push = PushConsumer(peer.nameserver, listener=got.extend, orderly=orderly, **how)
                await stack.enter_async_context(push)
                await push.subscribe(topic)
            await until(lambda: len(got) == 30, "all messages")
            first = await admin.view(later.message_id, topic)
            assert first is not None
            moved = await admin.group.reset_offsets(group, topic, first.stored_at_ms)
            assert moved == {later.queue: 20}
            await until(lambda: len(got) == 40, "the messages of that time again")
            await asyncio.sleep(0.1)
        assert numbers(got) == [*range(30), *range(20, 30)]

    run(main)


def test_an_operator_looks_at_a_consumer_and_tries_a_message(peer: Peer, topic: str) -> None:
    """By way of the broker: what it does, and what its listener makes of one message."""

    async def main() -> None:
        sent = await fill(peer, topic, 8)
        group = f"g_{topic}"
        got: list[bytes] = []

        def listener(messages: list[ReceivedMessage]) -> None:
            got.extend(one.body for one in messages)
            if len(got) > 8:
                raise DeliverLater("seen before")

        async with (
            PushConsumer(
                peer.nameserver, group=group, listener=listener, start="first"
            ) as consumer,
            Admin(peer.nameserver) as admin,
        ):
            await consumer.subscribe(topic)
            await until(lambda: len(got) == 8, "all messages")
            members = await admin.group.consumers(group)
            assert members is not None
            (member,) = members.connections
            client_id = member.client_id
            info = await admin.group.running_info(group, client_id)
            assert {queue for queue in info.queues if queue.topic == topic} == set(
                of(topic, consumer)
            )
            assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
            message = await admin.view(sent[3].offset_message_id, topic)
            assert message is not None
            outcome = await admin.group.consume_directly(group, client_id, message)
            assert outcome.result == "CR_LATER"
            assert got[8:] == [b"3"]

    run(main)
