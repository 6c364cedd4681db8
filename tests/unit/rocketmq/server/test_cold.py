"""What is missing is read in pieces by the disk thread, and whatever comes of it is told."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from sprocket.base.errors import DiskFailed
from sprocket.rocketmq.server import cold
from sprocket.rocketmq.server.cold import ColdReads
from sprocket.runtime.offload import DiskThread


class FakeThread:
    """Does a job when it is given, and hands it back."""

    waiting_count = 0
    is_stopped = False

    def submit(self, job: Callable[[], Any], done: Callable[[Any, Any], None]) -> None:
        """Do it."""
        try:
            done(job(), None)
        except DiskFailed as error:
            done(None, error)


class FakeFile:
    """Notes what is read; a file that is broken fails at its second piece."""

    def __init__(self, *, is_broken: bool = False) -> None:
        self.reads: list[tuple[int, int]] = []
        self._is_broken = is_broken

    def read(self, position: int, size: int) -> bytes:
        """Read nothing."""
        self.reads.append((position, size))
        if self._is_broken and len(self.reads) == 2:
            raise DiskFailed("/file")
        return b""


def test_files_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of what is missing, and nothing else."""
    monkeypatch.setattr(cold, "CHUNK_BYTES", 100)
    one, other = FakeFile(), FakeFile()
    told: list[int] = []
    reads = ColdReads(cast("DiskThread", FakeThread()))
    missing: Any = [(one, 50, 210), (other, 0, 100)]
    reads.fetch(missing, lambda: told.append(len(other.reads)))
    assert one.reads == [(50, 100), (150, 100), (250, 10)]
    assert other.reads == [(0, 100)]
    assert told == [1]


def test_a_disk_that_refuses_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told all the same, once."""
    monkeypatch.setattr(cold, "CHUNK_BYTES", 100)
    file = FakeFile(is_broken=True)
    told: list[str] = []
    missing: Any = [(file, 0, 500)]
    ColdReads(cast("DiskThread", FakeThread())).fetch(missing, lambda: told.append("told"))
    assert (len(file.reads), told) == (2, ["told"])


def test_not_many_may_wait() -> None:
    """Nor anybody for a thread that has stopped."""
    thread = FakeThread()
    reads = ColdReads(cast("DiskThread", thread))
    for waiting, is_stopped, expected in (
        (0, False, True),
        (cold.COLD_READS_MAX - 1, False, True),
        (cold.COLD_READS_MAX, False, False),
        (0, True, False),
    ):
        thread.waiting_count, thread.is_stopped = waiting, is_stopped
        assert reads.may_wait is expected
