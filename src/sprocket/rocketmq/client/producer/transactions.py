"""Messages that become visible when a transaction of their sender's commits, and not before.

    sender          broker                    sender's database
      │──half message──▶│ hidden
      │                 │                           │
      │──────────── insert, commit ────────────────▶│
      │──commit────────▶│ visible to consumers      │

A sender that dies between the two is asked later, or another of its group is: its *check* looks
into the database and says what became of the transaction.

Source: RocketMQ `TransactionMQProducer`, `DefaultMQProducerImpl.sendMessageInTransaction`.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Self, Unpack
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from sprocket.base import log
from sprocket.base.errors import BrokerRefused, ClientError, InvalidMessage, WireError
from sprocket.rocketmq.client.network import ClientInstance, ClientOptions, Lease, Where, read
from sprocket.rocketmq.client.producer.outgoing import TIMERS, SendResult, SendStatus
from sprocket.rocketmq.client.producer.place import Selector
from sprocket.rocketmq.client.producer.producer import Producer
from sprocket.rocketmq.client.producer.transaction_checks import (
    Check,
    TransactionChecks,
    state_of,
)
from sprocket.rocketmq.client.settings import ProducerSettings
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.headers import EndTransaction
from sprocket.rocketmq.codec.record import ids, properties
from sprocket.rocketmq.model.message import Message
from sprocket.rocketmq.model.route import MASTER_ID, ClusterInfo, MessageQueue
from sprocket.rocketmq.model.transaction import TransactionState

_log = log.get_logger(__name__)


class TransactionResult(Struct, frozen=True, gc=False):
    """What became of a message that was sent in a transaction.

    Attributes:
        sent: What the broker said of the half message.
        state: How the transaction ended, as far as its sender knows.
        is_confirmed: Whether the broker has said that it stored the end; if not, it asks.
    """

    sent: SendResult
    state: TransactionState
    is_confirmed: bool


class Transaction:
    """A message that waits at the broker, hidden, until `commit` or `rollback`.

    While somebody holds it and it has not ended, its producer has the broker wait; once it is left,
    or nobody holds it any more, the producer's check says how it ended.
    """

    def __init__(self, message: Message, sent: SendResult, owner: "TransactionProducer") -> None:
        self.message = message
        """What is sent."""
        self.sent = sent
        """What the broker said of the half message."""
        self.state = TransactionState.UNKNOWN
        """How it has ended; UNKNOWN while it has not."""
        self._owner = owner

    @property
    def message_id(self) -> str:
        """The message's id, which is also the transaction's: consumers and the check see it."""
        return self.sent.message_id

    async def commit(self) -> bool:
        """Make the message visible to consumers.

        Returns:
            Whether the broker has confirmed it. If it has not, that was logged, and the broker asks
            the producer's check.

        Raises:
            ClientError: The transaction has ended already.
        """
        return await self._end(TransactionState.COMMIT)

    async def rollback(self) -> bool:
        """Drop the message; as `commit`."""
        return await self._end(TransactionState.ROLLBACK)

    def leave(self) -> None:
        """Say nothing of how it ends: the broker asks the producer's check."""
        self._owner._open.pop(self.message_id, None)

    async def finish(self, state: TransactionState) -> "TransactionResult":
        """Commit, roll back or leave it, as a state says."""
        is_confirmed = False
        if state is TransactionState.UNKNOWN:
            self.leave()
        else:
            is_confirmed = await self._end(state)
        return TransactionResult(self.sent, state, is_confirmed)

    async def _end(self, state: TransactionState) -> bool:
        if self.state is not TransactionState.UNKNOWN:
            raise ClientError(
                f"transaction {self.message_id} has ended already, by {self.state.name}"
            )
        self.state = state
        return await self._owner._tell(self)


LocalWork = Callable[[Transaction], "TransactionState | Awaitable[TransactionState]"]
"""What a user gives, async or plain: does the transaction's own work, and says how it ended."""


