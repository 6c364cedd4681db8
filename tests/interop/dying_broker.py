"""The command `sprocket`, which kills itself while it cuts its log, or opens what was cut.

    python -m tests.interop.dying_broker CALLS broker …

From the moment when a cut begins calls are counted that change the disk; before the one after CALLS
the process is gone, as by `kill -9`. What runs is the product, with a disk that counts.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from sprocket.base.disk import disk
from sprocket.cli import main
from sprocket.rocketmq.store.cutting import log_cut

_OF_DISK = ("make_folder", "remove", "remove_tree", "rename", "exchange", "sync_folder")
_OF_FILE = ("write", "resize", "sync")


class Countdown:
    """How many calls are left.

    Args:
        calls: So many, once it has begun.
    """

    def __init__(self, calls: int) -> None:
        self._left = calls
        self._has_begun = False

    def begin(self) -> None:
        """Count from now on."""
        self._has_begun = True

    def count(self) -> None:
        """Count one call, or do not come back."""
        if not self._has_begun:
            return
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1


def counted(kind: type, names: tuple[str, ...], countdown: Countdown) -> None:
    """Have the methods of a class counted."""
    for name in names:
        setattr(kind, name, _counted(getattr(kind, name), countdown))


def _counted(method: Callable[..., Any], countdown: Countdown) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        countdown.count()
        return method(*arguments, **named)

    return call


def arm(calls: int) -> None:
    """Have this process die in its first cut, or after it."""
    countdown = Countdown(calls)
    counted(disk.RealDisk, _OF_DISK, countdown)
    counted(type(disk.RealDisk().open(__file__)), _OF_FILE, countdown)
    cut = log_cut.cut

    def cut_and_count(*arguments: Any) -> log_cut.Cut:
        countdown.begin()
        return cut(*arguments)

    setattr(log_cut, "cut", cut_and_count)  # noqa: B010


if __name__ == "__main__":
    arm(int(sys.argv.pop(1)))
    main.main()
