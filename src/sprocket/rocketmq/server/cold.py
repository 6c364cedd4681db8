"""What only the disk has: its thread reads it, then the request is run again.

run → not in memory → disk thread reads → run, which waits no more → answer
"""

from collections.abc import Callable, Sequence

from sprocket.base.units import MIB
from sprocket.rocketmq.store.commitlog import Range
from sprocket.runtime.offload import DiskThread

COLD_READS_MAX = 64
"""Jobs that may wait for the disk thread before a read; a further one is done on the loop."""

CHUNK_BYTES = MIB
"""The disk thread reads so much at once, into memory that it gives back."""


class ColdReads:
    """Has parts of files brought into memory while the loop does something else.

    Args:
        thread: Reads them.

    Threads: event loop only.
    """

    def __init__(self, thread: DiskThread) -> None:
        self._thread = thread

    @property
    def may_wait(self) -> bool:
        """Whether the disk may be asked; else who wants something reads it himself."""
        thread = self._thread
        return thread.waiting_count < COLD_READS_MAX and not thread.is_stopped

    def fetch(self, missing: Sequence[Range], then: Callable[[], None]) -> None:
        """Have the disk bring what is missing, then call `then`, though the disk refused."""
        self._thread.submit(lambda: _read(missing), lambda _, __: then())


def _read(ranges: Sequence[Range]) -> None:
    """Bring parts of files into memory.

    A mapping that is touched does so as well, but its page faults hold up every thread.

    Threads: any.
    """
    for file, position, size in ranges:
        end = position + size
        for at in range(position, end, CHUNK_BYTES):
            file.read(at, min(CHUNK_BYTES, end - at))
