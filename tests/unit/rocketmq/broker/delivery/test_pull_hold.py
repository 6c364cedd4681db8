"""Waiting pulls are resumed once: by what they wait for, by the re-check, or by their time."""

from collections.abc import Callable
from typing import cast

from tests.timers import FakeTimers

from sprocket.rocketmq.broker.delivery import HeldPull, PullHold
from sprocket.rocketmq.broker.groups import Link
from sprocket.rocketmq.model.filters import TagFilter
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.settings import PullSettings
from sprocket.rocketmq.store.reput import Arrival
from sprocket.testing.clock import FakeClock


class Waiting:
    """A hold on a fake loop that notes who was resumed."""

    def __init__(self, count_max: int = 10) -> None:
        self.timers = FakeTimers(FakeClock())
        self.hold = PullHold(self.timers, PullSettings(hold_count_max=count_max))
        self.resumed: list[str] = []

    def put(
        self,
        name: str,
        *,
        owner: str = "peer",
        queue: int = 0,
        offset: int = 5,
        tags: frozenset[int] | None = None,
        ms: int = 1000,
    ) -> bool:
        """Let a pull of topic `t` wait."""
        return self.wait(lambda: self.resumed.append(name), owner, queue, offset, tags, ms)

    def wait(
        self,
        resume: Callable[[], None],
        owner: str = "peer",
        queue: int = 0,
        offset: int = 5,
        tags: frozenset[int] | None = None,
        ms: int = 1000,
    ) -> bool:
        """Let a pull of topic `t` wait that does something of its own."""
        wanted = None if tags is None else TagFilter(codes=tags)
        held = HeldPull(cast("Link", owner), "t", queue, offset, wanted, resume)
        return self.hold.hold(held, ms)

    def drop(self, owner: str) -> None:
        """Close a connection."""
        self.hold.drop(cast("Link", owner))


def arrival(next_offset: int, *codes: int, queue: int = 0) -> Arrival:
    """Return what a dispatch round tells of topic `t`."""
    return Arrival("t", queue, QueueOffset(next_offset), list(codes))


def test_an_arrival_resumes_who_waits_for_it() -> None:
    """The queue must have grown past the offset, and it must be the queue."""
    waiting = Waiting()
    waiting.put("a")
    waiting.put("b", offset=6)
    waiting.put("c", queue=1)
    waiting.hold.arrived(arrival(5, 1))
    assert waiting.resumed == []
    waiting.hold.arrived(arrival(6, 1))
    assert waiting.resumed == ["a"]
    waiting.hold.arrived(arrival(6, 1))
    assert waiting.resumed == ["a"]
    assert waiting.hold.count == 2


def test_a_pull_waits_on_while_only_other_tags_arrive() -> None:
    """A pull with tags waits on while only other tags arrive; one of several is enough."""
    waiting = Waiting()
    waiting.put("a", tags=frozenset({7, 8}))
    waiting.hold.arrived(arrival(6, 1, 2))
    assert waiting.resumed == []
    waiting.hold.arrived(arrival(9, 1, 8))
    assert waiting.resumed == ["a"]


def test_who_waited_as_long_as_it_wanted_is_resumed_once() -> None:
    """Whoever waited as long as it wanted is resumed, and not again later."""
    waiting = Waiting()
    waiting.put("a", ms=1000)
    waiting.timers.advance(999)
    assert waiting.resumed == []
    waiting.timers.advance(1)
    assert waiting.resumed == ["a"]
    waiting.hold.arrived(arrival(9))
    assert waiting.resumed == ["a"]
    assert waiting.hold.count == 0


def test_an_arrival_cancels_the_timer() -> None:
    """No timer stays behind."""
    waiting = Waiting()
    waiting.put("a")
    waiting.hold.arrived(arrival(9))
    assert waiting.timers.pending_count == 0


def test_the_recheck_resumes_whoever_lags() -> None:
    """It looks at offsets only: a pull whose tags do not come up moves on this way."""
    waiting = Waiting()
    waiting.put("a", tags=frozenset({7}))
    waiting.put("b", offset=9)
    waiting.hold.recheck(lambda _topic, _queue: 9)
    assert waiting.resumed == ["a"]


def test_a_closed_connection_takes_its_holds_with_it() -> None:
    """They are not resumed, and leave no timer."""
    waiting = Waiting()
    waiting.put("a", owner="gone")
    waiting.put("b", owner="gone", queue=1)
    waiting.put("c", owner="here")
    waiting.drop("gone")
    waiting.drop("never seen")
    waiting.hold.arrived(arrival(9))
    waiting.hold.arrived(arrival(9, queue=1))
    assert waiting.resumed == ["c"]
    assert waiting.timers.pending_count == 0


def test_what_was_resumed_is_held_no_more() -> None:
    """A connection that closes later has none of it left to end."""
    waiting = Waiting()
    waiting.put("a")
    waiting.hold.arrived(arrival(6))
    waiting.drop("peer")
    assert waiting.resumed == ["a"]
    assert waiting.hold.count == 0


def test_only_so_many_may_wait() -> None:
    """One beyond the limit is not kept; when somebody left there is room again."""
    waiting = Waiting(count_max=2)
    assert waiting.put("a")
    assert waiting.put("b", owner="gone")
    assert not waiting.put("c")
    assert not waiting.put("d")
    waiting.drop("gone")
    assert waiting.put("e")
    waiting.hold.end_all()
    assert sorted(waiting.resumed) == ["a", "e"]
    assert waiting.hold.count == 0


def test_how_many_may_wait_changes_while_some_do() -> None:
    """Those that wait already wait on, though they are too many now."""
    waiting = Waiting(count_max=2)
    assert waiting.put("a")
    assert waiting.put("b")
    waiting.hold.use(PullSettings(hold_count_max=1))
    assert not waiting.put("c")
    assert waiting.resumed == []
    waiting.hold.use(PullSettings(hold_count_max=3))
    assert waiting.put("d")


def test_a_resumed_pull_may_wait_again() -> None:
    """Holding from within `resume` is a new hold and is not resumed by the same arrival."""
    waiting = Waiting()

    def again() -> None:
        waiting.put("again", offset=6)

    waiting.wait(again)
    waiting.hold.arrived(arrival(6))
    assert waiting.hold.count == 1
    waiting.hold.arrived(arrival(7))
    assert waiting.resumed == ["again"]


def test_who_waits_for_a_queue_can_be_woken() -> None:
    """Whatever it waits for; other queues' are not."""
    waiting = Waiting()
    waiting.put("a", offset=100)
    waiting.put("b", queue=1)
    waiting.hold.wake("t", 0)
    waiting.hold.wake("t", 7)
    assert (waiting.resumed, waiting.hold.count) == (["a"], 1)
