"""A call ends once: answered, too late, or with its connection."""

from collections.abc import Callable
from typing import Any, cast

from sprocket.rocketmq.codec.command import RESPONSE_FLAG, Command
from sprocket.rocketmq.codec.headers import NotifyConsumerIdsChanged
from sprocket.rocketmq.remoting import Connection
from sprocket.rocketmq.server.calls import ClientCalls, Ended
from sprocket.runtime.driver import Peer
from sprocket.testing.clock import FakeClock
from sprocket.testing.timers import FakeTimers

HEADER = NotifyConsumerIdsChanged(consumer_group="g")


class FakePeer:
    """A connection that keeps what is sent."""

    def __init__(self) -> None:
        self.is_open = True
        self.address = "a:1"
        self.on_close: list[Callable[[Any], None]] = []
        self.sent: list[Command] = []

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
        self.calls = ClientCalls(self.timers, count_max)
        self.ended: list[tuple[str, Ended]] = []

    def call(self, name: str, peer: FakePeer, seconds: float = 5.0) -> None:
        """Make a call."""
        self.calls.call(
            cast("Peer", peer),
            40,
            HEADER,
            b"body",
            seconds,
            lambda ended: self.ended.append((name, ended)),
        )

    def answer(self, peer: FakePeer, opaque: int, code: int = 0) -> None:
        """Have a client answer."""
        self.calls.answered(cast("Peer", peer), Command(code, opaque, RESPONSE_FLAG))


def test_answers_find_their_calls() -> None:
    """By connection and number, in any order; the request says what was asked."""
    desk, one, two = Desk(), FakePeer(), FakePeer()
    desk.call("a", one)
    desk.call("b", two)
    desk.call("c", one)
    first, third = one.sent
    (second,) = two.sent
    assert len({first.opaque, second.opaque, third.opaque}) == 3
    assert (first.code, first.body, first.is_oneway, first.is_response) == (
        40,
        b"body",
        False,
        False,
    )
    desk.answer(one, second.opaque)
    assert desk.ended == []
    desk.answer(one, third.opaque, 7)
    desk.answer(two, second.opaque)
    assert [(name, ended.answer and ended.answer.code) for name, ended in desk.ended] == [
        ("c", 7),
        ("b", 0),
    ]
    assert desk.calls.count == 1


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
    assert [(name, ended.is_late) for name, ended in desk.ended] == [("a", False), ("b", True)]
    assert "no answer within 1 s" in desk.ended[1][1].why
    assert (desk.calls.count, desk.timers.pending_count) == (0, 0)


def test_a_lost_connection_ends_its_calls() -> None:
    """At once, and only its own; it can be used again by nobody."""
    desk, one, two = Desk(), FakePeer(), FakePeer()
    for name, peer in (("a", one), ("b", one), ("c", two)):
        desk.call(name, peer)
    one.close()
    assert [(name, ended.answer) for name, ended in desk.ended] == [("a", None), ("b", None)]
    assert "closed before" in desk.ended[0][1].why
    assert desk.calls.count == 1
    desk.call("d", one)
    assert len(desk.ended) == 2
    desk.timers.turn()
    assert (desk.ended[2][0], desk.ended[2][1].why) == ("d", "the connection is closed")


def test_no_more_than_the_limit_are_under_way() -> None:
    """One too many is told so; when one has ended there is room again."""
    desk, peer = Desk(2), FakePeer()
    for name in "abc":
        desk.call(name, peer)
    desk.timers.turn()
    assert [(name, ended.why) for name, ended in desk.ended] == [
        ("c", "2 calls to clients are under way already")
    ]
    desk.answer(peer, peer.sent[0].opaque)
    desk.call("d", peer)
    assert [one.opaque for one in peer.sent] == [0, 1, 2]
