"""Checking the log: intact records one after the other, file by file, and where they end.

Recovery uses the same scan (`log_scanner`), so both agree on what is damage and on where the log
ends. What lies behind the end is not reported where it looks like old bytes, which RocketMQ leaves
there: if a record was lost there, queues and index show it.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from sprocket.base.disk import NAME_DIGITS, Disk, OpenFiles, Segment
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.record import Entry
from sprocket.rocketmq.codec.record_layout import BLANK_BYTES, PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT
from sprocket.rocketmq.model.message import TRANSACTION_ROLLBACK
from sprocket.rocketmq.model.offsets import ANYWHERE
from sprocket.rocketmq.store.consistency.finding import Finding, Rule
from sprocket.rocketmq.store.log import (
    PADDING_TOPIC,
    Damage,
    LogScanner,
    Misplaced,
    intact_entry,
)

CLOCK_STEP_MS = 60_000
"""A store time that is off by less may come from a clock that was corrected."""


class Moment(NamedTuple):
    """Where a record lies, and its store time."""

    place: int
    at_ms: int


class ScannedBefore(Struct, frozen=True):
    """What a scan that begins inside of a log should know of the part before.

    Attributes:
        recent: The last two records.
        next_offsets: By topic and queue id, the queue offset behind the last record.
    """

    recent: tuple[Moment, ...] = ()
    next_offsets: dict[tuple[str, int], int] = {}


class CheckedLog:
    """What the checks of queues and index ask about the log that they are held against.

    Args:
        segments: Its files, in order.
        is_open: A broker may be writing.
        end: Where it ends, as far as it was scanned; None is the first file's start.

    Attributes:
        is_open: As given.
        first: Where the oldest file begins.
        end: As given, or where the scan came to.
        damage: What holds no intact record, in order; the torn end of the log as well.
        breaks: Where damage begins, or a record lies that stands for damage; ascending.
    """

    def __init__(
        self, segments: Sequence[Segment], *, is_open: bool, end: int | None = None
    ) -> None:
        self._segments = segments
        self._starts = [segment.start for segment in segments]
        self.is_open = is_open
        self.first = self._starts[0] if segments else 0
        self.end = self.first if end is None else end
        self.damage: list[Damage] = []
        self.breaks: list[int] = []

    def is_damaged(self, place: int) -> bool:
        """Say whether a place lies in damage that was reported."""
        at = bisect_right(self.damage, place, key=lambda damage: damage.start) - 1
        return at >= 0 and place < self.damage[at].end

    def is_broken(self, start: int, end: int) -> bool:
        """Say whether a message may be missing between two places.

        There may be damage, a record that stands for damage, or the end of a file, whose blank
        may stand for it.
        """
        at = bisect_right(self.breaks, start - 1)
        if at < len(self.breaks) and self.breaks[at] < end:
            return True
        return bisect_right(self._starts, start) != bisect_right(self._starts, end)

    def segment(self, place: int) -> Segment:
        """Return the file that covers a place of a log that has files."""
        return self._segments[max(bisect_right(self._starts, place) - 1, 0)]

    def where(self, place: int) -> tuple[str, int]:
        """Return the path of the file that covers a place, and the position in it."""
        if not self._segments:
            return "", place
        segment = self.segment(place)
        return segment.path, place - segment.start

    def entry_at(self, place: int) -> Entry | None:
        """Return what the intact record at a place says, None if there is none."""
        if not self._segments:
            return None
        segment = self.segment(place)
        inside = segment.start <= place < segment.end
        return intact_entry(segment, place - segment.start) if inside else None


def log_segments(
    disk: Disk, folder: str, segment_bytes: int
) -> tuple[list[Segment], list[Finding]]:
    """Take up the files of a folder as they are.

    Args:
        disk: Where they lie.
        folder: The folder.
        segment_bytes: How long each should be.

    Returns:
        The files in order, some may be missing in between or be too short. And what is wrong with
        names and lengths.
    """
    open_files = OpenFiles()
    segments: list[Segment] = []
    findings: list[Finding] = []
    names = [name for name in disk.list(folder) if not disk.is_folder(f"{folder}/{name}")]
    if names and disk.size(f"{folder}/{names[-1]}") == 0:
        names.pop()  # it was being made; every reader passes over it
    expected_start = -1
    for name in names:
        path = f"{folder}/{name}"
        start = int(name) if name.isascii() and name.isdigit() else -1
        if len(name) != NAME_DIGITS or start < 0 or start % segment_bytes:
            expected = f"{NAME_DIGITS} digits, a multiple of {segment_bytes}"
            findings.append(Finding(Rule.FILE_NAME, path, 0, expected, name))
            continue
        if start != expected_start >= 0:
            expected = f"the file {expected_start:0{NAME_DIGITS}d} before it"
            findings.append(Finding(Rule.FILE_NAME, path, 0, expected, "it is missing"))
        expected_start = start + segment_bytes
        size = disk.size(path)
        if size != segment_bytes:
            expected = f"{segment_bytes} bytes"
            findings.append(Finding(Rule.FILE_SIZE, path, size, expected, f"{size} bytes"))
        if size:
            size = min(size, segment_bytes)
            segments.append(Segment(disk, folder, start, size, write=False, open_files=open_files))
    return segments, findings


class LogCheck:
    """Scans over a range of the log once and gives its records in rounds; one more `Comparison`.

    Args:
        segments: The log's files, in order.
        start: Where to begin, any place; None is the first file's start.
        until: Where to stop; records that begin there or later are not given.
        check_crc: Compare checksums.
        is_open: A broker may be writing: what is torn at the end is looked at a second time.
        before: What came before `start`; without it the scan knows nothing of it.
        step: Is told how many bytes of how many are done.
        what: What it is told that is done.

    Attributes:
        log: What is known of the log, as far as the scan came.
        position: The first byte behind the last records given.
        next_offsets: By topic and queue id, the queue offset behind the last record given.
        recent: The last two records given, or those before.
        has_gone_back: Some record was stored before the one that it follows.
        misplaced: Records that are intact except for the place that they name.
    """

    def __init__(
        self,
        segments: Sequence[Segment],
        *,
        start: int | None = None,
        until: int = ANYWHERE,
        check_crc: bool = True,
        is_open: bool = False,
        before: ScannedBefore | None = None,
        step: Step = unwatched,
        what: str = "checking",
    ) -> None:
        before = before or ScannedBefore()
        self.log = CheckedLog(segments, is_open=is_open, end=start)
        self._segments = segments
        self._until = until
        self._check_crc = check_crc
        self._step = step
        self._what = what
        self._total = sum(segment.size for segment in segments)
        self.next_offsets = dict(before.next_offsets)
        self.position = self.log.end
        self.recent: tuple[Moment, ...] = before.recent
        self.has_gone_back = False
        self.misplaced: list[Misplaced] = []
        self._findings: list[Finding] = []

    def start(self) -> Iterable[Finding]:
        """See `Comparison.start`."""
        return ()

    def take(self, _found: RecordBatch, /) -> Iterable[Finding]:
        """Give what is wrong with the records given last, and with what lies before them."""
        return self.finish()

    def finish(self) -> Iterable[Finding]:
        """Give what is wrong behind them."""
        findings, self._findings = self._findings, []
        return findings

    def rounds(self) -> Iterator[RecordBatch]:
        """Give the records, many at a time, in the order of the log."""
        scan = self._scan(self.position)
        yield from self._records(scan)
        if scan.is_torn and self.log.is_open:
            scan = self._scan(scan.end)
            yield from self._records(scan)
        if scan.is_torn:
            self._damaged(Damage(scan.end, self._segments[-1].end, scan.why, 0))
        self.log.end = scan.end

    def _scan(self, start: int) -> LogScanner:
        scan = LogScanner(
            self._segments,
            start,
            check_crc=self._check_crc,
            next_offsets=self.next_offsets,
            until=self._until,
        )
        if self.recent:
            scan.last_stored_at_ms = self.recent[-1].at_ms
        return scan

    def _records(self, scan: LogScanner) -> Iterator[RecordBatch]:
        told = 0
        for found in scan.batches():
            self.position = scan.position
            told = self._tell(scan, told)
            if self._is_odd(found):
                self._check_entries(found.entries())
            else:
                self.recent = (*self.recent, *_moments(found))[-2:]
            yield found
        self._tell(scan, told)

    def _tell(self, scan: LogScanner, told: int) -> int:
        """Report the damage that the scan came over since the last time; return how much is."""
        for damage in scan.damage[told:]:
            self._damaged(damage)
        for misplaced in scan.misplaced:
            self._misplaced(misplaced)
        scan.misplaced.clear()
        self._step(self._what, scan.position - self.log.first, self._total)
        return len(scan.damage)

    def _report(self, rule: Rule, place: int, expected: str, found: str, at: int = 0) -> None:
        """Keep a finding of the record at a place, about its byte `at`."""
        path, position = self.log.where(place)
        self._findings.append(Finding(rule, path, position + at, expected, found, place))

    def _damaged(self, damage: Damage) -> None:
        self.log.damage.append(damage)
        insort(self.log.breaks, damage.start)
        self._report(Rule.LOG_RECORD, damage.start, "an intact record", damage.why)

    def _misplaced(self, found: Misplaced) -> None:
        """Report a record that names another place; it counts as intact."""
        self.misplaced.append(found)
        expected, at = f"its own place, {found.place}", PHYSICAL_OFFSET_AT
        if found.queue_offset >= 0:
            expected, at = f"its place in its queue, {found.queue_offset}", QUEUE_OFFSET_AT
        self._report(Rule.LOG_RECORD, found.place, expected, str(found.named), at)

    def _is_odd(self, batch: RecordBatch) -> bool:
        """Say whether the records have to be looked at one by one."""
        before = self.recent[-1].at_ms if self.recent else 0
        times = batch.stored_at_ms
        goes_back = int(times[0]) < before or bool((times[1:] < times[:-1]).any())
        self.has_gone_back |= goes_back
        return (
            goes_back
            or batch.end + BLANK_BYTES > self.log.segment(batch.end - 1).end
            or not batch.indexable.all()
        )

    def _check_entries(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            place, end = entry.physical_offset, entry.physical_offset + entry.size
            room = self.log.segment(place).end - BLANK_BYTES
            if end > room:
                self._report(Rule.LOG_ROOM, place, f"an end at {room} or before", str(end))
            if entry.sys_flag & TRANSACTION_ROLLBACK == TRANSACTION_ROLLBACK and (
                PADDING_TOPIC.startswith(entry.topic)
            ):
                insort(self.log.breaks, place)
        times = [Moment(entry.physical_offset, entry.stored_at_ms) for entry in entries]
        known = (*self.recent, *times)
        for before, record, after in zip(known, known[1:], known[2:], strict=False):
            self._check_time(before, record, after)
        self.recent = known[-2:]

    def _check_time(self, before: Moment, record: Moment, after: Moment) -> None:
        """Report a record that alone is out of line; a clock that was set back stays so."""
        low, high, found = before.at_ms, after.at_ms, record.at_ms
        if low <= high and not low - CLOCK_STEP_MS <= found <= high + CLOCK_STEP_MS:
            expected = f"a store time from {low} to {high}"
            self._report(Rule.LOG_TIME, record.place, expected, str(found))


def _moments(batch: RecordBatch) -> Iterator[Moment]:
    """Give the last two records of a batch."""
    places, times = batch.physical_offset[-2:].tolist(), batch.stored_at_ms[-2:].tolist()
    return map(Moment, places, times)
