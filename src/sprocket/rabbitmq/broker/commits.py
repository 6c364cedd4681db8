"""What was given to storages becomes durable, and its waiters are notified."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from sprocket.base import log
from sprocket.base.errors import StoreError, StoreFailed, SyncLate

_log = log.get_limited_logger(__name__)

Told: TypeAlias = Callable[[StoreError | None], None]
"""Told that something is durable, or why it is not."""


def nobody(_: StoreError | None) -> None:
    """Is told nothing: what failed is said by the commit itself."""


class Waiter(Struct, frozen=True, eq=False):
    """Somebody who waits for what storages were given before.

    Attributes:
        told: How they are told; by default nobody waits, but it is to be durable.
        records: How many messages they wait for.
        waiting_count: How many answers are due.
    """

    told: Told = nobody
    records: int = 0
    waiting_count: int = 1


Answer: TypeAlias = tuple[Waiter, StoreError | None]


class Commits(Protocol):
    """Makes durable what storages were given: `group_commit` does, with a `CommitResponder`."""

    @property
    def failed_write(self) -> StoreError | None:
        """Why the last write failed; None if it did not."""

    @property
    def waiting_bytes(self) -> int:
        """How much storages were given that is not durable."""

    def wait(self, asker: Waiter, /) -> None:
        """Tell somebody, perhaps before this returns, when all that came before is durable."""


def is_unwritten(error: StoreError) -> bool:
    """Say whether what was refused with an error was not written, and never is.

    Else nobody knows what reached the disk, or it is late.
    """
    return not isinstance(error, (StoreFailed, SyncLate))


class CommitResponder:
    """Answers those who wait for a group commit: see `runtime.group_commit.Responder`."""

    def ready(self, group: Sequence[Waiter], error: StoreError | None) -> list[Answer]:
        """Remember whom to notify of what."""
        return [(one, error) for one in group]

    def send(self, answers: Sequence[Answer], /) -> None:
        """Tell them."""
        for one, error in answers:
            try:
                one.told(error)
            except Exception:  # the others are told all the same
                _log.exception("an answer failed")

    def refuse(self, group: Sequence[Waiter], error: StoreError) -> None:
        """Tell them why nothing was stored."""
        self.send(self.ready(group, error))
