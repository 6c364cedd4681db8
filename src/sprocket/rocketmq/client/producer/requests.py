"""Requests and replies that are messages.

    reply = await producer.request(Message("prices", b"bolt"), timeout_ms=2_000)

The request names the client that waits and carries a number; a consumer answers it with
`producer.send(reply_to(message, body))`; the broker pushes the answer to the client that waits,
over the connection that its heartbeats have made known. So both must be connected to one broker.

Source: `RequestFutureHolder`, `MessageUtil`, `ClientRemotingProcessor`, 5.3.3.
"""

import asyncio
import uuid
from collections.abc import Mapping

from msgspec.structs import replace

from sprocket.base.clock import Clock
from sprocket.base.errors import InvalidMessage, WireError
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.codec.command import Command, response
from sprocket.rocketmq.codec.headers import PushReply
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.model.message import Message, StoredMessage
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.runtime.driver import Peer

_REPLY_TOPIC = "{}_REPLY_TOPIC"
_OWN = (properties.CORRELATION_ID, properties.REPLY_TO_CLIENT, properties.TTL)
"""What a reply takes over from its request."""


def reply_to(
    request: ReceivedMessage,
    body: bytes,
    *,
    tag: str = "",
    own_properties: Mapping[str, str] | None = None,
) -> Message:
    """Return the message that answers a request; send it with any producer.

        async def listener(messages: list[ReceivedMessage]) -> None:
            for message in messages:
                await producer.send(reply_to(message, b"42"))

    Args:
        request: As it was received.
        body: At least one byte.
        tag: For the one that waits.
        own_properties: For the one that waits.

    Raises:
        InvalidMessage: The message is not a request, or does not say from which cluster it came.
    """
    told = request.properties
    missing = [name for name in (*_OWN, properties.CLUSTER) if not told.get(name)]
    if missing:
        raise InvalidMessage(
            f"message {request.message_id} of topic {request.topic} cannot be replied to: it has no"
            f" property {', '.join(missing)}; was it sent with `request`?"
        )
    pairs = {**(own_properties or {}), properties.MSG_TYPE: properties.REPLY}
    pairs |= {name: told[name] for name in _OWN}
    return Message(_REPLY_TOPIC.format(told[properties.CLUSTER]), body, tag, properties=pairs)


class Requests:
    """Requests that wait for their answers, which the broker pushes to the client of this id."""

    def __init__(self, client_id: str, clock: Clock) -> None:
        self._client_id = client_id
        self._clock = clock
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}

    def expect(
        self, message: Message, timeout_ms: int
    ) -> "tuple[str, Message, asyncio.Future[ReceivedMessage]]":
        """Return a new number, the message with it, and the future of the answer.

        Raises:
            InvalidMessage: The message is a request already.
        """
        if properties.CORRELATION_ID in message.properties:
            raise InvalidMessage(
                f"property {properties.CORRELATION_ID} is given to a request by the client"
            )
        number = str(uuid.uuid4())
        marks = {
            properties.CORRELATION_ID: number,
            properties.REPLY_TO_CLIENT: self._client_id,
            properties.TTL: str(timeout_ms),
        }
        reply: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        self._waiting[number] = reply
        return number, replace(message, properties={**message.properties, **marks}), reply

    def forget(self, number: str) -> None:
        """Drop a request; an answer that comes later is ignored."""
        self._waiting.pop(number, None)

    def take(self, peer: Peer, command: Command) -> bool:
        """Take PUSH_REPLY_MESSAGE_TO_CLIENT 326; False if it answers no request of this user."""
        try:
            header = command.header(PushReply)
        except WireError as wrong:
            peer.send(response(command, ResponseCode.SYSTEM_ERROR, None, str(wrong)))
            return True
        pairs = properties.decode(header.properties)
        reply = self._waiting.pop(pairs.get(properties.CORRELATION_ID, ""), None)
        if reply is None:
            return False
        peer.send(response(command, ResponseCode.SUCCESS))
        if not reply.done():
            pairs[properties.ARRIVE_TIME] = str(self._clock.now_ms())
            reply.set_result(_received(header, pairs, command.body))
        return True


def _received(header: PushReply, pairs: dict[str, str], body: bytes) -> ReceivedMessage:
    stored = StoredMessage(
        topic=header.topic,
        queue_id=header.queue_id,
        queue_offset=0,
        physical_offset=0,
        store_size=0,
        magic=0,
        born_at_ms=header.born_timestamp,
        born_host=header.born_host,
        stored_at_ms=header.store_timestamp,
        store_host=header.store_host,
        sys_flag=header.sys_flag,
        flag=header.flag,
        body_crc=0,
        reconsume_times=header.reconsume_times,
        prepared_transaction_offset=0,
        properties=pairs,
        stored_body=body,
    )
    return ReceivedMessage(stored, MessageQueue(header.topic, "", header.queue_id))
