"""The records that follow a half message: its copy, itself once more, and what says it has ended.

A commit stores a copy where the message wants to go, which says in its prepared transaction offset
where the half lies. What has ended is named, by its offset in the queue of halves, in an op message
of `RMQ_SYS_TRANS_OP_HALF_TOPIC`.

A half that is asked about is stored again, at the queue's end, and the one before has ended with
that. Unlike RocketMQ's, ours says in its own prepared transaction offset which half it follows, and
in `TRAN_PREPARED_QUEUE_OFFSET` which was the first: whoever says late how the transaction ended
names that one.

Source: RocketMQ `TransactionalMessageBridge`, `EndTransactionProcessor`.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, structs

from sprocket.base.errors import WireError
from sprocket.base.units import MIB
from sprocket.rocketmq.broker.messages import EXAMINED, Waits
from sprocket.rocketmq.codec.record import op_message, properties
from sprocket.rocketmq.codec.record_layout import CRC_NAME, CRC_TAIL_BYTES, parts, topic_text
from sprocket.rocketmq.model.internal import CHECKED_TOO_OFTEN_TOPIC, HALF_TOPIC, OP_TOPIC
from sprocket.rocketmq.model.message import (
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    NewHalf,
    NewRecord,
    StoredMessage,
)

OP_TAG = "d"
_FOLLOWED, _SYNCED = "FOLLOWED", "SYNCED"
"""Properties of op messages that RocketMQ's do not have, and does not look at."""
_ROOT_MARK = f"\x02{properties.TRAN_PREPARED_QUEUE_OFFSET}\x01".encode()
_ADDED_BYTES_MAX = 128
"""More than what half messages that are stored again say beside their own properties, and the tail
with their checksum."""
_NO_TARGETS = frozenset({"", HALF_TOPIC, OP_TOPIC})
_OBJECT_BYTES = 1024
"""More than what a half message takes in memory beside its body and its properties."""

RECENT_BYTES_MAX = 4 * MIB
"""Of half messages that were stored lately: some thousand, if they are small. More need not be
kept, as who has so many transactions under way waits for something slower than the log."""


class StoredHalf(Struct, frozen=True, gc=False):
    """A half message as it lies in the log, and what its properties say.

    Attributes:
        record: What would store it once more.
        offset: Its offset in the queue of half messages.
        place: Where it lies in the log.
        stored_at_ms: When it was stored.
        group: The group of its producers, empty if it names none.
        real_topic: The topic where it wants to go, empty if it does not say so.
        real_queue_id: Its queue there; None if it does not say so.
        root: The offset of the half message that its producer sent.
        check_count: How often its producers were asked already.
        immunity_ms: For how long nobody is to be asked about it; None if it does not say.
        may_wait: Whether it may have to wait when it is committed, see `EXAMINED`.
    """

    record: NewRecord
    offset: int
    place: int
    stored_at_ms: int
    group: str
    real_topic: str
    real_queue_id: int | None
    root: int
    check_count: int = 0
    immunity_ms: int | None = None
    may_wait: bool = False

    @property
    def message_id(self) -> str:
        """The id that its producer gave it, or else where it lies."""
        return self.record.unique_key or f"at {self.place}"

    def target(self) -> tuple[str, int]:
        """Return topic and queue where it wants to go.

        Raises:
            WireError: It does not say so.
        """
        topic, queue_id = self.real_topic, self.real_queue_id
        if topic in _NO_TARGETS or queue_id is None:
            raise WireError(f"a half message wants to go to queue {queue_id} of {topic!r}")
        return topic, queue_id


