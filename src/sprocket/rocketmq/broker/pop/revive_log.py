"""RocketMQ's topic of pops: what it left there is taken in, and what is in flight is left to it.

RocketMQ writes what it has popped to the topic `rmq_sys_REVIVE_LOG_<cluster>`, as checkpoints and
acknowledgements that wait in the timer wheel until the pop is due. Here pops are in a table of ours
(`in_flight`), which costs the log nothing. So that the folder can change hands:

    a record comes on the topic ── a checkpoint ── its pop is in flight here, until it is due
                                 ↘ an acknowledgement ── of a pop in flight ── settled
    a clean stop ── each pop in flight ── a checkpoint, in the wheel until a second before it is due
                  ↘ acknowledgements of pops that have one ── as such, in the wheel until it is due

Checkpoints of ours have a mark, by which the process that wrote them, or one that goes on with its
table, passes over them. If RocketMQ was here meanwhile, they count.

Source: RocketMQ `PopBufferMergeService`, `PopReviveService`.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from sprocket.base import log
from sprocket.base.clock import LogClock
from sprocket.base.errors import CorruptRecord, StoreError, WireError
from sprocket.rocketmq.broker.groups import ConsumerOffsets
from sprocket.rocketmq.broker.messages import TimerRequests
from sprocket.rocketmq.broker.pop.in_flight import InFlight, Pop, PopId, PoppedQueue
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec.record import pop_records, properties, record
from sprocket.rocketmq.model.message import NewRecord, StoredMessage
from sprocket.rocketmq.model.pop import (
    REVIVE_GROUP,
    REVIVE_QUEUES,
    PopAck,
    PopCheckpoint,
    revive_topic,
)
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.cold_reads import Reads

AT_ONCE: Final = 32
"""Records that are read or written in one go."""
BEFORE_MS: Final = 1_000
"""So long before a pop is due its checkpoint comes, RocketMQ's `ackTimeInterval`."""
GRACE_MS: Final = 3_000
"""So long after it is due its acknowledgements may come, which wait in the wheel until then."""
MARK: Final = "SPROCKET_POPS"
"""The property of a checkpoint of ours: which table of pops has it."""

_log = log.get_limited_logger(__name__)


class Names(NamedTuple):
    """What the records say of this broker."""

    cluster: str
    broker: str
    store_host: bytes


