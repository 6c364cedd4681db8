"""Keeping the store in order while it runs: derived files made durable, old messages deleted.

One round a second, one at a time. What waits for the disk runs on the disk thread, in steps, so
that the log's own syncs wait for one step at most.
"""

from sprocket.base import log
from sprocket.base.errors import StoreError
from sprocket.base.steps import Steps, advance
from sprocket.rocketmq.settings import RetentionSettings
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.offload import DiskThread

CLEAN_ROUNDS = 10
"""Old messages are looked for in one round of so many; RocketMQ's cleanResourceInterval is 10 s."""

_log = log.get_logger(__name__)


class Upkeep:
    """Drives the store's rounds.

    Threads: event loop only.
    """

    def __init__(self, store: Store, thread: DiskThread, settings: RetentionSettings) -> None:
        self._store = store
        self._thread = thread
        self._settings = settings
        self._rounds = 0
        self._work: Steps | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a round is under way."""
        return self._work is not None

    def begin(self) -> None:
        """Begin a round, unless the last one is still under way."""
        if self._work is None:
            self._work = self._round()
            self._go_on(None, None)

    def close(self) -> None:
        """Give up the round that is under way. The disk thread must have stopped."""
        if self._work is not None:
            self._work.close()
            self._work = None

    def _go_on(self, result: object, error: BaseException | None) -> None:
        work, self._work = self._work, None
        if work is None:
            return
        call = advance(work, result, error)
        if call is not None:
            self._work = work
            if not self._thread.is_stopped:
                self._thread.submit(call, self._go_on)

    def _round(self) -> Steps:
        self._rounds += 1
        try:
            yield from self._store.maintain_steps()
        except StoreError as error:
            _log.error("the store could not be maintained; trying again", why=str(error))
        if self._rounds % CLEAN_ROUNDS:
            return
        first = self._store.first
        try:
            yield from self._store.clean_steps(self._settings)
        except StoreError as error:
            _log.error("old messages could not be deleted; trying again", why=str(error))
        if self._store.first > first:
            _log.info("old messages were deleted", log_begins_at=self._store.first)
