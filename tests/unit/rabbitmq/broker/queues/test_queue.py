"""A queue: order, requeue, consumers by turns, limits, expiry, what is deleted."""

import sys

import pytest
from tests.rabbit_queues import TINY, Collector, SlowStorage, Yard, message

from sprocket.base.disk import steps
from sprocket.base.errors import DiskFailed, StoreError
from sprocket.rabbitmq.broker.queues import (
    RETRY_SECONDS,
    TURN_MESSAGES_MAX,
    Getter,
    MemoryStorage,
    QueueConsumer,
    WindowLimits,
    Windows,
    message_of,
)
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.fields import Field, FieldKind
from sprocket.rabbitmq.model.properties import BasicProperties
from sprocket.rabbitmq.model.queue_options import Overflow, QueueOptions
from sprocket.runtime.turns import QUEUE_WORK


class Stubborn:
    """A window that lets go of nothing."""

    def __init__(self) -> None:
        self.asked_count = 0

    def trim(self) -> int:
        """See `Window`."""
        self.asked_count += 1
        return 0


def refuse(error: StoreError) -> None:
    """Fail where nothing may."""
    raise error


def test_messages_are_given_in_the_order_in_which_they_came() -> None:
    """To a consumer and to who gets, and nothing is redelivered."""
    yard = Yard()
    queue = yard.queue()
    for body in range(5):
        assert queue.publish(message(body))
    first = yard.get(queue)
    assert first is not None
    assert (first.message.body, first.is_delivered) == (b"0", False)
    client = Collector()
    queue.add_consumer(QueueConsumer("a", client))
    yard.settle()
    assert [(queue.depth().ready + 1, queue.unacked_count)] == [(1, 5)]
    assert client.bodies == ["1", "2", "3", "4"]


def test_what_is_requeued_goes_back_to_its_place() -> None:
    """In whatever order that happens, and it is redelivered from then on."""
    yard = Yard()
    queue = yard.queue()
    client = QueueConsumer("", Collector())
    for body in range(6):
        queue.publish(message(body))
    got = [entry for _ in range(4) if (entry := yard.get(queue))]
    client.unacked_count = 4
    queue.requeue(client, [got[2]])
    queue.requeue(client, [got[0]])
    queue.requeue(client, [got[1], got[3]])
    found = [yard.get(queue) for _ in range(6)]
    assert [(b"%d" % number, number < 4) for number in range(6)] == [
        (one.message.body, one.is_delivered) for one in found if one
    ]


def test_consumers_are_served_by_turns() -> None:
    """One message each, also when they come one by one; the higher priority first."""
    yard = Yard()
    queue = yard.queue()
    clients = [Collector() for _ in range(3)]
    for number, client in enumerate(clients):
        queue.add_consumer(QueueConsumer(str(number), client))
    for body in range(7):
        queue.publish(message(body))
    yard.settle()
    for body in range(7, 10):
        queue.publish(message(body))
        yard.settle()
    assert [one.bodies for one in clients] == [
        ["0", "3", "6", "9"],
        ["1", "4", "7"],
        ["2", "5", "8"],
    ]
    high = Collector(room_count=2)
    queue.add_consumer(QueueConsumer("high", high, priority=1))
    for body in range(4):
        queue.publish(message(body))
    yard.settle()
    assert high.bodies == ["0", "1"]
    assert [one.bodies for one in clients] == [[], ["2"], ["3"]]


def test_consumers_of_one_channel_are_told_in_the_order_of_the_queue() -> None:
    """Though they are served by turns."""
    yard = Yard()
    queue = yard.queue()
    client = Collector()
    for tag in "ab":
        queue.add_consumer(QueueConsumer(tag, client))
    for body in range(4):
        queue.publish(message(body))
    yard.settle()
    told = [(consumer.tag, entry.message.body) for consumer, entry, _ in client.given]
    assert told == [("a", b"0"), ("b", b"1"), ("a", b"2"), ("b", b"3")]


