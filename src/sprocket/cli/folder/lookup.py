"""Finding messages in a store that is open for reading."""

from collections.abc import Iterator, Sequence

from sprocket.base.errors import (
    CorruptRecord,
    OffsetTooLarge,
    OffsetTooSmall,
    SettingsError,
    StoreError,
    WireError,
)
from sprocket.base.nearest import hint
from sprocket.cli.terminal import message
from sprocket.rocketmq.codec.record import ids
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.settings import FOUND_MESSAGES_MAX
from sprocket.rocketmq.store.log import Damage
from sprocket.rocketmq.store.read import Boundary, GetStatus
from sprocket.rocketmq.store.store import Store


class NothingFound(StoreError):
    """There is no such queue or message in the store."""


class Damaged(StoreError):
    """Everything asked for was read, and parts of it are not intact messages."""


def queue_names(store: Store) -> Iterator[tuple[str, int]]:
    """Every queue of the store."""
    for topic, queue, _range in store.queues():
        yield topic, queue


def queued(store: Store, topic: str, queue: int, offset: int) -> memoryview:
    """Return the record at a place in a queue.

    Raises:
        NothingFound: There is no such queue, or it does not hold this offset.
    """
    if (topic, queue) not in set(queue_names(store)):
        require_topic(store, topic)
        raise NothingFound(f"no queue {queue} of topic {topic!r} in this store; see `store ls`")
    found = store.get_messages(topic, queue, QueueOffset(offset), max_count=1)
    if found.status is not GetStatus.FOUND:
        kept = f"{found.min_offset} to {found.max_offset - 1}"
        kept = "nothing" if found.max_offset <= found.min_offset else kept
        raise NothingFound(f"queue {queue} of {topic} holds {kept}, not offset {offset}")
    return found.records[0]


def require_topic(store: Store, topic: str) -> None:
    """Check that a topic has queues in the store.

    Raises:
        NothingFound: It has none; the text names the nearest that has.
    """
    names = {name for name, _queue in queue_names(store)}
    if topic not in names:
        raise NothingFound(f"there is no topic {topic!r} in this store{hint(topic, names)}")


def require_intact(messages: Sequence[tuple[StoredMessage, bool]]) -> None:
    """Report messages that do not fit their checksums, of those that `message.decode` gave.

    Raises:
        Damaged: There are some.
    """
    wrong = [found.physical_offset for found, crc_ok in messages if not crc_ok]
    if wrong:
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise Damaged(f"the message at {wrong[0]} does not fit its checksums{more}")


def by_key(store: Store, topic: str, key: str, limit: int) -> list[memoryview]:
    """Find the newest messages with a key, oldest first.

    The index compares hashes only: each hit is checked, and more are asked for in place of others.
    """
    count, before = limit, -1
    while True:
        offsets = store.find(topic, key, max_count=count).offsets
        records = [store.record_at(offset) for offset in offsets]
        found = [data for data in records if _has_key(data, topic, key)]
        if len(found) >= limit or len(offsets) == before:
            return found[-limit:]
        count, before = 4 * count, len(offsets)


def _has_key(data: memoryview, topic: str, key: str) -> bool:
    found, _crc_ok = message.decode(data)
    return found.topic == topic and (key in found.keys or key == found.unique_key)


def by_id(store: Store, text: str, topic: str | None) -> list[memoryview]:
    """Find by an offset message id, or by a unique key if a topic is given.

    Raises:
        SettingsError: It is not an offset message id, and no topic says where to look for a key.
    """
    try:
        _host, place = ids.split_offset_message_id(text)
    except WireError as error:
        if topic is not None:
            return by_key(store, topic, text, FOUND_MESSAGES_MAX)
        raise SettingsError(f"{error}; a unique key needs a --topic") from None
    try:
        data = store.record_at(place)
        if message.decode(data)[0].offset_message_id == text.upper():
            return [data]
    except (CorruptRecord, OffsetTooLarge, OffsetTooSmall):
        if topic is None:
            raise
    return by_key(store, topic, text, FOUND_MESSAGES_MAX) if topic is not None else []


def by_time(store: Store, topic: str, at_ms: int) -> list[memoryview]:
    """Find in each queue of a topic the first message that was stored at a time or after it."""
    records = []
    for name, queue in sorted(queue_names(store)):
        if name != topic:
            continue
        kept = store.queue_range(topic, queue)
        offset = store.offset_by_time(topic, queue, at_ms, Boundary.LOWER)
        if kept.min <= offset < kept.max and store.stored_at_ms(topic, queue, offset) >= at_ms:
            records.append(queued(store, topic, queue, offset))
    return records


def require_sound(damage: Sequence[Damage], wrong_count: int) -> None:
    """Tell of what a scan of the log passed over, and of messages with wrong checksums.

    Raises:
        Damaged: There was any.
    """
    if damage:
        first = f"{damage[0].start} to {damage[0].end}"
        more = f" and {len(damage) - 1} more" if len(damage) > 1 else ""
        raise Damaged(f"the log is damaged: no intact record from {first}{more}")
    if wrong_count:
        raise Damaged(f"{wrong_count} messages do not fit their checksums")
