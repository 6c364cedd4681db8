"""Reading queues at offsets that the caller keeps, with the records as the broker has them.

For programs that keep their own offsets, such as a Spark source: no group is joined, nothing is
committed, and bodies are not decoded.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Self, TypeVar, Unpack

from msgspec.structs import replace

from sprocket.base.errors import BrokerRefused, ClientError, NotConnected, RequestTimeout
from sprocket.rocketmq.client.consumer.subscriptions import checked
from sprocket.rocketmq.client.network import (
    Backoff,
    ClientOptions,
    Lease,
    Pull,
    PullResult,
    PullStatus,
    Where,
    read,
)
from sprocket.rocketmq.client.producer import check_group
from sprocket.rocketmq.client.settings import PULL_MESSAGES
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import TopicNames
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.errors import NoRoute, NoSuchTopic
from sprocket.rocketmq.model.filters import Sql
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import (
    FIRST_SLAVE_ID,
    MASTER_ID,
    MessageQueue,
    QueueSlice,
    Replica,
)

T = TypeVar("T")

_UNKNOWN_TOPIC_MS = 5_000
"""How long a topic that nobody knows is asked for again: a restarted broker registers in less."""
_ASKED_AT_ONCE = 256
"""Questions about single queues that may wait for an answer at a time."""


@dataclasses.dataclass(frozen=True, slots=True)
class SliceAnswer:
    """What a broker answered to a pull for a slice of a queue."""

    wanted: QueueSlice
    result: PullResult


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
        replica: With "master" slaves are read only while a broker has no master. With "prefer" a
            slave is read wherever there is one; bounds are those that it knows. The master is
            asked for messages that the slave lacks, and if the slave does not answer or refuses.
        options: `client`, the `ClientSettings` of a client of its own.

    Threads: event loop only; see `client.blocking` for programs without one.
    """

    def __init__(
        self,
        where: Where,
        *,
        group: str = "sprocket-puller",
        patience_ms: int = 30_000,
        replica: Replica = "master",
        **options: Unpack[ClientOptions],
    ) -> None:
        self._group = check_group(group)
        self._patience_ms = patience_ms
        self._broker_id = MASTER_ID if replica == "master" else FIRST_SLAVE_ID
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

    async def topics(self) -> list[str]:
        """Return the names of all topics, the brokers' own among them, sorted.

        Raises:
            NoRoute: No NameServer answered.
        """
        names = self._lease.instance.names
        code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        command = await self._patiently(None, lambda _: names.call(code))
        found = read("the NameServer", lambda: bodies.decode(TopicNames, command.body))
        return sorted(found.topics)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be read, in order.

        Raises:
            NoSuchTopic: None knows the topic; the text names the nearest.
            NoRoute: No NameServer answered.
        """
        instance = self._lease.instance
        await self._patiently(topic, lambda _: instance.routes.refresh(topic))
        return instance.routes.subscribe_queues(topic)

    async def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the lowest offset that a queue still has."""
        brokers = self._lease.instance.brokers
        return await self._patiently(queue.topic, lambda at: brokers.min_offset(queue, at))

    async def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset that the next message of a queue will get."""
        brokers = self._lease.instance.brokers
        return await self._patiently(queue.topic, lambda at: brokers.max_offset(queue, at))

    async def offset_by_time(self, queue: MessageQueue, at_ms: int) -> QueueOffset:
        """Return the offset of the first message stored at or after `at_ms`, else the end.

        Args:
            queue: Where to look.
            at_ms: Milliseconds since 1970.
        """
        brokers = self._lease.instance.brokers
        return await self._patiently(
            queue.topic, lambda at: brokers.offset_by_time(queue, at_ms, at)
        )

    async def min_offsets(
        self, queues: Collection[MessageQueue]
    ) -> dict[MessageQueue, QueueOffset]:
        """Do as `min_offset` for many queues, many of them at a time."""
        return await self._each(queues, self.min_offset)

    async def max_offsets(
        self, queues: Collection[MessageQueue]
    ) -> dict[MessageQueue, QueueOffset]:
        """Do as `max_offset` for many queues, many of them at a time."""
        return await self._each(queues, self.max_offset)

    async def offsets_by_time(
        self, at_ms: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, QueueOffset]:
        """Do as `offset_by_time` for many queues, each with its time, many of them at a time."""
        return await self._each(at_ms, lambda queue: self.offset_by_time(queue, at_ms[queue]))

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Have the broker note how far this puller's group is, for those who look at its lag.

        Nothing depends on it here. Members of the group that are connected may overwrite it.

        Args:
            queue: Where.
            offset: The next message that the group wants.
        """
        brokers = self._lease.instance.brokers
        noted = QueueOffset(offset)
        await self._patiently(
            queue.topic, lambda _: brokers.commit_offset(self._group, queue, noted)
        )

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        count_max: int = PULL_MESSAGES,
        *,
        tags: str | Sql = "*",
        hold_ms: int = 0,
    ) -> PullResult:
        """Return messages of a queue from an offset on.

        Args:
            queue: Where to read.
            offset: The first message wanted.
            count_max: Most messages; brokers may give fewer.
            tags: Tags with `||` between them, of which the broker compares hashes, so that others
                may come too; or `Sql`.
            hold_ms: How long the broker may wait for a message if there is none.

        Raises:
            InvalidMessage: They are not tags, or the SQL cannot be read.
            ClientError: Nobody answered in time, or the broker refused.
        """
        kind, text = checked(tags)
        brokers = self._lease.instance.brokers
        pull = Pull(
            group=self._group,
            queue=queue,
            offset=QueueOffset(offset),
            count_max=count_max,
            expression=text,
            kind=kind,
            version=self._version,
            hold_ms=hold_ms,
        )

        async def ask(broker_id: int) -> PullResult:
            result = await brokers.pull(replace(pull, broker_id=broker_id))
            if broker_id != MASTER_ID and result.next_offset <= offset:
                return await brokers.pull(pull)  # the slave does not have it, or not yet
            return result

        return await self._patiently(queue.topic, ask)

    async def pull_each(self, places: Mapping[MessageQueue, int]) -> dict[MessageQueue, PullResult]:
        """Pull one message of each of many queues, at an offset of each, many of them at a time."""
        return await self._each(places, lambda queue: self.pull(queue, places[queue], 1))

    async def pull_slices(
        self,
        slices: Sequence[QueueSlice],
        *,
        bytes_max: int,
        count_max: int = PULL_MESSAGES,
        tags: str | Sql = "*",
    ) -> list[SliceAnswer]:
        """Pull slices of queues one after the other, each answer from where the one before ended.

        Args:
            slices: What to read, in this order.
            bytes_max: Ask for no more when answers have so many bytes together.
            count_max: Most messages of one answer; brokers may give fewer.
            tags: As for `pull`.

        Returns:
            At least one answer, if any slice has messages. The first may say anything; those behind
            it lead on. What did not, or failed, is told to whoever asks for the rest.

        Raises:
            InvalidMessage: They are not tags, or the SQL cannot be read.
            ClientError: The first pull failed.
        """
        found: list[SliceAnswer] = []
        size = 0
        for one in slices:
            at = one.start
            while at < one.end and size < bytes_max:
                try:
                    result = await self.pull(one.queue, at, min(count_max, one.end - at), tags=tags)
                except ClientError:
                    if not found:
                        raise
                    return found
                leads_on = result.status is not PullStatus.OFFSET_MOVED and result.next_offset > at
                if leads_on or not found:
                    found.append(SliceAnswer(one, result))
                if not leads_on:
                    return found
                at, size = result.next_offset, size + len(result.body)
        return found

    async def _each(
        self, queues: Collection[MessageQueue], ask: Callable[[MessageQueue], Awaitable[T]]
    ) -> dict[MessageQueue, T]:
        """Ask the same of many queues.

        Raises:
            ClientError: What the first failed for.
        """
        found: dict[MessageQueue, T] = {}
        left = iter(queues)

        async def work() -> None:
            for queue in left:
                found[queue] = await ask(queue)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(_ASKED_AT_ONCE, len(queues))):
                    group.create_task(work())
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        return found

    async def _patiently(self, topic: str | None, ask: Callable[[int], Awaitable[T]]) -> T:
        """Ask until there is an answer, a refusal, or patience has run out.

        Of a topic it is found out before which brokers have it. What asks gets the id of the
        replica: the one that is preferred, or the master if that does not answer or is not to be
        read.
        """
        instance = self._lease.instance
        clock, pauses = instance.clock, Backoff(instance.settings)
        began, broker_id = clock.monotonic(), self._broker_id
        while True:
            try:
                if topic is not None:
                    await instance.routes.find(topic)
                return await ask(broker_id)
            except (NotConnected, RequestTimeout, NoRoute, BrokerRefused) as error:
                if broker_id != MASTER_ID:
                    broker_id = MASTER_ID
                    continue
                if isinstance(error, BrokerRefused):
                    raise
                patience_ms = self._patience_ms
                if isinstance(error, NoSuchTopic):
                    patience_ms = min(patience_ms, _UNKNOWN_TOPIC_MS)
                if (clock.monotonic() - began) * 1000 + pauses.next_ms > patience_ms:
                    if isinstance(error, NoSuchTopic) and topic is not None:
                        raise await instance.routes.no_such(topic) from None
                    raise
            await pauses.pause()


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return one of the errors of a group."""
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
