"""Requests that store messages: 10, 310 and 320."""

from collections.abc import Sequence

from sprocket.base.errors import (
    DiskFailed,
    DiskFull,
    MessageTooLarge,
    StoreError,
    StoreFailed,
    SyncLate,
)
from sprocket.rocketmq.broker.durable import Durable
from sprocket.rocketmq.broker.send import Sender
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.codec import send_answer
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.frame import JSON
from sprocket.rocketmq.codec.headers import SendMessage, SendMessageAnswer, SendMessageV2
from sprocket.rocketmq.server.dispatch import Answer, Handler, answer
from sprocket.rocketmq.store.store import Appended
from sprocket.runtime.driver import Peer


class SendHandlers:
    """Sends, single and in batches; the batch flag decides which, not the code."""

    def __init__(self, sender: Sender, durable: Durable, store_host: bytes, stats: Stats) -> None:
        self._sender = sender
        self._durable = durable
        self._stats = stats
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
        if header.batch:
            self._send_batch(peer, request, header)
            return
        record = self._sender.record(header, request.body, peer.host_bytes, request.version)

        def done(stored: Appended | None, error: StoreError | None) -> None:
            if stored is None:
                answer(peer, request, _refused(error))
                return
            self._stats.put += 1
            if error is None and request.serialize == JSON:
                if not request.is_oneway:
                    peer.send(
                        send_answer.encode(
                            request.opaque,
                            self._id_start,
                            stored.physical_offset,
                            stored.queue_id,
                            stored.queue_offset,
                            record.keys[0],
                        )
                    )
                return
            header = SendMessageAnswer(
                msg_id=f"{self._id_prefix}{stored.physical_offset:016X}",
                queue_id=stored.queue_id,
                queue_offset=stored.queue_offset,
                transaction_id=record.keys[0],
            )
            if error is None:
                answer(peer, request, Answer(0, header))
            else:
                answer(peer, request, Answer(_code(error), header, str(error)))

        self._durable.append(record, done)

    def _send_batch(self, peer: Peer, request: Command, header: SendMessage) -> None:
        records = self._sender.records(header, request.body, peer.host_bytes)

        def done(stored: Sequence[Appended] | None, error: StoreError | None) -> None:
            if stored is None:
                answer(peer, request, _refused(error))
                return
            self._stats.put += len(stored)
            header = SendMessageAnswer(
                msg_id=",".join([f"{self._id_prefix}{one.physical_offset:016X}" for one in stored]),
                queue_id=stored[0].queue_id,
                queue_offset=stored[0].queue_offset,
                transaction_id=records[0].keys[0],
            )
            if error is None:
                answer(peer, request, Answer(0, header))
            else:
                answer(peer, request, Answer(_code(error), header, str(error)))

        self._durable.append_batch(records, done)


def _refused(error: StoreError | None) -> Answer:
    """Return the answer to a send that was not stored."""
    assert error is not None
    return Answer(_code(error), None, str(error))


def _code(error: StoreError) -> ResponseCode:
    """Return RocketMQ's code for what became of a send."""
    if isinstance(error, SyncLate):
        return ResponseCode.FLUSH_DISK_TIMEOUT
    if isinstance(error, MessageTooLarge):
        return ResponseCode.MESSAGE_ILLEGAL
    if isinstance(error, DiskFull | DiskFailed | StoreFailed):
        return ResponseCode.SERVICE_NOT_AVAILABLE
    return ResponseCode.SYSTEM_ERROR
