"""How transactions ended, as producers of gRPC say it; and messages that they take back.

Source: RocketMQ `EndTransactionActivity`, `RecallMessageActivity`. The proxy does not wait for what
the broker says of an end, and answers OK also where that refuses it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from sprocket.base.errors import StoreError
from sprocket.rocketmq.broker.messages import DurableAppender, Recalls, Release
from sprocket.rocketmq.broker.transactions import StoredHalf, Transactions
from sprocket.rocketmq.codec.grpc import transaction_id
from sprocket.rocketmq.codec.grpc.checks import check_topic
from sprocket.rocketmq.codec.grpc.messages import (
    EndTransactionRequest,
    EndTransactionResponse,
    RecallMessageRequest,
    RecallMessageResponse,
)
from sprocket.rocketmq.codec.grpc.status import Code, Declined
from sprocket.rocketmq.model.recall import RecallRequest
from sprocket.rocketmq.model.transaction import Outcome, TransactionEnd
from sprocket.rocketmq.server.grpc.calls import OK, Buffer, ClientCall, status_of
from sprocket.rocketmq.server.grpc.dispatch import busy
from sprocket.rocketmq.store.log import AppendedBatch
from sprocket.runtime.cold_reads import ColdReads
from sprocket.runtime.driver import Peer

EndCall = ClientCall[EndTransactionRequest, EndTransactionResponse]
RecallCall = ClientCall[RecallMessageRequest, RecallMessageResponse]

OUTCOMES: Final[Mapping[int, Outcome]] = {1: Outcome.COMMIT, 2: Outcome.ROLLBACK}
"""By the numbers of TransactionResolution."""
SERVER_CHECK: Final = 2


@dataclass(frozen=True, slots=True)
class GrpcTransactions:
    """Ends transactions, and takes messages back."""

    _transactions: Transactions
    _recalls: Recalls
    _durable: DurableAppender
    _reads: ColdReads

    def end(self, call: EndCall) -> None:
        """Commit or roll back; an unknown end changes nothing. Raises Declined."""
        request = call.request
        topic = call.name(request.topic)
        check_topic(topic)
        said = transaction_id.decode(request.transaction_id)
        outcome = OUTCOMES.get(request.resolution)
        if outcome is None:
            call.answer(EndTransactionResponse(status=OK))
            return
        if self._durable.pressure.is_full:
            raise busy()
        asked = TransactionEnd(
            producer_group=topic,
            tran_state_table_offset=said.half_offset,
            commit_log_offset=said.place,
            from_transaction_check=request.source == SERVER_CHECK,
        )
        half = self._transactions.find_recent(asked)
        if half is not None:
            self._end(call, half, outcome)
            return
        self._reads.run(partial(self._find_and_end, call, asked, outcome), call.fail)

    def _find_and_end(self, call: EndCall, asked: TransactionEnd, outcome: Outcome) -> None:
        self._end(call, self._transactions.find(asked), outcome)

    def _end(self, call: EndCall, half: StoredHalf, outcome: Outcome) -> None:
        topic = call.name(call.request.topic)
        if half.real_topic != topic:
            raise Declined(
                Code.INVALID_TRANSACTION_ID, f"that is not a transaction of topic {topic}"
            )
        self._transactions.end(half, outcome, _ended, call)

    def recall(self, call: RecallCall) -> None:
        """Store what takes a message back. Raises Declined, Refused."""
        if self._durable.pressure.is_full:
            raise busy()
        topic = call.name(call.request.topic)
        check_topic(topic)
        asked = RecallRequest(topic=topic, recall_handle=call.request.recall_handle)
        record = self._recalls.record(asked, call.address)
        self._durable.append([record], _recalled, [(call, record.unique_key)])


def _ended(asked: Sequence[object], error: Exception | None) -> Release:
    """Prepare the answers to those whose transactions ended together, or did not."""
    said = OK if error is None else status_of(error)
    data = EndTransactionResponse(status=said).SerializeToString()
    calls = [call for call in asked if isinstance(call, ClientCall)]
    return partial(_answer_alike, calls, data)


def _answer_alike(calls: Sequence[EndCall], data: bytes) -> None:
    ready: defaultdict[Peer, list[Buffer]] = defaultdict(list)
    for call in calls:
        ready[call.peer] += call.encoded(data)
    for peer, buffers in ready.items():
        if buffers:
            peer.send_now(buffers)


def _recalled(
    asked: Sequence[tuple[RecallCall, str]], stored: AppendedBatch | None, error: StoreError | None
) -> Release | None:
    ((call, message_id),) = asked
    if stored is None or error is not None:
        said = status_of(error or StoreError("nothing was stored"))
        return partial(call.answer, RecallMessageResponse(status=said))
    return partial(call.answer, RecallMessageResponse(status=OK, message_id=message_id))
