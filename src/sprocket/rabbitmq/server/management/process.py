"""What this process uses of its machine."""

import os
import resource
import sys

from sprocket.base import memory


def descriptors() -> tuple[int, int]:
    """Return how many file descriptors are open, 0 where nobody knows, and how many may be."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError:
        used = 0
    return used, limit


def memory_bytes() -> int:
    """Return what the process takes, as the alarm counts it.

    Where the system does not say that, it is the most that it ever had.
    """
    taken = memory.used_bytes()
    if taken:
        return taken
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024
