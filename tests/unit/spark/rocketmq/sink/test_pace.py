"""The rate limit: never more than it says, and divided by the tasks that run at a time."""

import pytest

from sprocket.base.errors import SettingsError
from sprocket.spark.rocketmq.sink.pace import Pace, tasks_at_once
from sprocket.testing.clock import FakeClock


def test_no_more_than_so_many_a_second() -> None:
    """The first pass at once; whoever comes too early waits for the rest."""
    clock = FakeClock(0)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        clock.advance(round(seconds * 1000))

    pace = Pace(100.0, clock, wait)
    assert pace.count_max == 10
    for _ in range(3):
        pace.take(10)
    assert waits == pytest.approx([0.1, 0.1])
    clock.advance(60_000)
    pace.take(10)
    pace.take(10)  # what was not used before is not made up for
    assert waits == pytest.approx([0.1, 0.1, 0.1])


def test_less_than_one_a_second() -> None:
    """A limit divided among many tasks may be small."""
    assert Pace(0.5, FakeClock(0), lambda _: None).count_max == 1


@pytest.mark.parametrize(
    ("settings", "tasks"),
    [
        ({"spark.master": "local"}, 1),
        ({"spark.master": "local[3]"}, 3),
        ({"spark.master": "local[3,4]"}, 3),
        ({"spark.master": "local[4]", "spark.task.cpus": "2"}, 2),
        ({"spark.master": "local-cluster[2,3,1024]"}, 6),
        ({"spark.master": "spark://m:7077", "spark.cores.max": "8"}, 8),
        ({"spark.executor.instances": "4", "spark.executor.cores": "2"}, 8),
    ],
)
def test_tasks_at_once(settings: dict[str, str], tasks: int) -> None:
    """As Spark's settings say."""
    assert tasks_at_once(settings.get) == tasks


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.master": "spark://m:7077"},
        {
            "spark.executor.instances": "4",
            "spark.executor.cores": "2",
            "spark.dynamicAllocation.enabled": "true",
        },
    ],
)
def test_nobody_knows_how_many_tasks_there_are(settings: dict[str, str]) -> None:
    """The error names the option that says it."""
    with pytest.raises(SettingsError, match="concurrentTasks"):
        tasks_at_once(settings.get)
