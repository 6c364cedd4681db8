"""Sends what a producer or a consumer notes about messages, beside its own work.

Theory of operation

Records wait here for a second, or until there are `RECORDS` of them. Then those of one topic become
the body of one message in the trace topic, whose keys are the ids and keys of the messages they
speak of: by these `sprocket msg trace` and RocketMQ's tools find them.

A trace must not harm what it is about. Nobody waits for it; what waits here is bounded, and records
that find no room, or that no broker takes in time, are dropped, counted and logged.

Source: RocketMQ `AsyncTraceDispatcher`. See `docs/formats/trace.md`.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from sprocket.base import log
from sprocket.base.errors import ClientError
from sprocket.rocketmq.codec import trace
from sprocket.rocketmq.model.message import Message
from sprocket.rocketmq.model.trace import TraceRecord

RECORDS = 100
"""Records that are sent without waiting for more."""
WAITING_MAX = 2_048
"""Records that wait, beyond which new ones are dropped."""
BODY_BYTES_MAX = 128_000
"""Where a trace message ends; a record that is longer has one of its own."""
KEYS_CHARACTERS_MAX = 8_000
"""Most that the keys of a trace message take; a message's id is always among them."""
_FLUSH_S = 1.0

R = TypeVar("R")

_log = log.get_limited_logger(__name__)


class TraceSender(Protocol[R]):
    """Sends trace messages; a producer that writes no traces itself."""

    async def start(self) -> None:
        """Begin."""

    async def close(self, *, flush: bool = True) -> None:
        """Wait for what is under way, unless `flush` is False, and end."""

    @property
    def is_full(self) -> bool:
        """Whether it takes no more at the moment."""

    def send_soon(self, message: Message) -> "asyncio.Future[R]":
        """Take a message on its way; the future ends with the outcome."""


class _Noted(Struct, frozen=True):
    """A record that waits, and by what it is to be found."""

    topic: str
    encoded: bytes
    keys: tuple[str, ...]


class TraceWriter(Generic[R]):
    """Collects records and sends them.

    Args:
        sender: Sends the messages; is started and closed with this.
        trace_topic: Where they go.

    Threads: event loop only.
    """

    def __init__(self, sender: TraceSender[R], trace_topic: str) -> None:
        self._sender = sender
        self.trace_topic = trace_topic
        self._waiting: list[_Noted] = []
        self._timer: asyncio.TimerHandle | None = None
        self.dropped = 0
        """How many records were dropped."""

    async def start(self) -> None:
        """Begin. Raises ClientError as the start of a producer does."""
        await self._sender.start()

    async def close(self, *, flush: bool = True) -> None:
        """Send what waits, unless `flush` is False, and end."""
        if flush:
            self._send_waiting()
        if self._timer is not None:
            self._timer.cancel()
        await self._sender.close(flush=flush)

    def add(self, topic: str, record: TraceRecord, keys: Iterable[str]) -> None:
        """Take a record about a message of a topic.

        Args:
            topic: The message's; there is no trace of those of the trace topic.
            record: What was noted.
            keys: The message's id, and its own keys.
        """
        if topic == self.trace_topic:
            return
        if len(self._waiting) >= WAITING_MAX:
            self._drop(1, "too many wait")
            return
        self._waiting.append(_Noted(topic, trace.encode([record]), _fitting(keys)))
        if len(self._waiting) >= RECORDS:
            self._send_waiting()
        if self._waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_S, self._timed)

    def _timed(self) -> None:
        self._timer = None
        self._send_waiting()
        if self._waiting:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_S, self._timed)

    def _send_waiting(self) -> None:
        """Send all that waits, as far as the sender takes it."""
        by_topic: dict[str, list[_Noted]] = {}
        for noted in self._waiting:
            by_topic.setdefault(noted.topic, []).append(noted)
        self._waiting = []
        for records in by_topic.values():
            for part in _parts(records):
                if self._sender.is_full:
                    self._waiting += part
                else:
                    self._send(part)

    def _send(self, part: Sequence[_Noted]) -> None:
        keys = tuple(dict.fromkeys(key for noted in part for key in noted.keys))
        body = b"".join(noted.encoded for noted in part)
        try:
            sent = self._sender.send_soon(Message(self.trace_topic, body, keys=keys))
        except ClientError as error:
            self._drop(len(part), str(error))
            return
        sent.add_done_callback(partial(self._sent, len(part)))

    def _sent(self, count: int, sent: "asyncio.Future[R]") -> None:
        if sent.cancelled():
            self._drop(count, "cancelled")
        elif (error := sent.exception()) is not None:
            self._drop(count, str(error))

    def _drop(self, count: int, why: str) -> None:
        self.dropped += count
        _log.warning("traces are dropped", records=count, all_so_far=self.dropped, why=why)


def _fitting(keys: Iterable[str]) -> tuple[str, ...]:
    """Return the keys, from the first on, that fit into a message."""
    fitting: list[str] = []
    room = KEYS_CHARACTERS_MAX
    for key in keys:
        room -= len(key) + 1
        if key and room >= 0:
            fitting.append(key)
    return tuple(fitting)


def _parts(records: Iterable[_Noted]) -> Iterator[list[_Noted]]:
    """Cut records into what goes into one message each."""
    part: list[_Noted] = []
    size = keys_size = 0
    for noted in records:
        own_keys_size = sum(len(key) + 1 for key in noted.keys)
        size += len(noted.encoded)
        keys_size += own_keys_size
        if part and (size > BODY_BYTES_MAX or keys_size > KEYS_CHARACTERS_MAX):
            yield part
            part, size, keys_size = [], len(noted.encoded), own_keys_size
        part.append(noted)
    if part:
        yield part