def test_a_full_consumer_waits_until_it_has_room() -> None:
    """It gets no more than its prefetch; what it settles makes room at once."""
    yard = Yard()
    queue = yard.queue()
    client = Collector()
    consumer = QueueConsumer("a", client, prefetch=2)
    queue.add_consumer(consumer)
    for body in range(5):
        queue.publish(message(body))
    yard.settle()
    entries = [entry for _, entry, _ in client.given]
    assert client.bodies == ["0", "1"]
    queue.ack(consumer, entries[:1])
    yard.settle()
    assert client.bodies == ["2"]
    queue.reject(consumer, entries[1:])
    yard.settle()
    assert client.bodies == ["3"]
    assert (queue.ready_count, queue.unacked_count) == (1, 2)


def test_one_is_active_at_a_time_and_the_next_takes_over_though_it_is_full() -> None:
    """Whoever comes later with a higher priority waits; it is the first when the choice is made."""
    yard = Yard()
    queue = yard.queue(options=QueueOptions(is_single_active=True))
    first, second, third = (Collector() for _ in range(3))
    active = QueueConsumer("1", first, prefetch=1)
    queue.add_consumer(active)
    queue.add_consumer(QueueConsumer("2", second))
    queue.add_consumer(QueueConsumer("3", third, priority=5))
    for body in range(3):
        queue.publish(message(body))
    yard.settle()
    assert ([*first.bodies], second.bodies, third.bodies) == (["0"], [], [])
    assert queue.single_active_consumer is active
    queue.remove_consumer(active)
    yard.settle()
    assert third.bodies == ["1", "2"]
    assert second.bodies == []


def test_an_exclusive_consumer_is_alone() -> None:
    """It is refused where there is another, and others are where it is."""
    yard = Yard()
    queue = yard.queue("x")
    alone = QueueConsumer("a", Collector(), is_exclusive=True)
    queue.add_consumer(alone)
    with pytest.raises(
        RequestRefused, match=r"^queue 'x' in vhost '/' in exclusive use \(code 403\)$"
    ):
        queue.add_consumer(QueueConsumer("b", Collector()))
    queue.remove_consumer(alone)
    queue.add_consumer(QueueConsumer("b", Collector()))
    with pytest.raises(RequestRefused, match="in exclusive use"):
        queue.add_consumer(QueueConsumer("c", Collector(), is_exclusive=True))
    single = yard.queue("y", QueueOptions(is_single_active=True))
    with pytest.raises(RequestRefused, match="in exclusive use"):
        single.add_consumer(QueueConsumer("a", Collector(), is_exclusive=True))
    quorum = yard.queue("z", QueueOptions(is_single_active=True, keeps_transient=True))
    quorum.add_consumer(QueueConsumer("a", Collector(), is_exclusive=True))


def test_what_is_not_to_be_acknowledged_is_settled_when_it_is_given() -> None:
    """Storages forget it."""
    yard = Yard()
    storage = SlowStorage()
    queue = yard.queue(storages=[storage])
    client = Collector()
    queue.add_consumer(QueueConsumer("a", client, no_ack=True))
    queue.publish(message(1))
    queue.publish(message(2, is_persistent=False))
    yard.settle()
    assert client.bodies == ["1", "2"]
    assert (storage.unacked_count(), queue.unacked_count, queue.ready_count) == (0, 0, 0)


def test_a_long_backlog_is_read_back_in_order() -> None:
    """Persistent and transient messages, a window at a time; memory holds no more than that."""
    yard = Yard(TINY)
    storage = SlowStorage()
    queue = yard.queue(storages=[storage])
    for body in range(50):
        queue.publish(message(body, is_persistent=body % 3 > 0))
    assert queue.ready_count == 50
    assert yard.drain(queue) == [str(body) for body in range(50)]
    assert storage.read_count > 5
    assert storage.largest_read <= TINY.read_numbers_max
    assert storage.unacked_count() == 0
    assert yard.windows.held_bytes == 0


def test_a_queue_that_is_opened_again_has_what_was_persistent() -> None:
    """In its place; what somebody had is redelivered; no number is used twice."""
    yard = Yard(TINY)
    storage = SlowStorage()
    queue = yard.queue(storages=[storage])
    for body in range(9):
        queue.publish(message(body, is_persistent=body != 4))
    had = [yard.get(queue), yard.get(queue)]
    assert had[1] is not None
    queue.ack(QueueConsumer("", Collector()), [had[1]])
    yard.settle()
    again = Yard(TINY).queue(storages=[storage])
    assert again.ready_count == 7
    again.publish(message("new"))
    other = Yard(TINY)
    again = other.queue(storages=[storage])
    found = []
    while (entry := other.get(again)) is not None:
        found.append((entry.message.body.decode(), entry.is_delivered))
    assert found == [
        ("0", True),
        *((str(body), False) for body in (2, 3, 5, 6, 7, 8)),
        ("new", False),
    ]


