"""Who waits for records to be stored, and how they are told."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from sprocket.base import log
from sprocket.base.disk import Buffer
from sprocket.base.errors import StoreError
from sprocket.rocketmq.store.log import Appended, AppendedBatch

_log = log.get_logger(__name__)

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
R = TypeVar("R")
P = TypeVar("P", bound="Asker")


class Asker(Protocol):
    """Who gets an answer; `runtime.driver.Peer` is one."""

    def send_now(self, buffers: Sequence[Buffer]) -> None:
        """Take one or more answers, and send them without waiting."""


Answer: TypeAlias = Callable[[P, R, Appended | None, StoreError | None], Sequence[Buffer]]
"""Makes an answer, given who asked and what for, what was stored, or why not; with both when only
its sync is late. What it returns is sent when the time has come; it has no effect of its own, since
it is called before the sync is over and once more if that fails."""

Ready: TypeAlias = defaultdict[Asker, list[Buffer]]
"""Answers that wait for their time, in order."""

Answers: TypeAlias = Callable[[Sequence[A], AppendedBatch | None, StoreError | None, Ready], None]
"""The same for several at once: adds the answers, given what was asked for, and what was stored of
each, or why nothing was."""


class PendingAcks(Struct, Generic[A_co], frozen=True, eq=False):
    """Those who wait for records that were appended together.

    Any are a `PendingAcks[object]`: its `answers` gets nothing but its `asked`.

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


def longest_ms(groups: Sequence[PendingAcks[object]], now_ms: int) -> int:
    """Return for how long those of some groups have waited at most; 0 if there are none.

    Args:
        groups: The oldest first.
        now_ms: The time by the store's clock.
    """
    for group in groups[:1]:
        if group.stored is not None:
            return max(0, now_ms - group.stored.stored_at_ms)
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


def ready(group: Iterable[PendingAcks[object]], error: StoreError | None) -> Ready:
    """Make the answers of a group; one that fails does not keep the others waiting."""
    found: Ready = defaultdict(list)
    for each in group:
        try:
            each.answers(each.asked, each.stored, error, found)
        except Exception:
            _log.exception("an answer could not be given")
    return found


def send(answers: Ready) -> None:
    """Give everybody their answers."""
    for asker, buffers in answers.items():
        if buffers:
            asker.send_now(buffers)


def tell(group: Iterable[PendingAcks[object]], error: StoreError | None) -> None:
    """Answer everybody, with what was stored or with an error."""
    send(ready(group, error))


def refuse(group: Iterable[PendingAcks[object]], error: StoreError) -> None:
    """Answer everybody with why nothing was stored."""
    tell([replace(each, stored=None) for each in group], error)
