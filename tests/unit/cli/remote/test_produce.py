"""`sprocket produce` sends what it is given, from an argument, a file or stdin."""

import re
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.cli.running import done, refused, rows, run
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.client import ReceivedMessage, blocking
from sprocket.rocketmq.errors import NoSuchTopic
from sprocket.testing.local_broker import LocalBroker, small_settings


def stored(broker: LocalBroker, topic: str, message_id: str) -> ReceivedMessage:
    """Return a message of the broker."""
    with blocking.Admin(broker.nameserver) as admin:
        found = admin.view(message_id, topic)
    assert found is not None
    return found


def test_one_message_with_all_it_can_have(broker: LocalBroker) -> None:
    """Body, tag, keys and properties arrive; the answer says where it lies."""
    given = ["--tag", "hot", "--key", "k1", "--key", "k2", "--property", "a=1=2"]
    (row,) = rows(broker, "produce", "orders", "one coffee", *given)
    found = stored(broker, "orders", row["offset_id"])
    assert (found.body, found.tag, found.keys) == (b"one coffee", "hot", ("k1", "k2"))
    assert found.properties["a"] == "1=2"
    assert (row["queue_id"], row["queue_offset"]) == (found.queue.queue_id, found.queue_offset)
    assert row["unique_key"] == found.message_id
    assert row["status"] == "OK"


def test_each_line_of_stdin_is_one(broker: LocalBroker) -> None:
    """Bytes as they are, without the end of the line; an empty line is an empty message or none."""
    sent = rows(broker, "produce", "orders", stdin="ä\r\nb\n".encode())
    bodies = [stored(broker, "orders", row["offset_id"]).body for row in sent]
    assert bodies == ["ä".encode(), b"b"]


def test_a_file_is_one(broker: LocalBroker, tmp_path: Path) -> None:
    """Its content, whatever it is."""
    (tmp_path / "body").write_bytes(bytes(range(256)))
    (row,) = rows(broker, "produce", "orders", "--file", tmp_path / "body")
    assert stored(broker, "orders", row["offset_id"]).body == bytes(range(256))


def test_a_sharding_key_keeps_one_queue(broker: LocalBroker) -> None:
    """Twenty copies lie in one queue, one behind the other."""
    sent = rows(broker, "produce", "orders", "x", "--count", 20, "--sharding-key", "customer")
    assert len({row["queue_id"] for row in sent}) == 1
    assert [row["queue_offset"] for row in sent] == list(range(20))


def test_a_delay_level(broker: LocalBroker) -> None:
    """The message waits until its time has come."""
    rows(broker, "produce", "orders", "later", "--delay", 3)
    read = ("consume", "orders", "--from", "first", "--until-end")
    assert rows(broker, *read) == []
    broker.advance(seconds=10)
    assert [row["body"] for row in rows(broker, *read)] == ["later"]


def test_a_time_and_what_takes_it_back(broker: LocalBroker) -> None:
    """Of two messages the one that was not taken back comes."""
    (first,) = rows(broker, "produce", "orders", "first", "--delay-ms", 60_000)
    assert rows(broker, "msg", "recall", first["recall_handle"]) == [
        {"unique_key": first["unique_key"]}
    ]
    said = done(broker, "produce", "orders", "second", "--delay-ms", 90_000)
    assert " recall djEg" in said
    (now,) = rows(broker, "produce", "orders", "now", "--at", "2026-01-01")
    assert now["recall_handle"] is None
    broker.advance_until(lambda: len(broker.messages("orders")) == 2)
    assert [one.body for one in broker.messages("orders")] == [b"now", b"second"]


def test_people_get_a_line_each(broker: LocalBroker) -> None:
    """On stdout where each lies, on stderr how many there were."""
    said = done(broker, "produce", "orders", "x", "--count", 2)
    assert [line.split()[:2] for line in said.splitlines()] == [["orders", "queue"]] * 2


def test_bad_input_is_one_line(broker: LocalBroker, tmp_path: Path) -> None:
    """Two bodies, a property without a value, a file that is not there, an illegal topic."""
    assert "one of them" in refused(broker, "produce", "t", "x", "--file", tmp_path)
    assert "one of --delay" in refused(broker, "produce", "t", "x", "--delay", 1, "--delay-ms", 1)
    assert "not a time" in refused(broker, "produce", "t", "x", "--at", "soon")
    assert "NAME=VALUE" in refused(broker, "produce", "t", "x", "--property", "alone")
    assert "missing" in refused(broker, "produce", "t", "--file", tmp_path / "missing")
    assert "no blanks" in refused(broker, "produce", "no blanks", "x")


