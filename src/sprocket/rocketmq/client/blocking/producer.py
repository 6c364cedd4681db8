"""Sending messages, from programs without an event loop."""

from typing import Unpack

from sprocket.rocketmq.client.blocking.portal import OpenedTwin, Where, calling
from sprocket.rocketmq.client.network import ClientOptions
from sprocket.rocketmq.client.producer import Producer, Selector, SendResult
from sprocket.rocketmq.client.settings import ProducerSettings
from sprocket.rocketmq.model.message import Message
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.runtime.blocking import ThreadFuture, for_threads


class BlockingProducer(OpenedTwin[Producer]):
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
        return self._run.look(lambda: self._awaited.unanswered)

    @property
    def is_full(self) -> bool:
        """Whether as much is unanswered as the settings allow; `send_soon` waits before that."""
        return self._run.look(lambda: self._awaited.is_full)

    send = calling(Producer.send)
    send_batch = calling(Producer.send_batch)
    send_oneway = calling(Producer.send_oneway)
    request = calling(Producer.request)
    drain = calling(Producer.drain)
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
