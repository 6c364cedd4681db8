"""Giving messages that could not be consumed back to the broker, which delivers them later."""

import random
from collections.abc import Sequence

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.consumer.delivery.listener import DEAD_LETTER_LEVEL
from sprocket.rocketmq.client.consumer.plan import ConsumerPlan
from sprocket.rocketmq.client.network import Connections, Routes
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.headers import SendMessageBack, SendMessageV2
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.errors import NoRoute
from sprocket.rocketmq.model.internal import RETRY_PREFIX, TEMPLATE_TOPIC
from sprocket.rocketmq.model.message import COMPRESSED, COMPRESSION_MASK, MULTI_TAGS

_TIMEOUT_MS = 5_000
_RETRY_TOPIC_QUEUES = 1
_LEVEL_OF_FIRST_RETRY = 3
_OF_THE_BODY = COMPRESSED | COMPRESSION_MASK | MULTI_TAGS
"""Bits of the system flag that go along with a body; those of the record stay behind."""
_INNER_GROUP = "CLIENT_INNER_PRODUCER"
"""Under which name Java's clients send what they send for themselves."""

_log = log.get_logger(__name__)


class SendBack:
    """Gives failed messages to the broker, for the retry topic or the dead letters of the group.

    A message is named by its place in the log, and the broker copies it. Where that fails, as when
    the record is gone, the message itself is sent, as orderly consumers always do. Where members
    broadcast it is dropped: everybody gets everything, and nobody delivers again.
    """

    def __init__(
        self, plan: ConsumerPlan, connections: Connections, routes: Routes, clock: Clock
    ) -> None:
        self._plan = plan
        self._connections = connections
        self._routes = routes
        self._clock = clock

    async def __call__(
        self, messages: Sequence[ReceivedMessage], level: int
    ) -> list[ReceivedMessage]:
        """Give messages back, in the order of their queue; return those that no broker took.

        Of the delay levels 0 lets the broker choose, and a negative one is for the dead letters.
        """
        if self._plan.is_broadcast:
            _log.warning("messages dropped", messages=len(messages), first=messages[0].message_id)
            return []
        rest: list[ReceivedMessage] = []
        for message in messages:
            if rest or not await self._is_taken(message, level):
                rest.append(message)
        return rest

    async def _is_taken(self, message: ReceivedMessage, level: int) -> bool:
        if not self._plan.is_orderly and await self._name(message, level):
            return True
        return await self.send(message, level)

    async def _name(self, message: ReceivedMessage, level: int) -> bool:
        """Have the broker copy a message; say whether it did."""
        broker_name = message.queue.broker_name
        header = SendMessageBack(
            offset=message.stored.physical_offset,
            group=self._plan.group,
            delay_level=level,
            origin_msg_id=message.message_id,
            origin_topic=message.topic,
            max_reconsume_times=self._plan.retries_max,
        )
        try:
            await self._connections.call(
                self._routes.require_master(broker_name),
                RequestCode.CONSUMER_SEND_MSG_BACK,
                header,
                timeout_ms=_TIMEOUT_MS,
            )
        except ClientError as error:
            _log.warning("message not taken back", broker=broker_name, error=str(error))
            return False
        return True

    async def send(self, message: ReceivedMessage, level: int) -> bool:
        """Send a message to the retry topic; say whether a broker took it."""
        try:
            address, queue_id = await self._destination()
            await self._connections.call(
                address,
                RequestCode.SEND_MESSAGE_V2,
                self._header(message, level, queue_id),
                message.stored.stored_body,
                timeout_ms=_TIMEOUT_MS,
            )
        except ClientError as error:
            _log.warning("message not sent to the retry topic", error=str(error))
            return False
        return True

    async def _destination(self) -> tuple[str, int]:
        """Return the address of a broker with the retry topic, and a queue there."""
        topic = RETRY_PREFIX + self._plan.group
        await self._routes.find(topic)
        queues = self._routes.publish_queues(topic)
        if not queues:
            raise NoRoute(f"no broker takes messages for {topic}")
        chosen = random.choice(queues)  # noqa: S311 - balance, no secret
        return self._routes.require_master(chosen.broker_name), chosen.queue_id

    def _header(self, message: ReceivedMessage, level: int, queue_id: int) -> SendMessageV2:
        stored = message.stored
        times = message.reconsume_times
        pairs = dict(message.properties)
        for name in (properties.TRAN_MSG, properties.CRC32):
            pairs.pop(name, None)
        pairs.setdefault(properties.ORIGIN_MESSAGE_ID, stored.offset_message_id)
        pairs[properties.RETRY_TOPIC] = message.topic
        is_dead = level == DEAD_LETTER_LEVEL
        pairs[properties.DELAY] = str(level if level > 0 else _LEVEL_OF_FIRST_RETRY + times)
        return SendMessageV2(
            producer_group=_INNER_GROUP,
            topic=RETRY_PREFIX + self._plan.group,
            default_topic=TEMPLATE_TOPIC,
            default_topic_queue_nums=_RETRY_TOPIC_QUEUES,
            queue_id=queue_id,
            sys_flag=stored.sys_flag & _OF_THE_BODY,
            born_timestamp=self._clock.now_ms(),
            flag=stored.flag,
            properties=properties.encode(pairs).decode(),
            reconsume_times=max(times, self._plan.retries_max) + 1 if is_dead else times + 1,
            max_reconsume_times=self._plan.retries_max,
        )
