"""Syncs that the kernel runs by itself, and kernels that do not."""

import ctypes
import errno
import os
import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base.disk.kernel_sync import KernelSyncs, Numbers, system_kernel_syncs

NUMBERS = Numbers(setup=1, submit=2, getevents=3)


class Refused(Exception):
    """Stands for the store's error."""


def refuse(error: OSError) -> NoReturn:
    """Raise it, with the number."""
    raise Refused(error.errno)


class FakeKernel:
    """Answers calls as the test says.

    Attributes:
        errors: The number of the error with which a call fails, by the call's number.
        results: How requests end, the first first; None for one that has not ended yet.
        calls: The numbers of the calls that were made.
        taken: How many requests it takes.
    """

    def __init__(self) -> None:
        self.errors: dict[int, int] = {}
        self.results: list[int | None] = []
        self.calls: list[int] = []
        self.taken = 1

    def __call__(self, number: int, *arguments: Any) -> int:
        """Answer."""
        self.calls.append(number)
        if number in self.errors:
            ctypes.set_errno(self.errors[number])
            return -1
        if number != NUMBERS.getevents:
            return self.taken if number == NUMBERS.submit else 0
        result = self.results.pop(0)
        if result is None:
            return 0
        ctypes.c_int64.from_address(arguments[3].value + 16).value = result
        return 1


def test_a_file_is_synced_by_the_system(tmp_path: Path) -> None:
    """Where it is able to; one context after the other, several at once, from any thread."""
    syncs = system_kernel_syncs()
    with (tmp_path / "a").open("wb") as a, (tmp_path / "b").open("wb") as b:
        a.write(b"some")
        a.flush()
        if syncs is None:
            return  # another system; the fake kernel below stands for it
        pending = [syncs.start(file.fileno(), refuse) for file in (a, b, a)]
        if pending == [None] * 3:
            return
        ended: list[bool] = []

        def wait() -> None:
            ended.extend(one is not None and one.wait() for one in pending)

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
        assert ended == [True, True, True]
        again = syncs.start(b.fileno(), refuse)
        assert again is not None
        assert again.wait(LONG_SECONDS)


def test_a_descriptor_that_cannot_be_synced_is_left_to_who_says_why() -> None:
    """The next file is synced all the same."""
    syncs = system_kernel_syncs()
    reading, writing = os.pipe()
    try:
        assert syncs is None or syncs.start(writing, refuse) is None
    finally:
        os.close(reading)
        os.close(writing)
    assert syncs is None or syncs.start(writing, refuse) is None


def test_a_request_that_the_kernel_does_not_take_is_not_waited_for() -> None:
    """Nor one that a signal has kept from it; the thread syncs then."""
    kernel = FakeKernel()
    kernel.taken = 0
    syncs = KernelSyncs(kernel, NUMBERS)
    assert syncs.start(5, refuse) is None
    kernel.errors[NUMBERS.submit] = errno.EINTR
    assert syncs.start(5, refuse) is None
    kernel.taken = 1
    kernel.errors.clear()
    assert syncs.start(5, refuse) is not None


def test_an_end_that_is_late_is_waited_for_again() -> None:
    """Without a limit until it comes, though signals cut calls short."""
    kernel = FakeKernel()
    pending = KernelSyncs(kernel, NUMBERS).start(5, refuse)
    assert pending is not None
    kernel.results = [None, None, None, 0]
    assert not pending.wait(0.001)
    assert pending.wait()
    assert kernel.calls.count(NUMBERS.getevents) == 4


def test_a_signal_cuts_a_limited_wait_short() -> None:
    """The caller has something to do then."""
    kernel = FakeKernel()
    pending = KernelSyncs(kernel, NUMBERS).start(5, refuse)
    assert pending is not None
    kernel.errors[NUMBERS.getevents] = errno.EINTR
    assert not pending.wait(60)


def test_a_sync_that_failed_is_told_once() -> None:
    """With the kernel's error; what it used is used again."""
    kernel = FakeKernel()
    syncs = KernelSyncs(kernel, NUMBERS)
    pending = syncs.start(5, refuse)
    assert pending is not None
    kernel.results = [-errno.EIO, 0]
    with pytest.raises(Refused, match=str(errno.EIO)):
        pending.wait()
    following = syncs.start(5, refuse)
    assert following is not None
    assert following.wait(1)
    assert kernel.calls.count(NUMBERS.setup) == 1


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM])
def test_a_kernel_that_has_no_such_call_is_asked_once(code: int) -> None:
    """Nor is one asked again that forbids it."""
    kernel = FakeKernel()
    kernel.errors[NUMBERS.setup] = code
    syncs = KernelSyncs(kernel, NUMBERS)
    assert [syncs.start(5, refuse) for _ in range(3)] == [None] * 3
    assert kernel.calls == [NUMBERS.setup]


def test_a_kernel_that_has_no_room_now_is_asked_again() -> None:
    """Other processes may give some back."""
    kernel = FakeKernel()
    kernel.errors[NUMBERS.setup] = errno.EAGAIN
    syncs = KernelSyncs(kernel, NUMBERS)
    assert syncs.start(5, refuse) is None
    kernel.errors.clear()
    assert syncs.start(5, refuse) is not None


def test_a_wait_that_fails_is_no_end_of_the_sync() -> None:
    """It says nothing of the sync, and so must not pass for its end."""
    kernel = FakeKernel()
    pending = KernelSyncs(kernel, NUMBERS).start(5, refuse)
    assert pending is not None
    kernel.errors[NUMBERS.getevents] = errno.EFAULT
    with pytest.raises(Refused):
        pending.wait(1)