def test_numbers_that_are_missing_are_passed_over() -> None:
    """A queue may have had many messages that are settled."""
    storage = MemoryStorage()
    for seq_id in (5, 20_000, 20_001):
        storage.publish(seq_id, [message(seq_id)], expires_at_us=None, is_delivered=False)
    yard = Yard()
    assert yard.drain(yard.queue(storages=[storage])) == ["5", "20000", "20001"]


def test_messages_that_storages_have_lost_are_not_waited_for() -> None:
    """What the count promised and the storage does not have."""
    storage = SlowStorage()
    yard = Yard(TINY)
    queue = yard.queue(storages=[storage])
    for body in range(9):
        queue.publish(message(body))
    storage.ack([6, 7, 8])
    assert yard.drain(queue) == [str(body) for body in range(6)]
    assert queue.ready_count == 0


def test_a_read_that_fails_is_tried_again() -> None:
    """Whoever gets is told; consumers wait."""
    yard = Yard(TINY)
    storage = SlowStorage()
    for body in range(3):
        storage.publish(body, [message(body)], expires_at_us=None, is_delivered=False)
    storage.fails_with = DiskFailed("a bad sector")
    queue = yard.queue(storages=[storage])
    told: list[str] = []
    queue.get(Getter(True, lambda *_: told.append("got"), lambda error: told.append(str(error))))
    yard.settle()
    assert told == ["a bad sector"]
    client = Collector()
    queue.add_consumer(QueueConsumer("a", client))
    yard.settle()
    storage.fails_with = None
    yard.advance(int(RETRY_SECONDS * 1000))
    assert client.bodies == ["0", "1", "2"]


def test_nothing_overtakes_what_has_to_be_read_first() -> None:
    """A lower priority waits, and a get; one whose client is gone gets nothing."""
    yard = Yard(TINY)
    storages = [MemoryStorage(), SlowStorage()]
    storages[1].publish(0, [message("high")], expires_at_us=None, is_delivered=False)
    yard.reads.is_holding = True
    queue = yard.queue(options=QueueOptions(max_priority=1), storages=storages)
    queue.publish(message("low"))
    client = Collector()
    queue.add_consumer(QueueConsumer("a", client))
    yard.settle()
    assert client.bodies == []
    got: list[object] = []
    over = Getter(False, lambda entry, _: got.append(entry), got.append, is_over=True)
    queue.get(over)
    yard.settle()
    yard.reads.go_on()
    yard.settle()
    assert client.bodies == ["high", "low"]
    assert got == []
    assert [is_again for _, _, is_again in client.given] == []


def test_higher_priorities_come_first() -> None:
    """What is above the highest counts as that; requeued messages keep their place in theirs."""
    yard = Yard()
    queue = yard.queue(options=QueueOptions(max_priority=3))
    for number, priority in enumerate((0, 3, 1, 200, 1)):
        queue.publish(message(number), priority=priority)
    first = yard.get(queue)
    assert first is not None
    assert first.message.body == b"1"
    queue.requeue(QueueConsumer("", Collector()), [first])
    assert yard.drain(queue) == ["1", "3", "2", "4", "0"]


def test_messages_expire_at_the_head_only() -> None:
    """A short-lived one behind a long-lived one is counted until it comes to the front."""
    yard = Yard()
    queue = yard.queue(options=QueueOptions(message_ttl_ms=1000))
    queue.publish(message("long"))
    queue.publish(message("short"), expiration_ms=10)
    queue.publish(message("later"), expiration_ms=5000)
    yard.advance(500)
    assert queue.depth().ready == 3
    assert yard.get(queue, no_ack=True) is not None
    assert queue.depth().ready == 1
    yard.advance(499)
    assert queue.depth().ready == 1
    yard.advance(1)
    assert queue.ready_count == 0


