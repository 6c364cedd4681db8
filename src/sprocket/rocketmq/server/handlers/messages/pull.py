"""Requests that read messages: 11 and, for consumers that pull themselves, 361; long polling.

A pull is run again after it waited, for a message (`broker/delivery/pull_hold`), for the disk, or
for a message and then the disk:

    run → nothing new → hold → run → answer
       ↘ would block → a thread reads (`runtime/cold_reads`) → run → answer

One that chooses by properties goes on over what does not pass, and is held again, until something
passes or its time is over.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from msgspec import structs

from sprocket.base.disk import WouldBlock
from sprocket.base.errors import DiskBusy
from sprocket.rocketmq.broker.delivery import (
    HeldPull,
    PullForbidden,
    PullHold,
    PullOutcome,
    PullService,
    ReplicaChoice,
)
from sprocket.rocketmq.broker.filters import FilterTurns, TurnSpent
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.codec import quick_answers
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import ONEWAY_FLAG
from sprocket.rocketmq.codec.frame import JSON
from sprocket.rocketmq.codec.headers import PullForbiddenAnswer, PullMessage, PullMessageAnswer
from sprocket.rocketmq.model.filters import MessageFilter
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, row
from sprocket.rocketmq.store.read import GetStatus
from sprocket.runtime.cold_reads import ColdReads
from sprocket.runtime.driver import Peer

CODES: Mapping[PullOutcome, ResponseCode] = {
    PullOutcome.FOUND: ResponseCode.SUCCESS,
    PullOutcome.NOTHING_NEW: ResponseCode.PULL_NOT_FOUND,
    PullOutcome.TRY_AGAIN: ResponseCode.PULL_RETRY_IMMEDIATELY,
    PullOutcome.MOVED: ResponseCode.PULL_OFFSET_MOVED,
}
"""What an answer says."""

_NOTHING_PASSED = frozenset((PullOutcome.NOTHING_NEW, PullOutcome.TRY_AGAIN))
_FOUND, _NOTHING_NEW = GetStatus.FOUND, PullOutcome.NOTHING_NEW  # Enum is slow to look them up


@dataclass(frozen=True, slots=True)
class PullHandlers:
    """Pulls: answered at once, or when something arrives, or when the wait is over.

    `_watch` is told of connections whose pulls wait. `_choice` says where consumers read on; None
    where nobody else has this log, or slaves are not to be read.
    """

    _puller: PullService
    _hold: PullHold
    _reads: ColdReads
    _stats: Stats
    _watch: Callable[[Peer], None]
    _turns: FilterTurns
    _choice: ReplicaChoice | None = None

    def rows(self) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.PULL_MESSAGE, PullMessage, self.pull),
            row(RequestCode.LITE_PULL_MESSAGE, PullMessage, self.pull),
        ]

    def pull(
        self,
        request: Request,
        header: PullMessage,
        *,
        is_first: bool = True,
        until: float | None = None,
    ) -> None:
        """Answer a pull, or let it wait for a message.

        Args:
            request: The request.
            header: Its header, from the offset on that the pull has reached.
            is_first: It has not waited yet, and may if there is nothing new.
            until: It has waited, and may wait on, if nothing passes, to this time of the monotonic
                clock.
        """
        try:
            found = self._reads.attempt(self._pulled, request, header, is_first, until)
            if found is not None:
                request.answer(found)
        except WouldBlock as stop:
            self._go_on(stop, request, header, is_first, until)
        except Exception as error:
            request.fail(error)

    def _go_on(
        self,
        stop: WouldBlock,
        request: Request,
        header: PullMessage,
        is_first: bool,
        until: float | None,
    ) -> None:
        """Run a pull again once the disk has brought what it lacks; see `pull`."""
        started = self._stats.monotonic()

        def work() -> None:
            found = self._pulled(request, header, is_first, until)
            self._stats.waited(started)
            if found is not None:
                request.answer(found)

        try:
            self._reads.go_on(stop, work, request.fail)
        except DiskBusy as error:
            request.fail(error)

    def _pulled(
        self, request: Request, header: PullMessage, is_first: bool, until: float | None
    ) -> Answer | None:
        """Return the answer to a pull; None if it waits, or was answered at once."""
        try:
            pulled = self._puller.pull(header, is_first=is_first)
        except PullForbidden as forbidden:
            return _forbidden(forbidden)
        except TurnSpent:
            self._turns.later(partial(self.pull, request, header, is_first=is_first, until=until))
            return None
        choice = self._choice
        if choice is not None and choice.is_slave:
            pulled = choice.seen_here(pulled, header.queue_offset)
        command, result = request.command, pulled.result
        is_heard = not command.flag & ONEWAY_FLAG
        if is_first and is_heard and pulled.outcome is _NOTHING_NEW:
            if self._holds(request, header, pulled.permit.wanted, self._puller.hold_ms(header)):
                return None
        elif until is not None and pulled.outcome in _NOTHING_PASSED:
            header = structs.replace(header, queue_offset=result.next_offset)
            left_ms = 1000 * (until - self._stats.monotonic())
            if left_ms > 0 and result.next_offset < result.max_offset:
                self._turns.later(partial(self.pull, request, header, is_first=False, until=until))
                return None
            if self._holds(request, header, pulled.permit.wanted, left_ms):
                return None
        self._stats.pulled(
            header.topic,
            header.consumer_group,
            header.queue_id,
            result.next_offset,
            result.count,
            result.bytes,
        )
        answer = PullMessageAnswer(
            suggest_which_broker_id=0
            if choice is None
            else choice.next_broker(pulled.permit.group, result),
            next_begin_offset=result.next_offset,
            min_offset=result.min_offset,
            max_offset=result.max_offset,
            topic_sys_flag=pulled.permit.topic.sys_flag,
            group_sys_flag=pulled.permit.group.sys_flag,
        )
        if result.status is _FOUND and command.serialize == JSON and is_heard:
            # Nothing is gained by keeping it: uvloop itself writes once per turn.
            request.peer.send_now(
                quick_answers.found(command.opaque, answer, result.runs, result.bytes)
            )
            return None
        return Answer(CODES[pulled.outcome], answer, _wire_status(result.status).name, result.runs)

    def _holds(
        self,
        request: Request,
        header: PullMessage,
        wanted: MessageFilter | None,
        hold_ms: float,
    ) -> bool:
        """Let a pull wait for so long, if it may; say whether it does."""
        again = partial(self.pull, request, header, is_first=False)
        held = HeldPull(
            request.peer, header.topic, header.queue_id, header.queue_offset, wanted, again
        )
        if wanted is not None and wanted.cost:
            held.look = partial(again, until=self._stats.monotonic() + hold_ms / 1000)
        if hold_ms <= 0 or not self._hold.hold(held, hold_ms):
            return False
        self._watch(request.peer)
        return True


def _wire_status(status: GetStatus) -> GetStatus:
    """Return the status that a consumer is told: a topic's queue is there, if only in RocketMQ."""
    is_new = status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    return GetStatus.NO_MESSAGE_IN_QUEUE if is_new else status


def _forbidden(forbidden: PullForbidden) -> Answer:
    header = PullForbiddenAnswer(forbidden_type=forbidden.kind)
    return Answer(ResponseCode.NO_PERMISSION, header, forbidden.remark)
