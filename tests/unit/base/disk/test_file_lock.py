"""Locks hold against other processes and are told apart from what else may go wrong."""

import errno
import fcntl
import os
import pathlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

from sprocket.base.disk import RealDisk, file_lock
from sprocket.base.errors import StoreLocked


def test_a_lock_holds_against_other_processes(tmp_path: pathlib.Path) -> None:
    """It is the lock that Java's FileChannel takes: POSIX, on the first byte."""
    path = str(tmp_path / "lock")
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'r+b')\n"
        "try: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)\n"
        "except OSError: sys.exit(7)"
    )
    lock = RealDisk().lock(path)
    assert subprocess.run([sys.executable, "-c", code, path], check=False).returncode == 7
    lock.release()
    assert subprocess.run([sys.executable, "-c", code, path], check=False).returncode == 0


def test_a_lock_of_another_process_is_store_locked(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the system says then is told in our words."""

    def held(*_: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(fcntl, "lockf", held)
    with pytest.raises(StoreLocked, match="another process"):
        RealDisk().lock(str(tmp_path / "lock"))


def test_somebody_may_wait_for_a_lock(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is given up, or for so long."""
    path, slept = str(tmp_path / "lock"), []
    lock = RealDisk().lock(path)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            lock.release()

    monkeypatch.setattr(file_lock, "time", SimpleNamespace(sleep=sleep))
    RealDisk().lock(path, wait_seconds=1).release()
    assert slept == [file_lock.POLL_SECONDS] * 3
    held = RealDisk().lock(path)
    with pytest.raises(StoreLocked):
        RealDisk().lock(path, wait_seconds=1)
    assert sum(slept[3:]) == pytest.approx(1)
    held.release()
