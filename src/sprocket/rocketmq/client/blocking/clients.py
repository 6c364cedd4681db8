"""The wrappers of what sends and receives messages, for programs without an event loop."""

from collections.abc import Callable, Iterator
from typing import Unpack

from sprocket.rocketmq.client.blocking.listener_threads import Listener, ListenerThreads
from sprocket.rocketmq.client.blocking.wrapper import (
    OpenedWrapper,
    Where,
    Wrapper,
    beginning,
    calling,
    doing,
)
from sprocket.rocketmq.client.consumer import (
    ConsumerOptions,
    LitePullConsumer,
    Puller,
    PushConsumer,
    PushOptions,
)
from sprocket.rocketmq.client.network import ClientOptions
from sprocket.rocketmq.client.producer import (
    PackedBatch,
    Producer,
    Selector,
    SendResult,
    Transaction,
    TransactionProducer,
    TransactionResult,
    state_of,
)
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.settings import ProducerSettings
from sprocket.rocketmq.model.message import Message
from sprocket.rocketmq.model.route import MessageQueue, Replica
from sprocket.rocketmq.model.transaction import TransactionState
from sprocket.runtime.blocking import ThreadFuture, for_threads


class BlockingProducer(OpenedWrapper[Producer]):
    """Sends messages to topics; see `client.Producer`."""

    def __init__(
        self,
        where: Where,
        *,
        group: str = "sprocket-producer",
        settings: ProducerSettings | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(
            "producer",
            where,
            lambda at: Producer(at, group=group, settings=settings, **options),
        )

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(flush=kind is None or not issubclass(kind, KeyboardInterrupt))

    def close(self, *, flush: bool = True) -> None:
        """Wait for the outcome of every accepted message, then take leave of the brokers.

        May be called again. Ctrl-C ends a `with` as cancelling ends an `async with`: by False.

        Args:
            flush: False gives up the messages that are not answered yet.
        """
        self._run.close(lambda: self._awaited.close(flush=flush))

    @property
    def unanswered(self) -> int:
        """Messages that were accepted and whose outcome is not known yet."""
        return self._run.read(lambda: self._awaited.unanswered)

    @property
    def is_full(self) -> bool:
        """Whether as much is unanswered as the settings allow; `send_soon` waits before that."""
        return self._run.read(lambda: self._awaited.is_full)

    send = calling(Producer.send)
    send_batch = calling(Producer.send_batch)
    send_oneway = calling(Producer.send_oneway)
    request = calling(Producer.request)
    recall = calling(Producer.recall)
    drain = calling(Producer.drain)
    queues = calling(Producer.queues)
    flush = calling(Producer.flush)

    def send_soon(
        self,
        message: Message,
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> ThreadFuture[SendResult]:
        """Accept one message and return a future of its result.

        Waits only while more than three quarters of what the settings allow is unanswered, so no
        `drain` is needed before it.
        """

        async def accept() -> ThreadFuture[SendResult]:
            await self._awaited.drain()
            return for_threads(
                self._awaited.send_soon(
                    message,
                    sharding_key=sharding_key,
                    queue=queue,
                    selector=selector,
                    timeout_ms=timeout_ms,
                )
            )

        return self._run.call(accept)

    def send_packed(
        self,
        packed: PackedBatch,
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> ThreadFuture[list[SendResult]]:
        """Accept messages that are a batch body already; waits for room as `send_soon` does."""

        async def accept() -> ThreadFuture[list[SendResult]]:
            await self._awaited.drain()
            return for_threads(
                self._awaited.send_packed(packed, queue=queue, timeout_ms=timeout_ms)
            )

        return self._run.call(accept)


class BlockingTransaction(Wrapper[Transaction]):
    """A message that waits at the broker, hidden; see `client.Transaction`."""

    @property
    def message(self) -> Message:
        """What is sent."""
        return self._awaited.message

    @property
    def sent(self) -> SendResult:
        """What the broker said of the half message."""
        return self._awaited.sent

    @property
    def state(self) -> TransactionState:
        """How it has ended; UNKNOWN while it has not."""
        return self._awaited.state

    @property
    def message_id(self) -> str:
        """The message's id, which is also the transaction's: consumers and the check see it."""
        return self._awaited.message_id

    commit = calling(Transaction.commit)
    rollback = calling(Transaction.rollback)
    leave = doing(Transaction.leave)
    finish = calling(Transaction.finish)


class BlockingTransactionProducer(OpenedWrapper[TransactionProducer]):
    """Sends messages that consumers see only if a transaction commits.

    See `client.TransactionProducer`. The check is a plain function; it runs in one of
    `settings.check_count_max` threads and may block.
    """

    def __init__(
        self,
        where: Where,
        *,
        group: str,
        check: Callable[[ReceivedMessage], TransactionState],
        settings: ProducerSettings | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        count_max = (settings or ProducerSettings()).check_count_max
        self._threads = threads = ListenerThreads(check, count_max)
        super().__init__(
            "transaction producer",
            where,
            lambda at: TransactionProducer(
                at, group=group, check=threads.call, settings=settings, **options
            ),
        )

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(flush=kind is None or not issubclass(kind, KeyboardInterrupt))

    def close(self, *, flush: bool = True) -> None:
        """End the checks that run, and take leave of the brokers; may be called again.

        Ctrl-C ends a `with` as cancelling ends an `async with`: by False.

        Args:
            flush: False gives up the half messages that are not answered yet.
        """

        async def end() -> None:
            await self._awaited.close(flush=flush)
            await self._threads.close()

        self._run.close(end)

    def send(
        self,
        message: Message,
        work: Callable[[BlockingTransaction], TransactionState],
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> TransactionResult:
        """Send a message, do some work in this thread, and commit or roll back as that says.

        See `client.TransactionProducer.send`.
        """
        transaction = self.begin(
            message,
            sharding_key=sharding_key,
            queue=queue,
            selector=selector,
            timeout_ms=timeout_ms,
        )
        try:
            state = state_of(work(transaction))
        except BaseException:
            transaction.leave()
            raise
        return transaction.finish(state)

    def begin(
        self,
        message: Message,
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> BlockingTransaction:
        """Send a half message; its transaction ends with `commit` or `rollback` of what is given.

        See `client.TransactionProducer.begin`.
        """
        begun = self._run.call(
            self._awaited.begin,
            message,
            sharding_key=sharding_key,
            queue=queue,
            selector=selector,
            timeout_ms=timeout_ms,
        )
        return BlockingTransaction(self._run, begun)


class BlockingPushConsumer(OpenedWrapper[PushConsumer]):
    """Receives messages; see `client.PushConsumer`.

    The listener is a plain function. It runs in one of `settings.call_count_max` threads, so calls
    overlap unless the consumer is orderly, and it may block. `strategy` and `on_rebalance` run in
    the loop's thread and must not. Without a listener, `for message in consumer`; the loop ends
    when another thread closes the consumer.
    """

    def __init__(
        self,
        where: Where,
        *,
        group: str,
        listener: Listener | None = None,
        **options: Unpack[PushOptions],
    ) -> None:
        self._threads = threads = None if listener is None else ListenerThreads(listener)
        super().__init__(
            "consumer",
            where,
            lambda at: PushConsumer(
                at,
                group=group,
                listener=None if threads is None else threads.call,
                **options,
            ),
        )

    def close(self) -> None:
        """Let the listener return, store the offsets, and take leave of the group."""
        self._run.close(self._end)

    async def _end(self) -> None:
        await self._awaited.close()
        if self._threads is not None:
            await self._threads.close()

    subscribe = calling(PushConsumer.subscribe, before_start=True)
    unsubscribe = calling(PushConsumer.unsubscribe, before_start=True)
    suspend = doing(PushConsumer.suspend)
    resume = doing(PushConsumer.resume)
    done = doing(PushConsumer.done)
    later = doing(PushConsumer.later)
    dead_letter = doing(PushConsumer.dead_letter)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Give the messages one by one; each is done when the next is asked for."""
        return self._run.iterate(self._awaited.__aiter__)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer reads at the moment."""
        return self._run.read(lambda: self._awaited.queues)


class BlockingLitePullConsumer(OpenedWrapper[LitePullConsumer]):
    """Reads messages at its user's pace; see `client.LitePullConsumer`.

    `strategy`, `on_rebalance` and what watches a topic run in the loop's thread and must not block.
    """

    def __init__(
        self,
        where: Where,
        *,
        group: str,
        auto_commit: bool = True,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        super().__init__(
            "consumer",
            where,
            lambda at: LitePullConsumer(at, group=group, auto_commit=auto_commit, **options),
        )

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(is_done=kind is None)

    def close(self, *, is_done: bool = True) -> None:
        """Commit what is done, if that is automatic, and take leave of the group.

        May be called again.

        Args:
            is_done: Whether what was given last is done as well.
        """
        self._run.close(lambda: self._awaited.close(is_done=is_done))

    subscribe = calling(LitePullConsumer.subscribe, before_start=True)
    unsubscribe = calling(LitePullConsumer.unsubscribe, before_start=True)
    assign = calling(LitePullConsumer.assign)
    poll = calling(LitePullConsumer.poll)
    seek = calling(LitePullConsumer.seek)
    seek_to_begin = calling(LitePullConsumer.seek_to_begin)
    seek_to_end = calling(LitePullConsumer.seek_to_end)
    pause = doing(LitePullConsumer.pause)
    resume = doing(LitePullConsumer.resume)
    commit = calling(LitePullConsumer.commit)
    committed = calling(LitePullConsumer.committed)
    position = doing(LitePullConsumer.position)
    min_offset = calling(LitePullConsumer.min_offset)
    max_offset = calling(LitePullConsumer.max_offset)
    offset_by_time = calling(LitePullConsumer.offset_by_time)
    topic_queues = calling(LitePullConsumer.topic_queues)
    watch_topic = calling(LitePullConsumer.watch_topic)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Give the messages one by one, for ever; each is done when the next is asked for."""
        return self._run.iterate(self._awaited.__aiter__)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer reads at the moment."""
        return self._run.read(lambda: self._awaited.queues)


class BlockingPuller(OpenedWrapper[Puller]):
    """Pulls from single queues; see `client.Puller`."""

    def __init__(
        self,
        where: Where,
        *,
        group: str = "sprocket-puller",
        patience_ms: int = 30_000,
        replica: Replica = "master",
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(
            "puller",
            where,
            lambda at: Puller(at, group=group, patience_ms=patience_ms, replica=replica, **options),
        )

    topics = calling(Puller.topics)
    queues = calling(Puller.queues)
    min_offset = calling(Puller.min_offset)
    max_offset = calling(Puller.max_offset)
    offset_by_time = calling(Puller.offset_by_time)
    min_offsets = calling(Puller.min_offsets)
    max_offsets = calling(Puller.max_offsets)
    offsets_by_time = calling(Puller.offsets_by_time)
    commit = calling(Puller.commit)
    pull = calling(Puller.pull)
    pull_each = calling(Puller.pull_each)
    pull_slices = calling(Puller.pull_slices)
    pull_slices_soon = beginning(Puller.pull_slices)