def read_half(stored: memoryview) -> StoredHalf:
    """Return the half message that a record is.

    Raises:
        WireError: There is no whole record.
    """
    fields, body_at, topic_at, topic_end, end = parts(stored, 0)
    text = bytes(stored[topic_end + 2 : end])
    without_tail = len(text) - CRC_TAIL_BYTES
    if without_tail >= 0 and text.startswith(CRC_NAME, without_tail):
        text = text[:without_tail]
    found = properties.decode(text)
    record = NewRecord(
        topic_text(stored, topic_at, topic_end),
        fields[3],
        bytes(stored[body_at : body_at + fields[14]]),
        text,
        *(fields[9], fields[11], fields[4], fields[7], fields[8], fields[12]),
        unique_key=found.get(properties.UNIQ_KEY, ""),
    )
    root = _number(found, properties.TRAN_PREPARED_QUEUE_OFFSET)
    immunity_seconds = _number(found, properties.CHECK_IMMUNITY_SECONDS)
    return StoredHalf(
        record,
        fields[5],
        fields[6],
        fields[10],
        found.get(properties.PRODUCER_GROUP, ""),
        found.get(properties.REAL_TOPIC, ""),
        _number(found, properties.REAL_QID),
        fields[5] if root is None else root,
        _number(found, properties.TRANSACTION_CHECK_TIMES) or 0,
        None if immunity_seconds is None else immunity_seconds * 1000,
        not EXAMINED.isdisjoint(found),
    )


def _number(found: Mapping[str, str], name: str) -> int | None:
    """Return a property that is a number of this broker's or its producer's, None without."""
    text = found.get(name, "")
    return int(text) if text.isdecimal() else None


def follows_another(stored: bytes) -> bool:
    """Say whether any of some half messages may be another one of its transaction than the first.

    Args:
        stored: One record or several.
    """
    return _ROOT_MARK in stored


class RecentHalves:
    """Half messages that were stored lately: most transactions end soon.

    Such a one need not be read from the log and taken apart, which costs as much as its copy does.
    A half is kept until it is taken, or evicted by newer ones: the newest `bytes_max / 2` bytes are
    always kept, and never more than `bytes_max`.

    Args:
        bytes_max: How much is kept, beside what two halves take.
    """

    def __init__(self, bytes_max: int = RECENT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._young: dict[int, StoredHalf] = {}
        self._old: dict[int, StoredHalf] = {}
        self._young_bytes = 0

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._young) + len(self._old)

    def add(self, half: NewHalf, offset: int, place: int, stored_at_ms: int) -> None:
        """Keep a half message that was written; twice the same is as once.

        Args:
            half: Its record.
            offset: Its offset in the queue of half messages.
            place: Where it lies in the log.
            stored_at_ms: When it was stored.
        """
        if place in self._young or place in self._old:
            return
        self._young[place] = StoredHalf(
            half,
            offset,
            place,
            stored_at_ms,
            half.group,
            half.real_topic,
            half.real_queue_id,
            offset,
        )
        self._young_bytes += _bytes_of(half)
        if self._young_bytes > self._bytes_max // 2:
            self._old, self._young, self._young_bytes = self._young, {}, 0

    def take(self, place: int) -> StoredHalf | None:
        """Return the half message that lies at a place, and forget it; None if it is not kept."""
        half = self._young.pop(place, None)
        if half is None:
            return self._old.pop(place, None)
        self._young_bytes -= _bytes_of(half.record)
        return half


def _bytes_of(half: NewRecord) -> int:
    return len(half.body) + len(half.properties) + _OBJECT_BYTES


