"""A check of log and queues in parts, which may be checked at the same time, in any process.

Theory of operation. The log is cut at places where records seem to begin. Each part is walked over
by itself (`check_part`), with the walk that a check of the whole makes; what it reports is small:
where it began and ended, what is wrong, and for each queue the runs of records whose units agree.
`PartsCheck` then joins the reports in the order of the log: each part must begin where the one
before it ended, and the runs of a queue are held against what lies between them.

A walk depends a little on what came before: where damage is, or store times go back, it decides by
the last records and the queue offsets that were taken whether other bytes are of the log's own
life. A part that met with such things, or did not begin where the one before it ended, is checked
again with what is known then. So in the end the same is found as by a check of the whole; a sound
log is read once.

The key index is compared on the way, if it is asked for: each part looks for where its entries
begin, and compares them with its records. Where these agree, and the entries of the parts follow
each other, nothing is wrong. From the first part on where they do not, or where the log is damaged,
one walk goes on to the end (`check_in_one_walk`).

Invariants

1. A part that is checked depends on the store and its `CheckedPart` alone.
2. When no part is to be checked again, each report is what a walk over the whole log saw there.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice, pairwise

from msgspec import Struct
from msgspec.structs import replace

from sprocket.base.disk import Disk, Segment
from sprocket.base.errors import DiskFailed, FileMissing
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.record import ScanStop
from sprocket.rocketmq.geometry import Geometry, IndexGeometry
from sprocket.rocketmq.model.offsets import ANYWHERE
from sprocket.rocketmq.store import committed_offsets
from sprocket.rocketmq.store import geometry as geometries
from sprocket.rocketmq.store.agreement import (
    BatchCheck,
    Breaks,
    EntryPlace,
    Finding,
    IndexCheck,
    IndexRun,
    IndexRunCheck,
    LogCheck,
    Moment,
    QueueCheck,
    UnitCheck,
    UnitRun,
    Units,
    WalkedBefore,
    check_index_file,
    index_files,
    log_segments,
)
from sprocket.rocketmq.store.layout import StoreLayout, require_store
from sprocket.rocketmq.store.log import Damage
from sprocket.rocketmq.store.queue import QueueKey, UnitAssigner
from sprocket.rocketmq.store.recovery import Deletions
from sprocket.rocketmq.store.repair import check

FINDINGS_MAX = 100_000
"""Told of one part at most: some MB. How many more there are is counted."""


class CheckedPart(Struct, frozen=True):
    """A part of the log to check: physical offsets, and what came before if that matters."""

    start: int
    until: int
    before: WalkedBefore | None = None
    with_index: bool = False


class QueueRuns(Struct, array_like=True):
    """What one part has of one queue, and the queue offset behind it; −1 if that is as before."""

    topic: str
    queue_id: int
    runs: list[UnitRun]
    next_offset: int


class PartReport(Struct, kw_only=True):
    """What a check of one part saw; offsets without a word are physical.

    Attributes:
        start: Where it began.
        end: Where it ended: the first byte behind its records and damage.
        first: Where its first record begins, −1 without any.
        last: Where its last record begins, −1 without any.
        records: Intact records.
        bytes: Their bytes.
        damage: What holds no intact record, in order.
        breaks: Where damage begins, or a record lies that stands for damage.
        misplaced: Records that are intact except for the place that they name.
        first_at_ms: Store time of the first record.
        recent: The last two records, or those before.
        has_gone_back: Store times do not only rise.
        queues: What it has of each queue.
        findings: What is wrong with log and units.
        left_out: Findings that were too many to be told.
        unread: A queue could not be read: no unit was looked at from there on.
        index: The entries of its records, if they are as they should be.
    """

    start: int
    end: int
    first: int = -1
    last: int = -1
    records: int = 0
    bytes: int = 0
    damage: list[Damage]
    breaks: list[int]
    misplaced: list[int]
    first_at_ms: int = 0
    recent: tuple[Moment, ...]
    has_gone_back: bool
    queues: list[QueueRuns]
    findings: list[Finding]
    left_out: int = 0
    unread: Finding | None = None
    index: IndexRun | None = None

    @property
    def wrong_checksums(self) -> int:
        """How many times the walk met with a record that does not fit its checksum."""
        return sum(one.why.startswith(ScanStop.BAD_CRC.value) for one in self.damage)


def check_part(
    disk: Disk, folder: str, part: CheckedPart, geometry: Geometry | None = None
) -> PartReport:
    """Check the records of a part of the log, and their units.

    Args:
        disk: Where the store lies.
        folder: Its folder.
        part: Which part.
        geometry: Sizes of its files; None takes those it was made with.

    Raises:
        ForeignStore: The folder holds no store, or one whose geometry cannot be told.
        DiskFailed: A folder or a file of the log cannot be looked into.
    """
    layout = StoreLayout(folder)
    settled = geometries.settle(disk, layout, geometry)
    segments, _wrong = log_segments(disk, layout.commitlog, settled.log.segment_bytes)
    log = LogCheck(
        segments,
        start=part.start,
        until=part.until,
        is_open=check.is_open(disk, folder),
        before=part.before,
    )
    with closing(log), closing(check.StoredQueues(disk, layout, settled.queue)) as stored:
        index = None
        if part.with_index:
            log_start = segments[0].start if segments else 0
            index = IndexRunCheck(disk, layout.index, settled.index, log_start, part.start)
        walk = _PartWalk(log, part, disk, layout, stored, index)
        return walk.report()


class _PartWalk:
    """The check of one part."""

    def __init__(
        self,
        log: LogCheck,
        part: CheckedPart,
        disk: Disk,
        layout: StoreLayout,
        stored: check.StoredQueues,
        index: IndexRunCheck | None,
    ) -> None:
        self._log = log
        self._index = index
        self._part = part
        self._stored = stored
        self._batch_topics = frozenset(disk.list(layout.batch_queues))
        self._units: dict[QueueKey, Units | None] = {}
        self._runs: dict[QueueKey, list[UnitRun]] = {}
        self._check = UnitCheck(
            log.entry_at,
            self._units_of,
            UnitAssigner(deleted=Deletions(disk, layout, write=False).ends),
        )
        self._findings: list[Finding] = []
        self._unread: Finding | None = None

    def report(self) -> PartReport:
        """Walk over the part; return what was seen."""
        log = self._log
        first = last = -1
        first_at_ms = records = size = 0
        for found in log.rounds():
            if first < 0:
                first, first_at_ms = int(found.physical_offset[0]), int(found.stored_at_ms[0])
            last = int(found.physical_offset[-1])
            records += len(found)
            size += int(found.size.sum())
            self._check_units(found)
            if self._index is not None:
                self._index.take(found)
        findings = log.findings + self._findings
        known = {} if self._part.before is None else self._part.before.next_offsets
        changed = {
            key: offset for key, offset in log.next_offsets.items() if offset != known.get(key)
        }
        return PartReport(
            start=self._part.start,
            end=log.end,
            first=first,
            last=last,
            records=records,
            bytes=size,
            damage=log.damage,
            breaks=log.breaks.places,
            misplaced=[one.place for one in log.misplaced],
            first_at_ms=first_at_ms,
            recent=log.recent,
            has_gone_back=log.has_gone_back,
            queues=[
                QueueRuns(*key, self._runs.get(key, []), changed.get(key, -1))
                for key in self._runs.keys() | changed.keys()
            ],
            findings=findings[:FINDINGS_MAX],
            left_out=max(len(findings) - FINDINGS_MAX, 0),
            unread=self._unread,
            index=None if self._index is None else self._index.run(),
        )

    def _check_units(self, found: RecordBatch) -> None:
        """Check the units of some records, as long as queues can be read."""
        if self._unread is not None:
            return
        try:
            for key, run, findings in self._check.runs(found):
                self._findings += findings
                _add(self._runs.setdefault(key, []), run)
        except FileMissing:
            raise
        except DiskFailed as error:
            self._unread = check.unread(
                error.path, error, "; no other file of its kind is looked at"
            )

    def _units_of(self, key: QueueKey) -> Units | None:
        if key not in self._units:
            self._units[key] = None if key[0] in self._batch_topics else self._stored.units(key)
        return self._units[key]


def _add(runs: list[UnitRun], run: UnitRun) -> None:
    """Add a run to those of its queue; it may go on with the last one."""
    before = runs[-1] if runs else None
    if before is None or before.next != run.first:
        runs.append(run)
        return
    before.next, before.reached = run.next, run.reached
    before.missing += run.missing


class PartsCheck:
    """Joins what checks of all parts of a log reported, until it is what a check of the whole is.

    Ask for the `wanted` parts, have them checked, give the reports to `take`; again, until none is
    wanted. Then read `findings`.

    Args:
        disk: Where the store lies.
        folder: Its folder.
        geometry: Sizes of its files; None takes those it was made with.
        with_index: Compare the key index, too.

    Attributes:
        segments: The files of the log.
    """

    def __init__(
        self,
        disk: Disk,
        folder: str,
        geometry: Geometry | None = None,
        *,
        with_index: bool = False,
    ) -> None:
        """Look at the files of the log.

        Raises:
            ForeignStore: The folder holds no store, or one whose geometry cannot be told.
            DiskFailed: A folder cannot be looked into.
        """
        self._disk = disk
        self._folder = folder
        self._with_index = with_index
        self._layout = require_store(disk, folder)
        self._geometry = geometries.settle(disk, self._layout, geometry)
        size = self._geometry.log.segment_bytes
        self._offsets = committed_offsets.read_sound(disk, self._layout)
        self.segments, self._wrong_files = log_segments(disk, self._layout.commitlog, size)
        self._parts: list[CheckedPart] = []
        self._asked: dict[int, CheckedPart] = {}
        self._told: dict[int, PartReport] = {}

    @property
    def start(self) -> int:
        """Where the log begins."""
        return self.segments[0].start if self.segments else 0

    @property
    def queues_are_files(self) -> bool:
        """Whether each queue has files of its own, which any file system can give."""
        return self._geometry.queue.engine == "files"

    @property
    def has_batch_queues(self) -> bool:
        """Whether some queues are batch queues, which `check_in_one_walk` looks at."""
        return bool(self._disk.list(self._layout.batch_queues))

    def cut(self, places: Iterable[int]) -> None:
        """Take up where parts begin: where files do, and at places where records seem to."""
        files = [segment.start for segment in self.segments]
        inside = {place for place in places if self._is_inside(place)}
        starts = sorted({*files, *inside})
        bounds = pairwise([*starts, ANYWHERE])
        self._parts = [
            CheckedPart(start, until, with_index=self._with_index) for start, until in bounds
        ]

    def _is_inside(self, place: int) -> bool:
        """Say whether a place lies in a file that is there."""
        at = bisect_right(self.segments, place, key=lambda segment: segment.start) - 1
        return at >= 0 and place < self.segments[at].end

    def wanted(self) -> dict[int, CheckedPart]:
        """Return the parts that are to be checked, or checked again, by their numbers."""
        wanted: dict[int, CheckedPart] = {}
        before = WalkedBefore()
        at = self.start
        for number, part in enumerate(self._parts):
            if at >= part.until:
                continue  # the part before reaches over it
            told = self._told.get(number)
            if told is None:
                wanted[number] = replace(part, start=at)
                at = part.until
                continue
            exact = replace(part, start=at, before=before)
            if not _is_settled(self._asked[number], told, exact):
                wanted[number] = exact
            if told.end < part.until:
                break  # the log ends here
            at, before = told.end, _after(before, told)
        return wanted

    def take(self, number: int, part: CheckedPart, report: PartReport) -> None:
        """Take up what the check of a part reported."""
        self._asked[number], self._told[number] = part, report

    def reports(self) -> list[PartReport]:
        """Return what is known of the log, in its order; final when no part is wanted."""
        reports = []
        at = self.start
        for number, part in enumerate(self._parts):
            if at >= part.until:
                continue
            reports.append(self._told[number])
            at = reports[-1].end
            if at < part.until:
                break
        return reports

    def index_files(self, findings: list[Finding]) -> list["CheckedIndexFile"]:
        """Return the files of the index; `findings` gets what is wrong with their lengths."""
        geometry, is_open = self._geometry.index, check.is_open(self._disk, self._folder)
        paths = index_files(self._disk, self._layout.index, geometry, findings)
        return [CheckedIndexFile(path, geometry, is_open) for path in paths]

    def index_rest(self) -> "IndexRest | None":
        """Return from where on one walk is to compare the index, None if there is no need.

        Ask for it when no part is wanted.
        """
        files = self.index_files([])
        note = check.closing_note(self._disk, self._layout)
        if not files and note is not None and note.index_end < 0:
            return None
        before, agreed = WalkedBefore(), None
        for report in self.reports():
            run = report.index
            joins = run is not None and (agreed is None or agreed.next == run.first)
            if not joins or report.damage or report.misplaced:
                return IndexRest(report.start, before, agreed)
            assert run is not None
            last = agreed if agreed is not None and run.last < 0 else run
            agreed = IndexRun(run.first, run.next, last.last, last.last_hashes)
            before = _after(before, report)
        if agreed is not None and agreed.next.file < len(files):
            return IndexRest(self.reports()[-1].end, before, agreed)
        return None

    def findings(self) -> Iterator[Finding]:
        """Give all that is wrong with log, queues, checkpoint and tables.

        Not what only a walk over the whole log shows, see `check_in_one_walk`.
        """
        reports = self.reports()
        yield from self._wrong_files
        for report in reports:
            yield from report.findings
        log = _JoinedLog(self.segments, reports, is_open=check.is_open(self._disk, self._folder))
        yield from self._queues(log, reports)
        note = check.closing_note(self._disk, self._layout)
        yield from check.short_log(note, log, log.where(log.end))
        next_offsets = {
            (queue.topic, queue.queue_id): queue.next_offset
            for report in reports
            for queue in report.queues
            if queue.next_offset >= 0
        }
        stored = check.StoredQueues(self._disk, self._layout, self._geometry.queue)
        with closing(stored):
            yield from check.offset_findings(self._layout, self._offsets, next_offsets, stored)
        yield from check.checkpoint_findings(self._disk, self._layout.checkpoint)
        yield from check.table_findings(self._disk, self._layout)

    def _queues(self, log: "_JoinedLog", reports: Sequence[PartReport]) -> Iterator[Finding]:
        """Hold the runs of each queue against what lies between them."""
        unread = {one.unread.path: one.unread for one in reports if one.unread is not None}
        yield from unread.values()
        if unread:
            return
        batch_topics = frozenset(self._disk.list(self._layout.batch_queues))
        with closing(check.StoredQueues(self._disk, self._layout, self._geometry.queue)) as stored:
            queues = QueueCheck(
                log,
                lambda key: None if key[0] in batch_topics else stored.absent(key),
                topics=check.known_topics(self._disk, self._layout),
            )
            try:
                findings: list[Finding] = []
                for key, units in stored.take_up(findings):
                    queues.add(key, units)
                yield from findings
                for place, key, run in _runs(reports):
                    log.pass_to(place)
                    yield from queues.take(key, run)
                log.pass_to(ANYWHERE)
                yield from queues.finish()
            except FileMissing:
                raise
            except DiskFailed as error:
                more = "; no other file of its kind is looked at"
                yield check.unread(error.path, error, more)


def _is_settled(asked: CheckedPart, told: PartReport, exact: CheckedPart) -> bool:
    """Say whether a report is what it would be with all known that came before the part."""
    assert exact.before is not None
    if asked.start != exact.start:
        return False
    if (asked.before or WalkedBefore()) == exact.before:
        return True
    recent = exact.before.recent
    return not (
        told.damage
        or told.misplaced
        or told.has_gone_back
        or (told.records and recent and told.first_at_ms < recent[-1].at_ms)
        or told.end < exact.until < ANYWHERE
    )


def _after(before: WalkedBefore, report: PartReport) -> WalkedBefore:
    """Return what is known behind a part."""
    offsets = {
        (one.topic, one.queue_id): one.next_offset for one in report.queues if one.next_offset >= 0
    }
    recent = (*before.recent, *report.recent)[-2:]
    return WalkedBefore(recent, before.next_offsets | offsets)


def _runs(reports: Iterable[PartReport]) -> Iterator[tuple[int, QueueKey, UnitRun]]:
    """Give the runs of all queues in the order of the log."""
    for report in reports:
        runs = [
            (run.place, (queue.topic, queue.queue_id), run)
            for queue in report.queues
            for run in queue.runs
        ]
        yield from sorted(runs, key=lambda one: one[:2])


class _JoinedLog:
    """What the reports of all parts say of the log; see `CheckedLog`."""

    def __init__(
        self, segments: Sequence[Segment], reports: Sequence[PartReport], *, is_open: bool
    ) -> None:
        self.first = segments[0].start if segments else 0
        self.is_open = is_open
        self.end = reports[-1].end if reports else self.first
        self._segments = segments
        self._starts = [segment.start for segment in segments]
        self._breaks = Breaks(self._starts)
        self._breaks.places = [place for report in reports for place in report.breaks]
        self._damage = deque(damage for report in reports for damage in report.damage)

    def pass_to(self, place: int) -> None:
        """Come to know the damage before a place, as one who walks there does."""
        while self._damage and self._damage[0].start < place:
            self._breaks.damage.append(self._damage.popleft())

    def where(self, place: int) -> tuple[str, int]:
        """Return the file that covers a place of the log, and the position in it."""
        if not self._segments:
            return "", place
        segment = self._segments[max(bisect_right(self._starts, place) - 1, 0)]
        return segment.path, place - segment.start

    def is_damaged(self, place: int) -> bool:
        """See `CheckedLog.is_damaged`."""
        return self._breaks.is_damaged(place)

    def is_broken(self, start: int, end: int) -> bool:
        """See `CheckedLog.is_broken`."""
        return self._breaks.is_broken(start, end)


class CheckedIndexFile(Struct, frozen=True):
    """A file of the index that is to be checked in itself; see `check_index_file`."""

    path: str
    geometry: IndexGeometry
    is_open: bool

    def check(self, disk: Disk) -> list[Finding]:
        """Return what does not agree in it, or that it cannot be read."""
        try:
            found = check_index_file(disk, self.path, self.geometry, is_open=self.is_open)
            return list(islice(found, FINDINGS_MAX))
        except FileMissing:
            raise
        except DiskFailed as error:
            return [check.unread(error.path, error)]


class IndexRest(Struct, frozen=True):
    """What one walk is to compare of the index: from where, and what is known before that."""

    start: int
    before: WalkedBefore
    agreed: IndexRun | None


def check_in_one_walk(
    disk: Disk,
    folder: str,
    geometry: Geometry | None = None,
    *,
    has_batches: bool = True,
    index: IndexRest | None = None,
) -> list[Finding]:
    """Check what can only be held against the log in its order: batch queues, and the index.

    Args:
        disk: Where the store lies.
        folder: Its folder.
        geometry: Sizes of its files; None takes those it was made with.
        has_batches: Whether to check batch queues.
        index: What to check of the index; files in themselves are not.

    Raises:
        ForeignStore: The folder holds no store, or one whose geometry cannot be told.
        DiskFailed: A folder or a file of the log cannot be looked into.
    Cost: what is asked for of the log is read once, with all checksums, and so is the index.
    """
    layout = StoreLayout(folder)
    settled = geometries.settle(disk, layout, geometry)
    segments, _wrong = log_segments(disk, layout.commitlog, settled.log.segment_bytes)
    is_open = check.is_open(disk, folder)
    if has_batches or index is None or index.agreed is None:
        log = LogCheck(segments, is_open=is_open)
    else:
        log = LogCheck(segments, is_open=is_open, start=index.start, before=index.before)
    note = check.closing_note(disk, layout)
    is_off = note is not None and note.index_end < 0
    parts: list[BatchCheck | IndexCheck] = []
    if has_batches:
        parts.append(BatchCheck(disk, layout.batch_queues, settled.queue, log))
    if index is not None:
        agreed = IndexRun(EntryPlace(0, 1), EntryPlace(0, 1), -1, [])
        if index.agreed is not None and not has_batches:
            agreed = index.agreed
        parts.append(
            IndexCheck(disk, layout.index, settled.index, log, is_off=is_off, before=agreed)
        )
    findings: list[Finding] = []
    failed: set[object] = set()

    def collect(part: BatchCheck | IndexCheck, found: Iterator[Finding]) -> None:
        if part in failed:
            return
        try:
            findings.extend(found)
        except FileMissing:
            raise
        except DiskFailed as error:
            failed.add(part)
            more = "; no other file of its kind is looked at"
            findings.append(check.unread(error.path, error, more))

    with closing(log):
        for part in parts:
            collect(part, part.start())
        for batch in log.rounds():
            for part in parts:
                collect(part, part.take(batch))
        for part in parts:
            collect(part, part.finish())
    return findings
