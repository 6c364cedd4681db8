"""How much memory this process takes, and how much there is for it.

What counts is what goes only when the process gives it back: parts of mapped files, which the
system drops by itself when it is short, do not.
"""

import os
import sys

from sprocket.base.disk import RealDisk
from sprocket.base.errors import DiskFailed

_STATM = "/proc/self/statm"
_CGROUP_LIMITS = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
_SMALL_BYTES = 4096
"""More than any of these files has, whose lengths the system says are 0."""


def used_bytes() -> int:
    """Return what the process takes; 0 where the system does not say."""
    fields = _read(_STATM).split()
    if len(fields) < 3:
        return 0
    resident, shared = int(fields[1]), int(fields[2])
    return max(resident - shared, 0) * os.sysconf("SC_PAGE_SIZE")


def whole_bytes() -> int:
    """Return what there is, for all processes of this machine, or of this container if it is less.

    Where the system does not say, it is as much as can be.
    """
    found = [sys.maxsize]
    if "SC_PHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    found += [int(text) for path in _CGROUP_LIMITS if (text := _read(path).strip()).isdigit()]
    return min(found)


def _read(path: str) -> str:
    """Return what a file of the system says; nothing if it is not there."""
    try:
        file = RealDisk().open(path)
    except DiskFailed:
        return ""
    try:
        return file.read(0, _SMALL_BYTES).decode("ascii", "replace")
    except DiskFailed:
        return ""
    finally:
        file.close()
