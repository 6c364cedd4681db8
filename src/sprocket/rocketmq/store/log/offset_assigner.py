"""Which offsets a new record takes in its queues, and which properties say so.

Almost every record takes the next offset of its own queue. An inner batch takes one for each of its
messages, and a property has the first. A record for light queues also takes the next offset of each
of them, and a property has those. A prepared or rolled back record takes none.

Source: RocketMQ `HookUtils.innerBatchChecker`, `CommitLog.DefaultAppendMessageCallback`. There a
name in INNER_MULTI_DISPATCH that is not a light queue's stops dispatch for ever; we refuse it.
"""

from collections.abc import Container, Mapping

from msgspec import Struct, structs

from sprocket.base.errors import MessageTooLarge
from sprocket.rocketmq.codec.record import Extra, extra, properties
from sprocket.rocketmq.codec.record_layout import TOPIC_BYTES_MAX_V1
from sprocket.rocketmq.errors import MessageIllegal
from sprocket.rocketmq.model.internal import RETRY_PREFIX
from sprocket.rocketmq.model.message import INNER_BATCH, NewRecord
from sprocket.rocketmq.store.layout import check_topic

RETRY_TOPIC_BYTES_MAX = 255
"""A retry topic is a group's name with a prefix, which may be longer than other topics."""

Key = tuple[str, int]


class AssignedOffset(Struct, frozen=True):
    """What a record takes.

    Attributes:
        record: The record, its properties as they are to be stored.
        queue_offset: Its own place; 0 if it takes none.
        extra: What its entry has to say.
        after: The next free place of each queue that it takes one in.
    """

    record: NewRecord
    queue_offset: int
    extra: Extra | None
    after: dict[Key, int]


class OffsetAssigner:
    """Gives places.

    Args:
        batch_topics: Topics that may take inner batches.
        light_queues: Whether records are put into light queues that they name.
        record_bytes_max: Longest record that may go into light queues.
    """

    def __init__(
        self, batch_topics: Container[str], *, light_queues: bool, record_bytes_max: int
    ) -> None:
        self._batch_topics = batch_topics
        self._light_queues = light_queues
        self._record_bytes_max = record_bytes_max

    def place(
        self, record: NewRecord, taken: Mapping[Key, int], known: Mapping[Key, int]
    ) -> AssignedOffset:
        """Return the place of any record.

        Args:
            record: What is to be appended.
            taken: Next free places of queues that records of the same batch go to; they count
                before `known`.
            known: Next free places of queues.

        Raises:
            MessageIllegal: It is an inner batch without a count, or for a queue that takes none; or
                it names a light queue that cannot be one.
            MessageTooLarge: The queue is new and its topic too long, or a record for light queues
                is too large.
            CorruptRecord: The queue is new and its topic cannot be a folder's name.
        """
        if not record.queueable:
            return AssignedOffset(record, 0, None, {})

        def next_of(key: Key) -> int:
            offset = taken.get(key, known.get(key))
            return check_queue(*key) if offset is None else offset

        own = record.topic, record.queue_id
        queue_offset = next_of(own)
        names = self._light_names(record)
        offsets = {name: next_of((name, 0)) for name in names}
        said = {}
        if record.sys_flag & INNER_BATCH:
            said[properties.INNER_BASE] = str(queue_offset)
        if names:
            said[properties.INNER_MULTI_QUEUE_OFFSET] = ",".join(str(offsets[n]) for n in names)
        record = _saying(record, said)
        found = extra.find(record.topic, record.sys_flag, b"\x02" + record.properties)
        if record.sys_flag & INNER_BATCH:
            self._check_batch(record, found)
        after = {(name, 0): offset + 1 for name, offset in offsets.items()}
        after[own] = queue_offset + (1 if found is None else found.count)
        return AssignedOffset(record, queue_offset, found, after)

    def _light_names(self, record: NewRecord) -> list[str]:
        """Return the names in the order given; one may stand there twice."""
        names = extra.light_names(record.topic, b"\x02" + record.properties)
        if not names or not self._light_queues:
            return []
        for name in names:
            if not extra.is_light(name) or len(name.encode()) > TOPIC_BYTES_MAX_V1:
                raise MessageIllegal(f"{name!r} cannot be the name of a light queue")
        return names

    def check_size(self, size: int) -> None:
        """Refuse a record for light queues that is too large: no slack beyond the body's limit.

        Raises:
            MessageTooLarge: It is.
        """
        if size > self._record_bytes_max:
            raise MessageTooLarge(
                f"a record of {size} bytes for light queues exceeds {self._record_bytes_max}"
            )

    def _check_batch(self, record: NewRecord, found: Extra | None) -> None:
        if record.topic not in self._batch_topics:
            raise MessageIllegal(f"topic {record.topic} has no batch queues for an inner batch")
        count = properties.find(record.properties, properties.INNER_NUM)
        if count != str(1 if found is None else found.count):
            raise MessageIllegal(f"an inner batch of {count!r} messages (INNER_NUM)")


def check_queue(topic: str, queue_id: int) -> int:
    """Return the first offset of a queue that has had no message yet.

    Raises:
        MessageTooLarge: The topic or the queue id exceeds its limit.
        CorruptRecord: The topic cannot be a folder's name.
    """
    limit = RETRY_TOPIC_BYTES_MAX if topic.startswith(RETRY_PREFIX) else TOPIC_BYTES_MAX_V1
    size = len(check_topic(topic).encode("utf-8", "surrogatepass"))
    if size > limit:
        raise MessageTooLarge(f"a topic of {size} bytes exceeds {limit}")
    if not 0 <= queue_id < 1 << 31:
        raise MessageTooLarge(f"queue id {queue_id} is not between 0 and {(1 << 31) - 1}")
    return 0


def _saying(record: NewRecord, said: Mapping[str, str]) -> NewRecord:
    """Return the record with these properties about its places, and with no others."""
    stored = record.properties
    for name in (properties.INNER_BASE, properties.INNER_MULTI_QUEUE_OFFSET):
        stored = properties.remove(stored, name)
    for name, value in said.items():
        stored = properties.append(stored, name, value)
    return record if stored == record.properties else structs.replace(record, properties=stored)
