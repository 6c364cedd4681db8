"""How transactions ended: 37, and the question 39 where nobody says so; 323 has it asked anew.

Source: RocketMQ `EndTransactionProcessor`, `AbstractTransactionalMessageCheckListener`,
`AdminBrokerProcessor.resumeCheckHalfMessage`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sprocket.base.errors import StoreError
from sprocket.rocketmq.broker.groups import Link
from sprocket.rocketmq.broker.messages import DurableAppender, Release
from sprocket.rocketmq.broker.transactions import StoredHalf, Transactions
from sprocket.rocketmq.codec import command, quick_answers
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import ONEWAY_FLAG
from sprocket.rocketmq.codec.frame import JSON, Buffer
from sprocket.rocketmq.codec.headers import CheckTransaction, EndTransaction, ResumeCheck
from sprocket.rocketmq.codec.record import ids, properties, record
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.rights import Action
from sprocket.rocketmq.model.transaction import (
    Outcome,
    TransactionEnd,
    TransactionQuestion,
    TransactionState,
)
from sprocket.rocketmq.remoting import Connection
from sprocket.rocketmq.server.dispatch import (
    Answer,
    Request,
    Row,
    busy,
    encoded,
    failed,
    row,
    sending,
    sending_each,
)
from sprocket.rocketmq.store.log import AppendedBatch
from sprocket.runtime.cold_reads import ColdReads
from sprocket.runtime.driver import Peer

OUTCOMES: Mapping[int, Outcome] = {
    TransactionState.COMMIT: Outcome.COMMIT,
    TransactionState.ROLLBACK: Outcome.ROLLBACK,
}
"""What `commitOrRollback` says."""


@dataclass(frozen=True, slots=True)
class TransactionHandlers:
    """What producers say of their transactions."""

    _transactions: Transactions
    _durable: DurableAppender
    _reads: ColdReads

    def rows(self) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.END_TRANSACTION, EndTransaction, self.end),
            row(RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheck, self.resume, self._reads),
        ]

    def end(self, request: Request, header: EndTransaction) -> None:
        """Commit or roll back.

        Where nobody knows how it ended nothing is done; RocketMQ does not even answer that.
        """
        outcome = OUTCOMES.get(header.commit_or_rollback)
        if outcome is None:
            request.answer(_unknown(header.commit_or_rollback))
            return
        if self._durable.pressure.is_full:
            raise busy()
        half = self._transactions.find_recent(header)
        if half is not None:
            self._end(request, half, outcome)
            return
        self._reads.run(partial(self._find_and_end, request, header, outcome), request.fail)

    def _find_and_end(self, request: Request, asked: TransactionEnd, outcome: Outcome) -> None:
        self._end(request, self._transactions.find(asked), outcome)

    def _end(self, request: Request, half: StoredHalf, outcome: Outcome) -> None:
        if request.command.signer is not None:
            request.check_topic(half.real_topic, Action.PUB)
        self._transactions.end(half, outcome, _ended, request)

    def resume(self, request: Request, header: ResumeCheck) -> None:
        """Have it asked again how a transaction ended that was given up."""
        half = self._transactions.resume(header.msg_id or "")
        real_topic = properties.find(half.properties, properties.REAL_TOPIC)
        request.check_topic(real_topic or "", Action.UPDATE)
        self._durable.append([half], _resumed, [request])


def _unknown(number: int) -> Answer:
    """Return the answer to who does not say how it ended.

    Raises:
        Refused: OTHER; the number stands for nothing.
    """
    if number != TransactionState.UNKNOWN:
        raise Refused(
            Refusal.OTHER, f"commitOrRollback is {number}; expected 8 (commit), 12 (roll back) or 0"
        )
    return Answer()


def _ended(asked: Sequence[object], error: Exception | None) -> Release:
    """Make the answers to those whose transactions ended together, or did not."""
    ready: defaultdict[Peer, list[Buffer]] = defaultdict(list)
    for request in asked:
        assert isinstance(request, Request)
        said = request.command
        if error is not None or said.serialize != JSON:
            found = Answer() if error is None else failed(request.peer, said, error)
            ready[request.peer] += encoded(said, found)
        elif not said.flag & ONEWAY_FLAG:
            ready[request.peer].append(quick_answers.done(said.opaque))
    return sending_each(ready)


def _resumed(
    asked: Sequence[Request], _: AppendedBatch | None, error: StoreError | None
) -> Release | None:
    (request,) = asked
    found = Answer() if error is None else failed(request.peer, request.command, error)
    return sending(request.peer, encoded(request.command, found))


def ask_producer(link: Link, question: TransactionQuestion) -> None:
    """Ask a producer how its transaction ended; the half message comes as it would be consumed."""
    assert isinstance(link, Peer)
    assert isinstance(link.connection, Connection)
    message = question.message
    body = record.encode(
        message,
        queue_offset=question.half_offset,
        physical_offset=question.place,
        stored_at_ms=question.stored_at_ms,
        crc_tail=False,
    )
    header = CheckTransaction(
        topic=message.topic,
        tran_state_table_offset=question.half_offset,
        commit_log_offset=question.place,
        msg_id=question.message_id,
        transaction_id=question.message_id,
        offset_msg_id=ids.offset_message_id(message.store_host, question.place),
    )
    code, opaque = RequestCode.CHECK_TRANSACTION_STATE, link.connection.next_opaque()
    link.send(command.request(code, opaque, header, body, oneway=True))
