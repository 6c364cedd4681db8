"""The listener's outcome decides; a queue that was given up is left alone."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests import virtual_time
from tests.virtual_time import LoopClock

from sprocket.rocketmq.client import ConsumerSettings, ReceivedMessage
from sprocket.rocketmq.client.consumer.delivery import (
    ConcurrentConsumption,
    ListenerCalls,
    OrderlyConsumption,
)
from sprocket.rocketmq.client.consumer.plan import ConsumerPlan
from sprocket.rocketmq.client.consumer.queues import BrokerLedger, Chunk, Offsets, ProcessQueue
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.runtime.tasks import Tasks

QUEUE = MessageQueue("t", "b", 0)


class Bench:
    """A queue with messages, and what handing them out needs."""

    def __init__(self, listener: Any, **settings: Any) -> None:
        self.settings = ConsumerSettings(**settings)
        self.tasks = Tasks("test")
        self.offsets = Offsets("g", BrokerLedger("g", None))  # type: ignore[arg-type] # not asked
        limits: dict[str, Any] = {"messages_max": 100, "bytes_max": 10**6, "span_max": 100}
        self.held = ProcessQueue(QUEUE, QueueOffset(0), **limits)
        self.calls = ListenerCalls(listener, LoopClock())
        self.back: list[ReceivedMessage] = []
        self.levels: list[int] = []
        self.is_taken_back = False

    async def give_back(
        self, messages: Sequence[ReceivedMessage], level: int
    ) -> list[ReceivedMessage]:
        """Take messages back or not, as the test says."""
        self.back += messages
        self.levels.append(level)
        return [] if self.is_taken_back else list(messages)

    def concurrent(self) -> ConcurrentConsumption:
        """Hand out concurrently."""
        plan = ConsumerPlan(group="g", settings=self.settings)
        return ConcurrentConsumption(plan, self.calls, self.offsets, self.give_back, self.tasks)

    def orderly(self) -> OrderlyConsumption:
        """Hand out in order, with a lock that is good for ever."""
        self.held.locked_at = float("inf")
        plan = ConsumerPlan(group="g", settings=self.settings, is_orderly=True)
        return OrderlyConsumption(plan, self.calls, self.offsets, self.give_back, self.tasks)

    def put(self, count: int, chunk_max: int = 1) -> list[Chunk]:
        """Put messages into the cache."""
        start = self.held.pulled_to
        messages = [
            ReceivedMessage(
                StoredMessage("t", 0, start + n, 0, 9, 0, 0, "", 0, "", 0, 0, 0, 0, 0, {}, b""),
                QUEUE,
            )
            for n in range(count)
        ]
        return self.held.put(messages, QueueOffset(start + count), chunk_max)


def test_concurrent_calls_are_limited() -> None:
    """At most `concurrency` calls of an async listener at once."""

    async def main() -> None:
        now, most = 0, 0

        async def listener(_: Any) -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(1)
            now -= 1

        bench = Bench(listener, call_count_max=3)
        consumption = bench.concurrent()
        consumption.pulled(bench.held, bench.put(9))
        await asyncio.sleep(3.5)
        assert most == 3
        assert bench.offsets.get(QUEUE) == 9
        await bench.tasks.close()

    virtual_time.run(main())


def test_an_orderly_queue_has_one_call_however_often_it_is_pulled() -> None:
    """What the second pull brings waits for what the first has brought."""

    async def main() -> None:
        got: list[int] = []

        async def listener(messages: list[ReceivedMessage]) -> None:
            got.append(messages[0].queue_offset)
            await asyncio.sleep(1)

        bench = Bench(listener)
        consumption = bench.orderly()
        consumption.pulled(bench.held, bench.put(1))
        await asyncio.sleep(0.5)
        consumption.pulled(bench.held, bench.put(2))
        await asyncio.sleep(0.4)
        assert got == [0]
        await asyncio.sleep(2)
        assert got == [0, 1, 2]
        await bench.tasks.close()

    virtual_time.run(main())


def test_what_the_broker_takes_back_is_done() -> None:
    """The offset passes it, and it is not handed out again from here."""

    async def main() -> None:
        calls = 0

        def listener(_: Any) -> None:
            nonlocal calls
            calls += 1
            raise ValueError("no")

        bench = Bench(listener)
        bench.is_taken_back = True
        bench.concurrent().pulled(bench.held, bench.put(2, 2))
        await asyncio.sleep(60)
        assert (calls, len(bench.back), bench.offsets.get(QUEUE)) == (1, 2, 2)
        await bench.tasks.close()

    virtual_time.run(main())


def test_a_dropped_queue_is_neither_handed_out_nor_noted() -> None:
    """Not its waiting chunks, not the result of a call under way, not a failed one later."""

    async def main() -> None:
        go = asyncio.Event()
        calls = 0
        fails = False

        async def listener(_: Any) -> None:
            nonlocal calls
            calls += 1
            await go.wait()
            if fails:
                raise ValueError("no")

        for outcome in (False, True):
            fails = outcome
            for make in (Bench.concurrent, Bench.orderly):
                calls = 0
                go.clear()
                bench = Bench(listener, call_count_max=1)
                consumption = make(bench)
                consumption.pulled(bench.held, bench.put(2))
                await asyncio.sleep(1)
                bench.held.is_dropped = True
                go.set()
                await asyncio.sleep(60)
                assert calls == 1
                assert bench.offsets.get(QUEUE) is None
                assert bench.back == []
                await bench.tasks.close()

    virtual_time.run(main())


def test_a_call_counts_until_it_has_ended() -> None:
    """Also when it raises, or is cancelled."""

    async def main() -> None:
        async def hangs(_: Any) -> None:
            await asyncio.sleep(1_000)

        bench = Bench(hangs)
        (chunk,) = bench.put(1)
        task = asyncio.ensure_future(bench.calls.call(bench.held, chunk))
        await asyncio.sleep(1)
        waiting = asyncio.ensure_future(bench.held.idle())
        await asyncio.sleep(1)
        assert not waiting.done()
        task.cancel()
        await waiting
        raising = ListenerCalls(lambda _: 1 / 0, LoopClock())  # type: ignore[arg-type,return-value]
        assert await raising.call(bench.held, chunk) is not None
        await bench.held.idle()

    virtual_time.run(main())


def test_the_listener_gets_a_list_of_its_own() -> None:
    """What it does to the list changes nothing for us."""

    async def main() -> None:
        bench = Bench(lambda messages: messages.clear())
        bench.concurrent().pulled(bench.held, bench.put(2, 2))
        await asyncio.sleep(1)
        assert bench.offsets.get(QUEUE) == 2
        await bench.tasks.close()

    virtual_time.run(main())


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), SystemExit(), StopIteration()], ids=repr
)
@pytest.mark.parametrize("make", [Bench.concurrent, Bench.orderly])
def test_no_error_of_a_listener_ends_its_worker(make: Any, error: BaseException) -> None:
    """The message comes again, and those behind it are handed out."""

    async def main() -> None:
        got: list[int] = []

        async def listener(messages: list[ReceivedMessage]) -> None:
            got.extend(one.queue_offset for one in messages)
            if len(got) == 1:
                raise error

        bench = Bench(listener, call_count_max=1)
        consumption = make(bench)
        consumption.pulled(bench.held, bench.put(2))
        await asyncio.sleep(60)
        assert sorted(got) == [0, 0, 1]
        assert bench.offsets.get(QUEUE) == 2
        assert bench.held.counts.failed == 1
        await bench.tasks.close()

    virtual_time.run(main())
