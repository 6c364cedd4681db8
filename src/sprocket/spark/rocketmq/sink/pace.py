"""The rate limit of a write: how long a task waits before its next messages."""

import os
import re
from collections.abc import Callable

from sprocket.base.clock import Clock
from sprocket.base.errors import SettingsError

_SHARE_S = 0.1
"""At most the messages of this long are sent at once."""


class Pace:
    """Lets this many messages a second pass.

    Args:
        per_second: Messages; more than 0.
        clock: Whose time counts.
        wait: Blocks for this many seconds.
    """

    def __init__(self, per_second: float, clock: Clock, wait: Callable[[float], None]) -> None:
        self._per_second = per_second
        self._clock = clock
        self._wait = wait
        self._free_at = 0.0
        self.count_max = max(1, int(per_second * _SHARE_S))
        """Messages to ask for at once."""

    def take(self, count: int) -> None:
        """Wait until `count` more may go."""
        now = self._clock.monotonic()
        if self._free_at > now:
            self._wait(self._free_at - now)
        self._free_at = max(self._free_at, now) + count / self._per_second


def tasks_at_once(setting: Callable[[str], str | None]) -> int:
    """Return how many tasks Spark runs at a time, among which a write's limit is divided.

    Args:
        setting: Returns a setting of Spark's by its name.

    Raises:
        SettingsError: Its settings do not say.
    """
    cpus = int(setting("spark.task.cpus") or 1)
    master = setting("spark.master") or ""
    if master == "local":
        return 1
    if found := re.fullmatch(r"local\[(\d+|\*)(?:,.*)?\]", master):
        cores = os.cpu_count() or 1 if found[1] == "*" else int(found[1])
        return max(1, cores // cpus)
    if found := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]", master):
        return max(1, int(found[1]) * (int(found[2]) // cpus))
    if total := setting("spark.cores.max"):
        return max(1, int(total) // cpus)
    executors, cores_each = setting("spark.executor.instances"), setting("spark.executor.cores")
    if executors and cores_each and setting("spark.dynamicAllocation.enabled") != "true":
        return max(1, int(executors) * (int(cores_each) // cpus))
    raise SettingsError(
        "maxMessagesPerSecond is divided among the tasks that run at a time, and Spark's settings "
        "do not say how many these are: give the option concurrentTasks"
    )
