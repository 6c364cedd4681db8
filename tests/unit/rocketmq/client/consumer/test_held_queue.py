"""A held queue knows when the listener is idle and whether its lock is good."""

import asyncio
from typing import Any

from sprocket.rocketmq.client.consumer.held_queue import HeldQueue
from sprocket.rocketmq.client.consumer.process_queue import ProcessQueue
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.testing import virtual_time


def held() -> HeldQueue:
    """Return a queue that was just taken."""
    limits: dict[str, Any] = {"messages_max": 1, "bytes_max": 1, "span_max": 1}
    return HeldQueue(MessageQueue("t", "b", 0), ProcessQueue(QueueOffset(0), **limits))


def test_idle_waits_for_every_call() -> None:
    """Two calls that overlap both have to end."""

    async def main() -> None:
        one = held()
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
        one = held()
        assert not one.is_locked(0)
        one.locked_at = 100
        assert one.is_locked(129.9)
        assert not one.is_locked(130)

    virtual_time.run(main())


def test_stopping_spares_the_task_that_asks() -> None:
    """A pull that ends its own queue is not cancelled by that."""

    async def main() -> None:
        one = held()
        one.stop_pulling()
        one.stop_handing_out()
        one.pull_task = asyncio.current_task()
        one.stop_pulling()
        one.listener_task = asyncio.ensure_future(asyncio.sleep(100))
        one.stop_handing_out()
        await asyncio.sleep(1)
        assert one.listener_task.cancelled()

    virtual_time.run(main())
