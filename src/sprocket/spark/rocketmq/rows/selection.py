"""Which records become rows: what the options of a query say of topics, queues, times and tags.

Everything is decided for all records of a buffer at once. Offsets and times are looked at record by
record, as the store time of a log may go back where its broker changed.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sprocket.rocketmq.codec.columns import Ints, Mask, Records
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.filter import compile_sql
from sprocket.rocketmq.model.internal import is_internal_topic, may_hold_replies
from sprocket.rocketmq.model.message import INNER_BATCH, TRANSACTION_PREPARED
from sprocket.spark.arrow import cut
from sprocket.spark.filters import Limits
from sprocket.spark.rocketmq.options import EARLIEST, LATEST, OffsetsWanted, Options
from sprocket.spark.rocketmq.rows.properties import Properties

ByQueue: TypeAlias = Mapping[str, Mapping[int, int]]
"""A number by topic and queue."""

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_NUMBERS: Mapping[str, Callable[[Records], Ints]] = {
    "queueOffset": lambda records: records.number("queue_offset"),
    "storeTimestamp": lambda records: records.stored_at_ms,
}


class QueueCount(NamedTuple):
    """How many messages of a queue there are in some part of a log."""

    topic: str
    queue_id: int
    messages: int


class RecordSelection:
    """Keeps the records that a query wants.

    Args:
        options: What the query wants. Of live topics only the messages of the queues wanted come
            from a broker, so there nothing is chosen by topic and offset.
        broker_name: Whose records they are; empty in a folder, which is of one broker.
    """

    def __init__(self, options: Options, broker_name: str = "") -> None:
        self._options = options
        self._is_folder = not options.name_server
        self._first: ByQueue = {}
        self._last: ByQueue = {}
        self._from_ms = _by_queue(options.first_times, broker_name)
        self._to_ms = _by_queue(options.last_times, broker_name)
        if self._is_folder:
            meanings = {EARLIEST: _LEAST, LATEST: _MOST}
            self._first = _by_queue(options.first_offsets, broker_name, meanings)
            self._last = _by_queue(options.last_offsets, broker_name, meanings)

    def keep(self, records: Records) -> Records:
        """Return the records wanted."""
        if self._options.filters:
            records = _filtered(records, self._options.filters)
        if self._is_folder:
            records = self._of_topics(records)
        options = self._options
        if not options.include_internal_topics:
            records = _without_erased(records)
        if options.starting_at_ms is not None:
            records = records.keep(records.stored_at_ms >= options.starting_at_ms)
        if options.ending_at_ms is not None:
            records = records.keep(records.stored_at_ms < options.ending_at_ms)
        for bounds, number, is_start in (
            (self._first, "queueOffset", True),
            (self._last, "queueOffset", False),
            (self._from_ms, "storeTimestamp", True),
            (self._to_ms, "storeTimestamp", False),
        ):
            if bounds:
                values = _NUMBERS[number](records)
                limit = _limits(records, bounds, _LEAST if is_start else _MOST)
                records = records.keep(values >= limit if is_start else values < limit)
        if options.tags:
            records = self._tagged(records)
        if options.condition:
            records = self._passing(records)
        return records

    @property
    def is_by_queue(self) -> bool:
        """Whether nothing but topic and queue of a record decides whether it is wanted."""
        options = self._options
        return self._is_folder and not (
            options.tags
            or options.condition
            or options.starting_at_ms is not None
            or options.ending_at_ms is not None
            or any((self._first, self._last, self._from_ms, self._to_ms))
            or "storeTimestamp" in (options.filters or {})
        )

    def of_counts(self, counts: Sequence[QueueCount]) -> list[QueueCount] | None:
        """Return the queues wanted; None if some of their messages may not be. If `is_by_queue`."""
        options = self._options
        filters = options.filters or {}
        kept = [
            one
            for one in counts
            if self._wants(one.topic)
            and one.topic in filters.get("topic", (one.topic,))
            and one.queue_id in filters.get("queueId", (one.queue_id,))
            and (options.assigned is None or _is_assigned(options.assigned, one))
        ]
        if not self._names_topics and any(may_hold_replies(one.topic) for one in kept):
            return None
        return kept

    def _of_topics(self, records: Records) -> Records:
        """Return the records of the topics and queues wanted that have a place in a queue.

        Prepared and rolled back ones have none; nor has what recovery put where damage was. Replies
        to requests are not a user's, unless their topic is named.
        """
        options = self._options
        wanted = np.array([self._wants(name) for name in records.topic_names], np.bool_)
        if options.include_internal_topics and not self._names_topics:
            return records if wanted.all() else records.keep(wanted[records.topic_number])
        hidden = records.number("sys_flag") & TRANSACTION_PREPARED != 0  # a bit of both kinds
        if not wanted.all() or hidden.any():
            records = records.keep(wanted[records.topic_number] & ~hidden)
        if not self._names_topics:
            records = _without_replies(records)
        return records if options.assigned is None else self._of_queues(records, options.assigned)

    @property
    def _names_topics(self) -> bool:
        options = self._options
        return bool(options.topics or options.assigned)

    def _wants(self, topic: str) -> bool:
        if self._names_topics or self._options.include_internal_topics:
            return self._options.names_topic(topic)
        return self._options.names_topic(topic) and not is_internal_topic(topic)

    def _of_queues(
        self, records: Records, assigned: Mapping[str, Mapping[str, tuple[int, ...]]]
    ) -> Records:
        """Return the records of the queues that are assigned."""
        queue_ids = records.number("queue_id")
        wanted = np.zeros(len(records), np.bool_)
        for number, topic in enumerate(records.topic_names):
            ids = [one for some in assigned.get(topic, {}).values() for one in some]
            wanted |= (records.topic_number == number) & np.isin(queue_ids, ids)
        return records.keep(wanted)

    def _passing(self, records: Records) -> Records:
        """Return the records whose properties pass the condition; 1 µs each, and more."""
        condition = compile_sql(self._options.condition)
        found = Properties(cut(records.data, records.properties_start, records.end))
        names = sorted(condition.names)
        columns = [found.value(name).to_pylist() for name in names]
        rows = zip(*columns, strict=True) if columns else repeat((), len(records))
        passes = [condition.matches(dict(zip(names, row, strict=True))) for row in rows]
        return records.keep(np.array(passes, np.bool_))

    def _tagged(self, records: Records) -> Records:
        """Return the records that have one of the tags wanted."""
        stored = cut(records.data, records.properties_start, records.end)
        tags = Properties(stored).value(properties.TAGS)
        wanted: Mask = np.asarray(pc.is_in(tags, pa.array(self._options.tags, pa.string())))
        return records.keep(wanted)


def _filtered(records: Records, filters: Limits) -> Records:
    """Return the records that may pass the query's filters."""
    wanted = np.ones(len(records), np.bool_)
    if "topic" in filters:
        of_topic = [name in filters["topic"] for name in records.topic_names]
        wanted &= np.array(of_topic, np.bool_)[records.topic_number]
    if "queueId" in filters:
        wanted &= np.isin(records.number("queue_id"), filters["queueId"])
    first_ms, last_ms = filters.get("storeTimestamp", (None, None))
    if first_ms is not None:
        wanted &= records.stored_at_ms >= first_ms
    if last_ms is not None:
        wanted &= records.stored_at_ms <= last_ms
    return records if wanted.all() else records.keep(wanted)


