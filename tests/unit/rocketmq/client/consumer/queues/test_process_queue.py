"""A queue never lets the committed offset pass what is not done.

It knows when the listener is idle and whether its lock is good.
"""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import virtual_time

from sprocket.rocketmq.client import ReceivedMessage
from sprocket.rocketmq.client.consumer.queues import Chunk, ProcessQueue
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MessageQueue


def message(offset: int, size: int = 100) -> ReceivedMessage:
    """Return a message at an offset."""
    stored = StoredMessage("t", 0, offset, 0, size, 0, 0, "", 0, "", 0, 0, 0, 0, 0, {}, b"")
    return ReceivedMessage(stored, MessageQueue("t", "b", 0))


def queue(start: int = 0, messages_max: int = 1000, span_max: int = 2000) -> ProcessQueue:
    """Return a cache."""
    return ProcessQueue(
        MessageQueue("t", "b", 0),
        QueueOffset(start),
        messages_max=messages_max,
        bytes_max=1 << 20,
        span_max=span_max,
    )


def put(cache: ProcessQueue, offsets: list[int], next_offset: int, chunk_max: int) -> list[Chunk]:
    """Put messages with these offsets."""
    return cache.put([message(one) for one in offsets], QueueOffset(next_offset), chunk_max)


@given(st.integers(1, 40), st.integers(1, 9), st.randoms(use_true_random=False))
def test_the_commit_offset_is_the_first_that_is_not_done(count, chunk_max, random) -> None:  # type: ignore[no-untyped-def]
    """Whatever the order in which chunks finish, everything below it is done, and it is not."""
    cache = queue()
    chunks = put(cache, list(range(count)), count, chunk_max)
    open_offsets = set(range(count))
    random.shuffle(chunks)
    for chunk in chunks:
        assert min(open_offsets) == cache.commit_offset
        open_offsets -= {one.queue_offset for one in chunk.messages}
        cache.done(chunk)
    assert count == cache.commit_offset
    assert (cache.count, cache.size) == (0, 0)


def test_offsets_that_were_filtered_out_are_passed() -> None:
    """When all that came is done, the committed offset is where the next pull begins."""
    cache = queue(5)
    (chunk,) = put(cache, [6, 8], 12, 10)
    assert cache.commit_offset == 6
    cache.done(chunk)
    assert cache.commit_offset == 12
    put(cache, [], 20, 10)
    assert cache.commit_offset == 20


def test_a_failed_rest_holds_the_offset() -> None:
    """A chunk that was shortened still holds the offset of its first message left."""
    cache = queue()
    first, second = put(cache, [0, 1, 2, 3], 4, 2)
    cache.keep(first, first.messages[1:])
    cache.done(second)
    assert (cache.commit_offset, cache.count, cache.size) == (1, 1, 100)


def test_limits_are_strict_and_room_comes_back() -> None:
    """A queue is full beyond a limit, not at it; waiting ends when enough is done."""

    async def main() -> None:
        cache = queue(messages_max=2)
        first, _ = put(cache, [0, 1], 2, 1)
        assert not cache.is_full
        put(cache, [2], 3, 1)
        assert cache.is_full
        waiting = asyncio.ensure_future(cache.room())
        await asyncio.sleep(1)
        assert not waiting.done()
        cache.done(first)
        await waiting

    virtual_time.run(main())


def test_one_old_message_stops_the_pulling() -> None:
    """Beyond `span_max` offsets between the first open message and the end, the queue is full."""
    cache = queue(span_max=10)
    first, _ = put(cache, [0, 10], 11, 1)
    assert cache.is_full
    cache.done(first)
    assert not cache.is_full


def test_arrival_waits_for_a_chunk() -> None:
    """The wait ends with the first message, not with a pull that brought none."""

    async def main() -> None:
        cache = queue()
        waiting = asyncio.ensure_future(cache.arrival())
        put(cache, [], 5, 1)
        await asyncio.sleep(1)
        assert not waiting.done()
        put(cache, [5], 6, 1)
        await waiting
        assert cache.head is not None

    virtual_time.run(main())


def test_a_chunk_is_done_once() -> None:
    """Doing it twice is our own mistake."""
    cache = queue()
    (chunk,) = put(cache, [0], 1, 1)
    cache.done(chunk)
    with pytest.raises(AssertionError):
        cache.done(chunk)


def test_idle_waits_for_every_call() -> None:
    """Two calls that overlap both have to end."""

    async def main() -> None:
        one = queue()
        await one.idle()
        one.call_begins()
        one.call_begins()
        waiting = asyncio.ensure_future(one.idle())
        one.call_ends()
        await asyncio.sleep(1)
        assert not waiting.done()
        one.call_ends()
        await waiting

    virtual_time.run(main())


def test_a_lock_is_good_for_thirty_seconds() -> None:
    """From its last renewal; one that was never won is not good."""

    async def main() -> None:
        one = queue()
        assert not one.is_locked(0)
        one.locked_at = 100
        assert one.is_locked(129.9)
        assert not one.is_locked(130)

    virtual_time.run(main())


def test_stopping_spares_the_task_that_asks() -> None:
    """A pull that ends its own queue is not cancelled by that."""

    async def main() -> None:
        one = queue()
        one.stop_pulling()
        one.stop_handing_out()
        one.pull_task = asyncio.current_task()
        one.stop_pulling()
        one.listener_task = asyncio.ensure_future(asyncio.sleep(100))
        one.stop_handing_out()
        await asyncio.sleep(1)
        assert one.listener_task.cancelled()

    virtual_time.run(main())
