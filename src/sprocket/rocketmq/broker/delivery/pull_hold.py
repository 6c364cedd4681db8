"""Long polling: pulls that found nothing wait here until something arrives or their time is over.

The life of one: `broker/delivery/pull` finds no new message → `hold` → woken by `arrived` (the
queue grew past its offset and a tag fits), by `recheck`, or by its timer → `resume` runs the pull
once more, which then answers whatever it finds. A connection that closes takes its holds with it.

Invariants

1. A hold ends exactly once: resumed, or dropped with its connection.
2. Once `hold_count_max` pulls wait, more of them are answered at once, and that is logged.
"""

from collections.abc import Callable, Hashable
from typing import TypeVar

from sprocket.base import log
from sprocket.rocketmq.settings import PullSettings
from sprocket.rocketmq.store.reput import Arrival
from sprocket.runtime.timers import Timer, Timers

_log = log.get_logger(__name__)

K = TypeVar("K", bound=Hashable)


class HeldPull:
    """One pull that waits."""

    __slots__ = ("key", "offset", "owner", "resume", "tags", "timer")

    def __init__(
        self,
        owner: object,
        key: tuple[str, int],
        offset: int,
        tags: frozenset[int] | None,
        resume: Callable[[], None],
    ) -> None:
        self.owner = owner
        self.key = key
        self.offset = offset
        self.tags = tags
        self.resume = resume
        self.timer: Timer | None = None


class PullHold:
    """Every pull that waits, by queue and by connection."""

    def __init__(self, timers: Timers, settings: PullSettings) -> None:
        self._timers = timers
        self._count_max = settings.hold_count_max
        self._queues: dict[tuple[str, int], set[HeldPull]] = {}
        self._owners: dict[object, set[HeldPull]] = {}
        self._said_full = False
        self.count = 0

    def use(self, settings: PullSettings) -> None:
        """Change how many may wait; those that do wait on."""
        self._count_max = settings.hold_count_max

    def hold(
        self,
        owner: object,
        topic: str,
        queue_id: int,
        offset: int,
        tags: frozenset[int] | None,
        hold_ms: int,
        resume: Callable[[], None],
    ) -> bool:
        """Let one pull wait.

        Args:
            owner: The connection; `drop(owner)` ends its holds.
            topic: What it pulls.
            queue_id: Which queue of it.
            offset: The queue offset it waits for.
            tags: Hashes of the tags it wants; None for all.
            hold_ms: How long it may wait, in milliseconds.
            resume: Runs the pull again; called at most once.

        Returns:
            False when too many wait already; then nothing is kept.
        """
        if self.count >= self._count_max:
            if not self._said_full:
                _log.warning("too many pulls wait; answering at once", count=self.count)
                self._said_full = True
            return False
        key = (topic, queue_id)
        held = HeldPull(owner, key, offset, tags, resume)
        held.timer = self._timers.call_later(hold_ms / 1000, lambda: self._end(held))
        self._queues.setdefault(key, set()).add(held)
        self._owners.setdefault(owner, set()).add(held)
        self.count += 1
        return True

    def arrived(self, arrival: Arrival) -> None:
        """Resume whoever waits for what has just come into a queue."""
        waiting = self._queues.get((arrival.topic, arrival.queue_id))
        if not waiting:
            return
        codes = arrival.tags_codes
        for held in list(waiting):
            if arrival.next_offset <= held.offset:
                continue
            if held.tags is None or not held.tags.isdisjoint(codes):
                self._end(held)

    def wake(self, topic: str, queue_id: int) -> None:
        """Resume whoever waits for a queue: what a group is to read of it has changed."""
        for held in list(self._queues.get((topic, queue_id), ())):
            self._end(held)

    def recheck(self, next_offset: Callable[[str, int], int]) -> None:
        """Resume whoever waits although its queue has grown, whatever the tags; run every 5 s.

        A pull whose tags do not come up moves on this way over what it does not want.

        Args:
            next_offset: Where the next message of (topic, queue) goes.
        """
        for key, waiting in list(self._queues.items()):
            end = next_offset(*key)
            for held in list(waiting):
                if end > held.offset:
                    self._end(held)

    def drop(self, owner: object) -> None:
        """Forget the holds of a connection that closed."""
        for held in list(self._owners.get(owner, ())):
            self._remove(held)

    def end_all(self) -> None:
        """Resume everything that waits; the broker stops."""
        for waiting in list(self._queues.values()):
            for held in list(waiting):
                self._end(held)

    def _end(self, held: HeldPull) -> None:
        self._remove(held)
        held.resume()

    def _remove(self, held: HeldPull) -> None:
        if held.timer is not None:
            held.timer.cancel()
            held.timer = None
        _discard(self._queues, held.key, held)
        _discard(self._owners, held.owner, held)
        self.count -= 1
        self._said_full = False


def _discard(table: dict[K, set[HeldPull]], key: K, held: HeldPull) -> None:
    waiting = table[key]
    waiting.remove(held)
    if not waiting:
        del table[key]
