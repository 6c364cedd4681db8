"""A master that is alone in sync says so, and for how long."""

import structlog

from sprocket.rocketmq.failover.alone import GRACE_SECONDS, REPEAT_SECONDS, Alone


def said(looks: list[tuple[float, int]]) -> list[str]:
    """Return what is said of so many in sync at some times."""
    alone = Alone()
    with structlog.testing.capture_logs() as logs:
        for at, in_sync_count in looks:
            alone.look(in_sync_count, at)
    return [f"{entry['log_level']} {entry.get('seconds', '')}".strip() for entry in logs]


def test_it_is_said_after_a_while_and_again() -> None:
    """Until another one is in sync again, which is said as well."""
    late = GRACE_SECONDS
    looks = [(0.0, 1), (late, 1), (late + 1, 1), (late + REPEAT_SECONDS, 1), (200, 2), (201, 2)]
    assert said(looks) == [f"warning {late:.0f}", f"warning {late + REPEAT_SECONDS:.0f}", "info"]


def test_nothing_is_said_of_a_moment() -> None:
    """As there is after each switch; nor of one that is not master any more."""
    late = GRACE_SECONDS
    assert said([(0.0, 1), (late - 0.1, 1), (late, 2), (late + 1, 1), (2 * late, 1)]) == []
    assert said([(0.0, 1), (late, 1), (late + 1, 0), (late + 2, 2)]) == [f"warning {late:.0f}"]