def test_what_comes_to_the_front_by_a_get_expires_without_anybody_asking() -> None:
    """Though nothing else happens to the queue, and though the rest has to be read."""
    yard = Yard(TINY)
    storage = SlowStorage()
    queue = yard.queue(storages=[storage])
    queue.publish(message("first"))
    for body in range(8):
        queue.publish(message(body), expiration_ms=10)
    assert yard.get(queue) is not None
    yard.advance(10)
    assert (queue.ready_count, storage.unacked_count()) == (0, 1)


def test_expired_messages_are_dropped_without_anybody_asking() -> None:
    """Those that only the storage has, too; the time of a restart counts."""
    yard = Yard(TINY)
    storage = SlowStorage()
    queue = yard.queue(options=QueueOptions(message_ttl_ms=1000), storages=[storage])
    for body in range(20):
        queue.publish(message(body))
    yard.settle()
    yard.advance(999)
    assert storage.unacked_count() == 20
    yard.advance(1)
    assert (queue.ready_count, storage.unacked_count()) == (0, 0)
    queue.publish(message("stays"))
    yard.settle()
    other = Yard(TINY)
    other.clock.advance(1999)
    other.queue(storages=[storage])
    other.settle()
    assert storage.unacked_count() == 1
    other.advance(1)
    assert storage.unacked_count() == 0


def test_a_timer_that_is_early_costs_no_turn() -> None:
    """The queue waits on, and its message goes in its time."""
    yard = Yard(TINY)
    queue = yard.queue(options=QueueOptions(message_ttl_ms=1000))
    queue.publish(message("waits"))
    yard.settle()
    yard.advance(999)
    yard.timers.run_early(1)
    assert yard.turns.is_idle
    assert queue.ready_count == 1
    yard.advance(1)
    assert queue.ready_count == 0


def test_a_message_that_expires_at_once_is_for_who_has_room_now() -> None:
    """Nobody else gets it; what somebody has does not expire."""
    yard = Yard()
    queue = yard.queue()
    queue.publish(message("nobody"), expiration_ms=0)
    yard.settle()
    assert queue.ready_count == 0
    client = Collector(room_count=1)
    queue.add_consumer(QueueConsumer("a", client))
    queue.publish(message("taken"), expiration_ms=0)
    queue.publish(message("too late"), expiration_ms=0)
    yard.advance(100)
    assert client.bodies == ["taken"]
    assert (queue.ready_count, queue.unacked_count) == (0, 1)
    client.room_count = 2
    queue.wake(next(iter(queue.consumers)))
    queue.publish(message("before"))
    queue.publish(message("taken, too"), expiration_ms=0)
    yard.settle()
    assert client.bodies == ["before", "taken, too"]


def test_a_requeued_message_whose_time_is_over_expires() -> None:
    """It is not delivered again."""
    yard = Yard()
    queue = yard.queue()
    queue.publish(message(1), expiration_ms=10)
    entry = yard.get(queue)
    assert entry is not None
    yard.advance(11)
    assert queue.unacked_count == 1
    queue.requeue(QueueConsumer("", Collector()), [entry])
    assert yard.get(queue) is None


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (QueueOptions(max_length=3), ["2", "3", "4"]),
        (QueueOptions(max_length_bytes=2), ["3", "4"]),
        (QueueOptions(max_length=3, overflow=Overflow.REJECT_PUBLISH), ["0", "1", "2"]),
        (QueueOptions(max_length_bytes=2, overflow=Overflow.REJECT_PUBLISH), ["0", "1"]),
        (QueueOptions(max_length=0), []),
        (QueueOptions(max_length=0, overflow=Overflow.REJECT_PUBLISH), []),
    ],
)
def test_a_limit_holds_for_what_is_ready(options: QueueOptions, left: list[str]) -> None:
    """At any time; from the front what came first is dropped, else what comes is refused."""
    yard = Yard()
    queue = yard.queue(options=options)
    is_reject = options.overflow is Overflow.REJECT_PUBLISH
    for body in range(5):
        taken = queue.publish(message(body))
        assert taken == (not is_reject or str(body) in left)
        assert queue.ready_count <= (options.max_length if options.max_length is not None else 2)
    assert yard.drain(queue) == left


