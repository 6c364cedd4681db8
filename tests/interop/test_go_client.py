"""The official Go client `rocketmq-client-go/v2`, unmodified, cannot tell Sprocket from RocketMQ.

`make interop-go` builds the program in `go` and runs these; all its scenarios run at once.
"""

import base64
from collections import Counter
from pathlib import Path

import pytest
from tests.interop import link, peers
from tests.interop.go_client import GoClient
from tests.interop.told import Event, Shown, Telling, numbers

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-go"),  # one worker, or each would hold its own
]

PREFIX = "ShowGo"
QUEUES = {
    "Sends": 4,
    "Ordered": 4,
    "Broadcast": 2,
    "Retry": 1,
    "Poll": 2,
    "Pull": 1,
    "Transactions": 2,
    "Filtered": 2,
}
"""Queues of the topics, one for each scenario."""
NO_NEW_MESSAGE = 1
"""`primitive.PullNoNewMsg`."""


@pytest.fixture(scope="module")
def shown(go: GoClient, broker: peers.Broker) -> Shown:
    """Run the program to its end."""
    with link.Link(broker.address) as connection:
        for name, queues in QUEUES.items():
            link.create_topic(connection, PREFIX + name, queues)
    out = go.folder / "told.jsonl"
    telling = Telling(go.start(broker.nameserver, PREFIX, out), out)
    try:
        return Shown(PREFIX, peers.GO_CLIENT, telling.finish())
    finally:
        telling.kill()


def offsets(events: list[Event], queue_id: int) -> list[int]:
    """Return the queue offsets in the order of arrival, each once."""
    found = [event.place[1] for event in events if event.place[0] == queue_id]
    return list(dict.fromkeys(found))


def body(event: Event) -> bytes:
    """Return the body of a message."""
    return base64.b64decode(event.line["body"])


def test_sends_of_every_kind_arrive(shown: Shown) -> None:
    """Sent and awaited, with a callback, one-way, as a batch: two of three tags, each once."""
    received = shown.of("Sends", "received")
    assert numbers(received) == [number for number in range(120) if number % 3 != 1]
    assert {event.line["tag"] for event in received} == {"red", "blue"}
    for event in received:
        wanted = b"long " * 4000 if event.number == 0 else b"body %d" % event.number
        assert body(event) == wanted


def test_sends_are_answered_with_their_places(shown: Shown) -> None:
    """The answer names the message's queue, offset and id, but for those that wait for none."""
    places = {event.number: event for event in shown.of("Sends", "received")}
    answered = []
    for event in shown.of("Sends", "sent"):
        assert event.line["status"] == 0
        answered += event.line["numbers"]
        for at, number in enumerate(event.line["numbers"]):
            if number not in places or number in (2, 5):  # what is delayed waits in another queue
                continue
            wanted = (event.line["queue_id"], event.line["queue_offset"] + at)
            assert places[number].place == wanted
            if number < 60:
                assert places[number].line["id"] == event.line["ids"]
    assert sorted(answered) == [number for number in range(120) if not 60 <= number < 90]


def test_a_delay_level(shown: Shown) -> None:
    """The message with level 1 arrived a second after it was sent, with the level on it."""
    (sent,) = [event for event in shown.of("Sends", "sent") if event.line["numbers"] == [2]]
    (got,) = [event for event in shown.of("Sends", "received") if event.number == 2]
    assert got.at_ms - sent.at_ms >= 1_000 - 50
    assert got.line["properties"]["DELAY"] == "1"


def test_a_delay_of_milliseconds(shown: Shown) -> None:
    """The client has no call for it, but the property does it."""
    (sent,) = [event for event in shown.of("Sends", "sent") if event.line["numbers"] == [5]]
    (got,) = [event for event in shown.of("Sends", "received") if event.number == 5]
    assert got.at_ms - sent.at_ms >= 1_500 - 50
    assert got.line["properties"]["TIMER_DELAY_MS"] == "1500"


def test_a_condition_on_properties(shown: Shown) -> None:
    """What passes arrives once, also what comes while the consumer waits, and nothing else does."""
    wanted = list(range(21, 40, 2))
    assert numbers(shown.of("Filtered", "received")) == sorted([7, *wanted])


def test_order_by_sharding_key(shown: Shown) -> None:
    """Each key has one queue; each queue comes in its order, a failing message in place."""
    queue_of: dict[int, int] = {}
    for event in shown.of("Ordered", "sent"):
        key = event.line["numbers"][0] % 7
        assert queue_of.setdefault(key, event.line["queue_id"]) == event.line["queue_id"]
    attempts = shown.of("Ordered", "attempt")
    count = Counter(event.number for event in attempts)
    assert count == {number: 3 if number == 20 else 1 for number in range(60)}
    for queue_id in set(queue_of.values()):
        found = offsets(attempts, queue_id)
        assert found == list(range(len(found)))


def test_every_member_gets_a_broadcast(shown: Shown) -> None:
    """Both members of the group get every message once."""
    assert numbers(shown.of("Broadcast", "one")) == list(range(20))
    assert numbers(shown.of("Broadcast", "two")) == list(range(20))


def test_a_failing_message_comes_again(shown: Shown) -> None:
    """Through the retry topic, counted, under its own topic; the others come once."""
    attempts = shown.of("Retry", "attempt")
    failing = [event for event in attempts if event.number == 0]
    assert [event.line["reconsume_times"] for event in failing] == [0, 1, 2]
    assert {event.line["topic"] for event in failing} == {f"{PREFIX}Retry"}
    assert numbers([event for event in attempts if event.number]) == [1, 2]


def test_the_pull_consumer_polls_and_acknowledges(shown: Shown, broker: peers.Broker) -> None:
    """Every message once, and the group stands behind the last when it has shut down."""
    assert numbers(shown.of("Poll", "received")) == list(range(40))
    with link.Link(broker.address) as connection:
        for queue_id in range(QUEUES["Poll"]):
            asked = {
                "consumerGroup": f"{PREFIX}Poll",
                "topic": f"{PREFIX}Poll",
                "queueId": queue_id,
            }
            committed = connection.call(link.QUERY_CONSUMER_OFFSET, asked).ext["offset"]
            assert int(committed) == link.queue_end(connection, f"{PREFIX}Poll", queue_id)


def test_the_pull_consumer_pulls_from_an_offset(shown: Shown) -> None:
    """From 0 to the end without a hole, the end told with its bounds; from 37 the last three."""
    received = shown.of("Pull", "received")
    assert [event.place for event in received] == [(0, offset) for offset in range(40)]
    (end,) = shown.of("Pull", "end")
    assert {name: end.line[name] for name in ("status", "next", "least", "most")} == {
        "status": NO_NEW_MESSAGE,
        "next": 40,
        "least": 0,
        "most": 40,
    }
    assert [event.place[1] for event in shown.of("Pull", "from 37")] == [37, 38, 39]


def test_the_program_compiles_against_the_named_version() -> None:
    """The module is the unmodified one of the version that the guide names: nothing replaces it."""
    named = (Path(__file__).parent / "go" / "go.mod").read_text("utf-8")
    assert f"rocketmq-client-go/v2 {peers.GO_CLIENT}" in named
    assert "replace" not in named


def test_transactions_end_as_their_producer_says(shown: Shown) -> None:
    """At once or when it is asked, each once."""
    assert numbers(shown.of("Transactions", "received")) == [0, 2, 3, 6, 8]
    checked = shown.of("Transactions", "checked")
    assert {body(event) for event in checked} == {b"body 2", b"body 5", b"body 8"}
