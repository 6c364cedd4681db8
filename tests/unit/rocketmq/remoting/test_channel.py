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


class Desk:
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
    desk, one, two = Desk(), FakePeer(), FakePeer()
    desk.call("a", one)
    desk.call("b", two)
    desk.call("c", one)
    first, third = one.sent
    (second,) = two.sent
    assert (first.opaque, second.opaque, third.opaque) == (0, 0, 1)
    assert (first.code, first.body, first.is_oneway, first.is_response) == (
        40,
        b"body",
        False,
        False,
    )
    desk.answer(one, 2)
    desk.answer(two, third.opaque)
    assert desk.ended == []
    desk.answer(one, third.opaque, 7)
    desk.answer(two, second.opaque)
    assert [(name, answer and answer.code) for name, answer, _ in desk.ended] == [
        ("c", 7),
        ("b", 0),
    ]
    assert desk.channels.waiting_count == 1


def test_an_answer_counts_once() -> None:
    """A second one, one of a stranger, and one after the time are dropped."""
    desk, peer = Desk(), FakePeer()
    desk.call("a", peer, 1.0)
    for _ in range(2):
        desk.answer(peer, peer.sent[0].opaque)
    desk.answer(FakePeer(), 0)
    desk.call("b", peer, 1.0)
    desk.timers.advance(1000)
    desk.answer(peer, peer.sent[1].opaque)
    assert [name for name, _, _ in desk.ended] == ["a", "b"]
    assert isinstance(desk.ended[1][2], RequestTimeout)
    assert str(desk.ended[1][2]) == "no answer within 1 s"
    assert (desk.channels.waiting_count, desk.timers.pending_count) == (0, 0)


def test_one_timer_serves_all_requests_of_a_connection() -> None:
    """Each ends at its own time, the shortest wait first, whichever was asked first."""
    desk, peer = Desk(), FakePeer()
    for name, seconds in (("long", 9.0), ("short", 1.0), ("middle", 5.0), ("answered", 1.0)):
        desk.call(name, peer, seconds)
    assert desk.timers.pending_count == 1
    desk.answer(peer, peer.sent[3].opaque)
    for ms, names in ((999, []), (1, ["short"]), (3999, []), (1, ["middle"]), (4000, ["long"])):
        desk.ended.clear()
        desk.timers.advance(ms)
        assert [name for name, _, _ in desk.ended] == names
    assert desk.timers.pending_count == 0


def test_a_late_request_may_be_asked_again_by_whom_it_fails() -> None:
    """Then the new one has its own time."""
    desk, peer = Desk(), FakePeer()
    channel = Channel(cast("Peer", peer), "a:1", desk.timers.clock, desk.timers)
    ended: list[int] = []

    def again(_: Command | None, error: ClientError | None) -> None:
        assert isinstance(error, RequestTimeout)
        ended.append(len(ended))
        if len(ended) < 3:
            channel.call(40, HEADER, b"", 2.0, again)

    channel.call(40, HEADER, b"", 1.0, again)
    for ms, count in ((1000, 1), (1999, 1), (1, 2), (2000, 3)):
        desk.timers.advance(ms)
        assert len(ended) == count
    assert (channel.waiting_count, desk.timers.pending_count) == (0, 0)


def test_a_lost_connection_ends_its_calls() -> None:
    """At once, and only its own; it can be used again by nobody."""
    desk, one, two = Desk(), FakePeer(), FakePeer()
    for name, peer in (("a", one), ("b", one), ("c", two)):
        desk.call(name, peer)
    one.close()
    assert [(name, answer) for name, answer, _ in desk.ended] == [("a", None), ("b", None)]
    assert "closed before" in str(desk.ended[0][2])
    assert desk.channels.waiting_count == 1
    desk.call("d", one)
    assert len(desk.ended) == 2
    desk.timers.turn()
    assert (desk.ended[2][0], str(desk.ended[2][2])) == ("d", "the connection is closed")


def test_no_more_than_the_limit_are_under_way() -> None:
    """One too many is told so; when one has ended there is room again."""
    desk, peer = Desk(2), FakePeer()
    for name in "abc":
        desk.call(name, peer)
    desk.timers.turn()
    assert [(name, str(error)) for name, _, error in desk.ended] == [
        ("c", "2 calls to clients are under way already")
    ]
    desk.answer(peer, peer.sent[0].opaque)
    desk.call("d", peer)
    assert [one.opaque for one in peer.sent] == [0, 1, 2]


def test_an_address_is_host_and_port() -> None:
    """`host:port`, or an IPv6 address in brackets."""
    assert split_address("h:1") == ("h", 1)
    assert split_address("[::1]:10911") == ("::1", 10911)
    for wrong in ("h", "h:", ":1", "h:x"):
        with pytest.raises(NotConnected, match="host:port"):
            split_address(wrong)
