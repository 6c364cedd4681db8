"""What was given to storages becomes durable, and its waiters are notified."""

from collections.abc import Sequence
from typing import Protocol

from sprocket.base import log
from sprocket.base.errors import StoreError, StoreFailed, SyncLate

_log = log.get_limited_logger(__name__)


class Committed(Protocol):
    """Somebody who waits for what storages were given before."""

    @property
    def records(self) -> int:
        """How many messages they wait for."""

    @property
    def waiting_count(self) -> int:
        """The same, as group commit calls it."""

    def committed(self, error: StoreError | None) -> None:
        """Note that it is durable, or why it is not."""


class Commits(Protocol):
    """Makes durable what storages were given; `runtime.group_commit` does, with a `CommitDesk`."""

    @property
    def failed_write(self) -> StoreError | None:
        """Why the last write failed; None if it did not."""

    @property
    def waiting_bytes(self) -> int:
        """How much storages were given that is not durable."""

    def wait(self, asker: Committed, /) -> None:
        """Tell somebody, perhaps before this returns, when all that came before is durable."""


def is_unwritten(error: StoreError) -> bool:
    """Say whether what was refused with an error was not written, and never is.

    Else nobody knows what reached the disk, or it is late.
    """
    return not isinstance(error, (StoreFailed, SyncLate))


class CommitDesk:
    """Answers those who wait for a group commit: see `runtime.group_commit.Desk`."""

    def ready(
        self, group: Sequence[Committed], error: StoreError | None
    ) -> list[tuple[Committed, StoreError | None]]:
        """Remember whom to notify of what."""
        return [(one, error) for one in group]

    def send(self, answers: list[tuple[Committed, StoreError | None]], /) -> None:
        """Tell them."""
        for one, error in answers:
            _tell(one, error)

    def refuse(self, group: Sequence[Committed], error: StoreError) -> None:
        """Tell them why nothing was stored."""
        for one in group:
            _tell(one, error)


def _tell(one: Committed, error: StoreError | None) -> None:
    try:
        one.committed(error)
    except Exception:  # the others are told all the same
        _log.exception("an answer failed", who=repr(one))
