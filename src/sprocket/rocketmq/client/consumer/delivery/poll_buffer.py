"""Messages that a lite consumer has pulled: those that wait for a poll, those of the last one."""

import asyncio
from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from sprocket.rocketmq.client.consumer.delivery.consume_traces import ConsumeTraces
from sprocket.rocketmq.client.consumer.queues import Chunk, ProcessQueue
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.runtime.tasks import is_set_within


class _InHand(Struct):
    """A chunk of which the user was given so many messages, from the first on."""

    held: ProcessQueue
    chunk: Chunk
    given: int

    @property
    def is_done(self) -> bool:
        return self.given == len(self.chunk.messages)


class _Traced(Struct, frozen=True):
    """What the user got last, since when, and what its trace is known by."""

    messages: Sequence[ReceivedMessage]
    since_s: float
    request_id: str


class PollBuffer:
    """The consumption that waits to be asked.

    Polled messages are traced like those given to a listener; consuming ends at the next poll.

    Attributes:
        traces: Writes these traces; None if tracing is off.

    Invariant: a queue holds what its user has in hand as well, until `acknowledge`; so its
    commit offset never passes a message that the user may still be at.

    Threads: event loop only.
    """

    def __init__(self) -> None:
        self._ready: deque[tuple[ProcessQueue, Chunk]] = deque()
        self._arrived = asyncio.Event()
        self._in_hand: _InHand | None = None
        self.traces: ConsumeTraces | None = None
        self._traced: _Traced | None = None

    def pulled(self, held: ProcessQueue, chunks: Sequence[Chunk]) -> None:
        """Keep chunks until they are asked for."""
        self._ready.extend((held, chunk) for chunk in chunks)
        self._arrived.set()

    def wake(self) -> None:
        """Look again, as a queue is not paused any more."""
        self._arrived.set()

    async def poll(self, wait_s: float) -> list[ReceivedMessage]:
        """Acknowledge, and give the next messages of one queue; none if none come in time."""
        self.acknowledge()
        taken = await self._take(wait_s)
        if taken is None:
            return []
        messages = list(taken[1].messages)
        self._in_hand = _InHand(*taken, given=len(messages))
        self._trace(messages)
        return messages

    async def next(self) -> ReceivedMessage:
        """Acknowledge, and give one message, as soon as there is one."""
        while True:
            now = self._in_hand
            if now is not None and not now.is_done and _is_wanted(now.held):
                now.given += 1
                message = now.chunk.messages[now.given - 1]
                self._trace([message])
                return message
            self.acknowledge()
            taken = await self._take(None)
            assert taken is not None, "it waits until there is something"
            self._in_hand = _InHand(*taken, given=0)

    def acknowledge(self) -> None:
        """Count as done what the user has in hand, and keep the rest of it for later."""
        self._trace([])
        now, self._in_hand = self._in_hand, None
        if now is None or now.held.is_dropped:
            return
        if now.is_done:
            now.held.done(now.chunk)
            return
        if now.given:
            now.held.keep(now.chunk, now.chunk.messages[now.given :])
        self._ready.appendleft((now.held, now.chunk))

    def _trace(self, given: Sequence[ReceivedMessage]) -> None:
        """Note that what was given last is done, and what is given now."""
        if self.traces is None:
            return
        now_s = asyncio.get_running_loop().time()
        done, self._traced = self._traced, None
        if done is not None:
            took_ms = round((now_s - done.since_s) * 1000)
            self.traces.ended(done.request_id, done.messages, None, took_ms)
        if given:
            self._traced = _Traced(given, now_s, self.traces.began(given))

    def position(self, held: ProcessQueue) -> QueueOffset:
        """Return the offset of the next message of a queue that the user will be given."""
        now = self._in_hand
        if now is None or now.held is not held or not now.given:
            return held.commit_offset
        if not now.is_done:
            return QueueOffset(now.chunk.messages[now.given].queue_offset)
        later = [chunk for one, chunk in self._ready if one is held]
        return QueueOffset(later[0].messages[0].queue_offset) if later else held.pulled_to

    async def _take(self, wait_s: float | None) -> tuple[ProcessQueue, Chunk] | None:
        """Return the first chunk of a queue that is held and goes on; None if none comes."""
        loop = asyncio.get_running_loop()
        deadline = None if wait_s is None else loop.time() + wait_s
        while True:
            found = self._pop()
            if found is not None:
                return found
            self._arrived.clear()
            if deadline is None:
                await self._arrived.wait()
            elif not await is_set_within(deadline - loop.time(), self._arrived):
                return None

    def _pop(self) -> tuple[ProcessQueue, Chunk] | None:
        paused = []
        found = None
        while self._ready and found is None:
            held, chunk = self._ready.popleft()
            if held.is_paused and not held.is_dropped:
                paused.append((held, chunk))
            elif not held.is_dropped:
                found = held, chunk
        self._ready.extendleft(reversed(paused))
        return found


def _is_wanted(held: ProcessQueue) -> bool:
    return not held.is_dropped and not held.is_paused
