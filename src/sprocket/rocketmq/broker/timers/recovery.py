"""Which timed messages were delivered already, when a store is opened.

The checkpoint says up to which slot all are, and from where on the log may have copies of the
messages of later slots. Each copy names the place of the first message. RocketMQ's do not: they are
known by topic and unique key.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field

from sprocket.base import log
from sprocket.base.disk import Buffer
from sprocket.rocketmq.broker.timers.timed_records import UNREADABLE, delete_key, first_place
from sprocket.rocketmq.codec.columns import RecordBatch
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.codec.record_layout import parts
from sprocket.rocketmq.model.internal import TIMER_TOPIC
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.read import Boundary
from sprocket.rocketmq.store.store import Store
from sprocket.rocketmq.store.timer import TimerCheckpoint, TimerFiles

_log = log.get_logger(__name__)

_TAKES_BACK = f"{properties.TIMER_DEL_UNIQKEY}\x01".encode()
_COPY = f"\x02{properties.TIMER_DEQUEUE_MS}\x01".encode()
_DEQUEUED = re.compile(re.escape(_COPY[1:]))


class _Key(NamedTuple):
    """By what a message is known of which a copy does not say the place."""

    topic: str
    unique_key: str
    times: int
    """How often it had come into the topic again."""


class Delivered(Struct):
    """What was delivered, of messages that may be found in the wheel again.

    Attributes:
        newest: The place of the newest copy, by the place of the first message of which it is one:
            those between may be lost.
        keys: By what RocketMQ's are known.
        taken_back: Where the newest message lies that takes others back, by the key of these and
            the slot of both. Where that slot is over, both come into later ones.
        since: How many were delivered after the checkpoint, by topic.
    """

    newest: dict[int, int] = field(default_factory=dict)
    keys: set[_Key] = field(default_factory=set)
    taken_back: dict[tuple[str, int], int] = field(default_factory=dict)
    since: Counter[str] = field(default_factory=Counter)

    precision_ms: int = 1000

    def has(self, message: StoredMessage) -> bool:
        """Tell whether a message is not to be delivered (any more)."""
        return self.has_copy(message) or self.is_taken_back(message)

    def has_copy(self, message: StoredMessage) -> bool:
        """Tell whether there is a copy of a message, in the wheel topic or where it was to go."""
        found, place = message.properties, message.physical_offset
        return self.newest.get(first_place(message), place) > place or (
            bool(self.keys) and _key(found, _times(found)) in self.keys
        )

    def is_taken_back(self, message: StoredMessage) -> bool:
        """Tell whether one that was stored later takes a message back."""
        found, place = message.properties, message.physical_offset
        if not self.taken_back or properties.TIMER_DEL_UNIQKEY in found:
            return False
        slot = _slot(found, self.precision_ms)
        return self.taken_back.get((delete_key(message), slot), place) > place


def find(store: Store, files: TimerFiles) -> Delivered:
    """Return what was delivered of the slots that the checkpoint does not cover.

    Costs some 0.2 µs for each record of the log from there on, and what they take to read; 10 µs
    for each that may be a copy.
    """
    found = Delivered(precision_ms=files.precision_ms)
    if not store.queue_end(TIMER_TOPIC, 0):
        return found
    start = _start(store, files.checkpoint)
    batches = store.record_batches(PhysicalOffset(store.first) if start is None else start)
    for topic, place, stored in chain.from_iterable(map(_possible_copies, batches)):
        fields, _, _, topic_end, end = parts(stored, 0)
        is_copy = fields[13] > 0
        if is_copy:
            found.newest[fields[13]] = place
        elif _COPY in b"\x02" + bytes(stored[topic_end + 2 : end]):
            is_copy = True
            pairs = record.stored_properties(stored)
            found.keys.add(_key(pairs, _times(pairs) - (topic == TIMER_TOPIC)))
        if topic == TIMER_TOPIC and _TAKES_BACK in bytes(stored[topic_end + 2 : end]):
            pairs = record.stored_properties(stored)
            key = pairs.get(properties.TIMER_DEL_UNIQKEY, "")
            found.taken_back[key, _slot(pairs, files.precision_ms)] = place
        if is_copy and fields[10] > files.checkpoint.version_at_ms:
            _count(found.since, stored, topic)
    return found


def _possible_copies(batch: RecordBatch) -> Iterator[tuple[str, int, memoryview]]:
    """Give topic, place and bytes of the records that may be copies, or take messages back."""
    records = batch.records
    stored = memoryview(records.data)
    may_be = records.number("prepared_transaction_offset") > 0
    for number, name in enumerate(batch.topic_names):
        if name == TIMER_TOPIC:
            may_be |= batch.topic_number == number
    first = records.start[0]
    dequeued = [one.start() for one in _DEQUEUED.finditer(stored[first : records.end[-1]])]
    may_be[np.searchsorted(records.end - first, dequeued, side="right")] = True
    for row in may_be.nonzero()[0].tolist():
        name = batch.topic_names[batch.topic_number[row]]
        place = int(batch.physical_offset[row])
        yield name, place, stored[records.start[row] : records.end[row]]


def _count(since: Counter[str], stored: Buffer, topic: str) -> None:
    """Count a copy that may be that of a timed message."""
    pairs = record.stored_properties(stored)
    if properties.TIMER_DEQUEUE_MS in pairs and properties.TIMER_DEL_UNIQKEY not in pairs:
        since[pairs.get(properties.REAL_TOPIC, "") if topic == TIMER_TOPIC else topic] += 1


def next_offset(store: Store, files: TimerFiles) -> int:
    """Return the first message of the wheel topic that is not in the timer log.

    RocketMQ's checkpoint may have seen one more than its timer log, so the log's last record counts
    as well.
    """
    noted = files.checkpoint.queue_offset
    try:
        last = files.log.last()
        if last is not None:
            entry = record.entry(store.record_at(PhysicalOffset(last.place)), with_keys=False)
            if entry.topic == TIMER_TOPIC:
                noted = min(noted, entry.queue_offset + 1)
    except UNREADABLE as error:
        _log.warning("the last message of the timer log is not there", why=str(error))
    low, high = store.queue_range(TIMER_TOPIC, 0)
    return min(max(low, noted), high)


def _start(store: Store, checkpoint: TimerCheckpoint) -> PhysicalOffset | None:
    """Return from where on the log is to be read: a record begins there; None for its beginning."""
    place = checkpoint.deliveries_from
    for start in (place, *_places_before(store, checkpoint.read_at_ms)) if place else ():
        if start == store.written:
            return PhysicalOffset(start)
        try:
            store.record_at(PhysicalOffset(start))
        except UNREADABLE:
            continue
        return PhysicalOffset(start)
    return next((PhysicalOffset(one) for one in _places_before(store, checkpoint.read_at_ms)), None)


def _places_before(store: Store, at_ms: int) -> Iterator[int]:
    """Give the place of the last message of the wheel topic that was stored before a time."""
    offset = store.offset_by_time(TIMER_TOPIC, 0, at_ms, Boundary.LOWER) - 1
    for _, place, size, *_ in store.units(TIMER_TOPIC, 0, offset, 1) if offset >= 0 else ():
        if size > 0 and store.stored_at_ms(TIMER_TOPIC, 0, offset) in range(at_ms):
            yield place


def _times(pairs: dict[str, str]) -> int:
    text = pairs.get(properties.TIMER_ROLL_TIMES, "0")
    return int(text) if text.isdecimal() else 0


def _slot(pairs: dict[str, str], precision_ms: int) -> int:
    text = pairs.get(properties.TIMER_OUT_MS, "")
    return int(text) // precision_ms if text.isdecimal() else -1


def _key(pairs: dict[str, str], times: int) -> _Key:
    topic, unique_key = (
        pairs.get(name, "") for name in (properties.REAL_TOPIC, properties.UNIQ_KEY)
    )
    return _Key(topic, unique_key, times)
