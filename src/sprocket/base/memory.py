"""How much memory this process takes, and how much there is for it.

What counts is what goes only when the process gives it back: parts of mapped files, which the
system drops by itself when it is short, do not.
"""

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from sprocket.base.disk import RealDisk
from sprocket.base.errors import DiskFailed

_STATM = "/proc/self/statm"
_GROUPS = "/proc/self/cgroup"
_MOUNTS = "/proc/self/mountinfo"
_LIMIT_FILES = {"cgroup2": "memory.max", "cgroup": "memory.limit_in_bytes"}
"""What says in a group's folder how much it may take, by the kind of file system."""
FREED_BYTES_MIN = 4 << 20
"""It is worth giving memory back if this much more is free than was kept."""
CALM_BYTES = 8 << 20
"""If less is freed or taken between two checks, no large work is under way."""
KEPT_FREE_BYTES = 128 << 20
"""The most that `keep_freed` keeps at the end of the heap."""
BLOCK_BYTES_MAX = 32 << 20
"""Larger blocks are given back at once all the same; glibc takes no more."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_FILE_BYTES_MAX = 256 << 10
"""More than any of these files has, whose lengths the system says are 0."""


def used_bytes() -> int:
    """Return what the process takes; 0 where the system does not say."""
    fields = _read(_STATM).split()
    if len(fields) < 3:
        return 0
    resident, shared = int(fields[1]), int(fields[2])
    return max(resident - shared, 0) * os.sysconf("SC_PAGE_SIZE")


def whole_bytes(read: Callable[[str], str] | None = None) -> int:
    """Return what there is for this process: of the machine, or what its control group may take.

    The group is the container's or the service's, as `MemoryMax` of systemd sets it, and so is each
    one around it: the smallest limit counts. Where the system does not say, it is as much as can
    be.

    Args:
        read: Returns what a file of the system says, nothing if it is not there; for tests.

    Source: cgroups(7), `memory.max` and `memory.limit_in_bytes` of the kernel's documentation.
    """
    read = read or _read
    found = [sys.maxsize]
    if "SC_PHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    limits = [read(path).strip() for path in limit_paths(read)]
    return min([*found, *(int(text) for text in limits if text.isdigit())])


def limit_paths(read: Callable[[str], str] | None = None) -> Iterator[str]:
    """Give the files with the limits of the groups that this process is in, the own one last."""
    read = read or _read
    groups = dict(_group(line) for line in read(_GROUPS).splitlines() if line.count(":") >= 2)
    for line in read(_MOUNTS).splitlines():
        mount, _, kind = line.partition(" - ")
        fields, (name, _, options) = mount.split(), (*kind.split(" ", 2), "", "", "")[:3]
        if name not in _LIMIT_FILES or len(fields) < 5:
            continue
        of = "memory" if name == "cgroup" else ""
        if of and of not in options.split(" ")[-1].split(","):
            continue
        # What the mount shows begins at `root`: in a container that is its own group.
        root, point = fields[3].rstrip("/"), fields[4]
        path = groups.get(of, "/")
        is_seen = f"{path}/".startswith(f"{root}/") and ".." not in path.split("/")
        parts = [part for part in path.removeprefix(root).split("/") if part] if is_seen else []
        for count in range(len(parts) + 1):
            yield "/".join([point, *parts[:count], _LIMIT_FILES[name]])


def _group(line: str) -> tuple[str, str]:
    """Return of a line of `/proc/self/cgroup` whose group it is (`memory`, or "" in version 2)."""
    _, controllers, path = line.split(":", 2)
    return "memory" if "memory" in controllers.split(",") else controllers, path


class FreedMemory:
    """Gives pages back to the system whose content was freed; glibc keeps them for itself.

    What fills most of memory are bodies of messages, a few kilobytes each. When a backlog is gone,
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
        """Say whether there is something to give back; asked a few seconds apart."""
        if self._trim is None or self._info is None:
            return False
        free = int(self._info().fordblks)
        is_calm = abs(free - self._last) < CALM_BYTES
        self._last = free
        self._kept = min(self._kept, free)  # some of it is used again
        return is_calm and free - self._kept >= FREED_BYTES_MIN

    def give_back(self) -> None:
        """Give the free memory back to the system."""
        if self._trim is not None and self._info is not None:
            self._trim(0)
            self._kept = self._last = int(self._info().fordblks)


def keep_freed(library: Any = None) -> None:
    """Have glibc keep up to `KEPT_FREE_BYTES` that were freed, for what is wanted next.

    It would give back what is freed at the end of its heap, and each block of some MiB. For work
    that frees and takes such blocks all the time that is a page fault and 4 KiB of zeros for each
    page: a tenth of what a slave spends while it catches up.

    Args:
        library: As of `FreedMemory`.

    Source: mallopt(3).
    """
    set_option = getattr(library or _glibc(), "mallopt", None)
    if set_option is not None:
        set_option(_TRIM_THRESHOLD, KEPT_FREE_BYTES)
        set_option(_MMAP_THRESHOLD, BLOCK_BYTES_MAX)


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
        return file.read(0, _FILE_BYTES_MAX).decode("ascii", "replace")
    except DiskFailed:
        return ""
    finally:
        file.close()
