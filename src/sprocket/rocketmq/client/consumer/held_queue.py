"""One queue that a consumer has at the moment."""

import asyncio

from sprocket.rocketmq.client.consumer.consume_counts import TopicCounts
from sprocket.rocketmq.client.consumer.process_queue import ProcessQueue
from sprocket.rocketmq.model.route import MessageQueue

LOCK_LIFE_S = 30.0
"""A lock that was not renewed for so long is not trusted; the broker keeps it for 60 s."""


class HeldQueue:
    """A queue from the moment it is taken until it is given up.

    Attributes:
        queue: Which one.
        cache: What was pulled and is not done.
        is_dropped: Set when it is given up: nothing more of it is handed out or noted.
        is_stopping: Set when the consumer closes: nothing more of it is handed out.
        locked_at: When the broker last confirmed the lock, on the monotonic clock.
        pulled_at: When the last pull began, on the same clock.
        consumed_at: When the listener last returned, on the same clock.
        counts: The sums of its topic, which this queue adds to.
    """

    def __init__(
        self, queue: MessageQueue, cache: ProcessQueue, counts: TopicCounts | None = None
    ) -> None:
        self.queue = queue
        self.cache = cache
        self.counts = TopicCounts() if counts is None else counts
        self.pulled_at = float("-inf")
        self.consumed_at = float("-inf")
        self.is_dropped = False
        self.is_stopping = False
        self.locked_at = float("-inf")
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._going = asyncio.Event()
        self._going.set()
        self.pull_task: asyncio.Task[None] | None = None
        self.listener_task: asyncio.Task[None] | None = None

    def is_locked(self, now: float) -> bool:
        """Whether the lock can be trusted at `now` on the monotonic clock."""
        return now - self.locked_at < LOCK_LIFE_S

    def call_begins(self) -> None:
        """Note that the listener has messages of this queue, or that they are being given back."""
        self._calls += 1
        self._idle.clear()

    def call_ends(self) -> None:
        """Note that this has ended."""
        self._calls -= 1
        if not self._calls:
            self._idle.set()

    async def idle(self) -> None:
        """Wait until the listener has no messages of this queue, and none is being given back."""
        while self._calls:
            await self._idle.wait()

    @property
    def is_paused(self) -> bool:
        """Whether it is not pulled for the time being."""
        return not self._going.is_set()

    def pause(self) -> None:
        """Pull it no more, until `resume`."""
        self._going.clear()

    def resume(self) -> None:
        """Pull it again."""
        self._going.set()

    async def going(self) -> None:
        """Wait while it is paused."""
        await self._going.wait()

    def stop_pulling(self) -> None:
        """End the pulling, unless it is what calls this."""
        if self.pull_task is not None and self.pull_task is not asyncio.current_task():
            self.pull_task.cancel()

    def stop_handing_out(self) -> None:
        """End the queue's own worker, if it has one."""
        if self.listener_task is not None:
            self.listener_task.cancel()
