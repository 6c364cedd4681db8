"""Who waits for records to be stored, and how they are told."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from sprocket.base import log
from sprocket.base.disk import Buffer
from sprocket.base.errors import StoreError
from sprocket.rocketmq.store.log import Appended, AppendedBatch

_log = log.get_logger(__name__)

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
R = TypeVar("R")
P = TypeVar("P", bound="Recipient")


class Recipient(Protocol):
    """Who gets an answer; `runtime.driver.Peer` is one."""

    def send_now(self, buffers: Sequence[Buffer]) -> None:
        """Take one or more answers, and send them without waiting."""


Answer: TypeAlias = Callable[[P, R, Appended | None, StoreError | None], Sequence[Buffer]]
"""Makes an answer, given who asked and what for, what was stored, or why not; with both when only
its sync is late. What it returns is sent when the time has come; it has no effect of its own, since
it is called before the sync is over and once more if that fails."""

Ready: TypeAlias = defaultdict[Recipient, list[Buffer]]
"""Answers that wait for their time, in order."""

Answers: TypeAlias = Callable[[Sequence[A], AppendedBatch | None, StoreError | None, Ready], None]
"""The same for several at once: adds the answers, given what was asked for, and what was stored of
each, or why nothing was."""


class Waiting(Protocol):
    """Those who wait for records that were appended together; every `PendingAcks` is one."""

    @property
    def records(self) -> int:
        """How many records that are."""

    @property
    def waiting_count(self) -> int:
        """How many answers are due."""

    @property
    def stored_at_ms(self) -> int | None:
        """Their store time; None if nothing was stored."""

    def add_answers(self, error: StoreError | None, found: Ready, *, is_stored: bool) -> None:
        """Make the answers."""


class PendingAcks(Struct, Generic[A_co], frozen=True, eq=False):
    """Those who wait for records that were appended together.

    Attributes:
        answers: Makes their answers.
        asked: What it gets of each.
        stored: What was appended; None if nothing was.
        records: How many that were.
    """

    answers: Answers[A_co]
    asked: Sequence[A_co]
    stored: AppendedBatch | None
    records: int

    @property
    def waiting_count(self) -> int:
        """How many answers are due."""
        return len(self.asked)

    @property
    def stored_at_ms(self) -> int | None:
        """Their store time; None if nothing was stored."""
        return None if self.stored is None else self.stored.stored_at_ms

    def add_answers(self, error: StoreError | None, found: Ready, *, is_stored: bool) -> None:
        """Make the answers.

        Args:
            error: Why they may not be acknowledged; None if they may.
            found: Where to add them.
            is_stored: Whether the records are still what was appended.
        """
        self.answers(self.asked, self.stored if is_stored else None, error, found)


def longest_ms(groups: Sequence[Waiting], now_ms: int) -> int:
    """Return for how long those of some groups have waited at most; 0 if there are none.

    Args:
        groups: The oldest first.
        now_ms: The time by the store's clock.
    """
    for group in groups[:1]:
        if group.stored_at_ms is not None:
            return max(0, now_ms - group.stored_at_ms)
    return 0


def one(
    asked: Sequence[tuple[Answer[P, R], P, R]],
    stored: AppendedBatch | None,
    error: StoreError | None,
    found: Ready,
) -> None:
    """Make the answer to a single record: the `Answers` of an `Answer`."""
    ((answer, asker, request),) = asked
    found[asker] += answer(asker, request, stored[0] if stored else None, error)


def ready(group: Iterable[Waiting], error: StoreError | None, *, is_stored: bool = True) -> Ready:
    """Make the answers of a group; one that fails does not keep the others waiting."""
    found: Ready = defaultdict(list)
    for each in group:
        try:
            each.add_answers(error, found, is_stored=is_stored)
        except Exception:
            _log.exception("an answer could not be given")
    return found


def send(answers: Ready) -> None:
    """Give everybody their answers."""
    for asker, buffers in answers.items():
        if buffers:
            asker.send_now(buffers)


def refuse(group: Iterable[Waiting], error: StoreError) -> None:
    """Answer everybody with why nothing was stored."""
    send(ready(group, error, is_stored=False))
