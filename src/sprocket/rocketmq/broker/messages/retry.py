"""Handling of a message that a consumer sends back: deliver it later, or make it a dead letter.

The record is a copy of the consumed one for `%RETRY%<group>`, which every consumer of the group
subscribes to, with the original topic in `RETRY_TOPIC` and the first id in `ORIGIN_MESSAGE_ID`. It
waits in a delay level first: the one that the consumer asks for, or, if it leaves that to us, level
3 and one more for each time that it failed before. One that has failed too often, or that the
consumer gives up, goes to `%DLQ%<group>`, where it stays until somebody looks at it.

Orderly consumers send their last retry as a plain message to the retry topic; `RetryLimit` sees to
that.

Source: RocketMQ `AbstractSendMessageProcessor.consumerSendMsgBack`.
"""

import random
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from sprocket.base import log
from sprocket.base.errors import CorruptRecord, OffsetTooLarge, OffsetTooSmall, WireError
from sprocket.rocketmq.broker.groups import Groups, QueueLocks
from sprocket.rocketmq.broker.messages.delay_levels import DelayLevels
from sprocket.rocketmq.broker.messages.diverters import InboundMessage
from sprocket.rocketmq.broker.messages.message_copy import copy_of
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.internal import DEAD_LETTER_PREFIX, RETRY_PREFIX
from sprocket.rocketmq.model.message import NewRecord, SendBackRequest, StoredMessage
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.model.topic import UNIT_SUBSCRIPTION, WRITE
from sprocket.rocketmq.store.store import Store

_log = log.get_limited_logger(__name__)

LEVEL_OF_FIRST_RETRY = 3
"""10 s with RocketMQ's levels."""


@dataclass(frozen=True, slots=True)
class RetryLimit:
    """Makes a dead letter of a message that a consumer has sent for one retry too many."""

    _topics: Topics
    _groups: Groups
    _locks: QueueLocks
    """A group that consumes in order does not retry."""
    _: KW_ONLY
    below: Callable[[int], int] = random.randrange
    """`below(n)` picks one of n queues."""

    def divert_sent(self, message: InboundMessage) -> None:
        """Send it to the dead letters of its group; a `Diverter`."""
        if not message.topic.startswith(RETRY_PREFIX):
            return
        group, failures = message.topic.removeprefix(RETRY_PREFIX), message.sent.reconsume_times
        limit = _limit(self._groups.find(group), message.sent.max_reconsume_times)
        if failures <= limit and not self._locks.is_held(group):
            return
        topic = self._topics.make_internal(DEAD_LETTER_PREFIX + group, 1)
        found = message.properties
        _tell_dead_letter(group, found.get(properties.RETRY_TOPIC, ""), failures)
        message.topic, message.queue_id = topic.name, self.below(max(1, topic.write_queues))
        found[properties.DELAY] = "-1"


@dataclass(frozen=True, slots=True)
class RetryService:
    """Turns messages that are sent back into records."""

    _store: Store
    _topics: Topics
    _groups: Groups
    _levels: DelayLevels
    _store_host: bytes
    _: KW_ONLY
    below: Callable[[int], int] = random.randrange
    """`below(n)` picks one of n queues."""

    def record(self, asked: SendBackRequest) -> NewRecord | None:
        """Return the record to append; None if the group wants no retries, which is a success.

        Raises:
            Refused: A check failed.
        """
        group = self._groups.find(asked.group)
        self._topics.check_writable()
        if group.retry_queues <= 0:
            return None
        sys_flag = UNIT_SUBSCRIPTION if asked.unit_mode else 0
        topic = self._topics.make_internal(
            RETRY_PREFIX + group.name, group.retry_queues, sys_flag=sys_flag
        )
        if not topic.perm & WRITE:
            raise Refused(Refusal.NO_PERMISSION, f"the topic [{topic.name}] may not be written to")
        queue_id = self.below(group.retry_queues)
        message = self._read(asked.offset)
        found = message.properties
        found.setdefault(properties.RETRY_TOPIC, message.topic)
        found.setdefault(properties.ORIGIN_MESSAGE_ID, message.offset_message_id)
        found[properties.WAIT] = "false"
        name = topic.name
        failures = message.reconsume_times
        limit = _limit(group, asked.max_reconsume_times)
        if failures >= limit or asked.delay_level < 0:
            name, queue_id = DEAD_LETTER_PREFIX + group.name, 0
            self._topics.make_internal(name, 1)
            _tell_dead_letter(group.name, found[properties.RETRY_TOPIC], failures)
            found[properties.DELAY] = "0"
        else:
            level = asked.delay_level or LEVEL_OF_FIRST_RETRY + failures
            name, queue_id = self._levels.divert(level, name, queue_id, found)
        return copy_of(message, name, queue_id, self._store_host, more_reconsume_times=1)

    def _read(self, offset: int) -> StoredMessage:
        """Return the consumed message.

        Raises:
            Refused: OTHER; no whole message begins at `offset`.
        """
        try:
            return record.decode(self._store.record_at(PhysicalOffset(offset)))
        except (OffsetTooSmall, OffsetTooLarge, CorruptRecord, WireError) as error:
            raise Refused(Refusal.OTHER, f"look message by offset failed, {offset}") from error


def _limit(group: SubscriptionGroup, wanted: int | None) -> int:
    """Return how often a message is tried again: as the client wants, or as its group says."""
    return group.retry_times_max if wanted is None else wanted


def _tell_dead_letter(group: str, topic: str, failures: int) -> None:
    """Say in the log that a group has given a message up."""
    _log.warning("a message became a dead letter", group=group, topic=topic, failures=failures)
