"""What kind of file system the temporary folder of a test lies on."""

from pathlib import Path

import pytest

MOUNTS = Path("/proc/self/mountinfo")
IN_MEMORY_ONLY = {"tmpfs", "ramfs"}


def kind_of(path: Path) -> str:
    """Return the type of the file system that holds a path; nothing if the machine does not say.

    A line of the table: two numbers, the device, what of it is mounted, where, options, a dash,
    the type, and more. Blanks in names are octal.
    """
    if not MOUNTS.exists():
        return ""
    kinds = {}
    for line in MOUNTS.read_text().splitlines():
        before, _, after = line.partition(" - ")
        kinds[before.split()[4].replace("\\040", " ")] = after.split()[0]  # the last one is on top
    path = path.resolve()
    return next(kinds[str(one)] for one in (path, *path.parents) if str(one) in kinds)


def needs_a_disk(path: Path) -> None:
    """Skip the test if the file system has its files in memory only, or nobody can say."""
    kind = kind_of(path)
    if not kind or kind in IN_MEMORY_ONLY:
        pytest.skip(f"the temporary folder lies on {kind or 'an unknown file system'}")
