"""Long polling: pulls that found nothing wait here until something arrives or their time is over.

The life of one: `broker/delivery/pull` finds no new message → `hold` → woken by `arrived` (the
queue grew past its offset and a tag fits), by `recheck`, or by its timer → `resume` runs the pull
once more, which then answers whatever it finds. A connection that closes takes its holds with it.

What arrives says nothing of properties. So a pull that chooses by them has a `look` as well, which
`arrived` and `recheck` call: it runs the pull, and holds it again if nothing passes.

Invariants

1. A hold ends exactly once: resumed, or dropped with its connection.
2. Once `hold_count_max` pulls wait, more of them are answered at once, and that is logged.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sprocket.base import log
from sprocket.rocketmq.broker.groups import Link
from sprocket.rocketmq.model.filters import MessageFilter
from sprocket.rocketmq.settings import PullSettings
from sprocket.rocketmq.store.reput import Arrival
from sprocket.runtime.timers import Timer, Timers

_log = log.get_limited_logger(__name__)

K = TypeVar("K")


@dataclass(slots=True, eq=False)
class HeldPull:
    """One pull that waits.

    Attributes:
        owner: The connection; `PullHold.drop(owner)` ends its holds.
        topic: What it pulls.
        queue_id: Which queue of it.
        offset: The queue offset it waits for.
        wanted: Which messages it wants; None for all.
        resume: Runs the pull again; called at most once.
        look: Runs it, too, and may hold it again; called in its place if there are new messages.
    """

    owner: Link
    topic: str
    queue_id: int
    offset: int
    wanted: MessageFilter | None
    resume: Callable[[], None]
    look: Callable[[], None] | None = None


class PullHold:
    """Every pull that waits, by queue and by connection."""

    def __init__(self, timers: Timers, settings: PullSettings) -> None:
        self._timers = timers
        self._count_max = settings.hold_count_max
        self._queues: dict[tuple[str, int], set[HeldPull]] = {}
        self._owners: dict[Link, set[HeldPull]] = {}
        self._held: dict[HeldPull, Timer] = {}
        self._said_full = False

    @property
    def count(self) -> int:
        """How many wait."""
        return len(self._held)

    def use(self, settings: PullSettings) -> None:
        """Change how many may wait; those that do wait on."""
        self._count_max = settings.hold_count_max

    def hold(self, held: HeldPull, hold_ms: float) -> bool:
        """Let one pull wait.

        Args:
            held: The pull.
            hold_ms: How long it may wait, in milliseconds.

        Returns:
            False when too many wait already; then nothing is kept.
        """
        if self.count >= self._count_max:
            if not self._said_full:
                _log.warning("too many pulls wait; answering at once", count=self.count)
                self._said_full = True
            return False
        self._held[held] = self._timers.call_later(hold_ms / 1000, lambda: self._end(held))
        self._queues.setdefault((held.topic, held.queue_id), set()).add(held)
        self._owners.setdefault(held.owner, set()).add(held)
        return True

    def arrived(self, arrival: Arrival) -> None:
        """Resume the pulls that wait for what has just come into a queue."""
        waiting = self._queues.get((arrival.topic, arrival.queue_id))
        if not waiting:
            return
        codes = arrival.tags_codes
        for held in list(waiting):
            if arrival.next_offset <= held.offset:
                continue
            if held.wanted is None or held.wanted.by_hashes(codes):
                self._look(held)

    def wake(self, topic: str, queue_id: int) -> None:
        """Resume the pulls that wait for a queue: what a group is to read of it has changed."""
        for held in list(self._queues.get((topic, queue_id), ())):
            self._end(held)

    def wake_topic(self, topic: str) -> None:
        """Resume the pulls that wait for any queue of a topic: it was deleted."""
        for key in [key for key in self._queues if key[0] == topic]:
            self.wake(*key)

    def recheck(self, next_offset: Callable[[str, int], int]) -> None:
        """Resume the pulls whose queue has grown, whatever the tags; run every 5 s.

        A pull whose tags do not come up moves on this way over what it does not want.

        Args:
            next_offset: Where the next message of (topic, queue) goes.
        """
        for key, waiting in list(self._queues.items()):
            end = next_offset(*key)
            for held in list(waiting):
                if end > held.offset:
                    self._look(held)

    def drop(self, owner: Link) -> None:
        """Forget the holds of a connection that closed."""
        for held in list(self._owners.get(owner, ())):
            self._remove(held)

    def end_all(self) -> None:
        """Resume everything that waits; the broker stops."""
        for waiting in list(self._queues.values()):
            for held in list(waiting):
                self._end(held)

    def _look(self, held: HeldPull) -> None:
        self._remove(held)
        (held.look or held.resume)()

    def _end(self, held: HeldPull) -> None:
        self._remove(held)
        held.resume()

    def _remove(self, held: HeldPull) -> None:
        self._held.pop(held).cancel()
        _discard(self._queues, (held.topic, held.queue_id), held)
        _discard(self._owners, held.owner, held)
        self._said_full = False


def _discard(table: dict[K, set[HeldPull]], key: K, held: HeldPull) -> None:
    waiting = table[key]
    waiting.remove(held)
    if not waiting:
        del table[key]
