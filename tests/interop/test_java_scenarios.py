"""What users of the Java client do beyond sending and receiving, with 4.9.8 and 5.3.3.

All scenarios of both versions run at once against one broker: `sprocket up`, or the real RocketMQ
if SPROCKET_INTEROP_BROKER=rocketmq. What they tell is judged here, a test a promise.
"""

import functools
import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interop import link, peers
from tests.interop.java_client import JavaClient
from tests.interop.told import Shown, Telling, numbers

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-java-scenarios"),  # one worker, or each would hold its own
]

QUEUES = {
    "OneWay": 4,
    "Tags": 4,
    "Broadcast": 4,
    "Delay": 2,
    "Retry": 1,
    "Suspend": 1,
    "LitePull": 2,
    "Reset": 4,
    "Reply": 4,
    "Nobody": 1,
    "Crash": 8,
}
"""Queues of the topics, one for each scenario and one that nobody reads."""
BEFORE_KILL = 300
"""Messages that the victim gets before it is killed."""
DELAYS_MS = {0: 0, 1: 1_000, 2: 5_000}


@pytest.fixture(scope="module")
def shown(
    broker: peers.Broker,
    java_of: Callable[[str], JavaClient],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Shown]:
    """Run the scenarios of both versions at once; kill each version's victim when it is busy."""
    folder = tmp_path_factory.mktemp("scenarios")
    clients = [java_of(version) for version in peers.CLIENTS]
    running: list[tuple[str, JavaClient, Telling, Telling, Path]] = []
    try:
        with link.Link(broker.address) as connection:
            for client in clients:
                prefix = f"Show{client.version.replace('.', '')}"
                for name, queues in QUEUES.items():
                    link.create_topic(connection, prefix + name, queues)
                killed = folder / f"{prefix}.killed"
                topic = f"{prefix}Crash"
                victim = client.start_victim(broker.nameserver, topic, group=topic)
                scenarios = client.start_scenarios(broker.nameserver, prefix, killed)
                running.append((prefix, client, scenarios, victim, killed))
        for _, _, scenarios, victim, killed in running:
            peers.wait_until(functools.partial(_is_busy, victim, scenarios), "both consumers")
            victim.kill()
            killed.touch()
        return {
            client.version: Shown(prefix, client.version, [*victim.events(), *scenarios.finish()])
            for prefix, client, scenarios, victim, _ in running
        }
    finally:
        for _, _, scenarios, victim, _ in running:
            scenarios.kill()
            victim.kill()


def _is_busy(victim: Telling, scenarios: Telling) -> bool:
    """Tell whether the victim got enough, and the survivor something."""
    assert scenarios.child.poll() is None, "the scenarios ended early"
    return len(victim.events()) >= BEFORE_KILL and any(
        event.name == "survivor" for event in scenarios.events()
    )


@pytest.fixture(params=list(peers.CLIENTS))
def told(request: pytest.FixtureRequest, shown: dict[str, Shown]) -> Shown:
    """Return what one version told."""
    return shown[request.param]


def test_one_way_messages_arrive(told: Shown) -> None:
    """Each message for which no answer was awaited arrives once."""
    assert list(range(40)) == numbers(told.of("OneWay", "received"))


def test_two_of_three_tags(told: Shown) -> None:
    """A subscription to `red || blue` gets these, each once, and no green one."""
    received = told.of("Tags", "received")
    assert [n for n in range(60) if n % 3 != 1] == numbers(received)
    assert {"red", "blue"} == {event.line["tag"] for event in received}


def test_every_member_gets_a_broadcast(told: Shown) -> None:
    """Both get all; the one that comes back gets what it missed, from its own offsets."""
    assert list(range(30)) == numbers(told.of("Broadcast", "one"))
    assert list(range(36)) == numbers(told.of("Broadcast", "two"))
    assert list(range(30, 36)) == numbers(told.of("Broadcast", "one again"))


def test_a_delayed_message_arrives_when_its_delay_is_over(told: Shown) -> None:
    """A message with a level arrives when its delay is over, as itself, not before."""
    sent = {event.line["number"]: event.line for event in told.of("Delay", "sent")}
    received = told.of("Delay", "received")
    assert {"SEND_OK"} == {line["status"] for line in sent.values()}
    assert list(range(9)) == numbers(received)
    for event in received:
        level = event.number % 3
        assert event.line["topic"] == f"{told.prefix}Delay"
        assert event.line["properties"]["DELAY"] == str(level)
        waited_ms = event.at_ms - sent[event.number]["sent_at_ms"]
        assert waited_ms >= DELAYS_MS[level] - 50, "it came too early"


def test_a_failing_message_becomes_a_dead_letter(told: Shown) -> None:
    """It is tried again as often as was asked, then lies in the dead-letter topic, whole."""
    attempts = told.of("Retry", "attempt")
    poison = [event for event in attempts if event.number == 0]
    assert [event.line["reconsume_times"] for event in poison] == [0, 1, 2]
    assert {f"{told.prefix}Retry"} == {event.line["topic"] for event in poison}
    for before, after in itertools.pairwise(poison):
        assert after.at_ms - before.at_ms >= DELAYS_MS[1] - 50
    (dead,) = told.of("Retry", "dead letter")
    assert dead.line["topic"] == f"%DLQ%{told.prefix}Retry"
    assert dead.line["body"] == poison[0].line["body"]
    assert dead.line["keys"] == "key-0"
    assert dead.line["properties"]["ORIGIN_MESSAGE_ID"] == poison[0].line["offset_id"]
    assert dead.line["properties"]["RETRY_TOPIC"] == f"{told.prefix}Retry"


