"""What goes along with a scan of the log: each holds some files of a store against records."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol, TypeVar

from sprocket.base.errors import DiskFailed, FileMissing
from sprocket.rocketmq.store.consistency.finding import Finding, Rule

_T = TypeVar("_T")
_T_contra = TypeVar("_T_contra", contravariant=True)


class Comparison(Protocol[_T_contra]):
    """Some files of a store that are held against its log."""

    def start(self) -> Iterable[Finding]:
        """Take up the files; give what is wrong with them alone."""

    def take(self, found: _T_contra, /) -> Iterable[Finding]:
        """Compare what the next round of the scan gave."""

    def finish(self) -> Iterable[Finding]:
        """Give what only shows at the end of the log."""


def compare(
    rounds: Iterable[_T],
    comparisons: Sequence[Comparison[_T]],
    failed: dict[int, Finding] | None = None,
) -> Iterator[Finding]:
    """Give all that comparisons find.

    Args:
        rounds: The scan of the log.
        comparisons: Those that go along. A file that one cannot read is a finding, and its last.
        failed: Gets such findings, by the number of the comparison.
    """
    failed = {} if failed is None else failed

    def each(calls: Iterable[Callable[[], Iterable[Finding]]]) -> Iterator[Finding]:
        for number, call in enumerate(calls):
            try:
                if number not in failed:
                    yield from call()
            except FileMissing:
                raise
            except DiskFailed as error:
                more = "; no other file of its kind is looked at"
                failed[number] = unread(error.path, error, more)
                yield failed[number]

    yield from each(one.start for one in comparisons)
    for found in rounds:
        yield from each(partial(one.take, found) for one in comparisons)
    yield from each(one.finish for one in comparisons)


def unread(path: str, error: DiskFailed, more: str = "") -> Finding:
    """Return what a file that cannot be read is told as."""
    return Finding(Rule.FILE_READ, path, 0, "what was written", f"{error}{more}")
