"""Checking a store: reports each broken rule of its files, and changes nothing.

The log is read once, in rounds; queues and index are compared along the way (`check_log`,
`check_queues`, `check_batches`, `check_index`), so memory is limited by a round and by the number
of findings. `finding.Rule` lists what is checked. If a store is open or was not closed, its latest
moments are not checked: a broker may not have finished them.
"""

from collections.abc import Callable, Iterator

import msgspec

from sprocket.base.disk import Disk, read_file
from sprocket.base.errors import DiskFailed, FileMissing, ForeignStore, WireError
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.settings import Geometry
from sprocket.rocketmq.store import geometry as geometries
from sprocket.rocketmq.store import topic_table
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.recovery import CHECKPOINT_BYTES, CleanNote
from sprocket.rocketmq.store.repair import check_log
from sprocket.rocketmq.store.repair.check_batches import BatchCheck
from sprocket.rocketmq.store.repair.check_index import IndexCheck
from sprocket.rocketmq.store.repair.check_log import LogCheck
from sprocket.rocketmq.store.repair.check_queues import QueueCheck
from sprocket.rocketmq.store.repair.finding import Finding, Rule

_CHECKPOINT_FIELDS = 5


def is_open(disk: Disk, folder: str) -> bool:
    """Say whether a store is open, or was not closed the last time."""
    return disk.exists(StoreLayout(folder).abort)


def check(
    disk: Disk,
    folder: str,
    geometry: Geometry | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Finding]:
    """Give what is wrong with a store, as it is found.

    Args:
        disk: Where it lies.
        folder: Its folder.
        geometry: Sizes of its files; None takes those it was made with.
        progress: Is told how many bytes of the log of how many are done.

    Raises:
        ForeignStore: The folder holds no store, or one whose geometry cannot be told.
        DiskFailed: A folder or a file cannot be looked into; what is in files is told instead.
    Cost: the log is read once, with all checksums; queues and index are read once.
    """
    layout = StoreLayout(folder)
    if not disk.is_folder(layout.commitlog):
        raise ForeignStore(f"{folder}: there is no store, {layout.commitlog} is missing")
    settled = geometries.settle(disk, layout, geometry)
    rows, findings = check_log.segments(disk, layout.commitlog, settled.log.segment_bytes)
    yield from findings
    log = LogCheck(rows, is_open=is_open(disk, folder), progress=progress)
    try:
        yield from _check_messages(disk, layout, settled, log)
    finally:
        log.close()
    yield from _check_checkpoint(disk, layout.checkpoint)
    yield from _check_tables(disk, layout)


def _check_messages(
    disk: Disk, layout: StoreLayout, geometry: Geometry, log: LogCheck
) -> Iterator[Finding]:
    """Walk over the log, and hold queues and index against it."""
    opened, note = is_open(disk, layout.root), _note(disk, layout)
    batches = BatchCheck(disk, layout.batch_queues, geometry.queue, log, is_open=opened)
    queues = QueueCheck(
        disk,
        layout,
        geometry.queue,
        log,
        topics=_topics(disk, layout),
        passed_over=batches.topics,
        is_open=opened,
    )
    is_off = note is not None and note.index_end < 0
    index = IndexCheck(disk, layout.index, geometry.index, log, is_open=opened, is_off=is_off)
    parts: tuple[QueueCheck | BatchCheck | IndexCheck, ...] = (queues, batches, index)
    of_log: list[Finding] = []
    failed: set[object] = set()

    def guarded(part: object, findings: Iterator[Finding]) -> Iterator[Finding]:
        """Give what a part finds, up to a file that cannot be read; no more of the part then."""
        try:
            if part not in failed:
                yield from findings
        except FileMissing:
            raise
        except DiskFailed as error:
            failed.add(part)
            yield _unread(error.path, error, "; no other file of its kind is looked at")

    try:
        for part in parts:
            yield from guarded(part, part.start())
        for found in log.rounds(of_log):
            yield from of_log
            of_log.clear()
            for part in parts:
                yield from guarded(part, part.take(found))
        yield from of_log
        if note is not None and not opened and note.log_end > log.end:
            yield _lost_end(log, note.log_end)
        for part in parts:
            yield from guarded(part, part.finish())
    finally:
        queues.close()


def _unread(path: str, error: DiskFailed, more: str = "") -> Finding:
    return Finding(
        rule=Rule.FILE_READ, path=path, expected="what was written", found=f"{error}{more}"
    )


def _lost_end(log: LogCheck, closed_at: int) -> Finding:
    path, position = log.where(log.end)
    return Finding(
        rule=Rule.LOG_RECORD,
        path=path,
        position=position,
        expected=f"records up to {closed_at}, where the log was closed",
        found=f"its end at {log.end}",
        record=log.end,
    )


def _note(disk: Disk, layout: StoreLayout) -> CleanNote | None:
    """Return what the last clean stop of ours left."""
    try:
        return msgspec.json.decode(read_file(disk, layout.clean), type=CleanNote)
    except (DiskFailed, msgspec.DecodeError, UnicodeDecodeError):
        return None  # what cannot be read is told with the other tables


def _topics(disk: Disk, layout: StoreLayout) -> frozenset[str] | None:
    """Return the names in the table of topics, None if there is none that can be read."""
    found = topic_table.read(disk, layout)
    return None if found is None else frozenset(found)


def _check_checkpoint(disk: Disk, path: str) -> Iterator[Finding]:
    try:
        data = read_file(disk, path)
    except FileMissing:
        return
    except DiskFailed as error:
        yield _unread(path, error)
        return
    fields = [
        int.from_bytes(data[at : at + 8], "big", signed=True)
        for at in range(0, min(len(data), 8 * _CHECKPOINT_FIELDS), 8)
    ]
    for number, value in enumerate(fields):
        if value < 0:
            yield Finding(
                rule=Rule.CHECKPOINT,
                path=path,
                position=8 * number,
                expected="a time or a place",
                found=str(value),
            )
    rest = data[8 * _CHECKPOINT_FIELDS :]
    if len(data) != CHECKPOINT_BYTES or any(rest):
        zeros = len(rest) - len(rest.lstrip(b"\0"))
        yield Finding(
            rule=Rule.CHECKPOINT,
            path=path,
            position=min(len(data), 8 * _CHECKPOINT_FIELDS + zeros),
            expected=f"{CHECKPOINT_BYTES} bytes, zeros behind the fifth number",
            found=f"{len(data)} bytes" + (", others than zeros" if any(rest) else ""),
        )


def _check_tables(disk: Disk, layout: StoreLayout) -> Iterator[Finding]:
    """Read every table of the configuration, the old ones too; an empty one counts as missing."""
    for name in disk.list(layout.config):
        path = f"{layout.config}/{name}"
        is_table = name.removesuffix(".bak").endswith(".json") and path != layout.queue_ends
        if not is_table or disk.is_folder(path):
            continue
        try:
            data = read_file(disk, path)
            if data and not isinstance(fastjson.read_large(data), dict):
                raise WireError("a JSON object was expected")
        except WireError as error:
            yield Finding(rule=Rule.CONFIG, path=path, expected="a table", found=str(error))
        except FileMissing:
            continue  # a broker replaced it just now
        except DiskFailed as error:
            yield _unread(path, error)
