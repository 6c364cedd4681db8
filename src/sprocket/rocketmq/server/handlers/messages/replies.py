"""Replies to requests that are messages: 324 and 325, pushed on with 326.

A producer that wants a reply sends its own client id in the message. The consumer of the message
sends the reply here. The broker pushes it to that client over the connection on which it produces,
and after that, whatever the result, stores it in the reply topic too. The replier gets the code of
the push; the message id shows whether the reply was stored.

While the disk cannot keep up, replies are pushed and not stored: a push needs no disk, somebody
waits for it, and RocketMQ too answers with the result of the push when storing is refused.

Source: RocketMQ `ReplyMessageProcessor`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from msgspec import structs

from sprocket.base import log
from sprocket.base.errors import ClientError, StoreError
from sprocket.rocketmq.broker.groups import ClientManager
from sprocket.rocketmq.broker.messages import (
    REGION,
    DurableAppender,
    Release,
    Sender,
    real_queue_id,
)
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.frame import Buffer
from sprocket.rocketmq.codec.headers import (
    PushReply,
    SendMessage,
    SendMessageAnswer,
    SendReply,
    SendReplyV2,
)
from sprocket.rocketmq.codec.record import ids, properties
from sprocket.rocketmq.model.message import NewRecord, SendRequest
from sprocket.rocketmq.remoting import Channels
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, busy, encoded, row, sending
from sprocket.rocketmq.server.handlers.messages.send import meant
from sprocket.rocketmq.store.log import AppendedBatch
from sprocket.runtime.driver import Peer

PUSH_SECONDS = 10.0
"""How long a client may take to accept its reply, RocketMQ's limit."""

NOT_STORED = "0"
"""The message id of a reply that was not stored."""

_Asked: TypeAlias = tuple[Request, int, str]
"""The replier's request, the queue of the reply topic, and why the push failed, if it did."""

_log = log.get_limited_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReplyHandlers:
    """Replies on their way back, over the connections that members produce on."""

    _sender: Sender
    _durable: DurableAppender
    _members: ClientManager
    _channels: Channels
    _store_host: bytes
    _now_ms: Callable[[], int]

    def rows(self) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.SEND_REPLY_MESSAGE, SendReply, self.reply),
            row(RequestCode.SEND_REPLY_MESSAGE_V2, SendReplyV2, self.reply),
        ]

    def reply(self, request: Request, header: SendMessage) -> None:
        """Push a reply, and have it stored after that."""
        peer = request.peer
        sent = meant(header, request.command.version)
        record = self._sender.record(SendRequest(sent, request.body, peer.address))
        # A reply is stored without the cluster, which would make it look like a request.
        record = structs.replace(
            record, properties=properties.remove(record.properties, properties.CLUSTER)
        )
        store = partial(self._store, request, record, real_queue_id(record, header))
        client_id = properties.decode(header.properties).get(properties.REPLY_TO_CLIENT)
        if client_id is None:
            store("reply message properties[REPLY_TO_CLIENT] is null")
            return
        link = self._members.producer_link(client_id)
        if not isinstance(link, Peer):
            store(f"push reply message fail, channel of <{client_id}> not found.")
            return

        def pushed(found: Command | None, error: ClientError | None) -> None:
            is_taken = found is not None and found.code == ResponseCode.SUCCESS
            why = f"push reply message to {client_id} fail. {error or ''}".strip()
            store("" if is_taken else why)

        push = self._push(peer, header)
        code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        self._channels.call(link, code, push, request.body, PUSH_SECONDS, pushed)

    def _push(self, peer: Peer, header: SendMessage) -> PushReply:
        """Return the header that tells the waiting client of its reply."""
        now_ms = self._now_ms()
        found = properties.decode(header.properties)
        found |= {
            properties.PUSH_REPLY_TIME: str(now_ms),
            properties.MSG_REGION: REGION,
            properties.TRACE_ON: "true",
        }
        return PushReply(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic or "",
            default_topic_queue_nums=header.default_topic_queue_nums or 0,
            queue_id=max(0, header.queue_id),
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=properties.encode(found).decode(),
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
            born_host=peer.address,
            store_host=ids.host_text(self._store_host),
            store_timestamp=now_ms,
        )

    def _store(self, request: Request, record: NewRecord, queue_id: int, why: str) -> None:
        """Store a reply whose push has ended."""
        if self._durable.pressure.is_full:
            _log.warning("a reply was not stored", why=str(busy()))
            request.peer.send(self._answer(request, queue_id, why, None))
        else:
            self._durable.append([record], self._stored, [(request, queue_id, why)])

    def _stored(
        self, asked: Sequence[_Asked], stored: AppendedBatch | None, error: StoreError | None
    ) -> Release | None:
        """Make the answer: its code says whether the reply has reached who waits for it."""
        ((request, queue_id, why),) = asked
        place = None
        if stored is None:
            _log.warning("a reply was not stored", why=str(error))
        else:
            place = stored.queue_offsets[0], stored.physical_offsets[0]
        return sending(request.peer, self._answer(request, queue_id, why, place))

    def _answer(
        self, request: Request, queue_id: int, why: str, place: tuple[int, int] | None
    ) -> Sequence[Buffer]:
        queue_offset, message_id = 0, NOT_STORED
        if place is not None:
            queue_offset, physical_offset = place
            message_id = ids.offset_message_id(self._store_host, physical_offset)
        header = SendMessageAnswer(msg_id=message_id, queue_id=queue_id, queue_offset=queue_offset)
        code = ResponseCode.SYSTEM_ERROR if why else ResponseCode.SUCCESS
        return encoded(request.command, Answer(code, header, why or None))
