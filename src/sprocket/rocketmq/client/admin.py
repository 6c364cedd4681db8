"""Looking after topics, and looking into them."""

import asyncio
from typing import Self, Unpack

from sprocket.base.errors import (
    ClientError,
    InvalidMessage,
    NoRoute,
    RequestTimeout,
    WireError,
)
from sprocket.base.units import PhysicalOffset, QueueOffset
from sprocket.rocketmq.client.connections import read, refused
from sprocket.rocketmq.client.lease import Lease, Options, Where
from sprocket.rocketmq.client.outgoing import check_topic
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.routes import TEMPLATE_TOPIC
from sprocket.rocketmq.codec import bodies, ids, record
from sprocket.rocketmq.codec.bodies import ClusterInfo
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.headers import CreateTopic, QueryMessage, ViewMessage
from sprocket.rocketmq.model.route import MASTER_ID, MessageQueue, TopicRoute
from sprocket.rocketmq.model.topic import READ, WRITE

_QUERY_TIMEOUT_MS = 18_000
"""An index may be cold; RocketMQ's clients give a query three times 6 s."""
_FOREVER_MS = (1 << 63) - 1
_QUERY_MAX = 64
"""Most messages that a broker gives for one key (`maxMsgsNumBatch`)."""
_POLL_S = 0.05


