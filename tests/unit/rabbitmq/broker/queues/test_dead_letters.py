"""Dead letters: where they go, what they say, and circles."""

import pytest
from msgspec import structs
from tests.rabbit_queues import Collector, SlowStorage, Yard, message
from tests.recorded_rabbitmq import RecordedVhosts

from sprocket.rabbitmq.broker.queues import (
    DEATHS,
    QueueConsumer,
    died,
)
from sprocket.rabbitmq.broker.queues import DeathReason as Reason
from sprocket.rabbitmq.codec.amqp import properties
from sprocket.rabbitmq.model.fields import (
    Field,
    FieldKind,
    FieldTable,
    FieldValue,
    long_string,
)
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.properties import BasicProperties
from sprocket.rabbitmq.model.queue_options import Overflow, QueueOptions

ADDED = {DEATHS, *(f"x-first-death-{what}" for what in ("exchange", "queue", "reason"))}
PERSISTENT = properties.encode(BasicProperties(delivery_mode=2))


def deaths(found: BasicMessage) -> list[dict[str, FieldValue]]:
    """What the header `x-death` says."""
    assert isinstance(found.properties, BasicProperties)
    assert found.properties.headers is not None
    header = found.properties.headers.get(DEATHS)
    assert header is not None
    assert isinstance(header.value, tuple)
    tables = [one.value for one in header.value if isinstance(one, Field)]
    return [
        {name: field.value for name, field in one} for one in tables if isinstance(one, FieldTable)
    ]


def dlx(key: str | None = "dead", **others: int | Overflow) -> QueueOptions:
    """Options of a queue whose dead letters go to another one."""
    return QueueOptions(
        dead_letter_exchange="",
        dead_letter_routing_key=key,
        **others,  # type: ignore[arg-type]
    )


def test_letters_are_those_of_rabbitmq_to_the_octet() -> None:
    """A real one has these properties after a message was rejected, or has expired."""
    yard = Yard()
    recorded = RecordedVhosts("05-properties-ttl").messages
    compared = 0
    for messages in recorded.values():
        for one in messages:
            headers = one["properties"].get("headers", {})
            if len(headers.get("x-death", [])) != 1:
                continue
            (death,) = headers["x-death"]
            dying = yard.queues.get(death["queue"]) or yard.queue(
                death["queue"],
                QueueOptions(
                    dead_letter_exchange=one["exchange"], dead_letter_routing_key=one["routing_key"]
                ),
            )
            known = properties.decode(bytes.fromhex(one["properties_hex"]))
            assert known.headers is not None
            kept = tuple(entry for entry in known.headers if entry[0] not in ADDED)
            before = structs.replace(
                known,
                headers=FieldTable(kept) if kept else None,
                expiration=death.get("original-expiration"),
            )
            found = died(
                message(
                    key=death["routing-keys"][0],
                    exchange=death["exchange"],
                    properties=properties.encode(before),
                ),
                dying,
                Reason(death["reason"]),
                death["time"]["timestamp"],
                b"i" * 16,
            )
            assert isinstance(found.properties, BasicProperties)
            assert properties.encode(found.properties).hex() == one["properties_hex"]
            assert (found.exchange, found.routing_keys[0]) == (one["exchange"], one["routing_key"])
            compared += 1
    assert compared >= 2


def test_a_letter_says_where_it_died_and_keeps_its_other_properties() -> None:
    """Its own expiration is gone, and said; it has a new id; the key of the queue replaces CC."""
    yard = Yard()
    dead = yard.queue("dead")
    queue = yard.queue(options=dlx(key="dead"))
    copies = Field(FieldKind.ARRAY, (long_string("copy"),))
    known = BasicProperties(
        headers=FieldTable((("z", long_string("z")), ("CC", copies))),
        expiration="10",
        priority=7,
        delivery_mode=2,
    )
    first = BasicMessage(
        b"1" * 16, "/", "ex", ("key", "copy"), properties.encode(known), (b"body",), True
    )
    queue.publish(first, expiration_ms=10)
    yard.advance(10)
    found = yard.get(dead)
    assert found is not None
    letter = found.message
    assert (letter.exchange, letter.routing_keys, letter.body) == ("", ("dead",), b"body")
    assert letter.is_persistent
    assert letter.id != first.id
    assert isinstance(letter.properties, BasicProperties)
    assert (letter.properties.expiration, letter.properties.priority) == (None, 7)
    assert letter.properties.headers is not None
    names = [name for name, _ in letter.properties.headers]
    assert names == [
        *("x-death", "x-first-death-exchange", "x-first-death-queue", "x-first-death-reason", "z")
    ]
    (death,) = deaths(letter)
    assert list(death) == [
        *("count", "reason", "queue", "time", "exchange", "routing-keys", "original-expiration")
    ]
    assert death["routing-keys"] == (long_string("key"), long_string("copy"))
    assert death["original-expiration"] == b"10"
    assert death["time"] == yard.clock.now_ms() // 1000


