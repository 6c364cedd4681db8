"""A sync that the kernel runs by itself while its caller does something else.

A thread that syncs has to be woken, and then to wake whoever waits for it; in Python both wait for
the interpreter's lock as well. Linux takes a sync as a request for asynchronous I/O instead
(`io_submit` with IOCB_CMD_FDSYNC, since 4.18): one call begins it, another waits for its end, for a
limited time. The C library has no functions for these calls, so they are made by their numbers,
which depend on the processor.

Where any of this is missing (another system or processor, a container that forbids the calls)
`KernelSyncs.start` returns None, and a thread has to do it. Figures: docs/decisions/0002.

Source: Linux, `include/uapi/linux/aio_abi.h` and io_submit(2).
"""

import ctypes
import errno
import os
import platform
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, Protocol

_FDSYNC = 3
"""IOCB_CMD_FDSYNC."""


class PendingSync(Protocol):
    """A sync that was begun and runs by itself."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end and return whether it has ended.

        Args:
            seconds: How long at most; None for as long as it takes. A signal may cut it short.

        Raises:
            DiskFull, DiskFailed: What `File.sync` raises.
        Threads: any, one after the other; not again after it has ended.
        """


class Numbers(NamedTuple):
    """By which the kernel knows `io_setup`, `io_submit` and `io_getevents`."""

    setup: int
    submit: int
    getevents: int


_NUMBERS = {
    "x86_64": Numbers(setup=206, submit=209, getevents=208),
    "aarch64": Numbers(setup=0, submit=2, getevents=4),
}


class _Request(ctypes.Structure):
    """The kernel's `struct iocb` on a little-endian processor."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_int32),
        ("operation", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("descriptor", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("position", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("eventfd", ctypes.c_uint32),
    )


class _Event(ctypes.Structure):
    """The kernel's `struct io_event`; `result` is 0, or an error number below 0."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("result", ctypes.c_int64),
        ("result2", ctypes.c_int64),
    )


class _Time(ctypes.Structure):
    """The kernel's `struct timespec` on a processor of 64 bits."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Context:
    """What the kernel keeps for one request at a time; it lives as long as the process.

    Raises:
        OSError: The kernel has no asynchronous I/O for this process, or no more of it.
    """

    def __init__(self, call: Callable[..., int], numbers: Numbers) -> None:
        self._call, self._numbers = call, numbers
        self._request = _Request(operation=_FDSYNC)
        self._event = _Event()
        self._event_at = ctypes.c_void_p(ctypes.addressof(self._event))
        made = ctypes.c_ulong(0)
        self._ask(numbers.setup, ctypes.c_long(1), ctypes.byref(made))
        self._id = made
        self._requests = (ctypes.c_void_p * 1)(ctypes.addressof(self._request))
        self._one = ctypes.c_long(1)

    def begin(self, descriptor: int) -> None:
        """Start the sync of a file; raises OSError."""
        self._request.descriptor = descriptor
        if self._ask(self._numbers.submit, self._id, self._one, self._requests) != 1:
            raise OSError(errno.EAGAIN, "not taken")  # nobody may wait for what was not begun

    def result(self, seconds: float | None) -> int | None:
        """Return how it ended, 0 or an error number; None if it has not."""
        limit = None
        if seconds is not None:
            whole = int(seconds)
            limit = ctypes.byref(_Time(whole, int((seconds - whole) * 1e9)))
        ended = self._ask(
            self._numbers.getevents,
            self._id,
            self._one,
            self._one,
            self._event_at,
            limit,
        )
        return -self._event.result if ended else None

    def _ask(self, number: int, *arguments: object) -> int:
        """Make a call; one that a signal has cut short returns 0."""
        done = self._call(number, *arguments)
        if done < 0:
            code = ctypes.get_errno()
            if code != errno.EINTR:
                raise OSError(code, os.strerror(code))
            return 0
        return done


@dataclass(slots=True)
class _KernelSync:
    """One sync; its context may be used again when it has ended."""

    _context: _Context
    _free: deque[_Context]
    _refuse: Callable[[OSError], NoReturn]

    def wait(self, seconds: float | None = None) -> bool:
        """See `PendingSync`."""
        try:
            code = self._context.result(seconds)
            while code is None:
                if seconds is not None:
                    return False
                code = self._context.result(None)
        except OSError as error:
            self._refuse(error)  # nobody knows how it ended; the context is not used again
        self._free.append(self._context)
        if code:
            self._refuse(OSError(code, os.strerror(code)))
        return True


class KernelSyncs:
    """Has the kernel sync files, as many at once as are asked for.

    `call` is the C library's `syscall`, which sets `errno`.
    """

    def __init__(self, call: Callable[..., int], numbers: Numbers) -> None:
        self._call, self._numbers = call, numbers
        self._free: deque[_Context] = deque()  # any thread takes and adds
        self._is_off = False

    def start(self, descriptor: int, refuse: Callable[[OSError], NoReturn]) -> PendingSync | None:
        """Start the sync of a file; return None where the kernel cannot, and nothing is begun then.

        Costs some 3 µs.

        Args:
            descriptor: Of a file that is open for writing; it may be closed meanwhile.
            refuse: Raises the StoreError that stands for an error of the system.
        Threads: any.
        """
        if self._is_off:
            return None
        try:
            context = self._context()
        except OSError as error:
            self._is_off = error.errno in _NOT_HERE
            return None
        try:
            context.begin(descriptor)
        except OSError:  # a file that has no sync, or is not open: `File.sync` says what it is
            self._free.append(context)
            return None
        return _KernelSync(context, self._free, refuse)

    def _context(self) -> _Context:
        """Return one that has no request; raises OSError."""
        try:
            return self._free.pop()
        except IndexError:
            return _Context(self._call, self._numbers)


_NOT_HERE = errno.ENOSYS, errno.EPERM, errno.EACCES
"""What a kernel answers that has no such call, or a container that forbids it."""


def system_kernel_syncs() -> KernelSyncs | None:
    """Return the kernel's; None on a system or a processor of which we know no numbers."""
    numbers = _NUMBERS.get(platform.machine())
    if sys.platform != "linux" or numbers is None or sys.maxsize < 2**32:
        return None
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    return KernelSyncs(call, numbers)
