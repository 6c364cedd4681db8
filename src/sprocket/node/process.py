"""A process that serves until it is told to stop, and says when it is ready."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Protocol, TypeVar

START_END_SECONDS = 0.5
"""How long a start may take to end that is told to stop: half of the second that people wait."""


class Stoppable(Protocol):
    """Something that was started."""

    async def stop(self) -> None:
        """End it."""


R = TypeVar("R", bound=Stoppable)


def serve(start: Callable[[], Awaitable[R]], greet: Callable[[R, float], None]) -> None:
    """Start something, say so, and stop it when SIGTERM or SIGINT comes.

    The caller has said where log lines go.

    A start that is under way then has `START_END_SECONDS` to end. Is it longer, or comes a second
    signal, the process ends at once, whatever it is at, as the signal does by default. What that
    leaves of a store is what `kill -9` leaves: the next start recovers it.

    Args:
        start: Starts it.
        greet: Gets it and the seconds that the start took, once it is ready.

    Raises:
        SprocketError: It could not be started.
    """
    from sprocket.runtime import collector, driver

    allow_connections()
    # numpy's arithmetic starts threads, one a core, that nothing here uses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with collector.rare():
        driver.run(_run(start, greet))


def say(text: str) -> None:
    """Tell people something, on stderr."""
    sys.stderr.write(f"sprocket: {text}\n")


def ready(line: str) -> None:
    """Tell scripts that everything is ready: the one line on stdout."""
    sys.stdout.write(f"ready {line}\n")
    sys.stdout.flush()


async def _run(start: Callable[[], Awaitable[R]], greet: Callable[[R, float], None]) -> None:
    from sprocket.runtime import collector

    stop = asyncio.Event()
    with _told_by_signals(stop):
        began = time.perf_counter()
        running = await _started(start, stop)
        if running is None:
            return
        collector.keep()
        try:
            greet(running, time.perf_counter() - began)
            await stop.wait()
        finally:
            await running.stop()


async def _started(start: Callable[[], Awaitable[R]], stop: asyncio.Event) -> R | None:
    """Start something; None if it was told to stop before that was done."""
    from sprocket.runtime import tasks

    try:
        return await tasks.unless(stop, start(), START_END_SECONDS)
    except tasks.NotEnded:
        _end_at_once(signal.SIGTERM, "since the start did not end by itself")
        raise


@contextmanager
def _told_by_signals(stop: asyncio.Event) -> Iterator[None]:
    """Set `stop` at the first signal, and end the process at the second.

    The handlers are the interpreter's, not the loop's, which would wait for the loop to be idle:
    a recovery, or a thread that is waited for, can take minutes.
    """
    loop = asyncio.get_running_loop()
    is_told = False

    def tell(number: int, _: FrameType | None) -> None:
        nonlocal is_told
        if is_told:
            _end_at_once(number, "by a second signal")
        is_told = True
        _say_amid("stopping … (a second signal ends it at once)")
        loop.call_soon_threadsafe(stop.set)

    before = {number: signal.signal(number, tell) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_at_once(number: int, why: str) -> None:
    """Say so and end as the signal does by default."""
    _say_amid(f"ended at once {why}")
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _say_amid(text: str) -> None:
    """Like `say`, from a signal handler: a stream that is being written to cannot be used again.

    If it cannot be said, nobody listens; an error raised here would hit whatever was interrupted.
    """
    with suppress(OSError):
        os.write(sys.stderr.fileno(), f"sprocket: {text}\n".encode())


def allow_connections() -> None:
    """Have as many files open as the system lets us: each connection is one, and 1024 are few."""
    try:
        import resource
    except ImportError:  # as on Windows, where there is no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