def _is_assigned(assigned: Mapping[str, Mapping[str, tuple[int, ...]]], queue: QueueCount) -> bool:
    return any(queue.queue_id in ids for ids in assigned.get(queue.topic, {}).values())


def _without_replies(records: Records) -> Records:
    """Return the records but those in which a cluster keeps the answers to requests.

    A folder does not say what its cluster is called, so the messages themselves have to.
    """
    may_reply = np.array([may_hold_replies(name) for name in records.topic_names], np.bool_)
    if not may_reply.any():
        return records
    looked_at = np.flatnonzero(may_reply[records.topic_number])
    of_them = records.keep(may_reply[records.topic_number])
    kinds = Properties(cut(of_them.data, of_them.properties_start, of_them.end))
    is_reply = pc.equal(kinds.value(properties.MSG_TYPE), properties.REPLY)
    kept = np.ones(len(records), np.bool_)
    kept[looked_at[np.asarray(pc.fill_null(is_reply, False))]] = False
    return records.keep(kept)


def _without_erased(records: Records) -> Records:
    """Return the records but those where a message was erased: inner batches of no messages."""
    is_batch = records.number("sys_flag") & INNER_BATCH != 0
    if not is_batch.any():
        return records
    # One whose body was left out by reading says its own size, and is shorter.
    is_whole = records.number("size") == records.end - records.start
    return records.keep(~(is_batch & is_whole & (records.number("body_size") == 0)))


def _by_queue(
    table: OffsetsWanted | None, broker_name: str, meanings: Mapping[int, int] | None = None
) -> ByQueue:
    """Return a table by topic and queue, of one broker if it is named; empty for none.

    Some numbers may stand for another, which `meanings` says.
    """
    if not isinstance(table, dict):
        return {}
    meanings = meanings or {}
    return {
        topic: {
            queue: meanings.get(number, number)
            for broker, numbers in brokers.items()
            if broker_name in ("", broker)
            for queue, number in numbers.items()
        }
        for topic, brokers in table.items()
    }


def _limits(records: Records, bounds: ByQueue, default: int) -> Ints:
    """Return the number that is set for the queue of each record."""
    limits = np.full(len(records), default, np.int64)
    queue_ids = records.number("queue_id")
    for number, topic in enumerate(records.topic_names):
        of_topic = bounds.get(topic)
        if not of_topic:
            continue
        ids = np.array(sorted(of_topic), np.int64)
        values = np.array([of_topic[one] for one in ids.tolist()], np.int64)
        place = np.minimum(np.searchsorted(ids, queue_ids), len(ids) - 1)
        known = (records.topic_number == number) & (ids[place] == queue_ids)
        limits[known] = values[place[known]]
    return limits
