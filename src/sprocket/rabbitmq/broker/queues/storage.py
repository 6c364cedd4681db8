"""What a queue keeps its messages in."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from msgspec import Struct

from sprocket.base.disk import Call, StepsTo
from sprocket.rabbitmq.model.message import BasicMessage


class ReadEntry(Protocol):
    """A message in a queue, as it is read back."""

    @property
    def seq_id(self) -> int:
        """Its number in the queue."""

    @property
    def message(self) -> BasicMessage:
        """What was published."""

    @property
    def expires_at_us(self) -> int | None:
        """When it expires, microseconds since 1970; None for never."""

    @property
    def is_delivered(self) -> bool:
        """Whether somebody may have had it already."""


class WithdrawnEntry(Protocol):
    """A message that is in a queue no more."""

    @property
    def id(self) -> bytes:
        """Its id."""

    @property
    def body_bytes(self) -> int:
        """The size of its body."""


class QueueStorage(Protocol):
    """Keeps the messages of one queue, or of one priority of it, by rising numbers.

    What is called is done in memory, until the turn's write makes it durable; only what gives steps
    may wait. A storage on disk is `store`'s; `MemoryStorage` keeps what need not outlive a restart.
    """

    next_seq_id: int
    """The first number that was never used when this was opened."""

    @property
    def unreadable(self) -> Mapping[int, str]:
        """Why messages cannot be given out that were to be read, by their numbers."""

    def size_of(self, seq_id: int) -> int:
        """Return the size of a message's body, if it was read, or was to be."""

    @property
    def body_bytes(self) -> int:
        """The size of all bodies together."""

    def publish(
        self,
        first_seq_id: int,
        messages: Sequence[BasicMessage],
        *,
        expires_at_us: int | None,
        is_delivered: bool,
    ) -> None:
        """Keep messages under numbers from the first on, which is larger than all before.

        Raises:
            StoreError: None is kept. That can only be if there is one, with typed properties.
        """

    def deliver(self, seq_ids: Sequence[int]) -> None:
        """Note that messages may have been seen: after a restart they are delivered again."""

    def ack(self, seq_ids: Sequence[int]) -> None:
        """Forget messages; each is named once."""

    @property
    def unwritten_from(self) -> int:
        """The first number of what no write has taken along; -1 if there is nothing."""

    def withdraw(self, message_ids: Collection[bytes]) -> Mapping[int, WithdrawnEntry]:
        """Forget messages that were refused as the write after them has failed.

        Returns:
            Those that were there, by number.
        """

    def read(self, start: int, end: int) -> StepsTo[Sequence[ReadEntry]]:
        """Return what has a number from `start` up to, not including, `end`, in order.

        What steps give is as of a moment between their begin and their end; none of it has been
        forgotten before the begin. Raises StoreError.
        """

    def unacked_count(self) -> int:
        """Return how many messages there are."""

    def purge(self) -> None:
        """Forget all messages."""

    def remove(self) -> StepsTo[None]:
        """Take away whatever there is of the queue. Raises StoreError."""


class _Gone(NamedTuple):
    id: bytes
    body_bytes: int


class _Kept(Struct, frozen=True, gc=False):
    seq_id: int
    message: BasicMessage
    expires_at_us: int | None
    is_delivered: bool


class MemoryStorage:
    """Keeps messages in memory: what is transient, and what belongs to transient queues.

    Threads: event loop only.
    """

    __slots__ = (
        "_delivered",
        "_kept",
        "next_seq_id",
        "unreadable",
    )

    def __init__(self, next_seq_id: int = 0) -> None:
        self.next_seq_id = next_seq_id
        self.unreadable: dict[int, str] = {}
        self._kept: dict[int, _Kept] = {}
        self._delivered: set[int] = set()

    @property
    def body_bytes(self) -> int:
        """The size of all bodies together; looks at all messages."""
        return sum([one.message.body_size for one in self._kept.values()])

    def publish(
        self,
        first_seq_id: int,
        messages: Sequence[BasicMessage],
        *,
        expires_at_us: int | None,
        is_delivered: bool,
    ) -> None:
        """Keep messages."""
        kept = self._kept
        for seq_id, message in enumerate(messages, first_seq_id):
            kept[seq_id] = _Kept(seq_id, message, expires_at_us, is_delivered)
        self.next_seq_id = first_seq_id + len(messages)

    def size_of(self, seq_id: int) -> int:
        """Return the size of a message's body."""
        return self._kept[seq_id].message.body_size

    def deliver(self, seq_ids: Sequence[int]) -> None:
        """Note that messages may have been seen."""
        self._delivered.update(seq_ids)

    def ack(self, seq_ids: Sequence[int]) -> None:
        """Forget messages."""
        forget = self._kept.__delitem__
        for seq_id in seq_ids:
            forget(seq_id)
        self._delivered.difference_update(seq_ids)

    @property
    def unwritten_from(self) -> int:
        """Nothing waits for a write."""
        return -1

    def withdraw(self, message_ids: Collection[bytes]) -> dict[int, WithdrawnEntry]:
        """Forget messages; those that came last are found soonest."""
        found: dict[int, WithdrawnEntry] = {}
        for one in reversed(self._kept.values()):
            if one.message.id in message_ids:
                found[one.seq_id] = _Gone(one.message.id, one.message.body_size)
                if len(found) == len(message_ids):
                    break
        self.ack(list(found))
        return found

    def read(self, start: int, end: int) -> StepsTo[Sequence[ReadEntry]]:
        """Return what has a number of a range, in order; costs no more than the range is long."""
        yield from _NO_CALLS
        return [
            _Kept(one.seq_id, one.message, one.expires_at_us, True)
            if one.seq_id in self._delivered
            else one
            for one in self._between(start, end)
        ]

    def unacked_count(self) -> int:
        """Return how many messages there are."""
        return len(self._kept)

    def purge(self) -> None:
        """Forget all messages."""
        self._kept.clear()
        self._delivered.clear()

    def remove(self) -> StepsTo[None]:
        """Forget all messages."""
        yield from _NO_CALLS
        self.purge()

    def _between(self, start: int, end: int) -> Iterable[_Kept]:
        kept = self._kept
        if end - start <= len(kept):
            return [kept[seq_id] for seq_id in range(start, end) if seq_id in kept]
        seq_ids = list(kept)  # they were put in in rising order
        first = bisect_left(seq_ids, start)
        return [kept[seq_id] for seq_id in islice(seq_ids, first, bisect_left(seq_ids, end))]


_NO_CALLS: Sequence[Call] = ()