@dataclass(slots=True, eq=False)
class ReviveLog:
    """See the head of the module.

    Threads: event loop only.
    """

    _store: Store
    _reads: Reads
    _topics: Topics
    _offsets: ConsumerOffsets
    _in_flight: InFlight
    _timers: TimerRequests
    _clock: LogClock
    _names: Names
    _is_reading: bool = field(default=False, init=False)

    @property
    def topic(self) -> str:
        """Its name."""
        return revive_topic(self._names.cluster)

    def look(self) -> None:
        """Take in what has come since the last look; wanted some times a second."""
        if self._is_reading:
            return
        for queue_id in range(REVIVE_QUEUES):
            if self._next(queue_id) < self._store.queue_end(self.topic, queue_id):
                self._is_reading = True
                self._reads.run(partial(self._take, queue_id), self._failed)
                return

    def leave(self) -> None:
        """Leave what is in flight to the broker that goes on with the folder; at a clean stop.

        The pops are committed: who goes on gets them from the topic.

        Raises:
            StoreError: Not all can be noted; what was may be left twice.
        """
        pops, acks = self._in_flight.unwritten(), self._in_flight.late_acks()
        made = [self._checkpoint(key, pop) for key, pop in pops]
        made += [self._ack(key, pop) for key, pop in acks]
        if not made:
            return
        self._topics.make_internal(self.topic, REVIVE_QUEUES)
        for first in range(0, len(made), AT_ONCE):
            self._store.append_all(made[first : first + AT_ONCE])
            self._store.write()
        self._in_flight.note_written(pops)

    def _next(self, queue_id: int) -> int:
        done = self._offsets.get(REVIVE_GROUP, self.topic, queue_id)
        return 0 if done is None else done + 1

    def _failed(self, error: Exception) -> None:
        self._is_reading = False
        if not isinstance(error, StoreError):
            raise error
        _log.error("what RocketMQ has popped cannot be read now; trying again", why=str(error))

    def _take(self, queue_id: int) -> None:
        """Take in some records; all of it is read before anything changes."""
        start = self._next(queue_id)
        found = self._store.get_messages(self.topic, queue_id, start, max_count=AT_ONCE)
        for stored in found.records:
            try:
                self._take_in(record.decode(stored))
            except (CorruptRecord, WireError) as error:
                _log.warning("a record of a pop cannot be read", queue=queue_id, why=str(error))
        if found.next_offset > start:
            self._offsets.commit_aside(REVIVE_GROUP, self.topic, queue_id, found.next_offset - 1)
        self._is_reading = False

    def _take_in(self, message: StoredMessage) -> None:
        if message.tags == pop_records.CHECKPOINT_TAG:
            said = pop_records.decode_checkpoint(message.body)
            if said.broker and said.broker != self._names.broker:
                return
            key = PoppedQueue(said.topic, said.group, said.queue_id)
            pop = Pop(
                PopId(said.start, said.popped_at_ms),
                said.invisible_ms,
                said.distances,
                said.acked & (1 << said.count) - 1,
                message.queue_id,
            )
            is_ours = message.properties.get(MARK) == str(self._in_flight.epoch)
            self._in_flight.take_in(key, pop, is_known=is_ours, grace_ms=GRACE_MS)
        elif message.tags in (pop_records.ACK_TAG, pop_records.BATCH_ACK_TAG):
            ack = pop_records.decode_ack(message.body)
            key = PoppedQueue(ack.topic, ack.group, ack.queue_id)
            self._in_flight.settle(key, PopId(ack.start, ack.popped_at_ms), ack.offsets)

    def _checkpoint(self, key: PoppedQueue, pop: Pop) -> NewRecord:
        said = PopCheckpoint(
            start=pop.id.start,
            popped_at_ms=pop.id.popped_at_ms,
            invisible_ms=pop.invisible_ms,
            count=len(pop.differences),
            topic=key.topic,
            group=key.group,
            queue_id=key.queue_id,
            broker=self._names.broker,
            acked=pop.settled,
            differences=tuple(pop.differences),
        )
        found = {
            properties.TAGS: pop_records.CHECKPOINT_TAG,
            properties.UNIQ_KEY: self._unique_key(key, pop, pop_records.CHECKPOINT_TAG),
            MARK: str(self._in_flight.epoch),
        }
        body = pop_records.encode_checkpoint(said)
        return self._record(body, found, pop.revive_queue, pop.due_at_ms - BEFORE_MS)

    def _ack(self, key: PoppedQueue, pop: Pop) -> NewRecord:
        offsets = [pop.id.start + difference for difference in pop.differences]
        said = PopAck(
            pop.id.start,
            pop.id.popped_at_ms,
            key.topic,
            key.group,
            key.queue_id,
            self._names.broker,
            offsets,
        )
        tag = pop_records.ACK_TAG if len(offsets) == 1 else pop_records.BATCH_ACK_TAG
        found = {properties.TAGS: tag, properties.UNIQ_KEY: self._unique_key(key, pop, tag)}
        return self._record(pop_records.encode_ack(said), found, pop.revive_queue, pop.due_at_ms)

    def _unique_key(self, key: PoppedQueue, pop: Pop, tag: str) -> str:
        parts = [key.topic, key.queue_id, pop.id.start, key.group, pop.id.popped_at_ms]
        return "@".join(map(str, [*parts, self._names.broker, tag]))

    def _record(
        self, body: bytes, found: dict[str, str], queue_id: int, due_at_ms: int
    ) -> NewRecord:
        """Return a record that comes on the topic at a time, at once if that is over."""
        topic = self.topic
        found[properties.TIMER_DELIVER_MS] = str(due_at_ms)  # RocketMQ reads it when it has come
        if due_at_ms > self._clock.now_ms():
            topic, queue_id = self._timers.divert_until(due_at_ms, topic, queue_id, found)
        return NewRecord(
            topic=topic,
            queue_id=queue_id,
            body=body,
            properties=properties.encode(found),
            born_host=self._names.store_host,
            store_host=self._names.store_host,
            born_at_ms=self._clock.now_ms(),
        )
