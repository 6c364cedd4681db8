"""Checking the log: intact records one after the other, file by file, and where they end.

Recovery uses the same walk (`log_scanner`), so both agree on what is damage and on where the log
ends. What lies behind the end is not reported where it looks like old bytes, which RocketMQ leaves
there: if a record was lost there, queues and index show it.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from sprocket.base.disk import NAME_DIGITS, Disk, OpenFiles, Segment
from sprocket.rocketmq.codec.record import Entry, ScanStop
from sprocket.rocketmq.codec.record_layout import BLANK_BYTES, PHYSICAL_OFFSET_AT
from sprocket.rocketmq.model.message import TRANSACTION_ROLLBACK
from sprocket.rocketmq.store.log import (
    PADDING_TOPIC,
    Damage,
    Found,
    LogScanner,
    Misplaced,
    intact_entry,
    stop_at,
)
from sprocket.rocketmq.store.repair.finding import Finding, Rule

if TYPE_CHECKING:
    from sprocket.rocketmq.codec.columns import RecordBatch

CLOCK_STEP_MS = 60_000
"""A store time that is off by less may come from a clock that was corrected."""

_TORN = {ScanStop.TORN, ScanStop.BAD_SIZE, ScanStop.BAD_OFFSET, ScanStop.BAD_CRC}
"""What a record of the log's own life that lost bytes looks like; other bytes may be older."""


def segments(
    disk: Disk, folder: str, segment_bytes: int, open_files: OpenFiles | None = None
) -> tuple[list[list[Segment]], list[Finding]]:
    """Take up the files of a folder as they are.

    Args:
        disk: Where they lie.
        folder: The folder.
        segment_bytes: How long each should be.
        open_files: Bounds how many are open, together with those of other folders.

    Returns:
        Rows of files that follow each other, each file as long as it should be; a shorter one is
        a row of its own. And what is wrong with names and lengths.
    """
    open_files = OpenFiles() if open_files is None else open_files
    rows: list[list[Segment]] = []
    findings: list[Finding] = []
    end = -1
    names = [name for name in disk.list(folder) if not disk.is_folder(f"{folder}/{name}")]
    if names and disk.size(f"{folder}/{names[-1]}") == 0:
        names.pop()  # it was being made; every reader passes over it
    for name in names:
        path = f"{folder}/{name}"
        start = int(name) if name.isascii() and name.isdigit() else -1
        if len(name) != NAME_DIGITS or start < 0 or start % segment_bytes:
            expected = f"{NAME_DIGITS} digits, a multiple of {segment_bytes}"
            findings.append(Finding(rule=Rule.FILE_NAME, path=path, expected=expected, found=name))
            continue
        if rows and start != end:
            findings.append(
                Finding(
                    rule=Rule.FILE_NAME,
                    path=path,
                    expected=f"the file {end:0{NAME_DIGITS}d} before it",
                    found="it is missing",
                )
            )
        size = disk.size(path)
        if size != segment_bytes:
            findings.append(
                Finding(
                    rule=Rule.FILE_SIZE,
                    path=path,
                    position=size,
                    expected=f"{segment_bytes} bytes",
                    found=f"{size} bytes",
                )
            )
        segment = Segment(
            disk,
            folder,
            start,
            min(size, segment_bytes),
            write=False,
            open_files=open_files,
        )
        if rows and start == end and size >= segment_bytes and rows[-1][-1].end == end:
            rows[-1].append(segment)
        elif size:
            rows.append([segment])
        end = start + segment_bytes
    return rows, findings


