"""A lock on a file, against other processes and against this one."""

import errno
import os
import time
from dataclasses import dataclass

from sprocket.base.errors import StoreLocked

try:
    import fcntl
except ImportError:  # as on Windows
    fcntl = None  # type: ignore[assignment]
    import msvcrt

POLL_SECONDS = 0.02
"""How often a lock is tried that somebody else holds."""

# POSIX locks belong to the process: a second lock by the same process would succeed. These are the
# (device, inode) pairs that this process holds.
_held: set[tuple[int, int]] = set()


@dataclass(slots=True)
class FileLock:
    """A record lock on the first byte, which is what Java's `FileChannel.tryLock` takes."""

    _descriptor: int
    _identity: tuple[int, int]

    def release(self) -> None:
        """Give the lock up; a second call does nothing."""
        if self._descriptor >= 0:
            _held.discard(self._identity)
            os.close(self._descriptor)
            self._descriptor = -1


def take(path: str, wait_seconds: float = 0) -> FileLock:
    """Lock a file, made if it is missing; wait for this long if somebody else holds it.

    Raises:
        StoreLocked: Somebody holds it.
        OSError: The system refused a call.
    Threads: any that may wait.
    """
    for _ in range(int(wait_seconds / POLL_SECONDS)):
        try:
            return _take(path)
        except StoreLocked:
            time.sleep(POLL_SECONDS)
    return _take(path)


def _take(path: str) -> FileLock:
    try:
        status = os.stat(path)
        if (status.st_dev, status.st_ino) in _held:
            # Opening and closing it again would drop the lock that this process holds.
            raise StoreLocked(f"{path} is locked by this process")
    except FileNotFoundError:
        pass
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags, 0o644)
    try:
        _lock_first_byte(descriptor)
        status = os.fstat(descriptor)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise StoreLocked(f"{path} is locked by another process") from error
        raise
    identity = (status.st_dev, status.st_ino)
    _held.add(identity)
    return FileLock(descriptor, identity)


def _lock_first_byte(descriptor: int) -> None:
    if fcntl is not None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    else:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
