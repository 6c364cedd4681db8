"""Which numbers a client is told, when, and how few answers say so."""

from collections.abc import Sequence

from tests.rabbit_queues import message

from sprocket.base.errors import DiskFull, StoreError
from sprocket.rabbitmq.broker.channels import Confirmation
from sprocket.rabbitmq.broker.channels.confirms import PublishConfirms, PublishedMessages
from sprocket.rabbitmq.broker.commits import Waiter
from sprocket.rabbitmq.model.counts import PublishCounts
from sprocket.rabbitmq.model.message import BasicMessage


class Publisher:
    """A channel's confirms; its turns are durable when the test says so.

    Attributes:
        told: What the client was told since it was looked at.
    """

    def __init__(self) -> None:
        self.told: list[Confirmation] = []
        self.counts = PublishCounts()
        self.confirms = PublishConfirms(self, self.told.extend, self.counts)
        self.failed_write: StoreError | None = None
        self.waiting_bytes = 0
        self._waiting: list[Waiter] = []

    def wait(self, asker: Waiter, /) -> None:
        """Keep somebody waiting."""
        self._waiting.append(asker)

    def commit(self, error: StoreError | None = None) -> None:
        """Make the oldest turn durable, or not."""
        self._waiting.pop(0).told(error)

    def put(self, count: int) -> list[int]:
        """Return the numbers of messages that are put at once."""
        return self.confirms.number().take(range(count))

    def said(self) -> list[Confirmation]:
        """Return what the client was told since the last call."""
        found, self.told[:] = list(self.told), []
        return found


class Keeper:
    """A queue that has all that was put into it."""

    def withdraw(self, messages: Sequence[BasicMessage]) -> set[bytes]:
        """Find all."""
        return {one.id for one in messages}


def stored(numbers: Sequence[int]) -> PublishedMessages:
    """Return what messages with some numbers wait as."""
    return PublishedMessages(numbers, [message(one) for one in numbers], [Keeper()])


def one(number: int) -> Confirmation:
    """Return the answer about a message that was taken."""
    return Confirmation(number, False, True)


def up_to(number: int) -> Confirmation:
    """Return the answer about all messages up to a number."""
    return Confirmation(number, True, True)


def test_what_is_not_answered_is_counted() -> None:
    """What waits for this turn's end, for its write, and for earlier ones; what was told is not."""
    publisher = Publisher()
    confirms = publisher.confirms
    numbers = publisher.put(6)
    confirms.take(numbers[:1])
    confirms.refuse(numbers[1:2])
    confirms.take_when_durable(stored(numbers[2:4]))
    assert confirms.open_count == 4
    confirms.turn()
    confirms.take_when_durable(stored(numbers[4:]))
    assert confirms.open_count == 4
    confirms.turn()
    publisher.commit()
    assert confirms.open_count == 2
    publisher.commit()
    assert (confirms.open_count, publisher.counts.confirmed) == (0, 5)


def test_refusals_come_first_and_one_by_one() -> None:
    """An answer about several would include them."""
    publisher = Publisher()
    numbers = publisher.put(5)
    publisher.confirms.take(numbers[:1] + numbers[3:])
    publisher.confirms.refuse([numbers[2], numbers[1]])
    publisher.confirms.turn()
    assert publisher.said() == [
        Confirmation(2, False, False),
        Confirmation(3, False, False),
        up_to(5),
    ]


def test_an_answer_about_one_is_not_about_several() -> None:
    """Though it is the lowest."""
    publisher = Publisher()
    publisher.confirms.take(publisher.put(1))
    publisher.confirms.turn()
    assert publisher.said() == [one(1)]


def test_a_turn_that_is_not_durable_holds_back_what_is_above_it() -> None:
    """What is below goes out together, the rest one by one; a turn that fails is refused."""
    publisher = Publisher()
    numbers = publisher.put(6)
    publisher.confirms.take_when_durable(stored([numbers[3], numbers[2]]))
    publisher.confirms.take([*numbers[:2], *numbers[4:]])
    publisher.confirms.turn()
    assert publisher.said() == [up_to(2), one(5), one(6)]
    publisher.commit(DiskFull("full"))
    assert publisher.said() == [Confirmation(3, False, False), Confirmation(4, False, False)]


def test_what_this_turn_stores_holds_back_what_an_earlier_one_has_stored() -> None:
    """An earlier turn may be durable before this one is over."""
    publisher = Publisher()
    numbers = publisher.put(4)
    publisher.confirms.take_when_durable(stored([numbers[0], numbers[3]]))
    publisher.confirms.turn()
    publisher.confirms.take_when_durable(stored(numbers[1:3]))
    publisher.commit()
    assert publisher.said() == [one(1), one(4)]
    publisher.confirms.turn()
    publisher.commit()
    assert publisher.said() == [up_to(3)]


def test_what_was_not_put_before_a_pause_is_included_in_no_answer() -> None:
    """Whatever order the messages of one publishing are put in."""
    publisher = Publisher()
    confirms = publisher.confirms
    confirms.take(publisher.put(2))
    numbering = confirms.number()
    confirms.take(numbering.take([1, 3]))
    numbering.pause()
    confirms.turn()
    assert publisher.said() == [up_to(2), one(4), one(6)]
    confirms.take(numbering.take([0]))
    numbering.pause()
    confirms.turn()
    assert publisher.said() == [one(3)]
    confirms.take(numbering.take([2, 4]))
    numbering.pause()
    confirms.turn()
    assert publisher.said() == [up_to(7)]
    assert publisher.put(1) == [8]


def test_what_comes_after_a_pause_is_numbered_behind_all_that_was_put() -> None:
    """Also if the last one put was not the highest."""
    publisher = Publisher()
    numbering = publisher.confirms.number()
    assert numbering.take([2, 0]) == [3, 1]
    numbering.pause()
    assert numbering.take([1]) == [2]
    numbering.pause()
    assert publisher.put(2) == [4, 5]


def test_nothing_is_told_when_it_is_over() -> None:
    """Nor when a turn is durable then."""
    publisher = Publisher()
    publisher.confirms.take_when_durable(stored(publisher.put(1)))
    publisher.confirms.turn()
    publisher.confirms.end()
    publisher.commit()
    assert publisher.said() == []


def test_a_turn_without_an_answer_says_nothing() -> None:
    """The client is not told of nothing."""
    told: list[list[Confirmation]] = []
    publisher = Publisher()
    confirms = PublishConfirms(publisher, told.append, PublishCounts())
    confirms.turn()
    confirms.take_when_durable(stored([1]))
    confirms.turn()
    assert told == []