class LogCheck:
    """Walks over the log once and gives its records in rounds.

    Args:
        rows: What `segments` gave.
        is_open: A broker may be writing: what is torn at the end is looked at a second time.
        progress: Is told how many bytes of how many are done.

    Attributes:
        first: Where the oldest file begins.
        end: Where the log ends, as far as the walk came.
        damage: What holds no intact record, in order; the torn end of the log as well.
        misplaced: Where records lie that are intact except for the place that they name.
    """

    def __init__(
        self,
        rows: Sequence[Sequence[Segment]],
        *,
        is_open: bool,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._rows = rows
        self._segments = [segment for row in rows for segment in row]
        self._starts = [segment.start for segment in self._segments]
        self._is_open = is_open
        self._progress = progress
        self._total = sum(segment.size for segment in self._segments)
        self._breaks: list[int] = []  # starts of damage and padding, ascending
        self._next_offsets: dict[tuple[str, int], int] = {}
        self.first = self._starts[0] if self._starts else 0
        self.end = self.first
        self._recent: list[Entry] = []  # the last two records
        self.damage: list[Damage] = []
        self.misplaced: list[int] = []

    # What queues and index ask.

    def is_damaged(self, place: int) -> bool:
        """Say whether a place lies in damage that was reported."""
        at = bisect_right(self.damage, place, key=lambda damage: damage.start) - 1
        return at >= 0 and place < self.damage[at].end

    def is_broken(self, start: int, end: int) -> bool:
        """Say whether a message may be missing between two places.

        There may be damage, a record that stands for damage, or the end of a file, whose blank
        may stand for it.
        """
        at = bisect_right(self._breaks, start - 1)
        if at < len(self._breaks) and self._breaks[at] < end:
            return True
        return bisect_right(self._starts, start) != bisect_right(self._starts, end)

    def entry_at(self, place: int) -> Entry | None:
        """Return what the intact record at a place says, None if there is none."""
        at = bisect_right(self._starts, place) - 1
        if at < 0 or place >= self._segments[at].end:
            return None
        segment = self._segments[at]
        return intact_entry(segment, place - segment.start)

    def _segment(self, place: int) -> Segment:
        return self._segments[bisect_right(self._starts, place) - 1]

    def where(self, place: int) -> tuple[str, int]:
        """Return the file that covers a place of the log, and the position in it."""
        at = max(bisect_right(self._starts, place) - 1, 0)
        if not self._segments:
            return "", place
        return self._segments[at].path, place - self._segments[at].start

    # The walk.

    def rounds(self, findings: list[Finding]) -> Iterator[Found]:
        """Give the records, many at a time, in the order of the log.

        Args:
            findings: Gets what is wrong with them and with what lies between them.
        """
        for number, row in enumerate(self._rows):
            following = self._rows[number + 1 :]
            yield from self._row(row, findings, following[0][0].start if following else None)

    def _row(
        self, row: Sequence[Segment], findings: list[Finding], following: int | None
    ) -> Iterator[Found]:
        walk = self._walk(row, row[0].start)
        yield from self._records(walk, findings)
        if following is None and self._is_open and self._stop(walk.end) in _TORN:
            walk = self._walk(row, walk.end)
            yield from self._records(walk, findings)
        self.end = walk.end
        if following is None:
            if self._stop(walk.end) in _TORN:
                self._damaged(findings, Damage(walk.end, row[-1].end, walk.why, 0))
        elif not walk.ends_in_blank and walk.end < row[-1].end:
            self._damaged(findings, Damage(walk.end, following, walk.why, 0))
        elif row[-1].end < following:
            self._damaged(findings, Damage(row[-1].end, following, "files are missing", 0))

    def _walk(self, row: Sequence[Segment], start: int) -> LogScanner:
        walk = LogScanner(row, start, check_crc=True, next_offsets=self._next_offsets)
        if self._recent:
            walk.last_stored_at_ms = self._recent[-1].stored_at_ms
        return walk

    def _records(self, walk: LogScanner, findings: list[Finding]) -> Iterator[Found]:
        told = 0
        for found in walk.batches():
            told = self._tell(walk, told, findings)
            if isinstance(found, list) or self._is_odd(found):
                self._check_entries(found if isinstance(found, list) else found.entries(), findings)
            else:
                self._recent = found.entries(max(len(found) - 2, 0))
            yield found
        self._tell(walk, told, findings)

    def _tell(self, walk: LogScanner, told: int, findings: list[Finding]) -> int:
        """Report the damage that the walk came over since the last time; return how much is."""
        for damage in walk.damage[told:]:
            self._damaged(findings, damage)
        for misplaced in walk.misplaced:
            self._misplaced(findings, misplaced)
        walk.misplaced.clear()
        if self._progress is not None:
            self._progress(walk.position - self.first, self._total)
        return len(walk.damage)

    def _misplaced(self, findings: list[Finding], found: Misplaced) -> None:
        """Report a record that names another place; it counts as intact."""
        self.misplaced.append(found.place)
        path, position = self.where(found.place)
        findings.append(
            Finding(
                rule=Rule.LOG_RECORD,
                path=path,
                position=position + PHYSICAL_OFFSET_AT,
                expected=f"its own place, {found.place}",
                found=str(found.named),
                record=found.place,
            )
        )

    def _is_odd(self, batch: "RecordBatch") -> bool:
        """Say whether the records have to be looked at one by one."""
        before = self._recent[-1].stored_at_ms if self._recent else 0
        times = batch.stored_at_ms
        return (
            batch.end + BLANK_BYTES > self._segment(batch.end - 1).end
            or not batch.indexable.all()
            or int(times[0]) < before
            or bool((times[1:] < times[:-1]).any())
        )

    def _damaged(self, findings: list[Finding], damage: Damage) -> None:
        self.damage.append(damage)
        insort(self._breaks, damage.start)
        path, position = self.where(damage.start)
        findings.append(
            Finding(
                rule=Rule.LOG_RECORD,
                path=path,
                position=position,
                expected="an intact record",
                found=damage.why,
                record=damage.start,
            )
        )

    def _stop(self, place: int) -> ScanStop:
        """Say what lies where the walk ended."""
        at = bisect_right(self._starts, place) - 1
        if at < 0 or place >= self._segments[at].end:
            return ScanStop.END
        return stop_at(self._segments[at], place - self._segments[at].start)

    def _check_entries(self, entries: Sequence[Entry], findings: list[Finding]) -> None:
        for entry in entries:
            end = entry.physical_offset + entry.size
            room = self._segment(entry.physical_offset).end - BLANK_BYTES
            if end > room:
                self._report(
                    findings, Rule.LOG_ROOM, entry, f"an end at {room} or before", f"{end}"
                )
            if entry.sys_flag & TRANSACTION_ROLLBACK == TRANSACTION_ROLLBACK and (
                PADDING_TOPIC.startswith(entry.topic)
            ):
                insort(self._breaks, entry.physical_offset)
        known = [*self._recent, *entries]
        for before, entry, after in zip(known, known[1:], known[2:], strict=False):
            self._check_time(before, entry, after, findings)
        self._recent = known[-2:]

    def _check_time(
        self, before: Entry, entry: Entry, after: Entry, findings: list[Finding]
    ) -> None:
        """Report a record that alone is out of line; a clock that was set back stays so."""
        low, high, found = before.stored_at_ms, after.stored_at_ms, entry.stored_at_ms
        if low <= high and not low - CLOCK_STEP_MS <= found <= high + CLOCK_STEP_MS:
            expected = f"a store time from {low} to {high}"
            self._report(findings, Rule.LOG_TIME, entry, expected, str(found))

    def _report(
        self, findings: list[Finding], rule: Rule, entry: Entry, expected: str, found: str
    ) -> None:
        path, position = self.where(entry.physical_offset)
        findings.append(
            Finding(
                rule=rule,
                path=path,
                position=position,
                expected=expected,
                found=found,
                record=entry.physical_offset,
            )
        )

    def close(self) -> None:
        """Close the files."""
        for segment in self._segments:
            segment.release()