class Admin:
    """Creates topics and answers questions about topics and messages.

        async with Admin("127.0.0.1:9876") as admin:
            await admin.create_topic("orders", queues=8)

    Args:
        where: NameServers, `host:port`, several joined by `;` or in a sequence; or a `Client`
            that others use too.
        options: `client`, the `ClientSettings` of a client of its own.

    Threads: event loop only; see `client.blocking` for programs without one.
    """

    def __init__(
        self,
        where: Where,
        **options: Unpack[Options],
    ) -> None:
        self._lease = Lease("admin", where, options)

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

    async def create_topic(self, name: str, queues: int = 4, *, perm: int = READ | WRITE) -> None:
        """Create a topic on every broker, or change the one that exists, and wait for its route.

        Args:
            name: Letters, digits and `%|_-`, at most 127.
            queues: On each broker.
            perm: 2 write, 4 read.

        Raises:
            InvalidMessage: The name is illegal.
            NoRoute: There is no broker.
            BrokerRefused: A broker will not have it.
            RequestTimeout: No NameServer tells of it in time.
        """
        check_topic(name)
        if queues < 1:
            raise InvalidMessage(f"topic {name} with {queues} queues; expected at least 1")
        instance = self._lease.instance
        header = CreateTopic(
            topic=name,
            default_topic=TEMPLATE_TOPIC,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=perm,
        )
        masters = [
            broker.addresses[MASTER_ID]
            for broker in (await self.cluster()).brokers.values()
            if MASTER_ID in broker.addresses
        ]
        if not masters:
            raise NoRoute("no NameServer knows a broker; is one running, and registered there?")
        for address in masters:
            await instance.connections.call(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        await self._appears(name, len(masters), queues)

    async def _appears(self, topic: str, brokers: int, queues: int) -> None:
        """Wait until the route of a topic has the queues that it was created with."""
        instance = self._lease.instance
        wait_ms = instance.settings.request_timeout_ms
        try:
            async with asyncio.timeout(wait_ms / 1000):
                while True:
                    try:
                        route = await instance.routes.refresh(topic)
                        full = [one for one in route.queues if one.write_queues == queues]
                        if len(full) >= brokers:
                            return
                    except NoRoute:
                        pass
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise RequestTimeout(
                f"topic {topic} was created, but no NameServer told of it within {wait_ms} ms"
            ) from None

    async def route(self, topic: str) -> TopicRoute:
        """Return which brokers have how many queues of a topic, as the NameServer sees it now.

        Raises:
            NoRoute: No NameServer answered, or none knows the topic.
        """
        return await self._lease.instance.routes.refresh(topic)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be read. Raises NoRoute."""
        await self.route(topic)
        return self._lease.instance.routes.subscribe_queues(topic)

    async def topics(self) -> list[str]:
        """Return the names of all topics, the brokers' own among them, sorted."""
        code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        command = await self._lease.instance.names.call(code)
        return sorted(read("NameServer", lambda: bodies.decode_topic_list(command.body)))

    async def cluster(self) -> ClusterInfo:
        """Return every broker with its addresses, and which cluster it is in."""
        command = await self._lease.instance.names.call(RequestCode.GET_BROKER_CLUSTER_INFO)
        return read("NameServer", lambda: bodies.decode_cluster_info(command.body))

    async def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the offset that the next message of a queue will get."""
        await self._lease.instance.routes.find(queue.topic)
        return await self._lease.instance.brokers.max_offset(queue)

    async def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Return the lowest offset that a queue still has."""
        await self._lease.instance.routes.find(queue.topic)
        return await self._lease.instance.brokers.min_offset(queue)

    async def offset_by_time(self, queue: MessageQueue, at_ms: int) -> QueueOffset:
        """Return the offset of the first message stored at or after `at_ms`, else the end.

        Args:
            queue: Where to look.
            at_ms: Milliseconds since 1970.
        """
        await self._lease.instance.routes.find(queue.topic)
        return await self._lease.instance.brokers.offset_by_time(queue, at_ms)

    async def query_by_key(
        self,
        topic: str,
        key: str,
        *,
        count_max: int = _QUERY_MAX,
        begin_ms: int = 0,
        end_ms: int = _FOREVER_MS,
    ) -> list[ReceivedMessage]:
        """Return the messages of a topic that have a key, oldest first.

        Args:
            topic: Where to look, on all its brokers.
            key: One of the words that the producer gave as keys.
            count_max: Most messages from each broker, the newest; brokers give at most 64.
            begin_ms: Stored not before this time, in milliseconds since 1970.
            end_ms: Stored not after this time.

        Raises:
            NoRoute: The topic is unknown.
            ClientError: No broker answered; if some did, theirs is the result.
        """
        found = await self._query(topic, key, count_max, begin_ms, end_ms, is_unique=False)
        # the index holds hashes only
        return [one for one in found if key in one.keys and one.topic == topic]

    async def view(self, message_id: str, topic: str) -> ReceivedMessage | None:
        """Return a message by its id, or None if there is none.

        Args:
            message_id: The producer's unique key, or an offset message id.
            topic: Its topic.

        Raises:
            NoRoute: The topic is unknown.
        """
        routes = self._lease.instance.routes
        await routes.find(topic)
        by_offset = await self._view_by_offset(message_id, topic)
        if by_offset is not None:
            return by_offset
        found = await self._query(topic, message_id, 32, 0, _FOREVER_MS, is_unique=True)
        return next((one for one in found if one.stored.unique_key == message_id), None)

    async def _view_by_offset(self, message_id: str, topic: str) -> ReceivedMessage | None:
        """Read the id as that of a place in a broker's log, if it names a broker we know."""
        try:
            host, offset = ids.split_offset_message_id(message_id)
            address = ids.host_text(host)
        except WireError:
            return None
        instance = self._lease.instance
        broker_name = instance.routes.broker_at(address)
        if broker_name is None:
            return None
        code = RequestCode.VIEW_MESSAGE_BY_ID
        header = ViewMessage(offset=PhysicalOffset(offset), topic=topic)
        command = await instance.connections.request(address, code, header)
        if command.code == ResponseCode.SYSTEM_ERROR:
            return None
        if command.code != ResponseCode.SUCCESS:
            raise refused(address, code, command)
        found = _messages(address, broker_name, command.body)
        return found[0] if found and found[0].topic == topic else None

    async def _query(
        self,
        topic: str,
        key: str,
        count_max: int,
        begin_ms: int,
        end_ms: int,
        *,
        is_unique: bool,
    ) -> list[ReceivedMessage]:
        """Ask the index of every broker of a topic."""
        instance = self._lease.instance
        route = await instance.routes.find(topic)
        header = QueryMessage(
            topic=topic,
            key=key,
            max_num=count_max,
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            is_unique_key=is_unique,
        )
        code = RequestCode.QUERY_MESSAGE
        found: list[ReceivedMessage] = []
        failures: list[ClientError] = []
        for broker in route.brokers:
            try:
                address = instance.routes.read_address(broker.name)
                command = await instance.connections.request(
                    address, code, header, timeout_ms=_QUERY_TIMEOUT_MS
                )
                if command.code == ResponseCode.SUCCESS:
                    found += _messages(address, broker.name, command.body)
                elif command.code != ResponseCode.QUERY_NOT_FOUND:
                    raise refused(address, code, command)
            except ClientError as error:
                failures.append(error)
        if failures and len(failures) == len(route.brokers):
            raise failures[0]
        return sorted(found, key=lambda one: (one.stored_at_ms, one.stored.physical_offset))


def _messages(address: str, broker_name: str, body: bytes) -> list[ReceivedMessage]:
    """Read an answer's records.

    Raises:
        BrokerRefused: One of them is damaged.
    """
    stored = read(address, lambda: record.decode_all(body))
    return [
        ReceivedMessage(one, MessageQueue(one.topic, broker_name, one.queue_id)) for one in stored
    ]
