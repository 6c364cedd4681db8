"""What brokers ask of a consumer, mostly for an operator.

To divide the queues again, to continue from other offsets, to say how far it is and what it is
doing, to try one message.
"""

import sys
import traceback
from collections.abc import Callable, Mapping
from types import FrameType

from sprocket import __version__
from sprocket.base import log
from sprocket.base.errors import WireError
from sprocket.rocketmq.client.consumer.delivery import DeliverLater, call
from sprocket.rocketmq.client.consumer.plan import ConsumerPlan, Listener
from sprocket.rocketmq.client.consumer.queues import NEVER, Assignment, Offsets, ProcessQueue
from sprocket.rocketmq.client.network import Lease
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    ConsumerStatus,
    DirectOutcome,
    DirectResult,
    QueueInfo,
    RunningInfo,
)
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command, response
from sprocket.rocketmq.codec.headers import (
    ConsumeMessageDirectly,
    GetConsumerRunningInfo,
    GetConsumerStatus,
)
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.group import Subscription
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.runtime.driver import Peer

_log = log.get_logger(__name__)


class Directives:
    """Answers for one consumer; `wake` has its queues shared out anew."""

    def __init__(
        self,
        plan: ConsumerPlan,
        lease: Lease,
        wake: Callable[[], None],
        assignment: Assignment,
        offsets: Offsets,
        subscriptions: Mapping[str, Subscription],
    ) -> None:
        self._plan = plan
        self._clock = lease.instance.clock
        self._tasks = lease.tasks
        self._assignment = assignment
        self._offsets = offsets
        self._subscriptions = subscriptions
        self._properties = _properties(plan, lease)
        self._known: dict[int, Callable[[Peer, Command], None]] = {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: lambda _peer, _command: wake(),
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume,
        }

    def requested(self, peer: Peer, command: Command) -> bool:
        """Do what a broker asks; say whether it is known here."""
        found = self._known.get(command.code)
        if found is None:
            return False
        try:
            found(peer, command)
        except (Refused, WireError) as error:
            _log.warning("request of a broker not understood", code=command.code, error=str(error))
            if not command.is_oneway:
                peer.send(response(command, ResponseCode.SYSTEM_ERROR, None, str(error)))
        return True

    def _reset(self, _: Peer, command: Command) -> None:
        offsets = bodies.decode_offsets(command.body)
        self._tasks.spawn(self._move(offsets), "reset offsets")

    async def _move(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Read queues from other offsets on; those of other members are theirs to move."""
        for queue, offset in offsets.items():
            if await self._assignment.move(queue, QueueOffset(offset)):
                self._offsets.overwrite(queue, QueueOffset(offset))
                await self._offsets.store(queue)
                _log.warning("offset reset by an operator", queue=str(queue), offset=offset)

    def _status(self, peer: Peer, command: Command) -> None:
        topic = command.header(GetConsumerStatus).topic
        found = {queue: self._offsets.get(queue) for queue in self._assignment.queues(topic)}
        known = {queue: offset for queue, offset in found.items() if offset is not None}
        peer.send(response(command, 0, body=[bodies.encode(ConsumerStatus(offsets=known))]))

    def _running_info(self, peer: Peer, command: Command) -> None:
        header = command.header(GetConsumerRunningInfo)
        info = RunningInfo(
            properties=self._properties,
            subscriptions=self._subscriptions.values(),
            queues={held.queue: self._queue_info(held) for held in self._assignment.all_held()},
            topics=self._assignment.counts.infos(),
            stacks=_stacks() if header.jstack_enable else None,
        )
        peer.send(response(command, 0, body=[bodies.encode(info)]))

    def _queue_info(self, held: ProcessQueue) -> QueueInfo:
        last = held.last_offset
        return QueueInfo(
            commit_offset=self._offsets.get(held.queue) or held.commit_offset,
            cached_min_offset=0 if last is None else held.commit_offset,
            cached_max_offset=0 if last is None else last,
            cached_count=held.count,
            cached_bytes=held.size,
            is_locked=held.is_locked(self._clock.monotonic()),
            is_dropped=held.is_dropped,
            pulled_at_ms=self._wall_ms(held.pulled_at),
            consumed_at_ms=self._wall_ms(held.consumed_at),
            locked_at_ms=self._wall_ms(held.locked_at),
        )

    def _wall_ms(self, at: float) -> int:
        """Return a time of the monotonic clock as wall time; 0 for never."""
        if at == NEVER:
            return 0
        return self._clock.now_ms() - int((self._clock.monotonic() - at) * 1000)

    def _consume(self, peer: Peer, command: Command) -> None:
        listener = self._plan.listener
        if listener is None or self._plan.is_loop:
            raise Refused(Refusal.OTHER, "this consumer has no listener")
        header = command.header(ConsumeMessageDirectly)
        stored = record.decode(command.body)
        queue = MessageQueue(stored.topic, header.broker_name or "", stored.queue_id)
        trial = self._try(peer, command, listener, ReceivedMessage(stored, queue))
        self._tasks.spawn(trial, f"try {stored.message_id}")

    async def _try(
        self, peer: Peer, command: Command, listener: Listener, message: ReceivedMessage
    ) -> None:
        """Give the listener one message; what becomes of it is told, and nothing else happens."""
        began = self._clock.monotonic()
        failure = await call(listener, [message])
        result: DirectResult = "CR_SUCCESS"
        remark = ""
        if failure is not None:
            is_asked_for = isinstance(failure.error, DeliverLater)
            result = "CR_LATER" if is_asked_for else "CR_THROW_EXCEPTION"
            remark = "".join(traceback.format_exception_only(failure.error)).strip()
        outcome = DirectOutcome(
            result=result,
            orderly=self._plan.is_orderly,
            spent_ms=int((self._clock.monotonic() - began) * 1000),
            remark=remark,
        )
        peer.send(response(command, 0, body=[bodies.encode(outcome)]))


def _properties(plan: ConsumerPlan, lease: Lease) -> dict[str, str]:
    """Return what an operator may want to know of a consumer, under RocketMQ's names."""
    properties = {
        "PROP_CLIENT_VERSION": f"SPROCKET_{__version__}",
        "PROP_CONSUMER_START_TIMESTAMP": str(lease.instance.clock.now_ms()),
        "PROP_CONSUME_TYPE": plan.consume_type,
        "PROP_NAMESERVER_ADDR": ";".join(lease.instance.names.addresses),
    }
    if not plan.is_polled:
        properties |= {
            "PROP_CONSUMEORDERLY": "true" if plan.is_orderly else "false",
            "PROP_THREADPOOL_CORE_SIZE": str(plan.settings.call_count_max),
            "messageModel": plan.message_model,
        }
    return properties


def _stacks() -> str:
    """Return where every thread is."""
    frames: dict[int, FrameType] = sys._current_frames()
    return "\n".join(
        f"thread {number}\n{''.join(traceback.format_stack(frame))}"
        for number, frame in frames.items()
    )