def test_a_blank_line_is_left_out_and_the_rest_is_sent(broker: LocalBroker) -> None:
    """A message needs a body; the lines behind the blank one are sent, and it is counted."""
    ended = run(broker, "produce", "orders", stdin=b"a\n\n\r\nb\n\nc")
    assert ended.exit_code == 0, ended.output
    assert len(ended.stdout.splitlines()) == 3
    assert ended.stderr.startswith("sprocket: 3 sent to orders")
    assert ended.stderr.endswith("; 3 blank lines left out\n")
    ended = run(broker, "produce", "orders", "--json", stdin=b"a\n\n")
    assert ended.stderr == "sprocket: 1 sent to orders; 1 blank lines left out\n"


def test_a_line_that_cannot_be_sent_is_named_with_what_was_sent(broker: LocalBroker) -> None:
    """Those before it are told and counted, nothing behind it is read, and the exit code is 1."""
    done(broker, "topic", "create", "orders")
    long = b"x" * (4 * 1024 * 1024 + 1)
    ended = run(broker, "produce", "orders", stdin=b"a\nb\n" + long + b"\nc\n")
    assert ended.exit_code == 1
    assert len(ended.stdout.splitlines()) == 2
    assert ended.stderr.startswith("sprocket: 2 sent to orders, 1 not; line 3: ")
    assert ended.stderr.endswith("; nothing behind it was read\n")
    assert ended.stderr.count("\n") == 1
    read = ("consume", "orders", "--from", "first", "--until-end")
    assert sorted(row["body"] for row in rows(broker, *read)) == ["a", "b"]


def test_what_a_broker_refuses_in_between_is_told(broker: LocalBroker) -> None:
    """The topic cannot be written to: what failed is counted, and why."""
    done(broker, "topic", "create", "orders", "--queues", 1)
    done(broker, "topic", "update", "orders", "--perm", "r")
    said = refused(broker, "produce", "orders", "x", "--timeout-ms", 200)
    assert said.startswith("sprocket: 0 sent to orders, 1 not; the message: ")


def test_a_topic_that_this_send_made_is_told(broker: LocalBroker) -> None:
    """Whoever mistyped a name should learn of it."""
    done(broker, "topic", "create", "orders")
    ended = run(broker, "produce", "ordres", "x")
    assert (ended.exit_code, ended.stderr) == (
        0,
        "sprocket: 1 sent to ordres, which was not there before; did you mean orders?\n",
    )
    assert run(broker, "produce", "ordres", "x").stderr == "sprocket: 1 sent to ordres\n"


def test_a_topic_that_nobody_makes_is_an_error() -> None:
    """At once, and it names the nearest."""
    given = small_settings()
    closed = replace(given, topics=replace(given.topics, auto_create=False))
    with LocalBroker(settings=closed) as broker:
        done(broker, "topic", "create", "orders")
        said = refused(broker, "produce", "ordres", "x")
        assert said == "sprocket: no NameServer knows topic 'ordres'; did you mean orders?\n"


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_reader_that_goes_ends_it_and_is_told_how_far_it_was(
    broker: LocalBroker, flags: list[str]
) -> None:
    """`sprocket produce --count 20000 | head -1`: not all is sent, so it is not a success."""
    words = ["produce", "orders", "x", "--count", "20000", "-n", broker.nameserver, *flags]
    command = [sys.executable, "-m", "sprocket.cli.main", *words]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stderr is not None
    assert child.stdout.readline()
    child.stdout.close()
    said = child.stderr.read().decode()
    assert child.wait(LONG_SECONDS) == 1
    (sent,) = re.findall(r"^sprocket: ([\d,]+) sent to orders; the reader of stdout has gone", said)
    assert said.count("\n") == 1
    with blocking.Admin(broker.nameserver) as admin:
        queues = admin.topic.stats("orders").queues.values()
    assert sum(one.max_offset for one in queues) == int(sent.replace(",", "")) < 20_000


@pytest.mark.slow
def test_ctrl_c_says_how_far_it_was(broker: LocalBroker) -> None:
    """With the exit code that shells give it."""
    command = [sys.executable, "-m", "sprocket.cli.main"]
    child = subprocess.Popen(
        [*command, "produce", "orders", "-n", broker.nameserver],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"a\nb\nc\n")
    child.stdin.flush()
    with blocking.Puller(broker.nameserver) as puller:
        stored = 0
        while stored != 3:
            with suppress(NoSuchTopic):  # it is there once the command has begun
                stored = sum(puller.max_offset(queue) for queue in puller.queues("orders"))
    assert child.stderr is not None
    child.send_signal(signal.SIGINT)
    said = child.stderr.read()  # stdin stays open: at its end the command ends by itself
    assert (child.wait(LONG_SECONDS), said) == (
        130,
        b"sprocket: 3 sent to orders; ended by Ctrl-C\n",
    )