def test_what_goes_straight_to_a_consumer_is_not_too_much() -> None:
    """And what comes back may be."""
    yard = Yard()
    queue = yard.queue(options=QueueOptions(max_length=0))
    client = Collector(room_count=2)
    consumer = QueueConsumer("a", client)
    queue.add_consumer(consumer)
    for body in range(3):
        queue.publish(message(body))
    yard.settle()
    entries = [entry for _, entry, _ in client.given]
    assert client.bodies == ["0", "1"]
    assert (queue.ready_count, queue.unacked_count) == (0, 2)
    queue.remove_consumer(consumer)
    queue.requeue(consumer, entries)
    yard.settle()
    assert (queue.ready_count, queue.unacked_count) == (0, 0)


def test_what_comes_back_to_a_full_queue_is_dropped_before_anybody_gets_it() -> None:
    """It is in front of the rest; who gave it back has room again, and gets what comes next."""
    yard = Yard()
    queue = yard.queue(options=QueueOptions(max_length=1))
    client = Collector()
    consumer = QueueConsumer("a", client, prefetch=1)
    queue.add_consumer(consumer)
    for body in range(2):
        queue.publish(message(body))
        yard.settle()
    entries = [entry for _, entry, _ in client.given]
    assert (client.bodies, queue.ready_count) == (["0"], 1)
    queue.requeue(consumer, entries)
    assert queue.ready_count == 1
    yard.settle()
    assert client.bodies == ["1"]


def test_a_lower_limit_drops_what_is_there() -> None:
    """When a policy changes; what only the storage has, too, and of a restarted queue."""
    yard = Yard(TINY)
    storage = SlowStorage()
    queue = yard.queue(storages=[storage])
    for body in range(30):
        queue.publish(message(body))
    yard.settle()
    queue.set_options(QueueOptions(max_length=20))
    yard.settle()
    assert queue.ready_count == 20
    other = Yard(TINY)
    queue = other.queue(options=QueueOptions(max_length_bytes=10), storages=[storage])
    other.settle()
    assert other.drain(queue) == ["25", "26", "27", "28", "29"]


def test_a_turn_does_a_limited_part() -> None:
    """Others have theirs before it goes on."""
    yard = Yard()
    queue = yard.queue()
    for body in range(10 * TURN_MESSAGES_MAX):
        queue.publish(message(body, is_persistent=False))
    client = Collector(room_count=10_000_000)
    queue.add_consumer(QueueConsumer("a", client))
    yard.timers.turn()
    assert len(client.given) == 4 * TURN_MESSAGES_MAX < QUEUE_WORK
    yard.timers.turn()
    assert len(client.given) == 8 * TURN_MESSAGES_MAX
    yard.settle()
    assert len(client.given) == 10 * TURN_MESSAGES_MAX


def test_a_purge_leaves_what_somebody_has() -> None:
    """In memory and in the storage; it says how much it took."""
    yard = Yard(TINY)
    storage = SlowStorage()
    queue = yard.queue(storages=[storage])
    for body in range(20):
        queue.publish(message(body, is_persistent=body != 15))
    had = yard.get(queue)
    counts: list[int] = []
    queue.purge(counts.append, refuse)
    assert counts == [19]
    assert (queue.ready_count, storage.unacked_count(), yard.windows.held_bytes) == (0, 1, 0)
    queue.publish(message("new"))
    assert had is not None
    queue.requeue(QueueConsumer("", Collector()), [had])
    assert yard.drain(queue) == ["0", "new"]
    queue.publish(message("again"))
    queue.purge(counts.append, refuse)
    assert counts == [19, 1]
    assert storage.unacked_count() == 0


