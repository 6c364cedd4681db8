"""Looking after a cluster: one object, with a part for each subject."""

from typing import Self, Unpack

from sprocket.rocketmq.client.admin.brokers import BrokerAdmin
from sprocket.rocketmq.client.admin.failover import FailoverAdmin
from sprocket.rocketmq.client.admin.groups import GroupAdmin
from sprocket.rocketmq.client.admin.messages import FOREVER_MS, MessageAdmin
from sprocket.rocketmq.client.admin.nameservers import NameServerAdmin
from sprocket.rocketmq.client.admin.offsets import OffsetAdmin
from sprocket.rocketmq.client.admin.reach import Reach
from sprocket.rocketmq.client.admin.rights import RightsAdmin
from sprocket.rocketmq.client.admin.topics import TopicAdmin
from sprocket.rocketmq.client.network import ClientOptions, Lease, Where
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import ClusterInfo, MessageQueue, TopicRoute
from sprocket.rocketmq.model.topic import READ, WRITE
from sprocket.rocketmq.settings import FOUND_MESSAGES_MAX


class Admin:
    """Creates topics and groups, watches them, and answers questions about messages.

        async with Admin("127.0.0.1:9876") as admin:
            await admin.create_topic("orders", queues=8)
            print((await admin.group.progress("billing")).lag)

    What is done every day has a method here. The rest is with its subject.

    Attributes:
        topic: Create, change, delete, list; permissions, offsets and figures of topics.
        group: Create, change, delete, list; members, progress, resets of groups.
        broker: Status, settings and figures of a broker, by its name.
        failover: Who of the machines with the same log is master, and who takes over.
        nameserver: Values by key, settings, permission to write to a broker.
        message: By id and by key.
        offset: Of single queues, and what groups have committed there.
        rights: Users, and what they may do.

    Args:
        where: NameServers, `host:port`, several joined by `;` or in a sequence; or a `Client`
            that others use too.
        options: `client`, the `ClientSettings` of a client of its own.

    Threads: event loop only; see `client.blocking` for programs without one.
    """

    def __init__(self, where: Where, **options: Unpack[ClientOptions]) -> None:
        self._lease = Lease("admin", where, options)
        self._reach = Reach(self._lease)
        self.topic = TopicAdmin(self._reach)
        self.group = GroupAdmin(self._reach)
        self.broker = BrokerAdmin(self._reach)
        self.failover = FailoverAdmin(self._reach)
        self.nameserver = NameServerAdmin(self._reach)
        self.message = MessageAdmin(self._reach)
        self.offset = OffsetAdmin(self._reach)
        self.rights = RightsAdmin(self._reach)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Begin; connections are made when they are needed."""
        self._lease.begin()

    async def close(self) -> None:
        """Close all connections."""
        await self._lease.end()

    async def cluster(self) -> ClusterInfo:
        """Return every broker with its addresses, and which cluster it is in."""
        return await self._reach.cluster()

    async def create_topic(self, name: str, queues: int = 4, *, perm: int = READ | WRITE) -> None:
        """Create a topic on every broker, or change the one that exists; see `topic.create`."""
        await self.topic.create(name, queues, perm=perm)

    async def topics(self) -> list[str]:
        """Return the names of all topics; see `topic.names`."""
        return await self.topic.names()

    async def route(self, topic: str) -> TopicRoute:
        """Return which brokers have how many queues of a topic; see `topic.route`."""
        return await self.topic.route(topic)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be read; see `topic.queues`."""
        return await self.topic.queues(topic)

    async def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset that the next message of a queue will get."""
        return await self.offset.max(queue)

    async def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the lowest offset that a queue still has."""
        return await self.offset.min(queue)

    async def offset_by_time(self, queue: MessageQueue, at_ms: int) -> QueueOffset:
        """Return the offset of the first message stored at or after a time, else the end."""
        return await self.offset.by_time(queue, at_ms)

    async def query_by_key(
        self,
        topic: str,
        key: str,
        *,
        count_max: int = FOUND_MESSAGES_MAX,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
    ) -> list[ReceivedMessage]:
        """Return the messages of a topic that have a key, oldest first; see `message.by_key`."""
        return await self.message.by_key(
            topic, key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms
        )

    async def view(self, message_id: str, topic: str) -> ReceivedMessage | None:
        """Return a message by its id, or None if there is none; see `message.by_id`."""
        return await self.message.by_id(message_id, topic)