class HalfRecords:
    """Makes the records that follow a half message.

    Args:
        waits: A message that is committed may have to wait first.
        store_host: The broker's address, as records hold it.
        now_ms: The wall clock.
        body_bytes_max: The longest body that the store takes.
    """

    def __init__(
        self,
        waits: Waits,
        store_host: bytes,
        now_ms: Callable[[], int],
        body_bytes_max: int,
    ) -> None:
        self._waits = waits
        self._body_bytes_max = body_bytes_max
        self._store_host = store_host
        self._now_ms = now_ms

    def committed(self, half: StoredHalf, place: int) -> NewRecord:
        """Return the message as its consumers are to see it.

        Args:
            half: Any half message of the transaction.
            place: Where the last one lies.

        Raises:
            WireError: It does not say where it wants to go.
            Refused: It cannot wait where it wants to.
        """
        topic, queue_id = half.target()
        given = half.record
        text = given.properties
        if half.may_wait or place != half.place:
            found = properties.decode(text)
            if place != half.place:
                found[properties.TRAN_PREPARED_QUEUE_OFFSET] = str(half.root)
            topic, queue_id = self._waits.divert(topic, queue_id, found)
            text = properties.encode(found)
        return NewRecord(
            topic,
            queue_id,
            given.body,
            text,
            given.born_host,
            self._store_host,
            given.flag,
            given.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT,
            given.born_at_ms,
            given.reconsume_times,
            place,
        )

    def has_room(self, half: StoredHalf) -> bool:
        """Say whether the store takes a half message once more, with what that says beside it."""
        size = len(half.record.properties) + _ADDED_BYTES_MAX
        return (
            size <= properties.PROPERTIES_BYTES_MAX
            and len(half.record.body) <= self._body_bytes_max
        )

    def renewed(self, half: StoredHalf) -> NewRecord:
        """Return the half message again, asked about once more."""
        added = {properties.TRANSACTION_CHECK_TIMES: str(half.check_count + 1)}
        return self._follower(half, HALF_TOPIC, added)

    def given_up(self, half: StoredHalf) -> NewRecord:
        """Return the record for the topic of those that nobody knew anything about."""
        return self._follower(half, CHECKED_TOO_OFTEN_TOPIC, {})

    def resumed(self, half: StoredHalf) -> NewRecord:
        """Return a half message that was given up as one about which nobody was asked yet."""
        found = properties.decode(half.record.properties)
        for name in (properties.TRANSACTION_CHECK_TIMES, properties.TRAN_PREPARED_QUEUE_OFFSET):
            found.pop(name, None)
        return structs.replace(
            half.record,
            topic=HALF_TOPIC,
            properties=properties.encode(found),
            store_host=self._store_host,
        )

    def void(self) -> NewRecord:
        """Return a half message that has ended, and is there for the sake of its offset."""
        host = self._store_host
        found = properties.encode({properties.TRAN_MSG: "true"})
        return NewRecord(HALF_TOPIC, 0, b"void", found, host, host, 0, 0, self._now_ms())

    def _follower(self, half: StoredHalf, topic: str, added: Mapping[str, str]) -> NewRecord:
        found = properties.decode(half.record.properties)
        found[properties.TRAN_PREPARED_QUEUE_OFFSET] = str(half.root)
        return structs.replace(
            half.record,
            topic=topic,
            queue_id=0,
            properties=properties.encode({**found, **added}),
            store_host=self._store_host,
            prepared_transaction_offset=half.place,
        )

    def op(self, ended: Sequence[int], *, followed: int, synced: int) -> NewRecord:
        """Return the record that says which half messages have ended.

        Args:
            ended: Their offsets.
            followed: So many of them, the first, each have a record before this one.
            synced: Up to where the disk has the log.
        """
        found = {properties.TAGS: OP_TAG, _FOLLOWED: str(followed), _SYNCED: str(synced)}
        host = self._store_host
        return NewRecord(
            topic=OP_TOPIC,
            queue_id=0,
            body=op_message.encode(ended),
            properties=properties.encode(found),
            born_host=host,
            store_host=host,
            born_at_ms=self._now_ms(),
        )


class Op(Struct, frozen=True, gc=False):
    """What an op message says.

    Attributes:
        place: Where it lies in the log.
        stored_at_ms: When it was stored.
        ended: The offsets of half messages that have ended.
        followed: Those of them that have a record before this one.
        synced: Up to where the disk had the log when it was appended; None in RocketMQ's.
    """

    place: int
    stored_at_ms: int
    ended: list[int]
    followed: list[int]
    synced: int | None


def read_op(message: StoredMessage) -> Op:
    """Return what an op message says, of any release of RocketMQ."""
    ended = op_message.decode(message.stored_body)
    followed, synced = (message.properties.get(name, "") for name in (_FOLLOWED, _SYNCED))
    return Op(
        message.physical_offset,
        message.stored_at_ms,
        ended,
        ended[: int(followed)] if followed.isdecimal() else [],
        int(synced) if synced.isdecimal() else None,
    )