@pytest.mark.parametrize("is_purge", [True, False])
def test_what_happens_while_a_read_is_out_counts(is_purge: bool) -> None:
    """A purge, or what the window had to let go of: what was read is not taken then."""
    yard = Yard(TINY)
    storage = SlowStorage()
    queue = yard.queue(storages=[storage])
    other = yard.queue("other", storages=[SlowStorage()])
    for body in range(10):
        queue.publish(message(body))
    assert yard.get(queue, no_ack=True) is not None

    def meanwhile() -> None:
        if is_purge:
            queue.purge(lambda _: None, refuse)
        else:
            for body in range(3):
                other.publish(message(bytes([48 + body]) * 390))

    assert [yard.get(queue, no_ack=True) is not None for _ in range(2)] == [True, True]
    storage.meanwhile = meanwhile
    left = yard.drain(queue)
    assert left == (["3"] if is_purge else [str(body) for body in range(3, 10)])
    assert storage.unacked_count() == 0
    queue.publish(message("new"))
    assert yard.drain(queue) == ["new"]


def test_a_purge_leaves_dead_letters_alone() -> None:
    """Those that were on their way already; a purge after that has nothing to read."""
    yard = Yard(TINY)
    storage = SlowStorage()
    dead = yard.queue("dead")
    options = QueueOptions(dead_letter_exchange="", dead_letter_routing_key="dead")
    queue = yard.queue(options=options, storages=[storage])
    queue.publish(message("dies"), expiration_ms=10)
    yard.settle()
    yard.clock.advance(10)
    counts: list[int] = []
    queue.purge(counts.append, refuse)
    yard.settle()
    assert (counts, yard.drain(dead), storage.unacked_count()) == ([0], ["dies"], 0)
    for body in range(9):
        queue.publish(message(body))
    yard.settle()
    queue.purge(counts.append, refuse)
    assert (counts, storage.read_count, storage.unacked_count()) == ([0, 9], 0, 0)


def test_who_comes_to_the_front_may_expire_sooner() -> None:
    """A message of a higher priority, while the time of another one is waited for."""
    yard = Yard()
    queue = yard.queue(options=QueueOptions(max_priority=1))
    queue.publish(message("low"), expiration_ms=1000)
    yard.settle()
    queue.publish(message("high"), priority=1, expiration_ms=10)
    yard.settle()
    yard.advance(10)
    assert queue.ready_count == 1
    yard.advance(990)
    assert queue.ready_count == 0


def test_a_deleted_queue_tells_its_consumers_and_forgets_everything() -> None:
    """What clients do with what they had of it does nothing."""
    yard = Yard()
    storage = SlowStorage()
    queue = yard.queue(storages=[storage])
    client = Collector(room_count=1)
    consumer = QueueConsumer("a", client)
    queue.add_consumer(consumer)
    for body in range(3):
        queue.publish(message(body), expiration_ms=10)
    yard.settle()
    ((_, entry, _),) = client.given
    assert yard.delete("q") == 2
    assert client.cancelled_tags == ["a"]
    queue.ack(consumer, [entry])
    queue.requeue(consumer, [entry])
    queue.reject(consumer, [entry])
    yard.advance(100)
    assert storage.is_removed
    assert storage.unacked_count() == 0
    assert yard.timers.pending_count == 0


def test_conditions_of_a_removal() -> None:
    """It is refused by name while there are consumers, or messages that are ready."""
    yard = Yard()
    queue = yard.queue("x")
    queue.check_removal(if_unused=True, if_empty=True)
    queue.publish(message(1))
    with pytest.raises(RequestRefused, match=r"^queue 'x' in vhost '/' not empty \(code 406\)$"):
        queue.check_removal(if_unused=True, if_empty=True)
    queue.add_consumer(QueueConsumer("a", Collector()))
    with pytest.raises(RequestRefused, match=r"^queue 'x' in vhost '/' in use \(code 406\)$"):
        queue.check_removal(if_unused=True, if_empty=False)
    queue.check_removal(if_unused=False, if_empty=True)


def test_an_auto_delete_queue_goes_with_its_last_consumer() -> None:
    """Not with one that is not the last, and not without ever having had any."""
    yard = Yard()
    queue = yard.queue(is_auto_delete=True)
    yard.advance(1_000_000)
    consumers = [QueueConsumer(tag, Collector()) for tag in "ab"]
    for consumer in consumers:
        queue.add_consumer(consumer)
    queue.remove_consumer(consumers[0])
    assert yard.unused_names == []
    queue.remove_consumer(consumers[1])
    assert yard.unused_names == ["q"]


