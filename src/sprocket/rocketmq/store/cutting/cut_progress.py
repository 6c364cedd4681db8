"""What else must not be ahead of a log that was cut, once its queues end where it does.

Progress that was noted may be that of what came off: a delayed message counts as delivered, a
half as ended, and the copy or the end is gone. So what came off is looked through, and where it
has such records progress goes back: delayed messages of which it has copies wait again, timed
messages and transactions are looked for in the whole log once more. Whatever is done again is done
again by whoever delivers: at least once, as after any loss.

Committed offsets of groups are set back by the broker, to the ends of their queues, as after any
loss. See `log_cut` for the order; all of this can be done again.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress

from msgspec import Struct, field

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.disk import SegmentFiles
from sprocket.base.errors import (
    CorruptRecord,
    OffsetTooLarge,
    OffsetTooSmall,
    WireError,
)
from sprocket.base.place import Place
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.config import JsonObject, fastjson, values
from sprocket.rocketmq.codec.record import Entry, properties, record
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.model.internal import (
    HALF_TOPIC,
    OP_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANSACTION_GROUP,
)
from sprocket.rocketmq.model.message import TRANSACTION_COMMIT, TRANSACTION_MASK
from sprocket.rocketmq.store import config_table
from sprocket.rocketmq.store.config_table import ConfigTable, Snapshot
from sprocket.rocketmq.store.cutting import log_cut
from sprocket.rocketmq.store.cutting.log_cut import Cut
from sprocket.rocketmq.store.log import CommitLog, LogScanner
from sprocket.rocketmq.store.queue import FILLER_SIZE, Queue
from sprocket.rocketmq.store.recovery import StoreParts
from sprocket.rocketmq.store.timer import TimerCheckpoint, timer_checkpoint

LOOK_BACK_MAX = 100_000
"""Delayed messages of a level that are looked at for those of which copies came off."""

_OWN_TOPICS = frozenset((HALF_TOPIC, OP_TOPIC, TIMER_TOPIC))
_OWN_PROPERTIES = [
    f"{name}\x01".encode() for name in (properties.DELAY, properties.TIMER_DEQUEUE_MS)
]
"""A record that has none of these, nor anything of a transaction, has no progress noted of it."""

_UNREADABLE = (CorruptRecord, OffsetTooSmall, OffsetTooLarge, WireError)

_log = log.get_logger(__name__)


class _CameOff(Struct):
    """What came off a log of what progress is noted of.

    Attributes:
        is_timed: Messages that wait for their time, or copies of them.
        is_of_transactions: Halves, ends of them, or what was committed.
        delayed: By delay level, the unique keys of the copies of delayed messages.
    """

    is_timed: bool = False
    is_of_transactions: bool = False
    delayed: dict[int, set[str]] = field(default_factory=dict)


def set_back(
    parts: StoreParts, read: CommitLog, geometry: Geometry, clock: Clock, done: Cut
) -> None:
    """Set progress back; see the head of the module.

    Args:
        parts: Of the store, just recovered.
        read: Its log.
        geometry: Of its files.
        clock: Dates what is written.
        done: What was cut.

    Raises:
        ForeignStore: A table is damaged, and so is its backup.
        DiskFull, DiskFailed: To be done again.
    Durability: on the disk on return.
    """
    found = _CameOff(is_timed=done.keeps_nothing, is_of_transactions=done.keeps_nothing)
    for name in done.folders if not done.keeps_nothing else ():
        with closing(log_cut.saved_files(parts.disk, parts.layout, geometry, name)) as saved:
            _look(saved, found)
    parts.compactions.cut(parts.queues)
    place = Place(parts.disk, parts.layout.root, clock)
    if found.is_timed and parts.disk.exists(parts.layout.timer_checkpoint):
        timer_checkpoint.save(parts.disk, parts.layout.timer_checkpoint, TimerCheckpoint())
    _set_delays_back(parts, read, place, found.delayed)
    if found.is_of_transactions:
        _set_transactions_back(place)


def _look(saved: SegmentFiles, found: _CameOff) -> None:
    """Look through what came off."""
    for batch in LogScanner(saved.segments, saved.first, check_crc=False).batches():
        for entry, stored in _records(batch):
            is_committed = entry.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
            if entry.topic in (HALF_TOPIC, OP_TOPIC) or is_committed:
                found.is_of_transactions = True
            pairs = record.stored_properties(stored)
            is_copy = entry.prepared_transaction_offset > 0 and not is_committed
            if entry.topic == TIMER_TOPIC or is_copy or properties.TIMER_DEQUEUE_MS in pairs:
                found.is_timed = True
            level = pairs.get(properties.DELAY, "")
            if entry.topic != SCHEDULE_TOPIC and level.isdecimal():
                keys = found.delayed.setdefault(int(level), set())
                keys.add(pairs.get(properties.UNIQ_KEY, ""))


def _records(batch: RecordBatch) -> Iterator[tuple[Entry, memoryview]]:
    """Give the records of a batch; none if they all are plain messages, as nearly always."""
    records = batch.records
    stored = memoryview(records.data)
    data = bytes(stored[records.start[0] : records.end[-1]])
    is_plain = not (
        any(name in _OWN_TOPICS for name in batch.topic_names)
        or any(name in data for name in _OWN_PROPERTIES)
        or (batch.sys_flag & TRANSACTION_MASK).any()
        or (records.number("prepared_transaction_offset") > 0).any()
    )
    for number in range(0 if is_plain else len(batch)):
        yield batch.entry(number), stored[records.start[number] : records.end[number]]


def _set_delays_back(
    parts: StoreParts, read: CommitLog, place: Place, copied: Mapping[int, set[str]]
) -> None:
    """Have delayed messages wait again of which copies came off; no level is ahead of its queue."""
    offsets: dict[int, int] = {}

    def take(content: JsonObject) -> None:
        offsets.clear()
        for level, offset in values.mapping(content.get("offsetTable"), "offsetTable").items():
            number = values.integer(level, "a delay level")
            offsets[number] = values.integer(offset, "an offset")

    table = ConfigTable(
        config_table.DELAYS,
        place,
        lambda: Snapshot(members={"offsetTable": dict(sorted(offsets.items()))}),
    )
    with closing(table.journal):
        for _, level, offset, log_end in table.load(fastjson.Members, take):
            if log_end <= read.written:
                offsets[level] = offset
        for level, offset in [*offsets.items()]:
            queue = parts.queues.by_key.get((SCHEDULE_TOPIC, level - 1))
            offsets[level] = _first_copied(queue, read, offset, copied.get(level, set()))
        if not table.is_lost or offsets:
            for _ in range(2):  # the backup is not to be ahead either
                table.journal.is_behind = True
                table.flush()


def _first_copied(queue: Queue | None, read: CommitLog, offset: int, keys: set[str]) -> int:
    """Return where a level goes on: at the first message of which one of some keys is the copy."""
    if queue is None:
        return 0
    first = at = min(offset, queue.max_offset)
    lowest = max(queue.min_offset, at - LOOK_BACK_MAX)
    wanted = keys - {""}
    while wanted and at > lowest:
        at -= 1
        with suppress(*_UNREADABLE):
            _, place, size, *_ = queue.units(at, 1)[0]
            if size == FILLER_SIZE:
                continue
            key = record.stored_properties(read.record_at(place)).get(properties.UNIQ_KEY, "")
            if key in wanted:
                wanted.discard(key)
                first = at
    if wanted:
        _log.warning(
            "delayed messages of which the copies were cut off were not found",
            queue=queue.queue_id,
            count=len(wanted),
        )
    return first


def _set_transactions_back(place: Place) -> None:
    """Have the progress of transactions begin anew: the log says what has ended."""
    known: set[str] = set()

    def take(content: JsonObject) -> None:
        known.clear()
        known.update(map(str, values.mapping(content.get("offsetTable"), "offsetTable")))

    table = ConfigTable(config_table.OFFSETS, place, lambda: Snapshot(members={}))
    with closing(table.journal):
        for _, key, _, offset in table.load(fastjson.Members, take):
            (known.discard if offset is None else known.add)(key)
        if table.is_void:
            return  # RocketMQ's file, to which our journal says nothing: the broker sees to it
        try:
            for topic in (HALF_TOPIC, OP_TOPIC):
                key = f"{topic}@{TRANSACTION_GROUP}"
                if key in known:
                    table.journal.append(key, 0, 0)
        finally:
            table.journal.sync()
