"""One channel of a client: what it publishes, has, and is to be told.

Its callers have checked everything that needs more than the channel: permissions, routing, the
properties of a message. What the client is told goes to a `ChannelClient`, in order.

Invariants

1. A delivery tag is used once; what the client has is under its tag until it is acknowledged,
   rejected, requeued, or the channel ends.
2. A number that was published with confirms is answered once, after the message's return.
3. Between `tx_select` and a commit nothing of a transaction is seen by others; a rollback leaves
   what was acknowledged in it with the client.
4. While a get or a commit is not answered, or steps of something are not done, nothing else may be
   called but `close_in_turns`: what the client asks next has to wait.

Source: `rabbit_channel`; docs/formats/amqp.md.
"""

import secrets
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from itertools import compress, groupby
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.errors import StoreError
from sprocket.base.units import MIB
from sprocket.rabbitmq.broker.channels.confirms import (
    Confirmation,
    PublishConfirms,
    PublishedMessages,
    withdraw,
)
from sprocket.rabbitmq.broker.channels.direct_replies import DirectReplies
from sprocket.rabbitmq.broker.channels.unacked import ConsumedQueue, Held, UnackedDeliveries
from sprocket.rabbitmq.broker.commits import Commits, Waiter, is_unwritten
from sprocket.rabbitmq.broker.queues import (
    BrokerQueue,
    Getter,
    QueueConsumer,
    QueueEntry,
)
from sprocket.rabbitmq.codec.amqp import ReplyCode
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.counts import DeliveryCounts, PublishCounts
from sprocket.rabbitmq.model.fields import NO_FIELDS, FieldTable
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.runtime.turns import SHARE_WORK, Turns

DELIVER_MAX: Final = 200
"""Messages that a consumer is given before it is looked whether its client takes more."""
TX_MESSAGES_MAX: Final = 1_000_000
TX_BYTES_MAX: Final = 512 * MIB
"""What one transaction may hold: the largest message that RabbitMQ can be set to."""
REMOVAL_WORK: Final = 30
"""What it counts at most to take a consumer away."""
RETURNS_PER_WORK: Final = 2
"""How many messages may come back for what it takes to deliver one."""
UNCONFIRMED_BYTES_MAX: Final = 16 * MIB
"""Of what may wait in memory for room on the disk without anybody who waits for it."""
_TAG_BYTES = 16

_is_requeue = attrgetter("is_requeue")

_log = log.get_limited_logger(__name__)