def test_a_queue_that_nobody_uses_expires() -> None:
    """Gets and declares count as use, and consumers as long as they are there; publishes do not."""
    yard = Yard()
    queue = yard.queue(options=QueueOptions(expires_ms=1000))
    yard.advance(900)
    queue.touch()
    yard.advance(900)
    assert yard.get(queue) is None
    yard.advance(900)
    consumer = QueueConsumer("a", Collector())
    queue.add_consumer(consumer)
    yard.advance(5000)
    queue.remove_consumer(consumer)
    yard.advance(999)
    queue.publish(message(1))
    assert yard.unused_names == []
    yard.advance(1)
    assert yard.unused_names == ["q"]


def test_a_queue_that_counts_deliveries_says_how_often_a_message_came_back() -> None:
    """In a header; what came back too often is dropped, and acknowledged messages are forgotten."""
    yard = Yard()
    queue = yard.queue(options=QueueOptions(counts_deliveries=True, delivery_limit=2))
    queue.publish(message(1))
    told = []
    while (entry := yard.get(queue)) is not None:
        told.append(message_of(entry).properties)
        queue.requeue(QueueConsumer("", Collector()), [entry])
    assert told[0] == b"\0\0"
    for count in (1, 2):
        known = told[count]
        assert isinstance(known, BasicProperties)
        assert known.headers is not None
        assert known.headers.entries == (("x-delivery-count", Field(FieldKind.LONG, count)),)
    assert len(told) == 3
    assert queue.unacked_count == 0


def test_a_queue_that_keeps_all_stores_transient_messages_too() -> None:
    """They are there after a restart, as persistent ones are; other queues leave them in memory."""
    yard = Yard()
    kept, left = SlowStorage(), SlowStorage()
    queue = yard.queue("kept", QueueOptions(keeps_transient=True), storages=[kept])
    other = yard.queue("left", storages=[left])
    transient = message(1, is_persistent=False)
    for one in (queue, other):
        one.publish_all([transient, message(2)])
    assert [one.message.body for one in steps.run(kept.read(0, 9))] == [b"1", b"2"]
    assert [one.message.body for one in steps.run(left.read(0, 9))] == [b"2"]
    assert yard.drain(queue) == yard.drain(other) == ["1", "2"]
    assert kept.unacked_count() == left.unacked_count() == 0
    assert not transient.is_persistent


def test_many_idle_queues_have_no_turn() -> None:
    """What has nothing to do is not looked at."""
    yard = Yard()
    queues = [yard.queue(str(number)) for number in range(1000)]
    yard.settle()
    yard.turns.marked.clear()
    queues[7].publish(message(1))
    queues[7].publish(message(2))
    yard.settle()
    assert yard.turns.marked == [queues[7]]


def test_all_queues_together_hold_a_limited_part() -> None:
    """The least used let go, and read it again when they are asked."""
    yard = Yard(TINY)
    queues = [yard.queue(str(number), storages=[SlowStorage()]) for number in range(20)]
    for queue in queues:
        for body in range(4):
            queue.publish(message(bytes([48 + body]) * 90))
    assert yard.windows.held_bytes <= 20 * 90 + 4 * 90
    assert [one.ready_count for one in queues] == [4] * 20
    # The first one of each is kept: it is not looked for more at each message.
    full = Windows(WindowLimits(all_bytes=100))
    windows = [Stubborn() for _ in range(3)]
    for window in windows:
        full.note_use(window)
    full.held_bytes = 200
    full.shrink(windows[0])
    assert [one.asked_count for one in windows] == [0, 1, 1]
    assert full.limit_bytes == 250
    for queue in queues:
        assert [body[0] for body in yard.drain(queue)] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("storages", [[], [SlowStorage()]])
def test_a_deleted_queue_holds_no_bodies(storages: list[SlowStorage]) -> None:
    """Somebody may know it for long: who has published to it, until its next message."""
    yard = Yard()
    queue = yard.queue(storages=storages)
    body = bytes(500)
    before = sys.getrefcount(body)
    queue.publish(message(body, is_persistent=False))
    assert yard.get(queue, no_ack=True) is not None
    for _ in range(3):
        queue.publish(message(body, is_persistent=False))
    yard.settle()
    assert sys.getrefcount(body) > before
    assert queue.delete() == 3
    assert sys.getrefcount(body) == before
