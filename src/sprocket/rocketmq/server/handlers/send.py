"""Requests that store messages: 10, 310 and 320."""

from collections.abc import Sequence

from sprocket.base.errors import (
    DiskFailed,
    DiskFull,
    MessageIllegal,
    MessageTooLarge,
    RequestRefused,
    StoreError,
    StoreFailed,
    SyncLate,
)
from sprocket.rocketmq.broker.durable import Durable
from sprocket.rocketmq.broker.send import Sender
from sprocket.rocketmq.codec import properties, send_answer
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import ONEWAY_FLAG, Command
from sprocket.rocketmq.codec.extra import SCHEDULE_TOPIC
from sprocket.rocketmq.codec.frame import JSON, Buffer
from sprocket.rocketmq.codec.headers import SendMessage, SendMessageAnswer, SendMessageV2
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.server.dispatch import Answer, Handler, encoded
from sprocket.rocketmq.store.append import Appended
from sprocket.runtime.driver import Peer


class SendHandlers:
    """Sends, single and in batches; the batch flag decides which, not the code."""

    def __init__(self, sender: Sender, durable: Durable, store_host: bytes) -> None:
        self._sender = sender
        self._durable = durable
        self._pressure = durable.pressure
        self._id_prefix = store_host.hex().upper()
        self._id_start = self._id_prefix.encode()

    def table(self) -> dict[int, Handler]:
        """Return the handler of each code."""
        return {
            RequestCode.SEND_MESSAGE: self.send,
            RequestCode.SEND_MESSAGE_V2: self.send_v2,
            RequestCode.SEND_BATCH_MESSAGE: self.send_v2,
        }

    def send(self, peer: Peer, request: Command) -> None:
        """Store what a request with long field names carries."""
        self._send(peer, request, request.header(SendMessage))

    def send_v2(self, peer: Peer, request: Command) -> None:
        """Store what a request with short field names carries."""
        self._send(peer, request, request.header(SendMessageV2))

    def _send(self, peer: Peer, request: Command, header: SendMessage) -> None:
        if self._pressure.is_full:
            raise _busy()
        if header.batch:
            self._send_batch(peer, request, header)
            return
        record = self._sender.record(header, request.body, peer.host_bytes, request.version)
        if record.topic is header.topic:
            self._durable.append(record, self._stored, peer, request)
        else:
            asked = request, real_queue_id(record, header)
            self._durable.append(record, self._stored_elsewhere, peer, asked)

    def _stored(
        self, peer: Peer, request: Command, stored: Appended | None, error: StoreError | None
    ) -> Sequence[Buffer]:
        """Make the answer to a single send."""
        if stored is not None and error is None and request.serialize == JSON:
            if request.flag & ONEWAY_FLAG:
                return ()
            return (
                send_answer.encode(
                    request.opaque,
                    self._id_start,
                    stored.physical_offset,
                    stored.queue_id,
                    stored.queue_offset,
                    stored.keys[0],
                ),
            )
        return self._stored_batch(peer, request, None if stored is None else (stored,), error)

    def _stored_elsewhere(
        self,
        _peer: Peer,
        asked: tuple[Command, int],
        stored: Appended | None,
        error: StoreError | None,
    ) -> Sequence[Buffer]:
        """Make the answer to a send that waits first, or went to the dead letters.

        It names the queue that was asked for, and where the message lies now, as RocketMQ's does.
        """
        request, queue_id = asked
        if stored is None:
            return encoded(request, _refused(error))
        header = SendMessageAnswer(
            msg_id=f"{self._id_prefix}{stored.physical_offset:016X}",
            queue_id=queue_id,
            queue_offset=stored.queue_offset,
            transaction_id=stored.keys[0],
        )
        if error is None:
            return encoded(request, Answer(0, header))
        return encoded(request, Answer(_code(error), header, str(error)))

    def _send_batch(self, peer: Peer, request: Command, header: SendMessage) -> None:
        records = self._sender.records(header, request.body, peer.host_bytes)
        self._durable.append_batch(records, self._stored_batch, peer, request)

    def _stored_batch(
        self,
        _peer: Peer,
        request: Command,
        stored: Sequence[Appended] | None,
        error: StoreError | None,
    ) -> Sequence[Buffer]:
        """Make the answer to a batch."""
        if not stored:
            return encoded(request, _refused(error))
        first = stored[0]
        header = SendMessageAnswer(
            msg_id=",".join([f"{self._id_prefix}{one.physical_offset:016X}" for one in stored]),
            queue_id=first.queue_id,
            queue_offset=first.queue_offset,
            transaction_id=first.keys[0],
        )
        if error is None:
            return encoded(request, Answer(0, header))
        return encoded(request, Answer(_code(error), header, str(error)))


def real_queue_id(record: NewRecord, header: SendMessage) -> int:
    """Return the queue in which a record that waits will be, or that its sender named."""
    found = properties.find(record.properties, properties.REAL_QID)
    if found is None or record.topic != SCHEDULE_TOPIC:
        return max(0, header.queue_id)
    return int(found)


def _busy() -> RequestRefused:
    return RequestRefused(
        ResponseCode.SYSTEM_BUSY,
        "[OVERLOAD]system busy, the disk is behind and too many messages wait for it",
    )


def _refused(error: StoreError | None) -> Answer:
    """Return the answer to a send that was not stored."""
    assert error is not None
    return Answer(_code(error), None, str(error))


def _code(error: StoreError) -> ResponseCode:
    """Return RocketMQ's code for what became of a send."""
    if isinstance(error, SyncLate):
        return ResponseCode.FLUSH_DISK_TIMEOUT
    if isinstance(error, MessageTooLarge | MessageIllegal):
        return ResponseCode.MESSAGE_ILLEGAL
    if isinstance(error, DiskFull | DiskFailed | StoreFailed):
        return ResponseCode.SERVICE_NOT_AVAILABLE
    return ResponseCode.SYSTEM_ERROR
