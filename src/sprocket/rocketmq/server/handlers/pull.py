"""Requests that read messages: 11 and, for consumers that pull themselves, 361; long polling."""

from collections.abc import Callable

from sprocket.rocketmq.broker.hold import PullHold
from sprocket.rocketmq.broker.pull import Pulled, Puller, PullForbidden
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.codec import quick_answers
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.frame import JSON
from sprocket.rocketmq.codec.headers import PullMessage, PullMessageAnswer
from sprocket.rocketmq.server.dispatch import Answer, Handler, answer, failed
from sprocket.rocketmq.store.read import GetResult, GetStatus
from sprocket.runtime.driver import Peer
from sprocket.runtime.offload import DiskThread

PAGE_BYTES = 4096

COLD_READS_MAX = 64
"""Reads that may wait for the disk thread; further ones are answered on the loop."""


class PullHandlers:
    """Pulls: answered at once, or when something arrives, or when the wait is over.

    Args:
        puller: Checks and reads.
        hold: Where pulls wait.
        thread: Reads pages from the disk, so that the loop does not wait for them.
        stats: Counts what is handed out.
        watch: Is told of connections whose pulls wait.
    """

    def __init__(
        self,
        puller: Puller,
        hold: PullHold,
        thread: DiskThread,
        stats: Stats,
        watch: Callable[[Peer], None],
    ) -> None:
        self._puller = puller
        self._hold = hold
        self._thread = thread
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
            pulled = self._puller.pull(header)
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
                lambda: self._again(peer, request, header),
            ):
                self._watch(peer)
                return None
        return self._answer(peer, request, header, pulled)

    def _again(self, peer: Peer, request: Command, header: PullMessage) -> None:
        """Run a pull that waited, and answer whatever it finds."""
        try:
            pulled = self._puller.pull(header, is_first=False)
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
        self._stats.pulled(
            header.topic,
            header.consumer_group,
            header.queue_id,
            pulled.next_offset,
            result.count,
            result.bytes,
        )
        if (
            result.status is GetStatus.FOUND
            and request.serialize == JSON
            and not request.is_oneway
            and not self._must_wait(result)
        ):
            low, high = result.min_offset, result.max_offset
            at, runs, size = pulled.next_offset, result.runs, result.bytes
            peer.send(quick_answers.found(request.opaque, at, low, high, runs, size))
            return None
        found = Answer(
            pulled.code,
            PullMessageAnswer(
                next_begin_offset=pulled.next_offset,
                min_offset=result.min_offset,
                max_offset=result.max_offset,
            ),
            result.status.name,
            result.runs,
        )
        if not self._must_wait(result):
            return found
        # The pages have to come from the disk, which the loop must not wait for. The thread touches
        # them, then they are sent.
        runs = result.runs
        started = self._stats.monotonic()

        def done(_: object, __: BaseException | None) -> None:
            self._stats.waited(started)
            answer(peer, request, found)

        self._thread.submit(lambda: _touch(runs), done)
        return None

    def _must_wait(self, result: GetResult) -> bool:
        """Say whether the disk has to bring what was found, and may be asked to."""
        return result.is_cold and self._thread.waiting_count < COLD_READS_MAX


def _touch(runs: list[memoryview]) -> int:
    """Read one byte of every page, so that sending does not wait for the disk."""
    return sum([sum(run[::PAGE_BYTES]) + run[-1] for run in runs])


def _forbidden(forbidden: PullForbidden) -> Answer:
    return Answer(
        forbidden.code,
        PullMessageAnswer(
            next_begin_offset=0, min_offset=0, max_offset=0, forbidden_type=forbidden.kind
        ),
        forbidden.remark,
    )
