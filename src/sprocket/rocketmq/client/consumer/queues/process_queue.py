"""A queue that a consumer has at the moment: what was pulled of it and is not yet done.

Invariants:

1. Chunks stand in the order of their offsets, and no message is in two of them.
2. `commit_offset` is the first offset that is not done: it never passes a message that a listener
   has not finished, whatever the order in which chunks finish.
3. The counters are the sums over the chunks that are not done.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from sprocket.rocketmq.client.consumer.queues.consume_counts import TopicCounts
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MASTER_ID, MessageQueue

LOCK_LIFE_S = 30.0
"""A lock that was not renewed for so long is not trusted; the broker keeps it for 60 s."""
NEVER = float("-inf")
"""When something was, on the monotonic clock, that has not been yet."""


class Chunk(Struct, eq=False):
    """Messages that go to the listener in one call.

    Attributes:
        messages: Not yet done, in the order of their offsets.
        size: Bytes of their records.
        is_done: Whether the listener, or the broker's retry topic, has taken all of them.
        begun_at: Since when the listener has them, on the monotonic clock; None if it has not.
    """

    messages: list[ReceivedMessage]
    size: int
    is_done: bool = False
    begun_at: float | None = None


class ProcessQueue:
    """A queue from the moment it is taken until it is given up, its messages until they are done.

    It is full beyond `messages_max` messages or `bytes_max` bytes that are not done, and when their
    first and last offset lie further apart than `span_max`.

    Attributes:
        counts: The sums of its topic, which it adds to.
        pulled_to: Offset to pull next.
        broker_id: Which replica of its broker is asked next.
        stored_at_ms: When the last message that came was stored, 0 before there is one.
        count: Messages that are not done.
        size: Bytes of their records.
        is_dropped: Set when it is given up: nothing more of it is handed out or noted.
        is_stopping: Set when the consumer closes: nothing more of it is handed out.
        locked_at: When the broker last confirmed the lock, on the monotonic clock.
        pulled_at: When the last pull began, on the same clock.
        consumed_at: When the listener last returned, on the same clock.

    Threads: event loop only.
    """

    def __init__(
        self,
        queue: MessageQueue,
        start: QueueOffset,
        *,
        messages_max: int,
        bytes_max: int,
        span_max: int,
        counts: TopicCounts | None = None,
    ) -> None:
        self.queue = queue
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        self.counts = counts or TopicCounts()
        self.pulled_to = start
        self.broker_id = MASTER_ID
        self.stored_at_ms = 0
        self.count = 0
        self.size = 0
        self.is_dropped = False
        self.is_stopping = False
        self.locked_at = self.pulled_at = self.consumed_at = NEVER
        self.pull_task: asyncio.Task[None] | None = None
        self.listener_task: asyncio.Task[None] | None = None
        self._span_max = span_max
        self._chunks: deque[Chunk] = deque()
        self._room = asyncio.Event()
        self._arrival = asyncio.Event()
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._going = asyncio.Event()
        self._going.set()

    @property
    def commit_offset(self) -> QueueOffset:
        """The offset up to which, exclusive, everything is done."""
        if self._chunks:
            return QueueOffset(self._chunks[0].messages[0].queue_offset)
        return self.pulled_to

    @property
    def head(self) -> Chunk | None:
        """The first chunk that is not done."""
        return self._chunks[0] if self._chunks else None

    @property
    def is_full(self) -> bool:
        """Whether pulling has to wait."""
        return (
            self.count > self.messages_max
            or self.size > self.bytes_max
            or self.pulled_to - self.commit_offset > self._span_max
        )

    @property
    def free_messages(self) -> int:
        """How many messages it takes, of any size, until it is full; 0 or less if it is."""
        span = self.pulled_to - self.commit_offset
        return min(self.messages_max - self.count, self._span_max - span)

    def limit(self, messages_max: int, bytes_max: int) -> None:
        """Change the limits."""
        self.messages_max, self.bytes_max = messages_max, bytes_max
        if not self.is_full:
            self._room.set()

    @property
    def last_offset(self) -> QueueOffset | None:
        """The offset of the last message that is not done, None without one."""
        return QueueOffset(self._chunks[-1].messages[-1].queue_offset) if self._chunks else None

    def begun_before(self, latest: float) -> list[Chunk]:
        """Return the chunks that the listener has had since before `latest` on its clock."""
        return [
            chunk
            for chunk in self._chunks
            if not chunk.is_done and chunk.begun_at is not None and chunk.begun_at < latest
        ]

    def put(
        self, messages: Sequence[ReceivedMessage], next_offset: QueueOffset, chunk_max: int
    ) -> list[Chunk]:
        """Add what a pull brought; return the new chunks, in order, with at most `chunk_max` each.

        The next pull begins at `next_offset`, further on than the messages if tags filter.
        """
        assert next_offset >= self.pulled_to, (next_offset, self.pulled_to)
        chunks = []
        for start in range(0, len(messages), chunk_max):
            part = list(messages[start : start + chunk_max])
            chunks.append(Chunk(part, sum([one.stored.store_size for one in part])))
        self._chunks.extend(chunks)
        self.count += len(messages)
        self.size += sum([chunk.size for chunk in chunks])
        self.pulled_to = next_offset
        if chunks:
            self._arrival.set()
        return chunks

    def done(self, chunk: Chunk) -> None:
        """Note that every message of `chunk` was taken."""
        assert not chunk.is_done, "a chunk is done once"
        chunk.is_done = True
        self.count -= len(chunk.messages)
        self.size -= chunk.size
        while self._chunks and self._chunks[0].is_done:
            self._chunks.popleft()
        if not self.is_full:
            self._room.set()

    def keep(self, chunk: Chunk, rest: list[ReceivedMessage]) -> None:
        """Shorten `chunk` to the messages that have to be delivered again, at least one."""
        assert rest, "a chunk without a rest is done"
        size = sum([one.stored.store_size for one in rest])
        self.count -= len(chunk.messages) - len(rest)
        self.size -= chunk.size - size
        chunk.messages = rest
        chunk.size = size

    async def room(self) -> None:
        """Wait until the queue is not full."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    async def arrival(self) -> None:
        """Wait until there is a chunk that is not done."""
        while not self._chunks:
            self._arrival.clear()
            await self._arrival.wait()

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
