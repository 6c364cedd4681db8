"""The ready messages of one priority of a queue, in order.

    returned | window | backlog
             └ taken from the front, the lowest number first ┘

`returned` are messages that somebody had and gave back, sorted by their numbers. What was never
taken has larger numbers: the first part of it is the `window`, which is held in memory; the rest,
the `backlog`, is only in the storages and is read when the window gets short.

Invariants

1. Every number in `returned` is smaller than every one in the window, and those are smaller than
   `backlog_start`. All that storages have from there on is ready.
2. As long as there is a backlog, nothing that is published gets into the window.
3. What is ready is in a storage: persistent messages of a durable queue in its own, others in
   memory. For a queue that keeps transient messages every message is a persistent one.
"""

import math
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count as count_from
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from sprocket.base import log
from sprocket.base.disk import Steps, steps
from sprocket.rabbitmq.broker.queues.storage import MemoryStorage, QueueStorage, ReadEntry
from sprocket.rabbitmq.broker.queues.windows import WindowLimits, Windows
from sprocket.rabbitmq.model.message import BasicMessage

TRANSIENT_LOOKED_AT: Final = 1000
"""Up to this many transient messages are looked at to tell their size, 0.1 ms."""

_UNSHARED: Final = WindowLimits(all_bytes=math.inf)

_is_persistent = attrgetter("is_persistent")

_log = log.get_logger(__name__)


class QueueEntry(Struct, gc=False):
    """A message in a queue, ready or with a consumer."""

    seq_id: int
    message: BasicMessage
    expires_at_us: int | None
    """Microseconds since 1970; None for never."""
    is_delivered: bool
    """Whether somebody may have had it before."""
    level: int
    body_bytes: int
    return_count: int = 0
    """How often it came back, if its queue counts that."""


class StorageDepth(NamedTuple):
    """What storages keep of a queue."""

    ready_bytes: int
    """Of the bodies of messages that are ready."""
    durable_count: int
    durable_bytes: int
    transient_count: int
    transient_bytes: int | None
    """None if there are more than `TRANSIENT_LOOKED_AT`."""
    held_count: int
    """Messages that are ready, and in memory."""
    published_count: int
    """How many were ever put into it since it was opened."""

    def plus(self, other: "StorageDepth") -> "StorageDepth":
        """Return what both have."""
        sizes = (self.transient_bytes, other.transient_bytes)
        return StorageDepth(
            self.ready_bytes + other.ready_bytes,
            self.durable_count + other.durable_count,
            self.durable_bytes + other.durable_bytes,
            self.transient_count + other.transient_count,
            None if sizes[0] is None or sizes[1] is None else sizes[0] + sizes[1],
            self.held_count + other.held_count,
            self.published_count + other.published_count,
        )


