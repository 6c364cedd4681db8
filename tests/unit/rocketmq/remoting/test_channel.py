"""A call ends once: answered, too late, or with its connection."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.timers import FakeTimers

from sprocket.base.errors import ClientError, NotConnected, RequestTimeout
from sprocket.rocketmq.codec.command import RESPONSE_FLAG, Command
from sprocket.rocketmq.codec.headers import ConsumerGroupOnly
from sprocket.rocketmq.remoting import Channel, Channels, Connection, split_address
from sprocket.runtime.driver import Peer
from sprocket.testing.clock import FakeClock

HEADER = ConsumerGroupOnly(consumer_group="g")


class FakePeer:
    """A connection that keeps what is sent."""

    def __init__(self) -> None:
        self.is_open = True
        self.address = self.told_address = "a:1"
        self.on_close: list[Callable[[Any], None]] = []
        self.sent: list[Command] = []
        self.connection = Connection()

    def when_closed(self, callback: Callable[[Any], None]) -> None:
        """Remember whom to tell."""
        self.on_close.append(callback)

    def send(self, buffers: Any) -> None:
        """Read the frame again."""
        self.sent += Connection().receive(b"".join(buffers))

    def close(self) -> None:
        """Close as the driver does."""
        self.is_open = False
        for callback in self.on_close:
            callback(self)


class Harness:
    """Calls on a fake loop, and how they ended."""

    def __init__(self, count_max: int = 10) -> None:
        self.timers = FakeTimers(FakeClock())
        self.channels = Channels(self.timers.clock, self.timers, count_max)
        self.ended: list[tuple[str, Command | None, ClientError | None]] = []

    def call(self, name: str, peer: FakePeer, seconds: float = 5.0) -> None:
        """Make a call."""
        self.channels.call(
            cast("Peer", peer),
            40,
            HEADER,
            b"body",
            seconds,
            lambda answer, error: self.ended.append((name, answer, error)),
        )

    def answer(self, peer: FakePeer, opaque: int, code: int = 0) -> None:
        """Have a client answer."""
        self.channels.answered(cast("Peer", peer), Command(code, opaque, RESPONSE_FLAG))


def test_answers_find_their_calls() -> None:
    """By connection and number, in any order; the request says what was asked."""
    harness, one, two = Harness(), FakePeer(), FakePeer()
    harness.call("a", one)
    harness.call("b", two)
    harness.call("c", one)
    first, third = one.sent
    (second,) = two.sent
    assert (first.opaque, second.opaque, third.opaque) == (0, 0, 1)
    assert (first.code, first.body, first.is_oneway, first.is_response) == (
        40,
        b"body",
        False,
        False,
    )
    harness.answer(one, 2)
    harness.answer(two, third.opaque)
    assert harness.ended == []
    harness.answer(one, third.opaque, 7)
    harness.answer(two, second.opaque)
    assert [(name, answer and answer.code) for name, answer, _ in harness.ended] == [
        ("c", 7),
        ("b", 0),
    ]
    assert harness.channels.waiting_count == 1


def test_an_answer_counts_once() -> None:
    """A second one, one of a stranger, and one after the time are dropped."""
    harness, peer = Harness(), FakePeer()
    harness.call("a", peer, 1.0)
    for _ in range(2):
        harness.answer(peer, peer.sent[0].opaque)
    harness.answer(FakePeer(), 0)
    harness.call("b", peer, 1.0)
    harness.timers.advance(1000)
    harness.answer(peer, peer.sent[1].opaque)
    assert [name for name, _, _ in harness.ended] == ["a", "b"]
    assert isinstance(harness.ended[1][2], RequestTimeout)
    assert str(harness.ended[1][2]) == "no answer within 1 s"
    assert (harness.channels.waiting_count, harness.timers.pending_count) == (0, 0)


def test_one_timer_serves_all_requests_of_a_connection() -> None:
    """Each ends at its own time, the shortest wait first, whichever was asked first."""
    harness, peer = Harness(), FakePeer()
    for name, seconds in (("long", 9.0), ("short", 1.0), ("middle", 5.0), ("answered", 1.0)):
        harness.call(name, peer, seconds)
    assert harness.timers.pending_count == 1
    harness.answer(peer, peer.sent[3].opaque)
    for ms, names in ((999, []), (1, ["short"]), (3999, []), (1, ["middle"]), (4000, ["long"])):
        harness.ended.clear()
        harness.timers.advance(ms)
        assert [name for name, _, _ in harness.ended] == names
    assert harness.timers.pending_count == 0


def test_a_late_request_may_be_asked_again_by_whom_it_fails() -> None:
    """Then the new one has its own time."""
    harness, peer = Harness(), FakePeer()
    channel = Channel(cast("Peer", peer), "a:1", harness.timers.clock, harness.timers)
    ended: list[int] = []

    def again(_: Command | None, error: ClientError | None) -> None:
        assert isinstance(error, RequestTimeout)
        ended.append(len(ended))
        if len(ended) < 3:
            channel.call(40, HEADER, b"", 2.0, again)

    channel.call(40, HEADER, b"", 1.0, again)
    for ms, count in ((1000, 1), (1999, 1), (1, 2), (2000, 3)):
        harness.timers.advance(ms)
        assert len(ended) == count
    assert (channel.waiting_count, harness.timers.pending_count) == (0, 0)


def test_a_lost_connection_ends_its_calls() -> None:
    """At once, and only its own; it can be used again by nobody."""
    harness, one, two = Harness(), FakePeer(), FakePeer()
    for name, peer in (("a", one), ("b", one), ("c", two)):
        harness.call(name, peer)
    one.close()
    assert [(name, answer) for name, answer, _ in harness.ended] == [("a", None), ("b", None)]
    assert "closed before" in str(harness.ended[0][2])
    assert harness.channels.waiting_count == 1
    harness.call("d", one)
    assert len(harness.ended) == 2
    harness.timers.turn()
    assert (harness.ended[2][0], str(harness.ended[2][2])) == ("d", "the connection is closed")


def test_no_more_than_the_limit_are_under_way() -> None:
    """One too many is told so; when one has ended there is room again."""
    harness, peer = Harness(2), FakePeer()
    for name in "abc":
        harness.call(name, peer)
    harness.timers.turn()
    assert [(name, str(error)) for name, _, error in harness.ended] == [
        ("c", "2 calls to clients are under way already")
    ]
    harness.answer(peer, peer.sent[0].opaque)
    harness.call("d", peer)
    assert [one.opaque for one in peer.sent] == [0, 1, 2]


def test_an_address_is_host_and_port() -> None:
    """`host:port`, or an IPv6 address in brackets."""
    assert split_address("h:1") == ("h", 1)
    assert split_address("[::1]:10911") == ("::1", 10911)
    for wrong in ("h", "h:", ":1", "h:x"):
        with pytest.raises(NotConnected, match="host:port"):
            split_address(wrong)
