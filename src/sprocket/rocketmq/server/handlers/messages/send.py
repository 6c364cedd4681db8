"""Requests that store messages: 10, 310 and 320; and that give messages back: 36."""

import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from msgspec import structs

from sprocket.base.errors import StoreError
from sprocket.rocketmq.broker.messages import (
    DurableAppender,
    Release,
    RetryService,
    Sender,
    real_queue_id,
    recall_handle_of,
)
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.broker.transactions import RecentHalves
from sprocket.rocketmq.codec import quick_answers
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import ONEWAY_FLAG, Command
from sprocket.rocketmq.codec.frame import JSON, Buffer
from sprocket.rocketmq.codec.headers import (
    Region,
    SendMessage,
    SendMessageAnswer,
    SendMessageBack,
    SendMessageV2,
)
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.errors import NotStored, not_stored
from sprocket.rocketmq.model.message import NewHalf, NewRecord, SendRequest
from sprocket.rocketmq.model.rights import Action
from sprocket.rocketmq.server.dispatch import (
    Answer,
    Request,
    Row,
    busy,
    encoded,
    row,
    sending,
    sending_each,
)
from sprocket.rocketmq.store.log import AppendedBatch
from sprocket.runtime.cold_reads import ColdReads
from sprocket.runtime.driver import Peer

M = TypeVar("M", SendMessage, SendMessageBack)

CODES: Mapping[NotStored, ResponseCode] = {
    NotStored.SYNC_LATE: ResponseCode.FLUSH_DISK_TIMEOUT,
    NotStored.REPLICA_LATE: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    NotStored.REPLICA_MISSING: ResponseCode.SLAVE_NOT_AVAILABLE,
    NotStored.ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    NotStored.BUSY: ResponseCode.SYSTEM_ERROR,
    NotStored.UNAVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    NotStored.OTHER: ResponseCode.SYSTEM_ERROR,
}
"""What the answer to a send says."""

MAX_RECONSUME_VERSION = 121
"""3.4.9: from here on a retry's own `maxReconsumeTimes` overrides the group's."""


class _Sent(SendRequest, frozen=True, gc=False):
    """A message that is to be taken up with others, and who waits for its answer."""

    asked: Request


_Asked: TypeAlias = tuple[Peer, Command, int, str, str, NewHalf | None]
"""Who sent what, and what the answer names: the queue, the unique key and the recall handle; and
the record if it is a half message that may soon be ended."""

_AskedBatch: TypeAlias = tuple[Peer, Command, int, str, bool]
"""The same of a batch, and whether it is one record."""


