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
from sprocket.rocketmq.broker.messages import EXAMINED, Waits
from sprocket.rocketmq.codec.record import op_message, properties
from sprocket.rocketmq.codec.record_layout import CRC_NAME, CRC_TAIL_BYTES, parts, topic_text
from sprocket.rocketmq.model.internal import CHECKED_TOO_OFTEN_TOPIC, HALF_TOPIC, OP_TOPIC
from sprocket.rocketmq.model.message import (
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    NewRecord,
    StoredMessage,
)

OP_TAG = "d"
_FOLLOWED, _SYNCED = "FOLLOWED", "SYNCED"
"""Properties of op messages that RocketMQ's do not have, and does not look at."""
_marks = {
    name: f"\x02{name}\x01".encode()
    for name in (
        *(properties.REAL_TOPIC, properties.REAL_QID, properties.UNIQ_KEY, properties.DELAY),
        *(properties.PRODUCER_GROUP, properties.CHECK_IMMUNITY_SECONDS),
        *(properties.TRANSACTION_CHECK_TIMES, properties.TRAN_PREPARED_QUEUE_OFFSET),
    )
}
_ROOT_MARK = _marks[properties.TRAN_PREPARED_QUEUE_OFFSET]
_IMMUNITY_MARK = _marks[properties.CHECK_IMMUNITY_SECONDS]
_EXAMINED_MARKS = [f"\x02{name}\x01".encode() for name in sorted(EXAMINED)]
"""What may have a message that is committed wait."""
_ADDED_BYTES_MAX = 128
"""More than what half messages that are stored again say beside their own properties, and the tail
with their checksum."""


class StoredHalf(Struct, frozen=True, gc=False):
    """A half message as it lies in the log.

    Attributes:
        record: What would store it once more.
        closed: Its properties with 0x02 before them.
        offset: Its offset in the queue of half messages.
        place: Where it lies in the log.
        stored_at_ms: When it was stored.
    """

    record: NewRecord
    closed: bytes
    offset: int
    place: int
    stored_at_ms: int

    def value(self, name: str) -> str:
        """Return one of its properties, empty if it has none of that name."""
        return properties.value_of(self.closed, _marks[name]) or ""

    def number(self, name: str) -> int | None:
        """Return a property that is a number of this broker's or its producer's, None without."""
        text = self.value(name)
        return int(text) if text.isdecimal() else None

    @property
    def root(self) -> int:
        """The offset of the half message that its producer sent."""
        if _ROOT_MARK not in self.closed:
            return self.offset
        root = self.number(properties.TRAN_PREPARED_QUEUE_OFFSET)
        return self.offset if root is None else root

    @property
    def check_count(self) -> int:
        """How often its producers were asked already."""
        return self.number(properties.TRANSACTION_CHECK_TIMES) or 0

    @property
    def immunity_ms(self) -> int | None:
        """For how long nobody is to be asked about it; None if it does not say."""
        if _IMMUNITY_MARK not in self.closed:
            return None
        seconds = self.number(properties.CHECK_IMMUNITY_SECONDS)
        return None if seconds is None else seconds * 1000

    @property
    def message_id(self) -> str:
        """The id that its producer gave it, or else where it lies."""
        return self.value(properties.UNIQ_KEY) or f"at {self.place}"

    def target(self) -> tuple[str, int]:
        """Return topic and queue where it wants to go.

        Raises:
            WireError: It does not say so.
        """
        topic, queue_id = self.value(properties.REAL_TOPIC), self.number(properties.REAL_QID)
        if topic in ("", HALF_TOPIC, OP_TOPIC) or queue_id is None:
            raise WireError(f"a half message wants to go to queue {queue_id} of {topic!r}")
        return topic, queue_id


def read_half(stored: memoryview) -> StoredHalf:
    """Return the half message that a record is.

    Raises:
        WireError: There is no whole record.
    """
    fields, body_at, topic_at, topic_end, end = parts(stored, 0)
    found = bytes(stored[topic_end + 2 : end])
    without_tail = len(found) - CRC_TAIL_BYTES
    if without_tail >= 0 and found.startswith(CRC_NAME, without_tail):
        found = found[:without_tail]
    record = NewRecord(
        topic_text(stored, topic_at, topic_end),
        fields[3],
        bytes(stored[body_at : body_at + fields[14]]),
        found,
        *(fields[9], fields[11], fields[4], fields[7], fields[8], fields[12]),
    )
    return StoredHalf(record, b"\x02" + found, fields[5], fields[6], fields[10])


def follows_another(stored: bytes) -> bool:
    """Say whether any of some half messages may be another one of its transaction than the first.

    Args:
        stored: One record or several.
    """
    return _ROOT_MARK in stored


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
        if place != half.place or [mark for mark in _EXAMINED_MARKS if mark in half.closed]:
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