def test_without_a_key_a_letter_keeps_its_own() -> None:
    """Those of its header CC, too."""
    yard = Yard()
    queue = yard.queue(options=dlx(key=None))
    letter = died(
        BasicMessage(b"1" * 16, "/", "ex", ("a", "b"), b"\0\0", (), False),
        queue,
        Reason.REJECTED,
        0,
        b"2" * 16,
    )
    assert letter.routing_keys == ("a", "b")


def test_deaths_are_counted_by_queue_and_reason_the_newest_first() -> None:
    """A second one of the same kind moves to the front; what it said first stays, also its time."""
    yard = Yard()
    one, two = yard.queue("one", dlx()), yard.queue("two", dlx())
    found = message(properties=PERSISTENT)
    for number, (queue, reason) in enumerate(
        [
            (one, Reason.REJECTED),
            (two, Reason.EXPIRED),
            (one, Reason.REJECTED),
            (one, Reason.MAX_LENGTH),
        ]
    ):
        found = died(found, queue, reason, number, b"i" * 16)
    said = [(each["queue"], each["reason"], each["count"], each["time"]) for each in deaths(found)]
    assert said == [
        (b"one", b"maxlen", 1, 3),
        (b"two", b"expired", 1, 1),
        (b"one", b"rejected", 2, 0),
    ]
    assert list(deaths(found)[0]) == sorted(deaths(found)[0])
    assert isinstance(found.properties, BasicProperties)
    assert found.properties.headers is not None
    assert found.properties.headers.get("x-first-death-queue") == long_string("one")


def test_what_is_behind_the_newest_death_turns_round_each_time() -> None:
    """As in RabbitMQ, which puts deaths together in front of one another."""
    yard = Yard()
    found = message(properties=PERSISTENT)
    orders = []
    for name in ("a", "b", "c", "d", "a", "e"):
        found = died(found, yard.queue(name, dlx()), Reason.REJECTED, 1, b"i" * 16)
        orders.append([one["queue"] for one in deaths(found)])
    expected = ["a", "ba", "cab", "dbac", "acbd", "edbca"]
    assert orders == [[name.encode() for name in names] for names in expected]


def test_deaths_that_an_old_rabbitmq_has_listed_one_by_one_are_put_together() -> None:
    """One for each queue and reason is left, which says how many they were."""

    def death(queue: str) -> Field:
        fields = (("queue", long_string(queue)), ("reason", long_string("rejected")))
        return Field(FieldKind.TABLE, FieldTable(fields))

    listed = tuple(death(queue) for queue in ("a", "b", "a", "one", "a", "one"))
    known = BasicProperties(headers=FieldTable(((DEATHS, Field(FieldKind.ARRAY, listed)),)))
    queue = Yard().queue("one", dlx())
    found = died(message(properties=known), queue, Reason.REJECTED, 1, b"i" * 16)
    said = [(one["queue"], one.get("count")) for one in deaths(found)]
    assert said == [(b"one", 3), (b"b", 1), (b"a", 3)]


@pytest.mark.parametrize("held", [Field(FieldKind.LONG, 1), Field(FieldKind.ARRAY, ())])
def test_a_header_of_a_client_does_no_harm(held: Field) -> None:
    """One that is not an array is replaced; whatever it has, deaths are in front."""
    yard = Yard()
    known = BasicProperties(headers=FieldTable(((DEATHS, held),)))
    found = died(
        message(properties=known), yard.queue(options=dlx()), Reason.REJECTED, 1, b"i" * 16
    )
    assert [one["count"] for one in deaths(found)] == [1]


