"""`sprocket consume` shows messages, alone or as a member of a group."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest
from tests.unit.cli.running import done, refused, rows
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.client import Message, blocking
from sprocket.testing.local_broker import LocalBroker


def send(broker: LocalBroker, *bodies: bytes, tag: str = "") -> None:
    """Send messages to `orders`, one after the other."""
    with blocking.Producer(broker.nameserver, group="p") as producer:
        for body in bodies:
            producer.send(Message("orders", body, tag=tag), sharding_key="one queue")


def test_everything_there_is(broker: LocalBroker) -> None:
    """From the first to the end, each queue in its order, with body, tag and place."""
    send(broker, b"a", b"b", b"\xff", tag="hot")
    found = rows(broker, "consume", "orders", "--from", "first", "--until-end")
    assert [row.get("body") or row["body_base64"] for row in found] == ["a", "b", "/w=="]
    assert [row["queue_offset"] for row in found] == [0, 1, 2]
    assert {row["properties"]["TAGS"] for row in found} == {"hot"}


def test_it_ends_when_there_were_enough(broker: LocalBroker) -> None:
    """With --count it needs no end."""
    send(broker, b"a", b"b", b"c")
    found = rows(broker, "consume", "orders", "--from", "first", "--count", 2)
    assert [row["body"] for row in found] == ["a", "b"]


def test_only_the_tags_asked_for(broker: LocalBroker) -> None:
    """Two of three."""
    for tag in ("red", "green", "blue"):
        send(broker, tag.encode(), tag=tag)
    found = rows(
        broker, "consume", "orders", "--from", "first", "--until-end", "--tag", "red || blue"
    )
    assert [row["body"] for row in found] == ["red", "blue"]


def test_only_what_a_condition_asks_for(broker: LocalBroker) -> None:
    """Alone, and as a member of a group."""
    with blocking.Producer(broker.nameserver, group="p") as producer:
        for count in range(8):
            properties = {"count": str(count)}
            producer.send(Message("orders", b"%d" % count, properties=properties))
    words = ("consume", "orders", "--from", "first", "--sql", "count BETWEEN 3 AND 4")
    found = rows(broker, *words, "--until-end")
    assert sorted(row["body"] for row in found) == ["3", "4"]
    found = rows(broker, *words, "--group", "g", "--count", 2)
    assert sorted(row["body"] for row in found) == ["3", "4"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--sql", "a >"], "expression 'a >': expected a property"),
        (["--sql", "a > 3", "--tag", "red"], "--sql stands instead of --tag"),
    ],
)
def test_a_condition_that_cannot_be(broker: LocalBroker, words: list[str], why: str) -> None:
    """It is refused before anything is read."""
    send(broker, b"a")
    assert why in refused(broker, "consume", "orders", *words)


def test_from_a_time(broker: LocalBroker) -> None:
    """What was stored then or later."""
    send(broker, b"before")
    broker.advance(seconds=60)
    at = datetime.fromtimestamp(broker.clock.now_ms() / 1000, UTC).isoformat()
    send(broker, b"after")
    found = rows(broker, "consume", "orders", "--from", at, "--until-end")
    assert [row["body"] for row in found] == ["after"]


def test_nothing_is_committed_alone(broker: LocalBroker) -> None:
    """Reading twice shows the same."""
    send(broker, b"a")
    twice = [done(broker, "consume", "orders", "--from", "first", "--until-end") for _ in "12"]
    assert twice[0] == twice[1]
    assert twice[0].endswith(" a\n")


def test_alone_it_leaves_no_trace(broker: LocalBroker) -> None:
    """No group, no topic and no offset that was not there before; `msg find` neither."""
    send(broker, b"a")
    with blocking.Admin(broker.nameserver) as admin:
        before = admin.group.names(), admin.topics()
        rows(broker, "consume", "orders", "--from", "first", "--until-end")
        rows(broker, "consume", "orders", "--from", "first", "--count", 1)
        rows(broker, "msg", "find", "-t", "orders", "--from", 1)
        assert (admin.group.names(), admin.topics()) == before
        assert admin.topic.groups("orders") == []


@pytest.mark.slow
def test_a_group_goes_on_where_it_was(broker: LocalBroker) -> None:
    """What was shown is consumed; what was fetched beyond the count is not."""
    send(broker, *(b"%d" % number for number in range(6)))
    shown = []
    for _ in range(3):
        found = rows(broker, "consume", "orders", "--group", "g", "--from", "first", "--count", 2)
        shown.append([row["body"] for row in found])
    assert shown == [["0", "1"], ["2", "3"], ["4", "5"]]


def test_bad_input_is_one_line(broker: LocalBroker) -> None:
    """No such topic, no such time, an end for a group."""
    assert "nowhere" in refused(broker, "consume", "nowhere", "--until-end")
    assert "is not a time" in refused(broker, "consume", "orders", "--from", "soon")
    assert "--until-end" in refused(broker, "consume", "orders", "--group", "g", "--until-end")


@pytest.mark.slow
@pytest.mark.parametrize("group", [[], ["--group", "g"]])
def test_it_ends_with_its_reader(broker: LocalBroker, group: list[str]) -> None:
    """`sprocket consume … | head -1` ends without a word; a group keeps what was not read."""
    send(broker, *(b"%d" % number for number in range(200)))
    words = ["consume", "orders", "--from", "first", "-n", broker.nameserver, *group]
    command = [sys.executable, "-m", "sprocket.cli.main", *words]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline().endswith(b" 0\n")
    child.stdout.close()
    send(broker, *(b"%d" % number for number in range(200, 20_000, 50)))
    assert child.wait(LONG_SECONDS) == 0
    assert child.stderr is not None
    assert child.stderr.read() == b""
