"""What the process takes of the memory: the system's own figure, and what there is."""

import os

from sprocket.base import memory


def test_a_process_takes_some_of_what_there_is() -> None:
    """More when it holds more."""
    before = memory.used_bytes()
    held = b"x" * (64 << 20)
    assert memory.used_bytes() - before > len(held) // 2
    assert memory.used_bytes() < memory.whole_bytes()
    assert memory.whole_bytes() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
