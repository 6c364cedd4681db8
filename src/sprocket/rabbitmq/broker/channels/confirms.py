"""The numbers of what a client publishes, and which of them it is told.

Numbers rise by one with each message, and each is answered once: it is taken, or refused. Answers
of one turn go out together, as few as possible: an answer with `multiple` stands for everything up
to it that was not answered before.

What came together is put into queues in an order of its own, and perhaps in several turns. An
answer that is given in between stands for nothing that was not put anywhere.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple, Protocol

from sprocket.base.errors import StoreError
from sprocket.rabbitmq.broker.commits import Commits, Waiter, is_unwritten
from sprocket.rabbitmq.model.counts import PublishCounts
from sprocket.rabbitmq.model.message import BasicMessage


class Confirmation(NamedTuple):
    """An answer to what was published."""

    number: int
    is_multiple: bool
    """Whether it is about all up to that number which were not answered."""
    is_taken: bool


class Taker(Protocol):
    """What got messages: a queue, or an exchange that keeps them until they are due."""

    def withdraw(self, messages: Sequence[BasicMessage]) -> set[bytes]:
        """Have messages no more that were refused, as the write after them has failed.

        Returns:
            The ids of those that were there.
        """


class PublishedMessages(NamedTuple):
    """Messages that wait to be durable, each in all of some queues."""

    numbers: Sequence[int]
    messages: Sequence[BasicMessage]
    queues: Sequence[Taker]


def withdraw(stored: Iterable[PublishedMessages]) -> set[bytes]:
    """Take messages out of their queues that were refused; return the ids of those found there."""
    found: set[bytes] = set()
    for one in stored:
        for queue in one.queues:
            found |= queue.withdraw(one.messages)
    return found


class PublishConfirms:
    """The confirms of one channel.

    Args:
        commits: Says when something is durable.
        tell: Tells the client, in this order.
        counts: Where the taken ones are counted.
    """

    def __init__(
        self,
        commits: Commits,
        tell: Callable[[list[Confirmation]], None],
        counts: PublishCounts,
    ) -> None:
        self._counts = counts
        self._commits = commits
        self._tell = tell
        self.next_number = 1
        """The lowest number of what is in no queue yet; see `number`."""
        self._taken: list[int] = []
        self._refused: list[int] = []
        self._storing: list[PublishedMessages] = []
        """Those that wait for what this turn writes."""
        self._groups: dict[int, list[int]] = {}
        """Those that wait for earlier turns, by the first number of each."""
        self._is_over = False

    @property
    def open_count(self) -> int:
        """How many are not answered."""
        waiting = sum([len(numbers) for numbers in self._groups.values()])
        waiting += sum([len(one.numbers) for one in self._storing])
        return waiting + len(self._taken) + len(self._refused)

    def number(self) -> "Numbering":
        """Begin to count messages that were published together."""
        return Numbering(self)

    def take(self, numbers: Iterable[int]) -> None:
        """Answer at the end of this turn that messages were taken."""
        self._taken += numbers

    def refuse(self, numbers: Iterable[int]) -> None:
        """Answer at the end of this turn that messages were refused."""
        self._refused += numbers

    def take_when_durable(self, stored: PublishedMessages) -> None:
        """Answer that messages were taken when what this turn writes is durable.

        If it cannot be written they are taken out of their queues and refused.
        """
        if stored.numbers:
            self._storing.append(stored)

    def turn(self) -> None:
        """Wait for what this turn has stored, and answer what waits for nothing."""
        if self._storing:
            stored, self._storing = self._storing, []
            numbers = sorted(chain.from_iterable([one.numbers for one in stored]))
            self._groups[numbers[0]] = numbers
            told = partial(self._committed, numbers, stored)
            self._commits.wait(Waiter(told, len(numbers), len(numbers)))
        self._answer()

    def end(self) -> None:
        """Answer nothing any more."""
        self._is_over = True

    def _committed(
        self, numbers: list[int], stored: Sequence[PublishedMessages], error: StoreError | None
    ) -> None:
        refused: list[int] = []
        if error is not None and is_unwritten(error):
            found = withdraw(stored)
            for one in stored:
                # What is nowhere any more was consumed by all who were to get it.
                refused += [
                    number
                    for number, message in zip(one.numbers, one.messages, strict=True)
                    if message.id in found
                ]
        elif error is not None:
            refused = numbers
        if self._is_over:
            return
        del self._groups[numbers[0]]
        if refused:
            self._refused += refused
            gone = set(refused)
            numbers = [number for number in numbers if number not in gone]
        self._taken += numbers
        self._answer()

    def _answer(self) -> None:
        """Tell what is known, refusals first: an answer with `multiple` would include them."""
        taken, refused = self._taken, self._refused
        if not taken and not refused:
            return
        self._taken, self._refused = [], []
        self._counts.confirmed += len(taken)
        answers = [Confirmation(number, False, False) for number in sorted(refused)]
        if taken:
            taken.sort()
            open_numbers = [self.next_number, *self._groups]
            open_numbers += [min(one.numbers) for one in self._storing]
            first_open = min(open_numbers)
            up_to = [number for number in taken if number < first_open]
            if up_to:
                answers.append(Confirmation(up_to[-1], len(up_to) > 1, True))
            answers += [Confirmation(number, False, True) for number in taken[len(up_to) :]]
        self._tell(answers)


class Numbering:
    """Gives numbers to messages that were published together, in the order in which they are put.

    Args:
        confirms: Of their channel.
    """

    __slots__ = ("_confirms", "_count", "_first", "_gap", "_put")

    def __init__(self, confirms: PublishConfirms) -> None:
        self._confirms = confirms
        self._first = confirms.next_number
        self._count = 0
        self._put: list[Sequence[int]] = []
        """Positions that were put since the last pause, and those beyond the first gap."""
        self._gap = 0
        """The lowest position that was not put, at the last pause."""

    def take(self, positions: Sequence[int]) -> list[int]:
        """Return the numbers of messages that are put now.

        Args:
            positions: Where they stand among all; in the end each position was given once, from
                0 on.
        """
        self._put.append(positions)
        self._count += len(positions)
        self._confirms.next_number = self._first + self._count
        return [self._first + position for position in positions]

    def pause(self) -> None:
        """Note that others have their turn before the rest is put."""
        put = set(chain.from_iterable(self._put))
        while self._gap in put:
            put.remove(self._gap)
            self._gap += 1
        self._put = [list(put)]
        self._confirms.next_number = self._first + self._gap
