"""What is in hand is not done; what was given back to the queue comes first."""

import asyncio
from typing import Any

from tests import virtual_time

from sprocket.rocketmq.client import ReceivedMessage
from sprocket.rocketmq.client.consumer.delivery import PollBuffer
from sprocket.rocketmq.client.consumer.queues import ProcessQueue
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MessageQueue


class Bench:
    """A consumption with queues whose messages a test puts there."""

    def __init__(self) -> None:
        self.polling = PollBuffer()

    def held(self, queue_id: int = 0) -> ProcessQueue:
        """Return a queue that was just taken."""
        limits: dict[str, Any] = {"messages_max": 100, "bytes_max": 10**6, "span_max": 100}
        return ProcessQueue(MessageQueue("t", "b", queue_id), QueueOffset(0), **limits)

    def put(self, held: ProcessQueue, count: int, chunk_max: int = 100) -> None:
        """Put messages into a queue."""
        start = held.pulled_to
        messages = [
            ReceivedMessage(
                StoredMessage("t", 0, start + n, 0, 9, 0, 0, "", 0, "", 0, 0, 0, 0, 0, {}, b""),
                held.queue,
            )
            for n in range(count)
        ]
        end = QueueOffset(start + count)
        self.polling.pulled(held, held.put(messages, end, chunk_max))


def offsets(messages: list[ReceivedMessage]) -> list[int]:
    """Return the offsets of messages."""
    return [one.queue_offset for one in messages]


def test_a_poll_acknowledges_the_one_before() -> None:
    """Until then the messages are not done; the position is behind them at once."""

    async def main() -> None:
        bench = Bench()
        held = bench.held()
        bench.put(held, 5, chunk_max=3)
        assert offsets(await bench.polling.poll(0)) == [0, 1, 2]
        assert (held.commit_offset, bench.polling.position(held)) == (0, 3)
        assert offsets(await bench.polling.poll(0)) == [3, 4]
        assert (held.commit_offset, bench.polling.position(held)) == (3, 5)
        assert await bench.polling.poll(0) == []
        assert (held.commit_offset, bench.polling.position(held)) == (5, 5)

    virtual_time.run(main())


def test_a_part_of_a_chunk_can_be_acknowledged() -> None:
    """The rest of it comes first, one by one or together."""

    async def main() -> None:
        bench = Bench()
        held, other = bench.held(), bench.held(1)
        bench.put(held, 4)
        bench.put(other, 1)
        assert [(await bench.polling.next()).queue_offset for _ in range(2)] == [0, 1]
        assert bench.polling.position(held) == 2
        bench.polling.acknowledge()
        bench.polling.acknowledge()
        assert held.commit_offset == 2
        assert (await bench.polling.next()).queue_offset == 2
        assert offsets(await bench.polling.poll(0)) == [3]
        assert held.commit_offset == 3

    virtual_time.run(main())


def test_a_poll_waits_so_long_and_no_longer() -> None:
    """For messages of a queue that goes on."""

    async def main() -> None:
        bench = Bench()
        held, paused = bench.held(), bench.held(1)
        paused.pause()
        bench.put(paused, 1)
        loop = asyncio.get_running_loop()
        assert await bench.polling.poll(7) == []
        assert loop.time() >= 7
        loop.call_later(2, bench.put, held, 1)
        assert len(await bench.polling.poll(7)) == 1
        assert loop.time() < 10
        paused.resume()
        bench.polling.wake()
        assert (await bench.polling.poll(0))[0].queue == paused.queue

    virtual_time.run(main())


def test_a_queue_that_was_given_up_gives_nothing() -> None:
    """Neither what waits, nor the rest of what was in hand; nothing more of it becomes done."""

    async def main() -> None:
        bench = Bench()
        held, other = bench.held(), bench.held(1)
        bench.put(held, 4, chunk_max=2)
        bench.put(other, 1)
        assert (await bench.polling.next()).queue_offset == 0
        held.is_dropped = True
        assert (await bench.polling.next()).queue == other.queue
        assert held.commit_offset == 0

    virtual_time.run(main())
