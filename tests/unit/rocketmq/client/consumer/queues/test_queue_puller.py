"""The cache is filled with what was subscribed to and nothing else."""

import asyncio
from typing import Any

import pytest

from sprocket.rocketmq.client import ConsumerSettings
from sprocket.rocketmq.client.consumer.plan import ConsumerPlan
from sprocket.rocketmq.client.consumer.queues import (
    BrokerLedger,
    Chunk,
    Offsets,
    ProcessQueue,
    QueuePuller,
)
from sprocket.rocketmq.client.network import PullResult, PullStatus
from sprocket.rocketmq.codec import headers
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import response
from sprocket.rocketmq.codec.record import batch, record
from sprocket.rocketmq.model.group import Subscription
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.model.offsets import QueueOffset

HOST = b"\x7f\0\0\x01\0\0\x2a\x9f"


class Bench:
    """A pulling of queue 0 of `t`, whose consumption only counts."""

    def __init__(self, world: Any, expression: str = "*", *, pull_messages_max: int = 10) -> None:
        self.instance = world.instance()
        self.chunks: list[Chunk] = []
        self.moves: list[int] = []
        self.offsets = Offsets("g", BrokerLedger("g", self.instance.brokers))
        limits: dict[str, Any] = {"messages_max": 100, "bytes_max": 10**6, "span_max": 1000}
        self.held = ProcessQueue(world.queue(0), QueueOffset(0), **limits)
        self.subscriptions = {"t": Subscription.parse("t", expression, version=1)}
        settings = ConsumerSettings(pull_messages_max=pull_messages_max, batch_messages_max=4)
        plan = ConsumerPlan(group="g", listener=print, settings=settings)
        self.pulling = QueuePuller(
            plan, self.instance.brokers, self.subscriptions, self, self.offsets
        )

    def pulled(self, _: ProcessQueue, chunks: Any) -> None:
        """Count chunks."""
        self.chunks += chunks

    async def moved(self, _: ProcessQueue, offset: QueueOffset) -> None:
        """Note where the queue moved to."""
        self.moves.append(offset)

    async def run(self) -> "asyncio.Task[None]":
        """Begin to pull."""
        await self.instance.routes.find("t")
        task: asyncio.Task[None] = self.instance.tasks.spawn(
            self.pulling.run(self.held, self.moved), "pull"
        )
        return task

    @staticmethod
    def asked(world: Any) -> list[int]:
        """Return how many messages each pull asked for."""
        return [
            request.header(headers.PullMessage).max_msg_nums
            for request in world.cluster.requests
            if request.code == RequestCode.PULL_MESSAGE
        ]

    def numbers(self) -> list[int]:
        """Return the bodies that were handed on."""
        return [int(one.body) for chunk in self.chunks for one in chunk.messages]


def test_more_is_asked_for_than_fits_only_a_little(world: Any) -> None:
    """As many as the queue has room for, and 32 where that is less.

    A queue with a share of ten of what a consumer may have in all does not get a thousand.
    """

    async def main() -> None:
        for number in range(600):
            world.cluster.store("t", 0, b"%d" % number)
        bench = Bench(world, pull_messages_max=1000)
        await bench.run()
        await asyncio.sleep(1)
        assert bench.asked(world) == [100, 32]
        bench.held.limit(10, 10**6)
        for chunk in list(bench.chunks):
            bench.held.done(chunk)
        await asyncio.sleep(1)
        assert bench.asked(world) == [100, 32, 32]
        await bench.instance.close()

    world.run(main)


def test_chunks_are_small_and_in_order(world: Any) -> None:
    """At most `batch_messages_max` messages each, none left out."""

    async def main() -> None:
        for number in range(25):
            world.cluster.store("t", 0, b"%d" % number)
        bench = Bench(world)
        await bench.run()
        await asyncio.sleep(1)
        assert bench.numbers() == list(range(25))
        assert max(len(chunk.messages) for chunk in bench.chunks) == 4
        await bench.instance.close()

    world.run(main)


def test_a_stretch_without_matches_is_noted_as_done(world: Any) -> None:
    """If nothing is cached; otherwise the cache holds the offset."""

    async def main() -> None:
        for number in range(12):
            world.cluster.store("t", 0, b"%d" % number, world.encoded(TAGS="B"))
        bench = Bench(world, "A")
        await bench.run()
        await asyncio.sleep(1)
        assert bench.chunks == []
        assert bench.offsets.get(world.queue(0)) == 12
        await bench.instance.close()

    world.run(main)


