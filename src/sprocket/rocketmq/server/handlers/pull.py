"""Requests that read messages: 11 and, for consumers that pull themselves, 361; long polling.

A pull is run again after it waited, for a message (`broker/hold`), for the disk, or for a message
and then the disk:

    run → nothing new → hold → run → answer
       ↘ not in memory → disk thread reads (`server/cold`) → run, which waits no more → answer
"""

from collections.abc import Callable, Sequence

from sprocket.rocketmq.broker.hold import PullHold
from sprocket.rocketmq.broker.pull import Pulled, Puller, PullForbidden
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.codec import quick_answers
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import ONEWAY_FLAG, Command
from sprocket.rocketmq.codec.frame import JSON
from sprocket.rocketmq.codec.headers import PullMessage, PullMessageAnswer
from sprocket.rocketmq.server.cold import ColdReads
from sprocket.rocketmq.server.dispatch import Answer, Handler, answer, failed
from sprocket.rocketmq.store.commitlog import Range
from sprocket.rocketmq.store.reading import GetStatus
from sprocket.runtime.driver import Peer


class PullHandlers:
    """Pulls: answered at once, or when something arrives, or when the wait is over.

    Args:
        puller: Checks and reads.
        hold: Where pulls wait.
        cold: Reads from the disk, so that the loop does not wait for it.
        stats: Counts what is handed out.
        watch: Is told of connections whose pulls wait.
    """

    def __init__(
        self,
        puller: Puller,
        hold: PullHold,
        cold: ColdReads,
        stats: Stats,
        watch: Callable[[Peer], None],
    ) -> None:
        self._puller = puller
        self._hold = hold
        self._cold = cold
        self._stats = stats
        self._watch = watch

    def table(self) -> dict[int, Handler]:
        """Return the handler of each code."""
        return {
            RequestCode.PULL_MESSAGE: self.pull,
            RequestCode.LITE_PULL_MESSAGE: self.pull,
        }

    def pull(self, peer: Peer, request: Command) -> Answer | None:
        """Answer a pull, or let it wait."""
        header = request.header(PullMessage)
        try:
            pulled = self._puller.pull(header, may_wait=self._cold.may_wait)
        except PullForbidden as forbidden:
            return _forbidden(forbidden)
        if pulled.code == ResponseCode.PULL_NOT_FOUND and not request.is_oneway:
            hold_ms = self._puller.hold_ms(header)
            if hold_ms > 0 and self._hold.hold(
                peer,
                header.topic,
                header.queue_id,
                header.queue_offset,
                pulled.tags,
                hold_ms,
                lambda: self._again(peer, request, header, may_wait=self._cold.may_wait),
            ):
                self._watch(peer)
                return None
        return self._answer(peer, request, header, pulled)

    def _again(self, peer: Peer, request: Command, header: PullMessage, *, may_wait: bool) -> None:
        """Run a pull that waited, and answer whatever it finds."""
        try:
            pulled = self._puller.pull(header, is_first=False, may_wait=may_wait)
            found = self._answer(peer, request, header, pulled)
        except PullForbidden as forbidden:
            found = _forbidden(forbidden)
        except Exception as error:
            found = failed(peer, request, error)
        if found is not None:
            answer(peer, request, found)

    def _answer(
        self, peer: Peer, request: Command, header: PullMessage, pulled: Pulled
    ) -> Answer | None:
        result = pulled.result
        if result.status is GetStatus.NOT_IN_MEMORY:
            self._fetch(peer, request, header, result.missing)
            return None
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
            peer.send(quick_answers.found(request.opaque, at, low, high, runs, size))
            return None
        return Answer(
            pulled.code,
            PullMessageAnswer(
                next_begin_offset=pulled.next_offset,
                min_offset=result.min_offset,
                max_offset=result.max_offset,
            ),
            result.status.name,
            result.runs,
        )

    def _fetch(
        self, peer: Peer, request: Command, header: PullMessage, missing: Sequence[Range]
    ) -> None:
        """Have the disk bring what a pull wants, then run it again, though the disk refused."""
        started = self._stats.monotonic()

        def then() -> None:
            self._stats.waited(started)
            self._again(peer, request, header, may_wait=False)

        self._cold.fetch(missing, then)


def _forbidden(forbidden: PullForbidden) -> Answer:
    return Answer(
        forbidden.code,
        PullMessageAnswer(
            next_begin_offset=0, min_offset=0, max_offset=0, forbidden_type=forbidden.kind
        ),
        forbidden.remark,
    )