class ChannelClient(Protocol):
    """The client of a channel; only `failed` may close the channel, and nothing else calls it."""

    @property
    def is_ready(self) -> bool:
        """Whether it accepts what it is sent."""

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Call back once when that holds again."""

    def deliver(self, consumer_tag: str, first_tag: int, entries: Sequence[QueueEntry]) -> None:
        """Deliver messages with the tags from `first_tag` on; see `queues.message_of`."""

    def deliver_reply(self, consumer_tag: str, tag: int, message: BasicMessage, key: str) -> None:
        """Deliver a reply that was published to the default exchange with a key."""

    def returned(self, message: BasicMessage) -> None:
        """Give back a message that no queue gets."""

    def confirmed(self, answers: Sequence[Confirmation]) -> None:
        """Answer what was published."""

    def cancelled(self, consumer_tag: str) -> None:
        """Say that a consumer no longer exists, since its queue was deleted."""

    def failed(self, error: RequestRefused) -> None:
        """Close the channel or the connection."""


class MessageTaker(Protocol):
    """What gets a message: a queue, or an exchange that keeps it until it is due."""

    @property
    def label(self) -> str:
        """Its name."""

    @property
    def is_deleted(self) -> bool:
        """Whether it no longer exists, and gets nothing."""

    @property
    def is_durable(self) -> bool:
        """Whether it has persistent messages on the disk."""

    @property
    def keeps_transient(self) -> bool:
        """Whether it has transient ones there, too."""

    def publish(
        self, message: BasicMessage, *, priority: int = 0, expiration_ms: int | None = None
    ) -> bool:
        """Take a message; say whether it was taken. Raises StoreError: then it was not."""

    @property
    def takes_all(self) -> bool:
        """Whether it looks at nothing of a message that does not expire."""

    def publish_all(self, messages: Sequence[BasicMessage]) -> None:
        """Take messages, in order; it `takes_all`. Raises StoreError: then it has none of them."""

    def withdraw(self, messages: Sequence[BasicMessage]) -> set[bytes]:
        """Have messages no more that were refused; see `confirms.Taker`."""


class Publication(NamedTuple):
    """Messages that somebody publishes, alike in all but what they are."""

    messages: Sequence[BasicMessage]
    """One that may not be stored comes alone: its properties are typed values."""
    positions: Sequence[int] = (0,)
    """Where each stands among those that were sent together."""
    queues: Sequence[MessageTaker] = ()
    """Those that get them."""
    priority: int = 0
    expiration_ms: int | None = None
    is_mandatory: bool = False
    """Whether they are to be returned if no queue gets them."""
    reply_key: str | None = None
    """Whose replies they are, if they go to a channel."""


class Got(NamedTuple):
    """The answer to a get."""

    tag: int
    entry: QueueEntry
    left_count: int
    """How many messages are ready after it."""


class ChannelState(NamedTuple):
    """How a channel is set, and what is under way."""

    consumer_count: int
    consumer_prefetch: int
    channel_prefetch: int
    is_confirming: bool
    is_transactional: bool
    unacked_count: int
    unconfirmed_count: int
    uncommitted_count: int
    uncommitted_ack_count: int


class _Settlement(NamedTuple):
    """What is to be done with what a client had."""

    taken: list[Held]
    is_ack: bool = False
    is_requeue: bool = False
    """If it is not acknowledged: whether it is given back."""


class _Transaction:
    """What a client has said since its last commit."""

    def __init__(self) -> None:
        self.published: list[Publication] = []
        self.settled: list[_Settlement] = []
        self.held_count = self.held_bytes = 0


class BrokerChannel:
    """See the head of the module.

    Args:
        client: Gets what happens.
        turns: Calls it at the end of a turn.
        commits: Says when something is durable.
        replies: Knows who waits for replies.
        clock: Measures how long the client has what it does not acknowledge.

    Threads: event loop only.
    """

    def __init__(
        self,
        client: ChannelClient,
        turns: Turns,
        commits: Commits,
        replies: DirectReplies,
        clock: Clock,
    ) -> None:
        self.is_closed = False
        self.delivery_counts = DeliveryCounts()
        self.last_queue = ""
        """The name of the queue that was declared last."""
        self._counts = PublishCounts()
        self._client = client
        self._turns = turns
        self._commits = commits
        self._replies = replies
        self._clock = clock
        self._next_tag = 1
        self._unacked = UnackedDeliveries()
        self._consumed: dict[str, ConsumedQueue] = {}
        """By tag; where the channel has a limit, the consumer that was served last is the last."""
        self._consumer_prefetch = 0
        self._channel_prefetch = 0
        self._limited_count = 0
        """How many messages consumers have, gets left out."""
        self._is_waiting = False
        """Whether the client says when it takes more."""
        self._confirms: PublishConfirms | None = None
        self._transaction: _Transaction | None = None
        self._settling: Iterator[None] = iter(())
        """The rest of what is done with what the client had."""
        self._commit: Waiter | None = None
        """A transaction that this turn makes durable."""
        self._is_due = False
        self._reply_key: str | None = None
        self._reply_tag = ""
        self._getter: Getter | None = None
        self._times: list[tuple[int, float]] = []
        """First tags and when they were delivered, some of them: see `check_overdue`."""

    @property
    def published_counts(self) -> PublishCounts:
        """What it has published."""
        if self._confirms is not None:
            self._counts.to_confirm = self._confirms.next_number - 1
        return self._counts

    # Publishing.

    def publish_in_turns(self, publications: Iterable[Publication]) -> Iterator[None]:
        """Put messages into their queues, or keep them for the commit.

        Nothing is done before the first step is asked for. It yields when others should have their
        turn first; see `Turns.later`. While there is more of it to do, nothing else may be called
        but `close_in_turns`.

        Args:
            publications: What was sent together; what it raises goes on, and what came before is
                put or kept.

        Raises:
            RequestRefused: One cannot be stored, and there is no confirm that could say so; or the
                transaction is too large.
        """
        if self._transaction is not None:
            for publication in publications:
                self._keep(publication, self._transaction)
            return
        confirms = self._confirms
        numbering = None if confirms is None else confirms.number()
        share = self._turns.share()
        for publication in publications:
            for part in _parts(publication):
                work = len(part.messages) * len(part.queues)
                if not share.has_room(work):
                    if numbering is not None:
                        numbering.pause()
                    yield from share.wait(work)
                self._put(part, () if numbering is None else numbering.take(part.positions))

    def _keep(self, publication: Publication, transaction: _Transaction) -> None:
        count = len(publication.messages)
        self._counts.withheld += count
        self._counts.to_confirm += count
        size = sum([one.body_size for one in publication.messages])
        transaction.held_count += count
        transaction.held_bytes += size
        if transaction.held_count > TX_MESSAGES_MAX or transaction.held_bytes > TX_BYTES_MAX:
            raise RequestRefused(ReplyCode.RESOURCE_ERROR, "the transaction is too large")
        transaction.published.append(publication)

    def _put(self, publication: Publication, numbers: Sequence[int]) -> bool:
        """Put messages into their queues; say whether all have taken all.

        Args:
            publication: Which, and where.
            numbers: Of each of them, if there are confirms.
        """
        messages = publication.messages
        count = len(messages)
        self._counts.published += count
        self._turns.work_left -= 1
        # One may have been deleted while the transaction was open.
        queues = [one for one in publication.queues if not one.is_deleted]
        self._counts.routed += count * len(queues)
        confirms = self._confirms
        if not queues:
            self._pass_by(publication)
        elif confirms is None:
            self._check_room(publication)
        refused: set[int] = set()
        is_stored = keeps_transient = False
        for queue in queues:
            is_stored = is_stored or queue.is_durable
            keeps_transient = keeps_transient or queue.keeps_transient
            try:
                if queue.takes_all and publication.expiration_ms is None:
                    queue.publish_all(messages)
                    continue
                for at, message in enumerate(messages):
                    if not queue.publish(
                        message,
                        priority=publication.priority,
                        expiration_ms=publication.expiration_ms,
                    ):
                        refused.add(at)
            except StoreError as error:
                _log.error("a message cannot be stored", queue=queue.label, why=str(error))
                if confirms is None and self._transaction is None:
                    raise RequestRefused(ReplyCode.INTERNAL_ERROR, "") from error
                refused.update(range(len(messages)))
        if confirms is not None:
            self._answer_later(
                messages,
                numbers,
                refused,
                queues,
                confirms,
                is_stored=is_stored,
                keeps_transient=keeps_transient,
            )
            if not self._is_due:
                self._mark()
        return not refused

    def _check_room(self, publication: Publication) -> None:
        """Take only so much of what nobody waits for while the disk has no room for it.

        Raises:
            RequestRefused: More would wait for room.
        """
        if self._commits.failed_write is None or self._transaction is not None:
            return
        if self._commits.waiting_bytes < UNCONFIRMED_BYTES_MAX:
            return
        if any(one.is_durable for one in publication.queues):
            raise RequestRefused(ReplyCode.INTERNAL_ERROR, "") from self._commits.failed_write

    def _pass_by(self, publication: Publication) -> None:
        """Do with messages what is done with those that no queue gets."""
        if publication.is_mandatory:
            self._counts.returned += len(publication.messages)
        elif publication.reply_key is None:
            self._counts.dropped += len(publication.messages)
        for message in publication.messages:
            if publication.reply_key is not None:
                self._replies.deliver(message, publication.reply_key)
            if publication.is_mandatory:
                self._client.returned(message)

    def _answer_later(
        self,
        messages: Sequence[BasicMessage],
        numbers: Sequence[int],
        refused: Container[int],
        queues: Sequence[MessageTaker],
        confirms: PublishConfirms,
        *,
        is_stored: bool,
        keeps_transient: bool,
    ) -> None:
        """Have the client informed that messages were taken, or refused."""
        if refused:
            confirms.refuse([one for at, one in enumerate(numbers) if at in refused])
            kept = [
                (one, message)
                for at, (one, message) in enumerate(zip(numbers, messages, strict=True))
                if at not in refused
            ]
            numbers, messages = [one for one, _ in kept], [message for _, message in kept]
        if not is_stored:
            confirms.take(numbers)
            return
        is_kept = [keeps_transient or one.is_persistent for one in messages]
        if not all(is_kept):
            confirms.take([one for one, kept in zip(numbers, is_kept, strict=True) if not kept])
            numbers, messages = list(compress(numbers, is_kept)), list(compress(messages, is_kept))
        confirms.take_when_durable(PublishedMessages(numbers, messages, queues))

    def confirm_select(self) -> None:
        """Answer what is published from now on. Raises RequestRefused."""
        if self._transaction is not None:
            raise _refused("cannot switch from tx to confirm mode")
        if self._confirms is None:
            self._confirms = PublishConfirms(self._commits, self._client.confirmed, self._counts)

    def turn(self) -> None:
        """Tell the client which of its messages were taken in this turn, and wait for the rest."""
        self._is_due = False
        if self._confirms is not None:
            self._confirms.turn()
        if self._commit is not None:
            commit, self._commit = self._commit, None
            self._commits.wait(commit)

    def _mark(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._turns.mark_last(self)

    # Transactions.

    def tx_select(self) -> None:
        """Keep what is published and acknowledged until the next commit. Raises RequestRefused."""
        if self._confirms is not None:
            raise _refused("cannot switch from confirm to tx mode")
        if self._transaction is None:
            self._transaction = _Transaction()

    def tx_rollback(self) -> None:
        """Forget what was published, and leave with the client what it had.

        Raises:
            RequestRefused: There is no transaction.
        """
        transaction = self._open_transaction()
        self._transaction = _Transaction()
        if transaction.settled:
            # At once: each time all that the client has is put in order.
            self._unacked.put_back([held for one in transaction.settled for held in one.taken])

    def tx_commit(self, done: Callable[[], None]) -> None:
        """Do what was kept, and say so when it is durable.

        If a queue refuses a message the client is told that, and `done` is not called.

        Raises:
            RequestRefused: There is no transaction.
        """
        transaction = self._open_transaction()
        self._transaction = _Transaction()
        self._drive(self._commit_in_turns(transaction, done))

    def _drive(self, work: Iterator[None]) -> None:
        """Do what a commit does, with turns for others in between."""

        def failed(error: Exception) -> None:  # nobody else would tell the client, which waits
            _log.error("a commit failed", exc_info=error)
            if not self.is_closed:
                self._client.failed(RequestRefused(ReplyCode.INTERNAL_ERROR, ""))

        self._turns.drive(work, _nothing, failed)

    def _commit_in_turns(
        self, transaction: _Transaction, done: Callable[[], None]
    ) -> Iterator[None]:
        """Put what was kept, even if the client is gone meanwhile; the rest comes after it."""
        is_taken, share = True, self._turns.share()
        for publication in transaction.published:
            for part in _parts(publication):
                yield from share.wait(len(part.messages) * len(part.queues))
                self._counts.withheld -= len(part.messages)
                is_taken = self._put(part, ()) and is_taken
        if not transaction.published:
            yield from self._settle_in_turns(transaction, is_taken, done)
            return
        told = partial(self._published, transaction, is_taken, done)
        self._commit = Waiter(told, transaction.held_count)
        self._mark()

    def _published(
        self,
        transaction: _Transaction,
        is_taken: bool,
        done: Callable[[], None],
        error: StoreError | None,
    ) -> None:
        """Settle what was settled, now that what was published is durable.

        If that was refused nothing of the transaction is done: what the client had comes back.
        """
        if error is None and transaction.settled:
            self._drive(self._settle_in_turns(transaction, is_taken, done))
            return
        if error is not None and is_unwritten(error):
            withdraw(
                [PublishedMessages((), one.messages, one.queues) for one in transaction.published]
            )
        if error is not None and transaction.settled:
            taken = [held for one in transaction.settled for held in one.taken]
            self._drive(self._undo_in_turns(taken, error))
            return
        self._end(is_taken, done, error)

    def _undo_in_turns(self, taken: list[Held], error: StoreError) -> Iterator[None]:
        if self.is_closed:
            yield from self._return([taken])
        else:
            self._unacked.put_back(taken)
        self._end(False, _nothing, error)

    def _settle_in_turns(
        self, transaction: _Transaction, is_taken: bool, done: Callable[[], None]
    ) -> Iterator[None]:
        share = self._turns.share()
        for is_requeue, some in groupby(transaction.settled, _is_requeue):
            if is_requeue:
                yield from self._return([one.taken for one in some])
                continue
            for settlement in some:
                yield from share.wait(len(settlement.taken))
                self._settle(settlement)
        # Queues give to their storages what was settled when they have their turn.
        self._commit = Waiter(partial(self._end, is_taken, done), len(transaction.settled))
        self._mark()

    def _end(self, is_taken: bool, done: Callable[[], None], error: StoreError | None) -> None:
        """Answer a commit."""
        if self.is_closed:
            return
        if error is not None:
            self._client.failed(RequestRefused(ReplyCode.INTERNAL_ERROR, ""))
        elif not is_taken:
            self._client.failed(_refused("partial tx completion"))
        else:
            done()

    def _open_transaction(self) -> _Transaction:
        if self._transaction is None:
            raise _refused("channel is not transactional")
        return self._transaction

    # Consuming.

    def qos(self, count: int, *, is_global: bool) -> None:
        """Limit what the client has: the channel's, or each consumer's that comes later; 0: not."""
        if is_global:
            self._channel_prefetch = count
        else:
            self._consumer_prefetch = count
            self._channel_prefetch = 0
        self._wake()

    def consume(
        self,
        queue: BrokerQueue,
        tag: str,
        *,
        no_ack: bool = False,
        is_exclusive: bool = False,
        priority: int = 0,
        arguments: FieldTable = NO_FIELDS,
    ) -> str:
        """Deliver from a queue, from the end of this turn on; return the consumer's tag.

        Raises:
            RequestRefused: The tag is in use, or the queue; an empty tag never is.
        """
        tag = self._new_tag(tag)
        consumer = QueueConsumer(
            tag,
            self,
            no_ack=no_ack,
            is_exclusive=is_exclusive,
            prefetch=self._consumer_prefetch,
            priority=priority,
            arguments=arguments,
        )
        queue.add_consumer(consumer)
        self._consumed[tag] = ConsumedQueue(queue, consumer)
        return tag

    def consume_replies(self, tag: str, *, no_ack: bool) -> str:
        """Deliver replies; return the consumer's tag. Raises RequestRefused."""
        if not no_ack:
            raise _refused("reply consumer cannot acknowledge")
        if self._reply_key is not None:
            raise _refused("reply consumer already set")
        self._reply_tag = self._new_tag(tag)
        self._reply_key = self._replies.open(self)
        return self._reply_tag

    @property
    def reply_key(self) -> str:
        """What stands for this channel in `reply-to`. Raises RequestRefused."""
        if self._reply_key is None:
            raise _refused("fast reply consumer does not exist")
        return self._reply_key

    def cancel(self, tag: str) -> None:
        """Deliver nothing more to a consumer, if there is one; it keeps what it has."""
        if self._reply_key is not None and tag == self._reply_tag:
            self._end_replies()
            return
        consumed = self._consumed.get(tag)
        if consumed is not None:
            consumed.queue.remove_consumer(consumed.consumer)  # first it may get what is due
            self._consumed.pop(tag, None)

    def get(
        self,
        queue: BrokerQueue,
        done: Callable[[Got | None], None],
        *,
        no_ack: bool,
    ) -> None:
        """Give the client the first message of a queue; `done` is told None if there is none."""

        def got(entry: QueueEntry | None, left_count: int) -> None:
            counts = self.delivery_counts
            if entry is None:
                counts.got_empty += 1
                done(None)
                return
            tag = self._use_tags(1)
            counts.redelivered += entry.is_delivered
            if no_ack:
                counts.got_no_ack += 1
            else:
                counts.got += 1
                consumer = QueueConsumer("", self)
                consumer.unacked_count = 1
                self._unacked.add(tag, ConsumedQueue(queue, consumer), [entry])
                self._note_time(tag)
            done(Got(tag, entry, left_count))

        def failed(_: StoreError) -> None:
            self._client.failed(RequestRefused(ReplyCode.INTERNAL_ERROR, ""))

        self._getter = Getter(no_ack, got, failed)
        queue.get(self._getter)

    def room(self, *, no_ack: bool) -> int:
        """See `queues.Receiver`."""
        if self.is_closed:
            return 0
        if not self._client.is_ready:
            if not self._is_waiting:
                self._is_waiting = True
                self._client.when_ready(self._ready)
            return 0
        if not self._channel_prefetch:
            return DELIVER_MAX
        left_count = self._channel_prefetch - self._limited_count
        if no_ack and left_count > 0:  # they do not count, but a channel that is full gets nothing
            return DELIVER_MAX
        return min(left_count, DELIVER_MAX)

    def deliver(self, consumer: QueueConsumer, entries: Sequence[QueueEntry]) -> None:
        """See `queues.Receiver`."""
        consumed = self._consumed[consumer.tag]
        tag = self._next_tag
        self._next_tag = tag + len(entries)
        self.delivery_counts.redelivered += sum([one.is_delivered for one in entries])
        if consumer.no_ack:
            self.delivery_counts.delivered_no_ack += len(entries)
        else:
            self.delivery_counts.delivered += len(entries)
            self._limited_count += len(entries)
            self._unacked.add(tag, consumed, entries)
            self._note_time(tag)
        if self._channel_prefetch:
            self._consumed[consumer.tag] = self._consumed.pop(consumer.tag)
        self._client.deliver(consumer.tag, tag, entries)

    def cancelled(self, consumer: QueueConsumer) -> None:
        """See `queues.Receiver`."""
        if self._consumed.pop(consumer.tag, None) is not None:
            self._client.cancelled(consumer.tag)

    def take_reply(self, message: BasicMessage, key: str) -> None:
        """See `direct_replies.ReplyReceiver`."""
        self._client.deliver_reply(self._reply_tag, self._use_tags(1), message, key)

    # Acknowledging.

    def ack(self, tags: Sequence[int]) -> None:
        """Settle what the client had, message by message, in the order of the tags.

        Raises:
            RequestRefused: It does not have one of them. Those before it are settled.
        """
        taken: list[Held] = []
        try:
            for tag in tags:
                taken.append(self._unacked.take(tag))
        finally:
            if taken:
                self._settle_or_keep(_Settlement(taken, is_ack=True))

    def reject(self, tag: int, *, is_requeue: bool) -> None:
        """Give back a message that the client had, or make a dead letter of it.

        Raises:
            RequestRefused: It does not have it.
        """
        self._settle_or_keep(_Settlement([self._unacked.take(tag)], is_requeue=is_requeue))

    def _settle_or_keep(self, settlement: _Settlement) -> None:
        if self._transaction is None:
            self._settle(settlement)
        else:
            self._transaction.settled.append(settlement)

    def settle_in_turns(
        self, tag: int, *, is_ack: bool = False, is_requeue: bool = False
    ) -> Iterator[None]:
        """Acknowledge all that the client has up to a tag, give it back, or make dead letters.

        Nothing is done before the first step is asked for. Each yields when others should have
        their turn; until the last nothing else may be called but `close_in_turns`, which continues
        with them.

        Args:
            tag: Of a message that it has; 0 is all.
            is_ack: Whether it is acknowledged.
            is_requeue: If not: whether it is given back.

        Raises:
            RequestRefused: It does not have that message.
        """
        parts = self._unacked.take_parts(SHARE_WORK, tag)
        if self._transaction is not None:
            return self._keep_parts(parts, self._transaction, is_ack, is_requeue)
        self._settling = self._settle_parts(parts, is_ack, is_requeue)
        return self._settling

    def recover_in_turns(self) -> Iterator[None]:
        """Give back all that the client has, but what it acknowledged in a transaction.

        See `settle_in_turns`.
        """
        self._settling = self._return(self._unacked.take_parts(SHARE_WORK))
        return self._settling

    @property
    def unacked_count(self) -> int:
        """How many messages the client has."""
        return len(self._unacked)

    def state(self) -> ChannelState:
        """Return how it is set, and what is under way."""
        transaction = self._transaction
        return ChannelState(
            consumer_count=len(self._consumed) + (self._reply_key is not None),
            consumer_prefetch=self._consumer_prefetch,
            channel_prefetch=self._channel_prefetch,
            is_confirming=self._confirms is not None,
            is_transactional=transaction is not None,
            unacked_count=len(self._unacked),
            unconfirmed_count=0 if self._confirms is None else self._confirms.open_count,
            uncommitted_count=0 if transaction is None else transaction.held_count,
            uncommitted_ack_count=0
            if transaction is None
            else sum(len(one.taken) for one in transaction.settled),
        )

    def consumed(self) -> list[ConsumedQueue]:
        """Return its consumers and their queues, the consumer of replies left out."""
        return list(self._consumed.values())

    def is_overdue(self, timeout_seconds: float) -> bool:
        """Say whether the client has had something for longer than that, to a second or so."""
        first = self._unacked.first_tag
        if first is None:
            self._times.clear()
            return False
        while len(self._times) > 1 and self._times[1][0] <= first:
            del self._times[0]
        return self._clock.monotonic() - self._times[0][1] > timeout_seconds

    def close_in_turns(self) -> Iterator[None]:
        """Tell the client nothing more from now on, and deliver nothing.

        Returns:
            What forgets its consumers and gives back what it has, which is not begun yet; it yields
            when others should have their turn first. All of it must be done.
        """
        if self.is_closed:
            return iter(())
        self.is_closed = True
        if self._getter is not None:
            self._getter.is_over = True
        if self._confirms is not None:
            self._confirms.end()
        if self._transaction is not None:
            self.tx_rollback()
        self._end_replies()
        return self._give_back()

    def _give_back(self) -> Iterator[None]:
        yield from self._settling  # before the client went it has said that it has these no more
        turns, share = self._turns, self._turns.share()
        all_consumed, self._consumed = self._consumed, {}
        for consumed in all_consumed.values():
            yield from share.wait(REMOVAL_WORK)
            turns.work_left -= REMOVAL_WORK  # its queue may be deleted for that
            consumed.queue.remove_consumer(consumed.consumer)
        yield from self._return(self._unacked.take_parts(SHARE_WORK))

    def _keep_parts(
        self,
        parts: Iterable[list[Held]],
        transaction: _Transaction,
        is_ack: bool,
        is_requeue: bool,
    ) -> Iterator[None]:
        """Keep for the commit what the client has settled."""
        share = self._turns.share()
        for taken in parts:
            self._turns.work_left -= len(taken) // RETURNS_PER_WORK
            transaction.settled.append(_Settlement(taken, is_ack=is_ack, is_requeue=is_requeue))
            yield from share.wait()

    def _settle_parts(
        self, parts: Iterable[list[Held]], is_ack: bool, is_requeue: bool
    ) -> Iterator[None]:
        if is_requeue:
            yield from self._return(parts)
            return
        share = self._turns.share()
        for taken in parts:
            yield from share.wait(len(taken))
            self._settle(_Settlement(taken, is_ack=is_ack))

    def _return(self, parts: Iterable[list[Held]]) -> Iterator[None]:
        """Give messages back; nobody gets any from a queue before all are there that go back to it.

        Others may publish meanwhile, but what they publish has larger numbers.
        """
        turns, share = self._turns, self._turns.share()
        returned: dict[BrokerQueue, None] = {}
        try:
            for taken in parts:
                yield from share.wait()
                turns.work_left -= len(taken) // RETURNS_PER_WORK
                for queue in {held.consumed.queue: None for held in taken}:
                    if queue not in returned:
                        returned[queue] = None
                        queue.hold()
                self._settle(_Settlement(taken, is_requeue=True))
        finally:
            for queue in returned:
                queue.release()
        if self._channel_prefetch:
            self._wake()

    def _settle(self, settlement: _Settlement) -> None:
        taken = settlement.taken
        if settlement.is_ack:
            self.delivery_counts.acked += len(taken)
        by_consumed: dict[ConsumedQueue, list[QueueEntry]] = {}
        for held in taken:
            by_consumed.setdefault(held.consumed, []).append(held.entry)
        for consumed, entries in by_consumed.items():
            queue, consumer = consumed
            if settlement.is_ack:
                queue.ack(consumer, entries)
            elif settlement.is_requeue:
                queue.requeue(consumer, entries)
            else:
                queue.reject(consumer, entries)
            if consumer.tag:
                # After the queue: whoever acknowledges has not the first claim on the room.
                self._limited_count -= len(entries)
        if self._channel_prefetch:
            self._wake()

    def _wake(self) -> None:
        """Have consumers looked at that may have room again.

        Where the channel has a limit of its own they are served at once, the longest waiting first:
        at the end of the turn whichever queue comes first would take all the room, each time.
        """
        for queue, consumer in list(self._consumed.values()):
            if not consumer.is_waiting:
                continue
            if not self._channel_prefetch:
                queue.wake(consumer)
            elif self.room(no_ack=consumer.no_ack) > 0:
                queue.wake(consumer)
                queue.serve()
            else:
                return

    def _ready(self) -> None:
        self._is_waiting = False
        if not self.is_closed:
            self._wake()

    def _use_tags(self, count: int) -> int:
        tag = self._next_tag
        self._next_tag += count
        return tag

    def _note_time(self, tag: int) -> None:
        """Remember when something was delivered, no more than once a second."""
        now = self._clock.monotonic()
        if not self._times or now - self._times[-1][1] >= 1:
            self._times.append((tag, now))

    def _new_tag(self, tag: str) -> str:
        if not tag:
            return f"amq.ctag-{secrets.token_urlsafe(_TAG_BYTES)}"
        if tag in self._consumed or (self._reply_key is not None and tag == self._reply_tag):
            raise RequestRefused(ReplyCode.NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'")
        return tag

    def _end_replies(self) -> None:
        if self._reply_key is not None:
            self._replies.close(self._reply_key)
            self._reply_key = None


def _parts(publication: Publication) -> Iterable[Publication]:
    """Cut a publication so that none of its parts is more work than a client's share."""
    count = max(SHARE_WORK // max(len(publication.queues), 1), 1)
    messages, positions = publication.messages, publication.positions
    if len(messages) <= count:
        return (publication,)
    return (
        publication._replace(
            messages=messages[at : at + count], positions=positions[at : at + count]
        )
        for at in range(0, len(messages), count)
    )


def _nothing() -> None:
    """Tell nobody."""


def _refused(text: str) -> RequestRefused:
    return RequestRefused(ReplyCode.PRECONDITION_FAILED, text)
