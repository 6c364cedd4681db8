"""Requests whose handlers read what may be on the disk only; see `runtime.cold_reads`."""

from collections.abc import Mapping

from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.remoting import Handler, answer, failed
from sprocket.runtime.cold_reads import ColdReads
from sprocket.runtime.driver import Peer

READING_CODES = frozenset(
    {
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        RequestCode.GET_EARLIEST_MSG_STORETIME,
        RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.QUERY_MESSAGE,
        RequestCode.VIEW_MESSAGE_BY_ID,
        RequestCode.QUERY_CONSUME_QUEUE,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        RequestCode.GET_TOPIC_STATS_INFO,
        RequestCode.QUERY_CONSUME_TIME_SPAN,
        RequestCode.GET_BROKER_RUNTIME_INFO,
    }
)
"""Their handlers read queue units, index or log, and change nothing before they have. Pulls, which
wait for messages as well, see to it themselves, and so does what is answered in slices."""


def reading(handlers: Mapping[int, Handler], reads: ColdReads) -> dict[int, Handler]:
    """Return handlers that are begun again when the disk has brought what they lacked.

    Args:
        handlers: By code; those that read are wrapped, all others as they are.
        reads: Asks the disk.
    """
    return {
        code: _Reading(handler, reads) if code in READING_CODES else handler
        for code, handler in handlers.items()
    }


class _Reading:
    """A handler that reads."""

    def __init__(self, handler: Handler, reads: ColdReads) -> None:
        self._handler = handler
        self._reads = reads

    def __call__(self, peer: Peer, request: Command) -> None:
        def work() -> None:
            found = self._handler(peer, request)
            if found is not None:
                answer(peer, request, found)

        self._reads.run(work, lambda error: answer(peer, request, failed(peer, request, error)))
