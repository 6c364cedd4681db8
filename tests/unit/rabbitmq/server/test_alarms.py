"""What the server runs short of."""

from sprocket.rabbitmq.server.alarms import Alarms


class Waiting:
    """A connection that notes that it goes on."""

    def __init__(self) -> None:
        self.unblocked_count = 0

    def unblock(self) -> None:
        """Note it."""
        self.unblocked_count += 1


def test_all_go_on_when_nothing_is_low_any_more() -> None:
    """Once each, and not while anything still is."""
    alarms, one, other, gone = Alarms(), Waiting(), Waiting(), Waiting()
    alarms.set(["memory", "disk"])
    assert alarms.reason == "low on memory & disk"
    for waiting in (one, other, other, gone):
        alarms.block(waiting)
    alarms.forget(gone)
    alarms.set(["disk"])
    assert (alarms.reason, alarms.blocked_count, one.unblocked_count) == ("low on disk", 2, 0)
    alarms.set([])
    alarms.set([])
    assert [waiting.unblocked_count for waiting in (one, other, gone)] == [1, 1, 0]
    assert (alarms.low, alarms.blocked_count) == ((), 0)
