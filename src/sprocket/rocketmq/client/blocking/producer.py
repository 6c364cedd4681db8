"""Sending messages, from programs without an event loop."""

from collections.abc import Sequence

from sprocket.rocketmq.client import producer as _producer
from sprocket.rocketmq.client.blocking.portal import Blocking
from sprocket.rocketmq.client.outgoing import SendResult
from sprocket.rocketmq.client.settings import ClientSettings, ProducerSettings
from sprocket.rocketmq.model.message import Message
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.runtime.blocking import ThreadFuture, for_threads


class Producer(Blocking):
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
