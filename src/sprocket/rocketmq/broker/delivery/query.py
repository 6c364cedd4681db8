"""Finding messages by key, by id and by time."""

from collections.abc import Container
from dataclasses import dataclass

from msgspec import Struct

from sprocket.base import log
from sprocket.base.disk import Missing, WouldBlock
from sprocket.base.errors import CorruptRecord, OffsetTooLarge, OffsetTooSmall
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.filters import MessageFilter
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.model.query import KeyQuery, QueueSpan, QueueUnit
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.store import Store

_log = log.get_limited_logger(__name__)

UNIQUE_KEY_MAX = 32
"""Most messages with one unique key; RocketMQ's `defaultQueryMaxNum`."""

UNITS_MAX = 1024
"""Most units of a queue in one answer, whatever the client asks for."""

BYTES_MAX = 8 * 1024 * 1024
"""Most bytes in one answer beyond its first message; half of what clients take in a frame."""

KEY_CHARACTERS = 128
"""How much of a key the log repeats."""


class Found(Struct, frozen=True):
    """What a query gives.

    Attributes:
        records: Whole records as stored, the oldest first.
        index_updated_at_ms: When the index last took something in.
        index_end: The physical offset of what it took in last.
    """

    records: list[memoryview]
    index_updated_at_ms: int = 0
    index_end: int = 0


@dataclass(frozen=True, slots=True)
class Queries:
    """Looks messages up in the store."""

    _store: Store
    _settings: StoreSettings

    def by_key(self, query: KeyQuery) -> Found:
        """Return the newest messages with a key, in the order in which they were stored.

        Raises:
            Refused: NO_MESSAGE, also where no index is kept; OTHER for a negative number.
        """
        if query.max_count < 0:
            raise Refused(Refusal.OTHER, f"maxNum {query.max_count} must not be negative")
        if not self._settings.index_messages:
            raise Refused(
                Refusal.NOT_FOUND,
                "this broker keeps no index (setting store.index_messages, messageIndexEnable)",
            )
        wanted = UNIQUE_KEY_MAX if query.is_unique_key else query.max_count
        count = min(wanted, self._settings.found_messages_max)
        if not query.topic or not query.key or count == 0:
            raise _not_found()
        result = self._store.find(
            query.topic, query.key, max_count=count, begin_ms=query.begin_ms, end_ms=query.end_ms
        )
        limit = f"{count} messages" if len(result.offsets) == count < query.max_count else ""
        records: list[memoryview] = []
        missing: list[Missing] = []  # is asked for at once
        size = 0
        for offset in reversed(result.offsets):
            try:
                stored = self._store.record_at(offset)
            except (OffsetTooSmall, OffsetTooLarge, CorruptRecord):
                continue
            except WouldBlock as stop:
                missing += stop.missing
                continue
            size += len(stored)
            if records and size > BYTES_MAX:
                limit = f"{BYTES_MAX} bytes"
                break
            records.append(stored)
        if missing:
            raise WouldBlock(missing)
        if not records:
            raise _not_found()
        if limit:  # the client cannot see that there may be more
            key = query.key[:KEY_CHARACTERS]
            _log.warning("a query by key is cut off", topic=query.topic, key=key, limit=limit)
        records.reverse()
        return Found(records, result.index_updated_at_ms, result.index_end)

    def units(
        self, topic: str, queue_id: int, first: int, count: int, wanted: MessageFilter | None
    ) -> QueueSpan | None:
        """Return what a queue has for some messages; None if there is none at the first offset.

        Args:
            topic: Whose.
            queue_id: Its queue.
            first: The queue offset of the first.
            count: How many at most; fewer if only the messages say what passes, and to ask them is
                dear.
            wanted: Which of them pass; None for every message.
        """
        span = self._store.queue_range(topic, queue_id)
        if not span.min <= first < span.max:
            return None
        count = max(0, min(count, UNITS_MAX, span.max - first))
        passed: Container[int] | None = None
        filter_cost = 0
        if wanted is not None and wanted.cost and count:
            read = self._store.get_messages(
                topic, queue_id, first, max_count=count, wanted=wanted, max_bytes=BYTES_MAX
            )
            passed = {record.entry(one).queue_offset for one in read.records}
            count = min(count, read.next_offset - first)
            filter_cost = read.filter_cost
        found: list[QueueUnit] = []
        while len(found) < count:  # a read ends where a file does
            units = self._store.units(topic, queue_id, first + len(found), count - len(found))
            if not units:
                break
            found += [
                QueueUnit(
                    physical_offset=place,
                    size=size,
                    tags_code=code,
                    passes=wanted is None or wanted.by_unit(code)
                    if passed is None
                    else offset in passed,
                )
                for offset, place, size, code, _ in units
            ]
        return QueueSpan(span.min, span.max, found[:count], filter_cost)

    def by_offset(self, offset: int) -> memoryview:
        """Return the record at a physical offset, which ids of messages name.

        Raises:
            Refused: OTHER; there is no record there.
        """
        try:
            if offset < 0:
                raise OffsetTooSmall(offset, 0)
            return self._store.record_at(PhysicalOffset(offset))
        except (OffsetTooSmall, OffsetTooLarge, CorruptRecord) as error:
            raise Refused(
                Refusal.OTHER, f"can not find message by the offset, {offset}: {error}"
            ) from error


def _not_found() -> Refused:
    return Refused(Refusal.NOT_FOUND, "can not find message, maybe time range")
