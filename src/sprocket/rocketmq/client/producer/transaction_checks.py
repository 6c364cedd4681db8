"""What brokers ask of a producer: how a transaction ended of which nobody has said so.

The answer is what the user's function says. One that raises, or does not return in time, has said
nothing, and the broker asks again. So many calls run at once as the settings allow; what is asked
beyond that waits, within limits, and a question that is asked once more replaces the one before it,
since the broker has moved the half message meanwhile.

Source: RocketMQ `ClientRemotingProcessor.checkTransactionState`, `DefaultMQProducerImpl`.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import Struct

from sprocket.base import log
from sprocket.base.errors import InvalidMessage, WireError
from sprocket.base.units import MIB
from sprocket.rocketmq.client.producer.send_traces import SendTraces
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.settings import ProducerSettings
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.headers import CheckTransaction, EndTransaction
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.model.transaction import TransactionState
from sprocket.rocketmq.remoting import Connection, MakeRequest
from sprocket.runtime.driver import Peer
from sprocket.runtime.tasks import Tasks, is_end_of

WAITING_MAX = 2000
"""Questions that may wait, as in Java; brokers ask again what is dropped."""
WAITING_BYTES_MAX = 64 * MIB

Check = Callable[[ReceivedMessage], "TransactionState | Awaitable[TransactionState]"]
"""What a user gives, async or plain: says how the transaction ended that a message belongs to."""

_log = log.get_logger(__name__)


def state_of(told: object) -> TransactionState:
    """Return the state that a user's function gave back.

    Raises:
        InvalidMessage: It gave something else.
    """
    if isinstance(told, TransactionState):
        return told
    raise InvalidMessage(
        f"a transaction's state is {told!r}; return TransactionState.COMMIT, ROLLBACK or UNKNOWN"
    )


class _Question(Struct, frozen=True, gc=False):
    """How did the transaction of this message end?"""

    peer: Peer
    header: CheckTransaction
    message: ReceivedMessage

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return self.message.stored.store_size


class TransactionChecks:
    """Answers for one producer group.

    Args:
        group: The producer's.
        check: What the user gave.
        is_open: Whether the transaction of an id is being worked on here, so that nobody else can
            know how it will end.
        settings: How many calls may run, and for how long.
        tasks: Where they run.
        make_request: Makes the frame of what a broker is told.

    Threads: event loop only.
    """

    def __init__(
        self,
        group: str,
        check: Check,
        is_open: Callable[[str], bool],
        settings: ProducerSettings,
        tasks: Tasks,
        make_request: MakeRequest,
    ) -> None:
        self._make_request = make_request
        self._group = group
        self._check = check
        self._is_open = is_open
        self._settings = settings
        self._tasks = tasks
        self._running: dict[str, _Question] = {}
        """By the id of its message, the newest question of each call that runs."""
        self._waiting: dict[str, _Question] = {}
        self._waiting_bytes = 0
        self.traces: SendTraces | None = None
        """Notes what brokers are told, if that is wanted."""

    def take(self, peer: Peer, command: Command) -> bool:
        """Take CHECK_TRANSACTION_STATE 39; False if it is for another group."""
        try:
            header = command.header(CheckTransaction)
            stored = record.decode(command.body)
        except WireError as error:
            _log.warning("a broker's question cannot be read", peer=str(peer), error=str(error))
            return False
        if stored.properties.get(properties.PRODUCER_GROUP) != self._group:
            return False
        message = ReceivedMessage(stored, MessageQueue(stored.topic, "", stored.queue_id))
        self._ask(message.message_id, _Question(peer, header, message))
        return True

    def _ask(self, number: str, question: _Question) -> None:
        if self._is_open(number):
            _log.info("a transaction goes on here; the broker will ask again", message=number)
        elif number in self._running:
            self._running[number] = question
        elif len(self._running) < self._settings.check_count_max:
            self._begin(number, question)
        else:
            if number in self._waiting:
                self._drop(number)
            is_full = self._waiting_bytes + question.size > WAITING_BYTES_MAX
            if is_full or len(self._waiting) == WAITING_MAX:
                _log.warning("too many checks of transactions wait; one is dropped", message=number)
                return
            self._waiting[number] = question
            self._waiting_bytes += question.size

    def _drop(self, number: str) -> _Question:
        """Take a question out of those that wait."""
        found = self._waiting.pop(number)
        self._waiting_bytes -= found.size
        return found

    def stop(self) -> None:
        """Begin nothing more."""
        self._waiting.clear()

    def _begin(self, number: str, question: _Question) -> None:
        self._running[number] = question
        task = self._tasks.spawn(self._answer(number, question.message), f"check {number}")
        timeout_s = self._settings.check_timeout_ms / 1000
        timer = asyncio.get_running_loop().call_later(timeout_s, self._end_late, task, number)
        task.add_done_callback(partial(self._ended, number, timer))

    def _end_late(self, task: "asyncio.Task[None]", number: str) -> None:
        _log.error(
            "the check of a transaction takes too long; it is cancelled",
            message=number,
            check_timeout_ms=self._settings.check_timeout_ms,
        )
        task.cancel()

    def _ended(self, number: str, timer: asyncio.TimerHandle, _: "asyncio.Task[None]") -> None:
        timer.cancel()
        del self._running[number]
        if self._waiting:
            first = next(iter(self._waiting))
            self._begin(first, self._drop(first))

    async def _answer(self, number: str, message: ReceivedMessage) -> None:
        """Ask the user's function, and tell the broker what it says."""
        state = await self._state_of(number, message)
        question = self._running[number]
        if state is TransactionState.UNKNOWN:
            return  # the broker asks again
        header = question.header
        connection = question.peer.connection
        assert isinstance(connection, Connection)
        told = EndTransaction(
            producer_group=self._group,
            topic=header.topic,
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=state,
            from_transaction_check=True,
            msg_id=number,
            transaction_id=header.transaction_id or number,
        )
        opaque = connection.next_opaque()
        code = RequestCode.END_TRANSACTION
        question.peer.send(self._make_request(code, opaque, told, oneway=True))
        if self.traces is not None:
            self.traces.transaction_ended(
                message, number, state, store_host=str(question.peer), was_asked=True
            )

    async def _state_of(self, number: str, message: ReceivedMessage) -> TransactionState:
        """Return what the user's function says; UNKNOWN if it fails."""
        try:
            told: object = self._check(message)
            if inspect.isawaitable(told):
                told = await told
            return state_of(told)
        except BaseException as error:  # whatever a user's code raises: the broker asks again
            if is_end_of(asyncio.current_task(), error):
                raise
            _log.error(
                "the check of a transaction failed; the broker will ask again",
                message=number,
                exc_info=error,
            )
            return TransactionState.UNKNOWN