class TransactionProducer:
    """Sends messages that consumers see only if a transaction of the sender's commits.

        async def order(transaction: Transaction) -> TransactionState:
            await database.insert(transaction.message_id, ...)
            return TransactionState.COMMIT

        async def check(message: ReceivedMessage) -> TransactionState:
            is_there = await database.has(message.message_id)
            return TransactionState.COMMIT if is_there else TransactionState.ROLLBACK

        async with TransactionProducer("127.0.0.1:9876", group="orders", check=check) as producer:
            await producer.send(Message("orders", b"42 bolts"), order)

    Brokers ask any producer of the group, so all of a group need the same check, and the group
    keeps its name when the program is started again. They ask about what they have heard nothing of
    for `transactions.timeout_ms`, 6 s unless they are set otherwise, or for as many seconds as the
    message's property `CHECK_IMMUNITY_TIME_IN_SECONDS` says.

    Args:
        where: NameServers, `host:port`, several joined by `;` or in a sequence; or a `Client`
            that others use too.
        group: Name of the producer group.
        check: Says how the transaction ended that a message belongs to. It says UNKNOWN if that can
            still change. One that raises, or takes longer than `check_timeout_ms`, has said
            nothing, and is called again later. A plain function runs on the event loop and must not
            block it.
        settings: As of a `Producer`; and how many checks may run, and for how long.
        options: `client`, the `ClientSettings` of a client of its own.

    Threads: event loop only; see `client.blocking` for programs without one.
    """

    def __init__(
        self,
        where: Where,
        *,
        group: str,
        check: Check,
        settings: ProducerSettings | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        if not callable(check):
            raise InvalidMessage(f"check is {check!r}; expected a function of a message")
        self._group = group
        self._check = check
        self._settings = settings or ProducerSettings()
        self._lease = Lease("transaction producer", where, options)
        self._producer = Producer(self._lease.client, group=group, settings=self._settings)
        self._checks: TransactionChecks | None = None
        self._open: WeakValueDictionary[str, Transaction] = WeakValueDictionary()
        self._begun: set[str] = set()
        """The ids of half messages that are on their way, or whose answer has not been seen."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(flush=kind is None or not issubclass(kind, asyncio.CancelledError))

    async def start(self) -> None:
        """Begin, and make the group known to all brokers, so that they can ask.

        Raises:
            ClientError: The client that is shared has a producer of this group.
        """
        instance = self._lease.begin()
        try:
            await self._producer.start()
        except BaseException:
            await self._lease.end()
            raise
        self._checks = TransactionChecks(
            self._group,
            self._check,
            self._is_open,
            self._settings,
            self._lease.tasks,
            instance.connections.make_request,
        )
        self._checks.traces = self._producer._traces
        self._lease.watch(instance.on_check, self._checks.take)
        self._lease.tasks.spawn(self._be_known(instance), "be known to brokers")

    async def close(self, *, flush: bool = True) -> None:
        """End the checks that run, and take leave of the brokers; may be called again.

        Brokers ask others of the group, or the next program, about transactions that have not
        ended.

        Args:
            flush: False gives up the half messages that are not answered yet.
        """
        await self._producer.close(flush=flush)
        if self._checks is not None:
            self._checks.stop()
        await self._lease.end()

    async def send(
        self,
        message: Message,
        work: LocalWork,
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> TransactionResult:
        """Send a message, do some work, and commit or roll back as that says.

        Args:
            message: What to send; without a delay.
            work: Does the transaction's own work and says how it ended; async or plain. If it says
                UNKNOWN, the producer's check is asked later.
            sharding_key: As for `Producer.send`, as the others.
            queue: Where it goes when it commits.
            selector: Chooses that.
            timeout_ms: Deadline for the half message.

        Raises:
            InvalidMessage: The message breaks a rule, and was not sent; or the work gave something
                else than a state.
            BrokerRefused: The broker did not take the half message, or has stored it, but not as
                safely as it should, and it was rolled back; the work was not done.
            ClientError: The half message was not stored, as for `Producer.send`; the work was not
                done.
            BaseException: What the work raises. Nobody knows what it did by then, so the
                transaction is neither committed nor rolled back: the check is asked later.
        """
        transaction = await self.begin(
            message,
            sharding_key=sharding_key,
            queue=queue,
            selector=selector,
            timeout_ms=timeout_ms,
        )
        try:
            told: object = work(transaction)
            if inspect.isawaitable(told):
                told = await told
            state = state_of(told)
        except BaseException:
            transaction.leave()
            raise
        return await transaction.finish(state)

    async def begin(
        self,
        message: Message,
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> Transaction:
        """Send a half message; its transaction ends with `commit` or `rollback` of what is given.

        Arguments and errors as for `send`.
        """
        half, number = self._half(message)
        self._begun.add(number)  # a broker may ask before its answer has been seen
        try:
            sent = await self._producer.send(
                half,
                sharding_key=sharding_key,
                queue=queue,
                selector=selector,
                timeout_ms=timeout_ms,
            )
            transaction = Transaction(message, sent, self)
            self._open[sent.message_id] = transaction
        finally:
            self._begun.discard(number)
        if sent.status is not SendStatus.OK:
            await transaction.rollback()
            raise BrokerRefused(
                sent.status,
                f"{sent.queue.broker_name} stored half message {sent.message_id}, but with"
                f" {sent.status.name}; it was rolled back",
            )
        return transaction

    def _half(self, message: Message) -> tuple[Message, str]:
        """Return a message as one that belongs to a transaction, and its id."""
        if not isinstance(message, Message) or not isinstance(message.properties, dict):
            return message, ""  # the producer says what is wrong
        is_timed = message.delay_ms or message.deliver_at_ms
        if message.delay_level or is_timed or not TIMERS.isdisjoint(message.properties):
            raise InvalidMessage(
                "a message of a transaction cannot be delayed as well: its delay would begin at a"
                " commit of which nobody knows when it comes"
            )
        own = message.properties
        number = own.get(properties.UNIQ_KEY) or self._producer._new_id()
        marks = {
            properties.UNIQ_KEY: number,
            properties.TRAN_MSG: "true",
            properties.PRODUCER_GROUP: self._group,
        }
        half = replace(message, properties={**own, **marks})
        return half, number if isinstance(number, str) else ""  # which the producer refuses

    def _is_open(self, message_id: str) -> bool:
        found = self._open.get(message_id)
        is_worked_on = found is not None and found.state is TransactionState.UNKNOWN
        return is_worked_on or message_id in self._begun

    async def _tell(self, transaction: Transaction) -> bool:
        """Tell the broker how a transaction has ended; say whether it has confirmed it."""
        sent = transaction.sent
        try:
            _, place = ids.split_offset_message_id(sent.offset_message_id)
            header = EndTransaction(
                producer_group=self._group,
                topic=transaction.message.topic,
                tran_state_table_offset=sent.queue_offset,
                commit_log_offset=place,
                commit_or_rollback=transaction.state,
                msg_id=sent.message_id,
                transaction_id=sent.message_id,
            )
            instance = self._lease.instance
            address = instance.routes.require_master(sent.queue.broker_name)
            if (traces := self._producer._traces) is not None:
                traces.transaction_ended(
                    *(transaction.message, sent.message_id, transaction.state),
                    store_host=address,
                    was_asked=False,
                )
            await instance.connections.call(address, RequestCode.END_TRANSACTION, header)
        except (ClientError, WireError) as error:
            _log.warning(
                "the end of a transaction is not confirmed; the broker will ask",
                message=sent.message_id,
                state=transaction.state.name,
                error=str(error),
            )
            return False
        return True

    async def _be_known(self, instance: ClientInstance) -> None:
        """Introduce the group to every broker, also to those that nothing was sent to.

        Those of routes in use get heartbeats anyway.
        """
        while True:
            try:
                await self._introduce(instance)
            except ClientError as error:
                _log.warning("brokers not found; they cannot ask us", error=str(error))
            await asyncio.sleep(instance.settings.heartbeat_ms / 1000)

    async def _introduce(self, instance: ClientInstance) -> None:
        command = await instance.names.call(RequestCode.GET_BROKER_CLUSTER_INFO)
        info = read("the NameServer", lambda: bodies.decode(ClusterInfo, command.body))
        every = (one.addresses.get(MASTER_ID) for one in info.brokers.values())
        masters = {address for address in every if address is not None}
        routed = masters.intersection(instance.routes.broker_addresses(masters_only=True))
        async with asyncio.TaskGroup() as group:
            for address in routed:
                group.create_task(instance.be_known_as_producer(self._group, address))
            for address in masters - routed:
                group.create_task(instance.heartbeat(address))