class SendHandlers:
    """Sends, single and in batches; the batch flag decides which, not the code.

    Single ones are taken up together, those of some turns of the loop at once, for which this is a
    `Source` of the group commit.
    """

    def __init__(
        self,
        sender: Sender,
        durable: DurableAppender,
        recent: RecentHalves,
        store_host: bytes,
        broker_name: str,
    ) -> None:
        self._sender = sender
        self._knows = sender.knows
        self._durable = durable
        self._pressure = durable.pressure
        self._recent = recent
        self._broker_name = broker_name
        self._id_prefix = store_host.hex().upper()
        self._id_start = self._id_prefix.encode()
        self._sends: list[_Sent] = []

    def rows(self) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.SEND_MESSAGE, SendMessage, self.send),
            row(RequestCode.SEND_MESSAGE_V2, SendMessageV2, self.send),
            row(RequestCode.SEND_BATCH_MESSAGE, SendMessageV2, self.send),
        ]

    def send(self, asked: Request, header: SendMessage) -> None:
        """Store what a request carries."""
        if self._pressure.is_full:
            raise busy()
        command = asked.command
        if header.max_reconsume_times is not None:
            header = meant(header, command.version)
        request = _Sent(header, command.body, asked.peer.address, asked)
        if header.batch:
            self._send_batch(asked, request)
            return
        sends = self._sends
        if not sends:
            self._durable.enqueue(self)
        sends.append(request)
        if not self._knows(header.topic):
            self._durable.append_now()  # NameServers learn of a new topic as soon as possible

    def _send_batch(self, asked: Request, request: SendRequest) -> None:
        self._durable.append_now()
        peer, command, batch = asked.peer, asked.command, self._sender.batch(request)
        if isinstance(batch, NewRecord):
            one = (peer, command, batch.queue_id, batch.unique_key, True)
            self._durable.append([batch], self._stored_batch, [one])
        else:
            one = (peer, command, batch.shared.queue_id, batch.shared.unique_key, False)
            self._durable.append_batch(batch, self._stored_batch, [one])

    @property
    def waiting_count(self) -> int:
        """How many single messages are to be appended."""
        return len(self._sends)

    def append(self) -> None:
        """Append what was sent in some turns of the loop."""
        sends, self._sends = self._sends, []
        records: list[NewRecord] = []
        asked: list[_Asked] = []
        for send, record in zip(sends, self._sender.records(sends), strict=True):
            request = send.asked
            if not isinstance(record, NewRecord):
                request.fail(record)
                continue
            queue_id, handle, half = record.queue_id, "", None
            if record.topic is not send.message.topic:
                queue_id = real_queue_id(record, send.message)
                handle = recall_handle_of(record, send.message, self._broker_name)
                half = record if isinstance(record, NewHalf) else None
            records.append(record)
            key = record.unique_key
            asked.append((request.peer, request.command, queue_id, key, handle, half))
        self._durable.append(records, self._stored, asked)

    def _stored(
        self, asked: Sequence[_Asked], stored: AppendedBatch | None, error: StoreError | None
    ) -> Release:
        """Make the answers to single sends.

        Of one that waits first, or went to the dead letters, it names the queue that was asked for
        and where the message lies now, as RocketMQ's does.
        """
        ready: defaultdict[Peer, list[Buffer]] = defaultdict(list)
        if stored is None or error is not None:
            for number, (peer, request, queue_id, unique_key, handle, _) in enumerate(asked):
                found = None if stored is None else stored.part(number)
                ready[peer] += self._answer(
                    request, queue_id, unique_key, found, error, handle=handle
                )
            return sending_each(ready)
        encode, start = quick_answers.stored, self._id_start
        physical_offsets, offsets = stored.physical_offsets, stored.queue_offsets
        for (peer, request, queue_id, unique_key, handle, half), place, offset in zip(
            asked, physical_offsets, offsets, strict=True
        ):
            if half is not None:
                self._recent.add(half, offset, place, stored.stored_at_ms)
            if request.serialize != JSON or handle:
                found = AppendedBatch([offset], [place], stored.stored_at_ms)
                ready[peer] += self._answer(
                    request, queue_id, unique_key, found, None, handle=handle
                )
            elif not request.flag & ONEWAY_FLAG:
                frame = encode(request.opaque, start, place, queue_id, offset, unique_key)
                ready[peer].append(frame)
        return sending_each(ready)

    def _stored_batch(
        self, asked: Sequence[_AskedBatch], stored: AppendedBatch | None, error: StoreError | None
    ) -> Release | None:
        """Make the answer to a batch."""
        ((peer, request, queue_id, key, is_inner),) = asked
        if stored is None or error is not None or request.serialize != JSON or is_inner:
            return sending(
                peer, self._answer(request, queue_id, key, stored, error, is_inner_batch=is_inner)
            )
        if request.flag & ONEWAY_FLAG:
            return None
        *before, last = stored.physical_offsets
        start = self._before_last_id(before).encode()
        offset = stored.queue_offsets[0]
        frame = quick_answers.stored(request.opaque, start, last, queue_id, offset, key)
        return sending(peer, [frame])

    def _answer(
        self,
        request: Command,
        queue_id: int,
        unique_key: str,
        stored: AppendedBatch | None,
        error: StoreError | None,
        *,
        is_inner_batch: bool = False,
        handle: str = "",
    ) -> Sequence[Buffer]:
        """Make any answer: where a message or those of a batch lie, or why not."""
        if stored is None:
            assert error is not None
            return encoded(request, Answer(CODES[not_stored(error)], Region(), str(error)))
        *before, last = stored.physical_offsets
        header = SendMessageAnswer(
            msg_id=f"{self._before_last_id(before)}{last:016X}",
            queue_id=queue_id,
            queue_offset=stored.queue_offsets[0],
            transaction_id=unique_key or None,
            batch_uniq_id=unique_key if is_inner_batch else None,
            recall_handle=handle or None,
        )
        if error is None:
            return encoded(request, Answer(0, header))
        return encoded(request, Answer(CODES[not_stored(error)], header, str(error)))

    def _before_last_id(self, physical_offsets: Sequence[int]) -> str:
        """Return the offset message ids of some places in the log, and how the next one begins."""
        if not physical_offsets:
            return self._id_prefix
        hexes = struct.pack(f">{len(physical_offsets)}q", *physical_offsets).hex(",", 8).upper()
        between = f",{self._id_prefix}"
        return f"{self._id_prefix}{hexes.replace(',', between)}{between}"


@dataclass(frozen=True, slots=True)
class RetryHandlers:
    """Messages that consumers could not handle and give back.

    While the disk cannot keep up these are refused as sends are; in RocketMQ both share one pool
    and its checks. A client keeps what was refused and sends it back later.
    """

    _send_back: RetryService
    _durable: DurableAppender
    _stats: Stats
    _topics: Topics

    def rows(self, reads: ColdReads) -> list[Row]:
        """Return the table."""
        return [row(RequestCode.CONSUMER_SEND_MSG_BACK, SendMessageBack, self.send_back, reads)]

    def send_back(self, request: Request, header: SendMessageBack) -> Answer | None:
        """Store a message for another try, or among the dead letters."""
        if self._durable.pressure.is_full:
            raise busy()
        record = self._send_back.record(meant(header, request.command.version))
        if record is None:
            return Answer()
        consumed = properties.find(record.properties, properties.RETRY_TOPIC)
        request.check_topic(consumed or "", Action.SUB)
        # A name that a client made up would stay in the table, and so would the next one.
        origin = self._topics.get(header.origin_topic or "")
        self._stats.sent_back(record.topic if origin is None else origin.name, header.group)
        self._durable.append([record], self._stored, [request])
        return None

    def _stored(
        self, asked: Sequence[Request], stored: AppendedBatch | None, error: StoreError | None
    ) -> Release | None:
        """Make the answer: a success only when it is certain that the message comes again."""
        (request,) = asked
        answer = Answer()
        if stored is None or error is not None:
            answer = Answer(ResponseCode.SYSTEM_ERROR, None, str(error))
        return sending(request.peer, encoded(request.command, answer))


def meant(header: M, version: int) -> M:
    """Return a header without the retries that clients of an old version name and do not mean."""
    if header.max_reconsume_times is None or version >= MAX_RECONSUME_VERSION:
        return header
    return structs.replace(header, max_reconsume_times=None)
