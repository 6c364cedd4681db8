"""Keeping the store in order while it runs: derived files made durable, old messages deleted.

One round a second, one at a time. What waits for the disk runs on the disk thread, in steps, so
that the log's own syncs wait for one step at most.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sprocket.base import log
from sprocket.base.disk import Steps
from sprocket.base.errors import StoreError, StoreFailed
from sprocket.rocketmq.settings import RetentionSettings
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.offload import DiskThread

CLEAN_ROUNDS = 10
"""Old messages are looked for in one round of so many; RocketMQ's cleanResourceInterval is 10 s."""

Done = Callable[[StoreError | None], None]

_log = log.get_logger(__name__)


@dataclass(slots=True, eq=False)
class Upkeep:
    """Drives the store's rounds.

    Threads: event loop only.
    """

    _store: Store
    _thread: DiskThread
    _settings: RetentionSettings
    _reserve_hours: Callable[[], Mapping[str, int]]
    """Says which topics are to be kept for how long at least."""
    _refusal: Callable[[], str | None]
    """Says why nothing is stored now."""
    _rounds: int = field(default=0, init=False)
    is_busy: bool = field(default=False, init=False)
    """Whether a round is under way."""
    _waiting: deque[tuple[Callable[[], Steps], Done]] = field(default_factory=deque, init=False)
    _is_refusing: bool = field(default=False, init=False)
    """Whether it was last told that the store refuses messages."""

    def use(self, settings: RetentionSettings) -> None:
        """Change what is kept."""
        self._settings = settings

    def start(self) -> None:
        """Refuse messages from the first on if the disk is too full for them."""
        try:
            self._store.heed_space(self._settings)
        except StoreError as error:
            _log.error("the room on the disk is unknown; looking again", why=str(error))
        self._tell()

    def begin(self) -> None:
        """Begin a round, unless the last one is still under way."""
        self._tell()
        if not self.is_busy:
            self._drive(self._round())

    def _tell(self) -> None:
        """Say once that the store refuses messages, and once that it takes them again."""
        refusal = self._refusal()
        if self._is_refusing == (refusal is not None):
            return
        self._is_refusing = refusal is not None
        if refusal is not None:
            _log.error("the store refuses messages", why=refusal)
        else:
            _log.warning("the store takes messages again")

    def do(self, work: Callable[[], Steps], done: Done) -> None:
        """Have the store do something else as soon as no round is under way.

        Args:
            work: Gives its steps.
            done: Is told once that it is done, or why not.
        """
        self._waiting.append((work, done))
        if not self.is_busy:
            self._drive(self._wanted())

    def clean(self, done: Done) -> None:
        """Delete what is expired now, whatever the hour."""
        self.do(lambda: self._clean_steps(at_once=True), done)

    def _clean_steps(self, *, at_once: bool) -> Steps:
        return self._store.clean_steps(self._settings, self._reserve_hours(), at_once=at_once)

    def close(self) -> None:
        """Tell those who wait that nothing comes of it. The disk thread must have stopped."""
        waiting, self._waiting = self._waiting, deque()
        for _, done in waiting:
            done(StoreFailed("the broker stops"))

    def _drive(self, work: Steps) -> None:
        self.is_busy = True
        self._thread.drive(work, self._ended)

    def _ended(self, error: BaseException | None) -> None:
        self.is_busy = False
        if error is not None:
            raise error
        if self._waiting:
            self._drive(self._wanted())

    def _wanted(self) -> Steps:
        """Do what waits."""
        while self._waiting:
            work, done = self._waiting.popleft()
            try:
                yield from work()
            except StoreError as error:
                done(error)
            else:
                done(None)

    def _round(self) -> Steps:
        yield from self._wanted()
        self._rounds += 1
        try:
            yield from self._store.maintain_steps()
        except StoreError as error:
            _log.error("the store could not be maintained; trying again", why=str(error))
        self._tell()
        if self._rounds % CLEAN_ROUNDS:
            return
        first = self._store.first
        try:
            yield from self._clean_steps(at_once=False)
        except StoreError as error:
            _log.error("old messages could not be deleted; trying again", why=str(error))
        self._tell()
        if self._store.first > first:
            _log.info("old messages were deleted", log_begins_at=self._store.first)