def test_a_damaged_answer_is_not_used(world: Any) -> None:
    """It is pulled again until it is whole; nothing of it is handed out."""

    async def main() -> None:
        for number in range(2):
            world.cluster.store("t", 0, b"%d" % number)
        whole = b"".join(world.cluster.log["t", 0])
        answer = headers.PullMessageAnswer(next_begin_offset=2, min_offset=0, max_offset=2)
        world.cluster.on[RequestCode.PULL_MESSAGE] = lambda peer, command: peer.send(
            response(command, 0, answer, body=[whole[:-20]])
        )
        bench = Bench(world)
        await bench.run()
        await asyncio.sleep(3)
        assert bench.chunks == []
        world.cluster.on.clear()
        await asyncio.sleep(2)
        assert bench.numbers() == [0, 1]
        await bench.instance.close()

    world.run(main)


def test_it_ends_when_the_queue_moves_is_dropped_or_unsubscribed(world: Any) -> None:
    """Each in its own way."""

    async def main() -> None:
        world.cluster.store("t", 0, b"0")
        bench = Bench(world)
        bench.held.pulled_to = QueueOffset(7)
        await (await bench.run())
        assert bench.moves == [1]
        bench = Bench(world)
        bench.held.is_dropped = True
        await (await bench.run())
        bench = Bench(world)
        bench.subscriptions.clear()
        await (await bench.run())
        assert bench.chunks == []
        bench = Bench(world)
        task = await bench.run()
        await asyncio.sleep(1)
        bench.held.is_dropped = True
        world.cluster.store("t", 0, b"1")
        await task
        assert bench.numbers() == [0]
        await bench.instance.close()

    world.run(main)


def test_an_inner_batch_is_handed_on_message_by_message(world: Any) -> None:
    """Its whole body came as one message. What lies before the offset asked for is left out."""

    async def main() -> None:
        bench = Bench(world, "a")
        bench.held = ProcessQueue(
            world.queue(0), QueueOffset(1), messages_max=100, bytes_max=10**6, span_max=1000
        )
        parts = [
            (0, b"%d" % n, b"TAGS\x01%b\x02" % tag) for n, tag in enumerate((b"a", b"a", b"b"))
        ]
        new = NewRecord("t", 0, batch.join(parts), b"", HOST, HOST, sys_flag=0xC0)
        body = record.encode(new, queue_offset=0, physical_offset=0, stored_at_ms=1, crc_tail=False)
        three = QueueOffset(3)
        result = PullResult(PullStatus.FOUND, three, QueueOffset(0), three, body)
        bench.pulling.take(bench.held, bench.subscriptions["t"], result)
        assert [one.queue_offset for chunk in bench.chunks for one in chunk.messages] == [1]
        assert bench.numbers() == [1]
        assert bench.held.pulled_to == 3
        await bench.instance.close()

    world.run(main)


@pytest.mark.parametrize(("first_at_ms", "next_offset"), [(1 << 50, 0), (1, 2), (-1, 2)])
def test_a_queue_made_anew_is_read_from_its_beginning(
    world: Any, first_at_ms: int, next_offset: int
) -> None:
    """A broker sends us to its end; one that has lost its end begins with what it had."""

    async def main() -> None:
        for number in range(4):
            world.cluster.store("t", 0, b"%d" % number)
        bench = Bench(world)
        await bench.run()
        await asyncio.sleep(1)
        assert bench.held.pulled_to == 4
        moved = headers.PullMessageAnswer(next_begin_offset=2, min_offset=0, max_offset=2)
        first = headers.TimestampAnswer(timestamp=first_at_ms)
        world.cluster.on[RequestCode.PULL_MESSAGE] = lambda peer, command: peer.send(
            response(command, ResponseCode.PULL_OFFSET_MOVED, moved)
        )
        world.cluster.on[RequestCode.GET_EARLIEST_MSG_STORETIME] = lambda peer, command: peer.send(
            response(command, 0, first)
        )
        await asyncio.sleep(60)
        assert bench.moves == [next_offset]
        await bench.instance.close()

    world.run(main)
