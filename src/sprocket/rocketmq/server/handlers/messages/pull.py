"""Requests that read messages: 11 and, for consumers that pull themselves, 361; long polling.

A pull is run again after it waited, for a message (`broker/delivery/pull_hold`), for the disk, or
for a message and then the disk:

    run → nothing new → hold → run → answer
       ↘ would block → a thread reads (`runtime/cold_reads`) → run → answer
"""

from collections.abc import Callable

from sprocket.base.disk import WouldBlock
from sprocket.base.errors import DiskBusy
from sprocket.rocketmq.broker.delivery import Pulled, PullForbidden, PullHold, PullService
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.codec import quick_answers
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import ONEWAY_FLAG, Command
from sprocket.rocketmq.codec.frame import JSON
from sprocket.rocketmq.codec.headers import PullForbiddenAnswer, PullMessage, PullMessageAnswer
from sprocket.rocketmq.remoting import Answer, Request, Row, answer, failed, row
from sprocket.rocketmq.store.read import GetStatus
from sprocket.runtime.cold_reads import ColdReads
from sprocket.runtime.driver import Peer


class PullHandlers:
    """Pulls: answered at once, or when something arrives, or when the wait is over.

    Args:
        puller: Checks and reads.
        hold: Where pulls wait.
        reads: Asks the disk, so that the loop does not wait for it.
        stats: Counts what is handed out.
        watch: Is told of connections whose pulls wait.
    """

    def __init__(
        self,
        puller: PullService,
        hold: PullHold,
        reads: ColdReads,
        stats: Stats,
        watch: Callable[[Peer], None],
    ) -> None:
        self._puller = puller
        self._hold = hold
        self._reads = reads
        self._stats = stats
        self._watch = watch

    def rows(self) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.PULL_MESSAGE, PullMessage, self.pull),
            row(RequestCode.LITE_PULL_MESSAGE, PullMessage, self.pull),
        ]

    def pull(self, request: Request, header: PullMessage) -> None:
        """Answer a pull, or let it wait."""
        self._run(request.peer, request.command, header, is_first=True)

    def _run(self, peer: Peer, request: Command, header: PullMessage, *, is_first: bool) -> None:
        """Run a pull, which may wait for the disk.

        Args:
            peer: Who pulls.
            request: And what.
            header: Of the request.
            is_first: It has not waited for a message yet, and may.
        """
        try:
            found = self._reads.attempt(self._pulled, peer, request, header, is_first)
            if found is not None:
                answer(peer, request, found)
        except WouldBlock as stop:
            self._go_on(stop, peer, request, header, is_first)
        except Exception as error:
            answer(peer, request, failed(peer, request, error))

    def _go_on(
        self, stop: WouldBlock, peer: Peer, request: Command, header: PullMessage, is_first: bool
    ) -> None:
        """Run a pull again once the disk has brought what it lacks; see `_run`."""
        started = self._stats.monotonic()

        def work() -> None:
            found = self._pulled(peer, request, header, is_first)
            self._stats.waited(started)
            if found is not None:
                answer(peer, request, found)

        def refused(error: Exception) -> None:
            answer(peer, request, failed(peer, request, error))

        try:
            self._reads.go_on(stop, work, refused)
        except DiskBusy as error:
            refused(error)

    def _pulled(
        self, peer: Peer, request: Command, header: PullMessage, is_first: bool
    ) -> Answer | None:
        """Answer a pull, or let it wait for a message; None if there is no answer to make."""
        try:
            pulled = self._puller.pull(header, is_first=is_first)
        except PullForbidden as forbidden:
            return _forbidden(forbidden)
        if is_first and pulled.code == ResponseCode.PULL_NOT_FOUND and not request.is_oneway:
            hold_ms = self._puller.hold_ms(header)
            if hold_ms > 0 and self._hold.hold(
                peer,
                header.topic,
                header.queue_id,
                header.queue_offset,
                pulled.tags,
                hold_ms,
                lambda: self._run(peer, request, header, is_first=False),
            ):
                self._watch(peer)
                return None
        return self._answer(peer, request, header, pulled)

    def _answer(
        self, peer: Peer, request: Command, header: PullMessage, pulled: Pulled
    ) -> Answer | None:
        result = pulled.result
        self._stats.pulled(
            header.topic,
            header.consumer_group,
            header.queue_id,
            pulled.next_offset,
            result.count,
            result.bytes,
        )
        is_heard = not request.flag & ONEWAY_FLAG
        if result.status is GetStatus.FOUND and request.serialize == JSON and is_heard:
            low, high = result.min_offset, result.max_offset
            at, runs, size = pulled.next_offset, result.runs, result.bytes
            flags = pulled.topic_flag, pulled.group_flag
            peer.send(quick_answers.found(request.opaque, at, low, high, *flags, runs, size))
            return None
        return Answer(
            pulled.code,
            PullMessageAnswer(
                next_begin_offset=pulled.next_offset,
                min_offset=result.min_offset,
                max_offset=result.max_offset,
                topic_sys_flag=pulled.topic_flag,
                group_sys_flag=pulled.group_flag,
            ),
            _told(result.status).name,
            result.runs,
        )


def _told(status: GetStatus) -> GetStatus:
    """Return the status that a consumer is told: a topic's queue is there, if only in RocketMQ."""
    is_new = status is GetStatus.NO_MATCHED_LOGIC_QUEUE
    return GetStatus.NO_MESSAGE_IN_QUEUE if is_new else status


def _forbidden(forbidden: PullForbidden) -> Answer:
    header = PullForbiddenAnswer(forbidden_type=forbidden.kind)
    return Answer(forbidden.code, header, forbidden.remark)
