"""Reading queues at offsets that the caller keeps, with the records as the broker has them.

For programs that keep their own offsets, such as a Spark source: no group is joined, nothing is
committed, and bodies are not decoded.
"""

from collections.abc import Awaitable, Callable
from typing import Self, TypeVar, Unpack

from sprocket.base.errors import NotConnected, RequestTimeout
from sprocket.rocketmq.client.consumer.subscriptions import check_tags
from sprocket.rocketmq.client.network import Backoff, ClientOptions, Lease, Pull, PullResult, Where
from sprocket.rocketmq.client.producer import check_group
from sprocket.rocketmq.client.settings import PULL_MESSAGES
from sprocket.rocketmq.errors import NoRoute, NoSuchTopic
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MessageQueue

T = TypeVar("T")

_UNKNOWN_TOPIC_MS = 5_000
"""How long a topic that nobody knows is asked for again: a restarted broker registers in less."""


class Puller:
    """Pulls from single queues.

        async with Puller("127.0.0.1:9876") as puller:
            for queue in await puller.queues("orders"):
                found = await puller.pull(queue, 0, 32)

    While a broker is away its questions are asked again, until `patience_ms` have passed.

    Args:
        where: NameServers, `host:port`, several joined by `;` or in a sequence; or a `Client`
            that others use too.
        group: Under which name the broker sees the pulls.
        patience_ms: How long to go on asking while nobody answers; 0 asks once.
        options: `client`, the `ClientSettings` of a client of its own.

    Threads: event loop only; see `client.blocking` for programs without one.
    """

    def __init__(
        self,
        where: Where,
        *,
        group: str = "sprocket-puller",
        patience_ms: int = 30_000,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._group = check_group(group)
        self._patience_ms = patience_ms
        self._lease = Lease("puller", where, options)
        self._version = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Begin; connections are made when they are needed."""
        self._version = self._lease.begin().clock.now_ms()

    async def close(self) -> None:
        """Close all connections."""
        await self._lease.end()

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be read, in order.

        Raises:
            NoSuchTopic: None knows the topic; the text names the nearest.
            NoRoute: No NameServer answered.
        """
        instance = self._lease.instance
        await self._patiently(topic, lambda: instance.routes.refresh(topic))
        return instance.routes.subscribe_queues(topic)

    async def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the lowest offset that a queue still has."""
        brokers = self._lease.instance.brokers
        return await self._patiently(queue.topic, lambda: brokers.min_offset(queue))

    async def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset that the next message of a queue will get."""
        brokers = self._lease.instance.brokers
        return await self._patiently(queue.topic, lambda: brokers.max_offset(queue))

    async def offset_by_time(self, queue: MessageQueue, at_ms: int) -> QueueOffset:
        """Return the offset of the first message stored at or after `at_ms`, else the end.

        Args:
            queue: Where to look.
            at_ms: Milliseconds since 1970.
        """
        brokers = self._lease.instance.brokers
        return await self._patiently(queue.topic, lambda: brokers.offset_by_time(queue, at_ms))

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        count_max: int = PULL_MESSAGES,
        *,
        tags: str = "*",
        hold_ms: int = 0,
    ) -> PullResult:
        """Return messages of a queue from an offset on.

        Args:
            queue: Where to read.
            offset: The first message wanted.
            count_max: Most messages; brokers may give fewer.
            tags: Tags with `||` between them; the broker compares hashes, so others may come too.
            hold_ms: How long the broker may wait for a message if there is none.

        Raises:
            InvalidMessage: The tags are none, or read like SQL.
            ClientError: Nobody answered in time, or the broker refused.
        """
        check_tags(tags)
        brokers = self._lease.instance.brokers
        pull = Pull(
            group=self._group,
            queue=queue,
            offset=QueueOffset(offset),
            count_max=count_max,
            expression=tags,
            version=self._version,
            hold_ms=hold_ms,
        )
        return await self._patiently(queue.topic, lambda: brokers.pull(pull))

    async def _patiently(self, topic: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer, a refusal, or patience has run out."""
        instance = self._lease.instance
        clock, pauses = instance.clock, Backoff(instance.settings)
        began = clock.monotonic()
        while True:
            try:
                await instance.routes.find(topic)
                return await ask()
            except (NotConnected, RequestTimeout, NoRoute) as error:
                patience_ms = self._patience_ms
                if isinstance(error, NoSuchTopic):
                    patience_ms = min(patience_ms, _UNKNOWN_TOPIC_MS)
                if (clock.monotonic() - began) * 1000 + pauses.next_ms > patience_ms:
                    if isinstance(error, NoSuchTopic):
                        raise await instance.routes.no_such(topic) from None
                    raise
            await pauses.pause()
