"""The clients for programs without an event loop: same names, same arguments, no `await`.

    with Producer("127.0.0.1:9876") as producer:
        producer.send(Message("orders", b"42 bolts"))

Each object has an event loop in a thread of its own; its methods may be called from any thread.
Objects do not survive a fork.
"""

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from sprocket.base.units import QueueOffset
from sprocket.rocketmq.client import admin as _admin
from sprocket.rocketmq.client import producer as _producer
from sprocket.rocketmq.client import puller as _puller
from sprocket.rocketmq.client import push as _push
from sprocket.rocketmq.client.assignment import Start
from sprocket.rocketmq.client.brokers import PullResult
from sprocket.rocketmq.client.outgoing import SendResult
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from sprocket.rocketmq.codec.bodies import ClusterInfo
from sprocket.rocketmq.model.message import Message
from sprocket.rocketmq.model.route import MessageQueue, TopicRoute
from sprocket.runtime.blocking import Portal, ThreadFuture, for_threads
from sprocket.runtime.offload import DiskThread

Listener = Callable[[list[ReceivedMessage]], None]
"""What a user gives; it runs in a thread of the consumer and may block."""


class _Blocking:
    """A client in a portal; begins with `with` or `start`, ends with `close`."""

    _client: Any

    def __init__(self) -> None:
        self._portal: Portal | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Begin; connections are made when they are needed."""
        assert self._portal is None, "a client is started once"
        self._portal = Portal(f"sprocket-{type(self).__name__.lower()}")
        self._call(self._client.start)

    def close(self) -> None:
        """End as the awaited client does, then the thread; may be called again."""
        if self._portal is not None:
            try:
                self._portal.call(self._client.close)
            finally:
                self._portal.close()
                self._portal = None

    def _call(self, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        assert self._portal is not None, "use `with` or start() first"
        return self._portal.call(function, *args, **named)


class Producer(_Blocking):
    """Sends messages to topics; see `client.Producer`."""

    def __init__(
        self,
        nameservers: str | Sequence[str],
        *,
        group: str = "sprocket-producer",
        settings: ProducerSettings | None = None,
        client: ClientSettings | None = None,
    ) -> None:
        super().__init__()
        self._client: _producer.Producer = _producer.Producer(
            nameservers, group=group, settings=settings, client=client
        )

    def send(
        self,
        message: Message,
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send one message and wait until the broker has it; see `client.Producer.send`."""
        sent: SendResult = self._call(
            self._client.send,
            message,
            sharding_key=sharding_key,
            queue=queue,
            timeout_ms=timeout_ms,
        )
        return sent

    def send_soon(
        self,
        message: Message,
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> ThreadFuture[SendResult]:
        """Accept one message and return a future of its result.

        Waits only while as much is unanswered as the settings allow.
        """

        async def accept() -> ThreadFuture[SendResult]:
            await self._client.drain()
            return for_threads(
                self._client.send_soon(
                    message, sharding_key=sharding_key, queue=queue, timeout_ms=timeout_ms
                )
            )

        sent: ThreadFuture[SendResult] = self._call(accept)
        return sent

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> list[SendResult]:
        """Send messages that are stored one behind the other, or not at all."""
        sent: list[SendResult] = self._call(
            self._client.send_batch,
            messages,
            sharding_key=sharding_key,
            queue=queue,
            timeout_ms=timeout_ms,
        )
        return sent

    def send_oneway(
        self,
        message: Message,
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
    ) -> None:
        """Send one message that nobody acknowledges."""
        self._call(self._client.send_oneway, message, sharding_key=sharding_key, queue=queue)

    def flush(self) -> None:
        """Wait until the outcome of every accepted message is known."""
        self._call(self._client.flush)


class PushConsumer(_Blocking):
    """Receives messages; see `client.PushConsumer`.

    The listener is a plain function. It runs in one of `settings.call_count_max` threads, so calls
    overlap unless the consumer is orderly, and it may block.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str],
        *,
        group: str,
        listener: Listener,
        orderly: bool = False,
        start: Start = "last",
        settings: ConsumerSettings | None = None,
        client: ClientSettings | None = None,
    ) -> None:
        super().__init__()
        self._threads = _ListenerThreads(listener)
        self._client: _push.PushConsumer = _push.PushConsumer(
            nameservers,
            group=group,
            listener=self._threads.call,
            orderly=orderly,
            start=start,
            settings=settings,
            client=client,
        )

    def close(self) -> None:
        """Let the listener return, store the offsets, and take leave of the group."""
        if self._portal is not None:
            try:
                self._call(self._client.close)
                self._call(self._threads.close)
            finally:
                super().close()

    def subscribe(self, topic: str, expression: str = "*") -> None:
        """Receive the messages of a topic; see `client.PushConsumer.subscribe`."""
        self._call(self._client.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """Receive nothing more of a topic."""
        self._call(self._client.unsubscribe, topic)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer reads at the moment."""
        return self._client.queues


class Admin(_Blocking):
    """Creates topics and answers questions; see `client.Admin`."""

    def __init__(
        self, nameservers: str | Sequence[str], *, client: ClientSettings | None = None
    ) -> None:
        super().__init__()
        self._client: _admin.Admin = _admin.Admin(nameservers, client=client)

    def create_topic(self, name: str, queues: int = 4, **options: Any) -> None:
        """Create a topic on every broker and wait for its route."""
        self._call(self._client.create_topic, name, queues, **options)

    def route(self, topic: str) -> TopicRoute:
        """Return which brokers have how many queues of a topic."""
        found: TopicRoute = self._call(self._client.route, topic)
        return found

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be read."""
        found: list[MessageQueue] = self._call(self._client.queues, topic)
        return found

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        found: list[str] = self._call(self._client.topics)
        return found

    def cluster(self) -> ClusterInfo:
        """Return every broker with its addresses."""
        found: ClusterInfo = self._call(self._client.cluster)
        return found

    def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset that the next message of a queue will get."""
        return QueueOffset(self._call(self._client.max_offset, queue))

    def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the lowest offset that a queue still has."""
        return QueueOffset(self._call(self._client.min_offset, queue))

    def offset_by_time(self, queue: MessageQueue, at_ms: int) -> QueueOffset:
        """Return the offset of the first message stored at or after a time."""
        return QueueOffset(self._call(self._client.offset_by_time, queue, at_ms))

    def query_by_key(self, topic: str, key: str, **options: Any) -> list[ReceivedMessage]:
        """Return the messages of a topic that have a key."""
        found: list[ReceivedMessage] = self._call(self._client.query_by_key, topic, key, **options)
        return found

    def view(self, message_id: str, topic: str) -> ReceivedMessage | None:
        """Return a message by its id, or None."""
        found: ReceivedMessage | None = self._call(self._client.view, message_id, topic)
        return found


class Puller(_Blocking):
    """Pulls from single queues; see `client.Puller`."""

    def __init__(
        self,
        nameservers: str | Sequence[str],
        *,
        group: str = "sprocket-puller",
        patience_ms: int = 30_000,
        client: ClientSettings | None = None,
    ) -> None:
        super().__init__()
        self._client: _puller.Puller = _puller.Puller(
            nameservers, group=group, patience_ms=patience_ms, client=client
        )

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be read."""
        found: list[MessageQueue] = self._call(self._client.queues, topic)
        return found

    def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the lowest offset that a queue still has."""
        return QueueOffset(self._call(self._client.min_offset, queue))

    def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset that the next message of a queue will get."""
        return QueueOffset(self._call(self._client.max_offset, queue))

    def offset_by_time(self, queue: MessageQueue, at_ms: int) -> QueueOffset:
        """Return the offset of the first message stored at or after a time."""
        return QueueOffset(self._call(self._client.offset_by_time, queue, at_ms))

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        count_max: int = 32,
        *,
        tags: str = "*",
        hold_ms: int = 0,
    ) -> PullResult:
        """Return messages of a queue from an offset on; see `client.Puller.pull`."""
        found: PullResult = self._call(
            self._client.pull, queue, offset, count_max, tags=tags, hold_ms=hold_ms
        )
        return found


class _ListenerThreads:
    """Runs a listener that may block, in as many threads as calls overlap."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._idle: list[DiskThread] = []
        self._all: list[DiskThread] = []

    async def call(self, messages: list[ReceivedMessage]) -> None:
        """Run one call of the listener and wait for it; what it raises is raised here."""
        if self._idle:
            thread = self._idle.pop()
        else:
            thread = DiskThread(f"sprocket-listener-{len(self._all)}")
            self._all.append(thread)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(_: None, error: BaseException | None) -> None:
            self._idle.append(thread)
            if ended.done():
                return
            if error is None:
                ended.set_result(None)
            else:
                ended.set_exception(error)

        thread.submit(lambda: self._listener(messages), done)
        await ended

    async def close(self) -> None:
        """End the threads that have nothing to do; a listener that hangs keeps its own."""
        for thread in self._idle:
            await thread.stop()
