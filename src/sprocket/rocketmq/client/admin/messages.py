"""Messages: found by key and by id, and those whose transactions have not ended."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from functools import partial

from sprocket.base.errors import WireError
from sprocket.rocketmq.client.admin.reach import Reach
from sprocket.rocketmq.client.network import Pull, granted, read
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.settings import PULL_MESSAGES
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.headers import QueryMessage, ResumeCheck, ViewMessage
from sprocket.rocketmq.codec.record import ids, op_message, record
from sprocket.rocketmq.errors import NoSuchTopic
from sprocket.rocketmq.model.filters import ALL
from sprocket.rocketmq.model.internal import (
    CHECKED_TOO_OFTEN_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    TOOLS_GROUP,
    TRANSACTION_GROUP,
)
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.rocketmq.model.offsets import PhysicalOffset, QueueOffset
from sprocket.rocketmq.model.route import MASTER_ID, MessageQueue
from sprocket.rocketmq.remoting import split_address
from sprocket.rocketmq.settings import FOUND_MESSAGES_MAX

_QUERY_TIMEOUT_MS = 18_000
"""An index may be cold; RocketMQ's clients give a query three times 6 s."""
HALVES_MAX = 1000
FOREVER_MS = (1 << 63) - 1


class MessageAdmin:
    """How single messages are found; `admin.message`."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        count_max: int = FOUND_MESSAGES_MAX,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
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

    async def by_id(self, message_id: str, topic: str) -> ReceivedMessage | None:
        """Return a message by its id, or None if there is none.

        Args:
            message_id: The producer's unique key, or an offset message id.
            topic: Its topic.

        Raises:
            NoRoute: The topic is unknown.
        """
        await self._reach.known(topic)
        by_offset = await self._view_by_offset(message_id, topic)
        if by_offset is not None:
            return by_offset
        found = await self._query(topic, message_id, 32, 0, FOREVER_MS, is_unique=True)
        return next((one for one in found if one.stored.unique_key == message_id), None)

    async def halves(self, *, count_max: int = HALVES_MAX) -> list[ReceivedMessage]:
        """Return half messages whose transactions have not ended, by broker, oldest first.

        Their properties say more: `REAL_TOPIC`, `PGROUP`, `TRANSACTION_CHECK_TIMES`. It costs a
        look at everything behind the oldest of them.

        Args:
            count_max: Most messages from each broker, the oldest.
        """
        route = await self._reach.known(HALF_TOPIC)
        found: list[ReceivedMessage] = []
        for broker in route.brokers:
            ends = self._behind_progress(MessageQueue(OP_TOPIC, broker.name, 0))
            ended = {
                offset async for op in ends for offset in op_message.decode(op.stored.stored_body)
            }
            waiting: list[ReceivedMessage] = []
            halves = self._behind_progress(MessageQueue(HALF_TOPIC, broker.name, 0))
            async with aclosing(halves):
                async for half in halves:
                    if len(waiting) == count_max:
                        break
                    if half.queue_offset not in ended:
                        waiting.append(half)
            found += waiting
        return found

    async def _behind_progress(self, queue: MessageQueue) -> AsyncGenerator[ReceivedMessage, None]:
        """Give the messages of a queue behind those of which all transactions have ended."""
        brokers = self._reach.instance.brokers
        end = await brokers.max_offset(queue)
        lowest = await brokers.min_offset(queue)
        offset = max(await brokers.committed_offset(TRANSACTION_GROUP, queue) or 0, lowest)
        while offset < end:
            pulled = await brokers.pull(
                Pull(
                    group=TOOLS_GROUP,
                    queue=queue,
                    offset=QueueOffset(offset),
                    count_max=PULL_MESSAGES,
                    expression=ALL,
                    version=0,
                )
            )
            stored = read(queue.broker_name, partial(record.decode_all, pulled.body))
            for one in _messages(queue.broker_name, stored):
                yield one
            if pulled.next_offset <= offset:
                return
            offset = pulled.next_offset

    async def resume_check(self, message_id: str) -> ReceivedMessage | None:
        """Have a broker ask anew about a half message that was given up; None if there is none.

        Args:
            message_id: The producer's unique key, or the offset message id that it has in
                `TRANS_CHECK_MAX_TIME_TOPIC`.

        Raises:
            BrokerRefused: The broker will not.
        """
        try:
            found = await self.by_id(message_id, CHECKED_TOO_OFTEN_TOPIC)
        except NoSuchTopic:  # it comes with its first message
            return None
        if found is not None:
            instance = self._reach.instance
            address = instance.routes.require_master(found.queue.broker_name)
            header = ResumeCheck(
                topic=CHECKED_TOO_OFTEN_TOPIC, msg_id=found.stored.offset_message_id
            )
            code = RequestCode.RESUME_CHECK_HALF_MESSAGE
            await instance.connections.call(address, code, header)
        return found

    async def _view_by_offset(self, message_id: str, topic: str) -> ReceivedMessage | None:
        """Read the id as that of a place in a broker's log, if it names a broker we know.

        An id holds an address, and a route may hold a name for it: then each broker of the topic
        that has a name and the same port is asked, and its message must have this very id.
        """
        try:
            host, offset = ids.split_offset_message_id(message_id)
            address = ids.host_text(host)
        except WireError:
            return None
        port = int(address.rpartition(":")[2])  # of a unique key any number, and nobody's
        broker_name = self._reach.instance.routes.broker_at(address)
        if broker_name is not None:
            return await self._view(broker_name, address, offset, topic)
        for broker in (await self._reach.known(topic)).brokers:
            named = broker.addresses.get(MASTER_ID, "")
            if named and split_address(named)[1] == port:
                found = await self._view(broker.name, named, offset, topic)
                if found is not None and found.stored.offset_message_id == message_id.upper():
                    return found
        return None

    async def _view(
        self, broker_name: str, address: str, offset: int, topic: str
    ) -> ReceivedMessage | None:
        """Return the message of a topic at a place in a broker's log, None if there is none."""
        instance = self._reach.instance
        code = RequestCode.VIEW_MESSAGE_BY_ID
        header = ViewMessage(offset=PhysicalOffset(offset), topic=topic)
        command = await instance.connections.request(address, code, header)
        if not granted(address, code, command, (ResponseCode.SYSTEM_ERROR,)):
            return None
        found = _messages(broker_name, read(address, lambda: record.decode_all(command.body)))
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
        route = await self._reach.known(topic)
        header = QueryMessage(
            topic=topic,
            key=key,
            max_count=count_max,
            begin_ms=begin_ms,
            end_ms=end_ms,
            is_unique_key=is_unique,
        )
        names = {
            self._reach.instance.routes.read_address(broker.name): broker.name
            for broker in route.brokers
            if broker.addresses
        }
        answers = await self._reach.ask_each(
            names,
            RequestCode.QUERY_MESSAGE,
            header,
            record.decode_all,
            absent=(ResponseCode.QUERY_NOT_FOUND,),
            timeout_ms=_QUERY_TIMEOUT_MS,
        )
        found = [
            one for address, stored in answers.items() for one in _messages(names[address], stored)
        ]
        return sorted(found, key=lambda one: (one.stored_at_ms, one.stored.physical_offset))


def _messages(broker_name: str, stored: Iterable[StoredMessage]) -> list[ReceivedMessage]:
    return [
        ReceivedMessage(one, MessageQueue(one.topic, broker_name, one.queue_id)) for one in stored
    ]
