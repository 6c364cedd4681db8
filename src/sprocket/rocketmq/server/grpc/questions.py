"""Questions to clients, on the streams that they keep open, and what they answer.

    asked, with a number of its own ── the answer that has the number, or its time is over ── told

Clients answer them that know them: the SDK for Java knows all, that for Python only those about
transactions, whose answer is a call.

Source: RocketMQ `GrpcClientChannel`, `ClientActivity.reportThreadStackTrace`,
`ClientActivity.reportVerifyMessageResult`.
"""

from collections.abc import Callable
from itertools import count
from typing import Final

from msgspec import Struct

from sprocket.rocketmq.codec.grpc import transaction_id
from sprocket.rocketmq.codec.grpc.message_in import MessageType
from sprocket.rocketmq.codec.grpc.message_out import message as message_out
from sprocket.rocketmq.codec.grpc.messages import (
    PrintThreadStackTraceCommand,
    RecoverOrphanedTransactionCommand,
    TelemetryCommand,
    VerifyMessageCommand,
)
from sprocket.rocketmq.codec.grpc.status import Code
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.rocketmq.model.transaction import TransactionQuestion
from sprocket.rocketmq.server.client_links import Answered, ClientAnswer
from sprocket.rocketmq.server.grpc.calls import ClientCall
from sprocket.runtime.timers import Timer, Timers

TelemetryCall = ClientCall[TelemetryCommand, TelemetryCommand]

ANSWERS: Final = frozenset({"thread_stack_trace", "verify_message_result"})
"""Commands of clients that answer something."""
ANSWER_SECONDS: Final = 10.0
WAITING_MAX: Final = 1_000


class _Asked(Struct, frozen=True):
    """A question that has no answer yet."""

    answered: Answered
    timer: Timer


class Questions:
    """Those that wait for an answer.

    Args:
        timers: The event loop's.

    Threads: event loop only.
    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._waiting: dict[str, _Asked] = {}
        self._numbers = count(1)

    def ask(
        self,
        call: TelemetryCall | None,
        command: Callable[[str], TelemetryCommand],
        answered: Answered,
    ) -> None:
        """Ask something.

        Args:
            call: The stream of the client; None if it has none.
            command: Makes the question, with its number.
            answered: Told the answer.
        """
        if call is None or len(self._waiting) >= WAITING_MAX:
            answered(None)
            return
        nonce = f"{next(self._numbers)}"
        timer = self._timers.call_later(ANSWER_SECONDS, lambda: self._end(nonce, None))
        self._waiting[nonce] = _Asked(answered, timer)
        call.give(command(nonce))

    def answered(self, command: TelemetryCommand) -> None:
        """Take an answer; one that comes too late changes nothing."""
        is_success = not command.HasField("status") or command.status.code == Code.OK
        text = command.status.message
        if command.WhichOneof("command") == "thread_stack_trace":
            nonce = command.thread_stack_trace.nonce
            text = command.thread_stack_trace.thread_stack_trace or text
        else:
            nonce = command.verify_message_result.nonce
        self._end(nonce, ClientAnswer(is_success, text))

    def end_all(self) -> None:
        """Tell all who wait that no answer will come."""
        for nonce in [*self._waiting]:
            self._end(nonce, None)

    def _end(self, nonce: str, answer: ClientAnswer | None) -> None:
        asked = self._waiting.pop(nonce, None)
        if asked is not None:
            asked.timer.cancel()
            asked.answered(answer)


def threads_command(nonce: str) -> TelemetryCommand:
    """Return the question what the threads of a client are at."""
    asked = PrintThreadStackTraceCommand(nonce=nonce)
    return TelemetryCommand(print_thread_stack_trace_command=asked)


def verify_command(message: StoredMessage, nonce: str) -> TelemetryCommand:
    """Return the request that a listener try a message."""
    asked = VerifyMessageCommand(nonce=nonce, message=message_out(message, message.topic))
    return TelemetryCommand(verify_message_command=asked)


def transaction_command(question: TransactionQuestion) -> TelemetryCommand:
    """Return the question how a transaction ended."""
    stored = record.decode(
        record.encode(
            question.message,
            queue_offset=question.half_offset,
            physical_offset=question.place,
            stored_at_ms=question.stored_at_ms,
            crc_tail=False,
        )
    )
    message = message_out(stored, stored.topic)
    message.system_properties.message_type = MessageType.TRANSACTION
    told = transaction_id.encode(question.message_id, question.half_offset, question.place)
    return TelemetryCommand(
        recover_orphaned_transaction_command=RecoverOrphanedTransactionCommand(
            message=message, transaction_id=told
        )
    )
