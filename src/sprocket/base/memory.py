"""How much memory this process takes, and how much there is for it.

What counts is what goes only when the process gives it back: parts of mapped files, which the
system drops by itself when it is short, do not.
"""

import os
import sys
from typing import Any

from sprocket.base.disk import RealDisk
from sprocket.base.errors import DiskFailed

_STATM = "/proc/self/statm"
_CGROUP_LIMITS = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
FREED_BYTES_MIN = 16 << 20
"""So much more must be free than was kept before it is worth giving back."""
CALM_BYTES = 8 << 20
"""If less is freed or taken between two looks, nobody is in the middle of something large."""
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


class FreedMemory:
    """Gives pages back to the system whose content was freed; glibc keeps them for itself.

    What fills most of memory are bodies of messages, some kilobytes each. When a backlog is gone,
    what they took lies free between a few that are still used, and stays resident for ever.
    `malloc_trim` gives back whole pages of it, some 0.1 s for a gigabyte, while other threads that
    want memory wait. So it is not called while much is freed or taken, and only if so much more is
    free than after the last time that it pays.

    Args:
        library: The C library, by `ctypes`; None for the one of this process, if it is glibc.

    Threads: `is_due` any, one at a time; `give_back` one that may wait.
    """

    def __init__(self, library: Any = None) -> None:
        library = library or _glibc()
        self._trim = getattr(library, "malloc_trim", None)
        self._info = getattr(library, "mallinfo2", None)
        self._last = self._kept = 0

    def is_due(self) -> bool:
        """Say whether there is something to give back; asked some seconds apart."""
        if self._trim is None or self._info is None:
            return False
        free = int(self._info().fordblks)
        is_calm = abs(free - self._last) < CALM_BYTES
        self._last = free
        self._kept = min(self._kept, free)  # some of it is used again
        return is_calm and free - self._kept >= FREED_BYTES_MIN

    def give_back(self) -> None:
        """Do it."""
        if self._trim is not None and self._info is not None:
            self._trim(0)
            self._kept = self._last = int(self._info().fordblks)


def _glibc() -> Any:
    """Return the C library, with what is needed declared; None if it is another one, or old."""
    try:
        import ctypes

        library = ctypes.CDLL(None)
        library.malloc_trim.argtypes = (ctypes.c_size_t,)
        info = library.mallinfo2
    except (ImportError, AttributeError, OSError, TypeError):
        return None
    names = (
        *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks"),
        *("fordblks", "keepcost"),
    )

    class MallInfo(ctypes.Structure):
        _fields_ = [(name, ctypes.c_size_t) for name in names]

    info.restype = MallInfo
    return library


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