def test_properties_that_cannot_be_read_are_kept() -> None:
    """A message is not lost for them."""
    yard = Yard()
    broken = b"\x20\0\0\0\0\xff"
    found = died(
        message(properties=broken), yard.queue(options=dlx()), Reason.REJECTED, 1, b"i" * 16
    )
    assert (found.properties, found.routing_keys) == (broken, ("dead",))


def test_letters_keep_their_order() -> None:
    """Of expired, dropped and rejected ones each."""
    yard = Yard()
    dead = yard.queue("dead")
    queue = yard.queue(options=dlx(max_length=4))
    client = Collector()
    consumer = QueueConsumer("", client)
    for body in range(8):
        queue.publish(message(body))
    yard.settle()
    assert yard.drain(dead) == ["0", "1", "2", "3"]
    had = [entry for _ in range(4) if (entry := yard.get(queue))]
    queue.reject(consumer, had)
    yard.settle()
    assert yard.drain(dead) == ["4", "5", "6", "7"]


def test_a_refused_message_is_a_letter_if_the_queue_says_so() -> None:
    """It never was in the queue."""
    yard = Yard()
    dead = yard.queue("dead")
    queue = yard.queue(options=dlx(max_length=1, overflow=Overflow.REJECT_PUBLISH_DLX))
    assert [queue.publish(message(body)) for body in range(3)] == [True, False, False]
    yard.settle()
    assert yard.drain(dead) == ["1", "2"]
    assert yard.drain(queue) == ["0"]
    silent = yard.queue("silent", QueueOptions(max_length=0, overflow=Overflow.REJECT_PUBLISH_DLX))
    assert not silent.publish(message(1))
    yard.settle()
    assert silent.ready_count == 0


def test_letters_in_a_circle_are_dropped_unless_somebody_rejects() -> None:
    """Of two queues that pass on to each other; an automatic circle ends where it began."""
    yard = Yard()
    one = yard.queue("one", dlx(key="two", message_ttl_ms=10))
    two = yard.queue("two", dlx(key="one", message_ttl_ms=10))
    one.publish(message(1))
    yard.advance(10)
    assert (one.ready_count, two.ready_count) == (0, 1)
    yard.advance(10)
    assert (one.ready_count, two.ready_count) == (0, 0)
    one.publish(message(2))
    yard.advance(10)
    entry = yard.get(two)
    assert entry is not None
    two.reject(QueueConsumer("", Collector()), [entry])
    yard.settle()
    assert (one.ready_count, two.ready_count) == (1, 0)
    yard.advance(10)
    assert (one.ready_count, two.ready_count) == (0, 1)


def test_a_queue_that_passes_on_to_itself_does_so_once_at_most() -> None:
    """It ends, and nothing nests."""
    yard = Yard()
    queue = yard.queue(options=dlx(key="q", max_length=1))
    for body in range(3):
        queue.publish(message(body))
    yard.settle()
    assert yard.drain(queue) == ["2"]


def test_a_long_chain_of_full_queues_is_passed_through() -> None:
    """However many there are."""
    yard = Yard()
    for number in range(300):
        yard.queue(str(number), dlx(key=str(number + 1), max_length=0))
    last = yard.queue("300")
    yard.queues["0"].publish(message("through"))
    yard.settle()
    assert yard.drain(last) == ["through"]


def test_the_source_keeps_a_message_until_it_is_passed_on() -> None:
    """A queue without an exchange for them forgets it; so does one whose exchange is gone."""
    yard = Yard()
    nowhere = yard.queue("nowhere", dlx(key="no such queue", max_length=0))
    nowhere.publish(message(1))
    yard.settle()
    plain = yard.queue("plain", QueueOptions(max_length=0))
    plain.publish(message(1))
    yard.settle()
    assert (nowhere.ready_count, plain.ready_count) == (0, 0)


def test_letters_that_wait_when_their_host_ends_stay_where_they_died() -> None:
    """Nobody looks for queues any more, as there may be none; a storage still has the message."""
    yard = Yard()
    storage = SlowStorage()
    dying = yard.queue("dying", dlx(message_ttl_ms=0), storages=[storage])
    yard.queue("dead")
    dying.publish(message("late"))
    yard.services.dead_letters.stop()
    yard.queues.pop("dead")
    dying.publish(message("later"))
    yard.settle()
    assert storage.unacked_count() == 2
