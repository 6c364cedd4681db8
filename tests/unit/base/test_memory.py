"""What the process takes of the memory: the system's own figure, and what there is."""

import os
import platform
import subprocess
import sys
from types import SimpleNamespace

import pytest

from sprocket.base import memory


def test_a_process_takes_some_of_what_there_is() -> None:
    """More when it holds more."""
    before = memory.used_bytes()
    held = b"x" * (64 << 20)
    assert memory.used_bytes() - before > len(held) // 2
    assert memory.used_bytes() < memory.whole_bytes()
    assert memory.whole_bytes() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class FakeLibrary:
    """A C library that says how much is free, and counts how often it gave that back."""

    def __init__(self) -> None:
        self.free = self.trims = 0

    def mallinfo2(self) -> SimpleNamespace:
        """Say so; what was given back still counts, as in glibc."""
        return SimpleNamespace(fordblks=self.free)

    def malloc_trim(self, _pad: int) -> None:
        """Count."""
        self.trims += 1


def test_what_is_free_is_given_back_once_and_not_in_the_middle_of_work() -> None:
    """Only when so much more is free than after the last time that it pays."""
    library = FakeLibrary()
    freed = memory.FreedMemory(library)
    due = []
    for free in (1, 1, 400, 400, 400, 401, 300, 300, 310, 320, 320):
        library.free = free << 20
        due.append(freed.is_due())
        if due[-1]:
            freed.give_back()
    assert due == [False] * 3 + [True] + [False] * 6 + [True]
    assert library.trims == 2


FREES_BETWEEN = """
from sprocket.base import memory

freed = memory.FreedMemory()
freed.give_back()
held = [bytes(3000 + at % 7) for at in range(20_000)]
full = memory.used_bytes()
held = held[::100]
assert not freed.is_due()  # much is being freed
assert freed.is_due()
freed.give_back()
assert full - memory.used_bytes() > 40 << 20
assert not freed.is_due()
assert len(held) == 200
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps pages like that")
def test_pages_between_what_is_still_used_are_given_back() -> None:
    """Of many bodies a few are left, so that none of their arenas is empty.

    In a process of its own: in this one other tests' threads take and free memory, too.
    """
    command = [sys.executable, "-c", FREES_BETWEEN]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