class ReadyLevel:
    """See the head of the module.

    Args:
        number: Its priority.
        durable: Where persistent messages are kept; None if the queue is not durable.
        windows: Limits what all levels hold that could read it again.
        keeps_transient: Whether `durable` keeps transient messages, too.
    """

    __slots__ = (
        "_backlog_start",
        "_durable",
        "_first_seq_id",
        "_keeps_transient",
        "_large_bytes",
        "_limits",
        "_lost",
        "_next_seq_id",
        "_returned",
        "_transient",
        "_void",
        "_window",
        "_window_bytes",
        "_window_bytes_max",
        "_window_messages_max",
        "_windows",
        "_withdrawal_count",
        "backlog_count",
        "is_reading",
        "may_expire",
        "number",
        "ready_bytes",
    )

    def __init__(
        self,
        number: int,
        durable: QueueStorage | None,
        windows: Windows,
        *,
        keeps_transient: bool = False,
    ) -> None:
        self.number = number
        self.may_expire = False
        """Whether anything that is held has a time at which it expires."""
        self.ready_bytes = 0 if durable is None else durable.body_bytes
        """Of all bodies that are ready."""
        self.is_reading = False
        self.backlog_count = 0 if durable is None else durable.unacked_count()
        self._backlog_start = 0
        self._durable = durable
        self._keeps_transient = keeps_transient
        self._next_seq_id = 0 if durable is None else durable.next_seq_id
        self._first_seq_id = self._next_seq_id
        self._transient = MemoryStorage(self._next_seq_id)
        # What has no other storage is in memory anyway, and does not count.
        limits = windows.limits
        self._windows = windows if durable is not None else Windows(_UNSHARED)
        self._limits = limits
        self._window_messages_max = limits.window_messages
        self._window_bytes_max = limits.window_bytes
        self._window: deque[QueueEntry] = deque()
        self._window_bytes = 0
        self._large_bytes = 0
        """The largest of the latest bodies: how many may be read at once depends on it."""
        self._returned: list[tuple[int, QueueEntry]] = []
        self._void: set[int] = set()
        """Numbers of messages that somebody was given, or that die, and that were refused then."""
        self._withdrawal_count = 0
        self._lost: set[int] = set()
        """Numbers of messages that cannot be given out, and are not ready."""

    @property
    def ready_count(self) -> int:
        """How many messages are ready."""
        return len(self._returned) + len(self._window) + self.backlog_count

    @property
    def held_count(self) -> int:
        """How many of them can be taken now."""
        return len(self._returned) + len(self._window)

    @property
    def head(self) -> QueueEntry | None:
        """What is first in line; None if nothing is ready, or that is to be read first."""
        if self._returned:
            return self._returned[0][1]
        return self._window[0] if self._window else None

    def storage_depth(self) -> StorageDepth:
        """Return what the storages keep."""
        durable, transient = self._durable, self._transient
        count = transient.unacked_count()
        return StorageDepth(
            self.ready_bytes,
            0 if durable is None else durable.unacked_count(),
            0 if durable is None else durable.body_bytes,
            count,
            transient.body_bytes if count <= TRANSIENT_LOOKED_AT else None,
            self.held_count,
            self.published_count,
        )

    @property
    def published_count(self) -> int:
        """How many messages were ever put into it since it was opened."""
        return self._next_seq_id - self._first_seq_id

    def publish(self, messages: Sequence[BasicMessage], expires_at_us: int | None) -> None:
        """Put messages at the end. Raises StoreError: then none of them is there."""
        if self._keeps_transient:
            messages = [
                one if one.is_persistent else replace(one, is_persistent=True) for one in messages
            ]
        first = self._next_seq_id
        self._store(first, messages, expires_at_us)
        count = len(messages)
        self._next_seq_id = first + count
        sizes = [
            len(one.fragments[0]) if len(one.fragments) == 1 else one.body_size for one in messages
        ]
        total = sum(sizes)
        self.ready_bytes += total
        self._large_bytes = max(self._large_bytes, max(sizes))
        window, number = self._window, self.number
        is_empty = not window
        fits = self._fitting(sizes, total)
        if fits < count:
            if not self.backlog_count:
                self._backlog_start = first + fits
            self.backlog_count += count - fits
            if not fits:
                return
            messages, sizes = messages[:fits], sizes[:fits]
            total = sum(sizes)
        if expires_at_us is not None:
            self.may_expire = True
        window.extend(
            [
                QueueEntry(seq_id, message, expires_at_us, False, number, size)
                for seq_id, message, size in zip(count_from(first), messages, sizes)
            ]
        )
        self._window_bytes += total
        windows = self._windows
        windows.held_bytes += total
        if is_empty:
            windows.note_use(self)
        if windows.held_bytes > windows.limit_bytes:
            windows.shrink(self)

    def _store(
        self, first: int, messages: Sequence[BasicMessage], expires_at_us: int | None
    ) -> None:
        """Give messages to the storages that they belong to."""
        durable = self._durable
        if durable is None:
            self._transient.publish(
                first, messages, expires_at_us=expires_at_us, is_delivered=False
            )
            return
        for is_persistent, some in groupby(messages, _is_persistent):
            part = list(some)
            storage: QueueStorage = durable if is_persistent else self._transient
            storage.publish(first, part, expires_at_us=expires_at_us, is_delivered=False)
            first += len(part)

    def _fitting(self, sizes: Sequence[int], total: int) -> int:
        """Return how many of some messages get into the window."""
        room = self._window_bytes_max - self._window_bytes
        if self.backlog_count or room <= 0:
            return 0
        count = min(len(sizes), max(self._window_messages_max - len(self._window), 0))
        if total > room:
            for at, size in enumerate(sizes[:count]):
                if room <= 0:
                    return at
                room -= size
        return count

    def take(self, count: int, now_us: int, *, is_expired: bool = False) -> list[QueueEntry]:
        """Take up to `count` messages off the front that have expired by now, or have not.

        It ends with the first one that is otherwise.
        """
        taken: list[QueueEntry] = []
        returned, window = self._returned, self._window
        from_window = size = 0
        while len(taken) < count and (returned or window):
            head = returned[0][1] if returned else window[0]
            expires_at_us = head.expires_at_us
            if (expires_at_us is not None and expires_at_us <= now_us) is not is_expired:
                break
            size += head.body_bytes
            if returned:
                heappop(returned)
            else:
                window.popleft()
                from_window += head.body_bytes
            taken.append(head)
        self.ready_bytes -= size
        self._window_bytes -= from_window
        self._windows.held_bytes -= from_window
        if not (returned or window):
            self.may_expire = False
        return taken

    def put_back(self, entries: Iterable[QueueEntry]) -> None:
        """Make messages ready again that were taken, each at its place."""
        entries = list(entries)
        for one in entries:
            one.is_delivered = True
        self.restore(entries)

    def deliver(self, entries: Sequence[QueueEntry]) -> None:
        """Note that somebody is given what was taken."""
        if self._durable is not None:
            found = [one.seq_id for one in entries if one.message.is_persistent]
            if found:
                self._durable.deliver(found)

    def settle(self, entries: Sequence[QueueEntry]) -> None:
        """Forget what was taken."""
        entries = self.living(entries)
        if self._durable is None:
            self._transient.ack([one.seq_id for one in entries])
            return
        found = [one.seq_id for one in entries if one.message.is_persistent]
        if found:
            self._durable.ack(found)
        if len(found) < len(entries):
            self._transient.ack([one.seq_id for one in entries if not one.message.is_persistent])

    def is_unwritten(self, entry: QueueEntry) -> bool:
        """Say whether a message waits for a write that may still refuse it."""
        if self._durable is None or not entry.message.is_persistent:
            return False
        return 0 <= self._durable.unwritten_from <= entry.seq_id

    @property
    def next_seq_id(self) -> int:
        """The number of what comes next."""
        return self._next_seq_id

    @property
    def has_unwritten(self) -> bool:
        """Whether something waits for a write that may still refuse it."""
        return self._durable is not None and self._durable.unwritten_from >= 0

    def is_written(self, end: int) -> bool:
        """Say whether what has smaller numbers waits for no write."""
        return self._durable is None or not 0 <= self._durable.unwritten_from < end

    def withdraw(self, message_ids: Collection[bytes]) -> set[bytes]:
        """Have messages no more that were refused; return which were there.

        Whoever was given one still has it, but it is void.
        """
        storage = self._transient if self._durable is None else self._durable
        found = storage.withdraw(message_ids)
        if not found:
            return set()
        self._withdrawal_count += 1
        left = set(found)
        returned = [one for one in self._returned if one[0] not in left]
        left.difference_update([one[0] for one in self._returned])
        heapify(returned)
        self._returned = returned
        behind: list[QueueEntry] = []
        window, first = self._window, min(found)
        while window and window[-1].seq_id >= first:
            behind.append(window.pop())
        for one in reversed(behind):
            if one.seq_id not in left:
                window.append(one)
                continue
            left.remove(one.seq_id)
            self._window_bytes -= one.body_bytes
            self._windows.held_bytes -= one.body_bytes
        if self.backlog_count:
            unread = [one for one in left if one >= self._backlog_start]
            self.backlog_count -= len(unread)
            left.difference_update(unread)
        self._void |= left
        self.ready_bytes -= sum([one.body_bytes for at, one in found.items() if at not in left])
        return {one.id for one in found.values()}

    def restore(self, entries: Iterable[QueueEntry]) -> None:
        """Make messages ready again that were taken, and that nobody was given."""
        for one in self.living(list(entries)):
            if one.expires_at_us is not None:
                self.may_expire = True
            self.ready_bytes += one.body_bytes
            heappush(self._returned, (one.seq_id, one))

    def living(self, entries: Sequence[QueueEntry]) -> Sequence[QueueEntry]:
        """Return those of some messages that were taken which are not void, and forget the void."""
        void = self._void
        if not void:
            return entries
        living = [one for one in entries if one.seq_id not in void]
        if len(living) < len(entries):
            void.difference_update([one.seq_id for one in entries])
        return living

    def trim(self) -> int:
        """Leave all but the first message of the window to the storages; return its bytes."""
        freed = 0
        while len(self._window) > 1:
            last = self._window.pop()
            freed += last.body_bytes
            self.backlog_count += 1
            self._backlog_start = last.seq_id
        self._window_bytes -= freed
        return freed

    def clear(self) -> None:
        """Forget that anything is ready; storages are the caller's business."""
        self._windows.forget(self)
        self._windows.held_bytes -= self._window_bytes
        self._window.clear()
        self._returned.clear()
        self._lost.clear()
        self._window_bytes = self.ready_bytes = self.backlog_count = 0
        self._backlog_start = self._next_seq_id
        self.may_expire = False

    def purge(self, *, is_all: bool) -> Steps | None:
        """Forget what is ready, here at once, in the storages at once or by the steps returned.

        Args:
            is_all: Nothing was taken and not settled: then storages need not be read.
        """
        start, end = self._backlog_start, self._next_seq_id
        count = self.backlog_count
        held = [one for _, one in self._returned] + list(self._window)
        self.clear()
        if is_all:
            if self._durable is not None:
                self._durable.purge()
            self._transient.purge()
            return None
        self.settle(held)
        return self._forget(start, end) if count else None

    def end(self) -> None:
        """Forget all messages; nothing is taken, settled or put back any more.

        At once: a publisher may remember the queue as the place of its last message for long.
        """
        self.clear()
        self._transient.purge()

    def remove_steps(self) -> Steps:
        """Take away what the durable storage keeps; this has ended."""
        if self._durable is not None:
            yield from self._durable.remove()

    def wants_to_read(self, *, is_used: bool) -> bool:
        """Say whether `read_steps` is due.

        Args:
            is_used: Somebody takes messages.
        """
        if self.is_reading or not self.backlog_count:
            return False
        if not is_used:
            return not self.held_count
        return (
            2 * len(self._window) < self._window_messages_max
            and 2 * self._window_bytes < self._window_bytes_max
        )

    def read_steps(self, *, is_used: bool) -> Steps:
        """Return what reads the next part of the backlog; it raises StoreError.

        It must be run. Between its steps messages may be published, taken, put back, trimmed and
        cleared.
        """
        self.is_reading = True
        # Without anybody who takes more, what comes first is enough; and so it is as long as
        # nobody knows how large they are.
        is_small = not is_used or not self._large_bytes
        return self._read(self._limits.head_numbers if is_small else self._limits.read_numbers)

    @property
    def _numbers_max(self) -> int:
        """How many messages fill a window, if they are as large as the largest of late."""
        return max(self._window_bytes_max // max(self._large_bytes, 1), 1)

    def _read(self, numbers: int) -> Steps:
        try:
            withdrawal_count = self._withdrawal_count
            while self.backlog_count:
                numbers = min(numbers, self._numbers_max)
                start, end = self._backlog_start, self._next_seq_id
                if self.backlog_count > numbers:
                    end = min(start + numbers, end)
                stored: Sequence[ReadEntry] = ()
                if self._durable is not None:
                    stored = yield from self._durable.read(start, end)
                is_changed = self._withdrawal_count != withdrawal_count
                if self._backlog_start != start or not self.backlog_count or is_changed:
                    return  # trimmed, cleared or withdrawn meanwhile
                self._add(stored, start, end)
                if self._window:
                    return
                if end == self._next_seq_id and self.backlog_count:
                    _log.error("messages are missing from a queue", count=self.backlog_count)
                    self.backlog_count = 0
                    self.ready_bytes = sum([one.body_bytes for _, one in self._returned])
                numbers = min(4 * numbers, self._limits.read_numbers_max)
        finally:
            self.is_reading = False

    def _count_lost(self, stored: Sequence[ReadEntry], start: int, end: int) -> None:
        """Remove from the ready ones those that cannot be delivered, unless they now can be."""
        durable = self._durable
        if durable is None or not (durable.unreadable or self._lost):
            return
        back = self._lost & {one.seq_id for one in stored}
        fresh = {one for one in durable.unreadable if start <= one < end} - self._lost
        self._lost = (self._lost | fresh) - back
        self.backlog_count += len(back) - len(fresh)
        self.ready_bytes += sum(map(durable.size_of, back)) - sum(map(durable.size_of, fresh))

    def _add(self, stored: Sequence[ReadEntry], start: int, end: int) -> None:
        """Put what was read after the window."""
        found = [*stored, *steps.run(self._transient.read(start, end))]
        if len(found) > len(stored):
            found.sort(key=lambda one: one.seq_id)
        self._count_lost(stored, start, end)
        added = 0
        self._large_bytes -= self._large_bytes // 8
        for one in found:
            size = one.message.body_size
            added += size
            self._large_bytes = max(self._large_bytes, size)
            if one.expires_at_us is not None:
                self.may_expire = True
            self._window.append(
                QueueEntry(
                    one.seq_id, one.message, one.expires_at_us, one.is_delivered, self.number, size
                )
            )
        self._backlog_start = end
        self.backlog_count -= len(found)
        self._window_bytes += added
        self._windows.held_bytes += added
        self._windows.note_use(self)
        if self._windows.held_bytes > self._windows.limit_bytes:
            self._windows.shrink(self)

    def _forget(self, start: int, end: int) -> Steps:
        """Forget what storages have of a range, in which nothing was taken yet."""
        self._transient.ack([one.seq_id for one in steps.run(self._transient.read(start, end))])
        while self._durable is not None and start < end:
            stop = min(start + min(self._limits.read_numbers, self._numbers_max), end)
            withdrawal_count = self._withdrawal_count
            stored = yield from self._durable.read(start, stop)
            if self._withdrawal_count != withdrawal_count:
                continue
            self._durable.ack([one.seq_id for one in stored])
            start = stop