def test_a_message_that_fails_once_comes_again(told: Shown) -> None:
    """After the ten seconds of the first step of the ladder; the others come once."""
    attempts = told.of("Retry", "attempt")
    first, second = [event for event in attempts if event.number == 1]
    assert [first.line["reconsume_times"], second.line["reconsume_times"]] == [0, 1]
    assert second.at_ms - first.at_ms >= 10_000 - 50
    assert first.line["id"] == second.line["id"]
    assert numbers([event for event in attempts if event.number > 1]) == [2, 3]


def test_a_suspended_queue_keeps_its_order(told: Shown) -> None:
    """In order a failing message is tried in place and none passes it; in the end it is dead."""
    attempts = [event.number for event in told.of("Suspend", "attempt")]
    assert attempts == [0, 1, 2, 3, 4, 4, 4, 5, 6, 7, 7, 7, 7, 8, 9]
    (dead,) = told.of("Suspend", "dead letter")
    assert dead.line["keys"] == "key-7"


def test_lite_pull_follows_every_seek(told: Shown) -> None:
    """Assigned queues from the start, after each seek, paused and resumed; then a subscriber."""

    def places(phase: str) -> list[tuple[int, int]]:
        return sorted(event.place for event in told.of("LitePull", phase))

    both = [(queue, offset) for queue in (0, 1) for offset in range(20)]
    assert both == places("from the start")
    assert [(0, offset) for offset in range(5, 20)] == places("seek 5")
    assert [(1, offset) for offset in range(20)] == places("seek to begin")
    assert places("one queue paused, one at its end") == [(1, 20)]
    assert places("resumed at 18") == [(0, 18), (0, 19), (0, 20)]
    assert sorted([*both, (0, 20), (1, 20)]) == places("subscribed")
    (by_time,) = told.of("LitePull", "by time")
    assert (by_time.line["queues"], by_time.line["middle"]) == (2, 10)


def test_lite_pull_committed(told: Shown, broker: peers.Broker) -> None:
    """What was committed is where the group stands at the broker."""
    told.of("LitePull", "finished")
    with link.Link(broker.address) as connection:
        for queue_id in (0, 1):
            group = f"{told.prefix}LitePull_assigned"
            asked = {
                "consumerGroup": group,
                "topic": f"{told.prefix}LitePull",
                "queueId": queue_id,
            }
            answer = connection.call(link.QUERY_CONSUMER_OFFSET, asked)
            assert answer.ext["offset"] == "21"


def test_a_reset_by_time_brings_the_second_half_again(told: Shown) -> None:
    """The running member gets again what was stored after the time, once, and nothing else."""
    (reset,) = told.of("Reset", "reset")
    assert reset.line["queues"] == 4
    count = Counter(event.number for event in told.of("Reset", "received"))
    assert {number: 1 + (number >= 20) for number in range(40)} == dict(count)


def test_requests_are_answered(told: Shown) -> None:
    """Awaited or with a callback each gets its own answer; one to nobody times out.

    Client 5.3.3, though not 4.9.8, may give an awaited request up as soon as it is sent, whatever
    the broker is, so with it only the answers that came are looked at.
    """
    given_up = len(told.of("Reply", "given up"))
    assert given_up == 0 or told.version == "5.3.3"
    answers = {
        name: {one.line["number"]: one.line["body"] for one in told.of("Reply", name)}
        for name in ("awaited", "called back")
    }
    assert answers["called back"] == {n: f"answer to body {n}" for n in range(5, 10)}
    assert len(answers["awaited"]) == 5 - given_up
    assert all(body == f"answer to body {n}" for n, body in answers["awaited"].items())
    (nobody,) = told.of("Reply", "nobody")
    assert nobody.line["outcome"] == "RequestTimeoutException"


def test_order_survives_the_crash_of_a_consumer(told: Shown) -> None:
    """Killed with -9: each queue goes on at the survivor where the victim was, or a bit before.

    A queue may change hands before the kill as well, when the second of the two joins.
    """
    victim, survivor = told.of("Crash", "victim"), told.of("Crash", "survivor")
    sent = sorted(event.place for event in told.of("Crash", "sent"))
    assert len(sent) > BEFORE_KILL
    deliveries = sorted([*victim, *survivor], key=lambda event: event.at_ms)
    taken_over = 0
    for queue in range(QUEUES["Crash"]):
        seen = [event for event in deliveries if event.place[0] == queue]
        end = 0
        for before, after in itertools.pairwise(seen):
            offset = after.place[1]
            if before.name == after.name and offset != before.place[1] + 1:
                pytest.fail(f"{after.name} got {offset} of queue {queue} after {before.place[1]}")
            end = max(end, before.place[1] + 1)
            assert offset <= end, "messages between the two were skipped"
            taken_over += (before.name, after.name) == ("victim", "survivor")
        assert {event.place for event in seen} >= {place for place in sent if place[0] == queue}
        assert seen[0].place[1] == 0
        assert seen[-1].name == "survivor"
    assert taken_over > 0, "the victim held no queue when it was killed"
