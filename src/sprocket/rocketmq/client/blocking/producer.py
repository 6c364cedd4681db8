"""Sending messages, from programs without an event loop."""

from collections.abc import Sequence
from typing import Self, Unpack

from sprocket.rocketmq.client.blocking.portal import Runner, Where
from sprocket.rocketmq.client.network import ClientOptions
from sprocket.rocketmq.client.producer import Selector, SendResult
from sprocket.rocketmq.client.producer import producer as _producer
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.settings import ProducerSettings
from sprocket.rocketmq.model.message import Message
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.runtime.blocking import ThreadFuture, for_threads


class BlockingProducer:
    """Sends messages to topics; see `client.Producer`."""

    def __init__(
        self,
        where: Where,
        *,
        group: str = "sprocket-producer",
        settings: ProducerSettings | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._run = Runner(
            "producer",
            where,
            lambda at: _producer.Producer(at, group=group, settings=settings, **options),
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(flush=kind is None or not issubclass(kind, KeyboardInterrupt))

    def start(self) -> None:
        """Begin; connections are made when they are needed."""
        self._run.start()

    def close(self, *, flush: bool = True) -> None:
        """Wait for the outcome of every accepted message, then take leave of the brokers.

        May be called again. Ctrl-C ends a `with` as cancelling ends an `async with`: by False.

        Args:
            flush: False gives up the messages that are not answered yet.
        """
        self._run.close(lambda: self._run.client.close(flush=flush))

    @property
    def unanswered(self) -> int:
        """Messages that were accepted and whose outcome is not known yet."""
        return self._run.look(lambda: self._run.client.unanswered)

    @property
    def is_full(self) -> bool:
        """Whether as much is unanswered as the settings allow; `send_soon` waits before that."""
        return self._run.look(lambda: self._run.client.is_full)

    def send(
        self,
        message: Message,
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send one message and wait until the broker has it; see `client.Producer.send`."""
        return self._run.call(
            self._run.client.send,
            message,
            sharding_key=sharding_key,
            queue=queue,
            selector=selector,
            timeout_ms=timeout_ms,
        )

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
            await self._run.client.drain()
            return for_threads(
                self._run.client.send_soon(
                    message,
                    sharding_key=sharding_key,
                    queue=queue,
                    selector=selector,
                    timeout_ms=timeout_ms,
                )
            )

        return self._run.call(accept)

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> list[SendResult]:
        """Send messages that are stored one behind the other, or not at all."""
        return self._run.call(
            self._run.client.send_batch,
            messages,
            sharding_key=sharding_key,
            queue=queue,
            selector=selector,
            timeout_ms=timeout_ms,
        )

    def send_oneway(
        self,
        message: Message,
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
    ) -> None:
        """Send one message that nobody acknowledges."""
        self._run.call(
            self._run.client.send_oneway,
            message,
            sharding_key=sharding_key,
            queue=queue,
            selector=selector,
        )

    def request(
        self,
        message: Message,
        *,
        sharding_key: str | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int = 3_000,
    ) -> ReceivedMessage:
        """Send a request and wait for its reply; see `client.Producer.request`."""
        return self._run.call(
            self._run.client.request,
            message,
            sharding_key=sharding_key,
            queue=queue,
            selector=selector,
            timeout_ms=timeout_ms,
        )

    def drain(self) -> None:
        """Wait until `send_soon` need not wait: until a quarter of the limits is free."""
        self._run.call(self._run.client.drain)

    def flush(self) -> None:
        """Wait until the outcome of every accepted message is known."""
        self._run.call(self._run.client.flush)
