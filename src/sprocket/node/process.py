"""A process that serves until it is told to stop, and says when it is ready.

A service manager (`runtime.service_manager`) is told, too: when it is ready, what stores nothing,
that it stops, and, where it wants that, in time again and again that the event loop runs.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Protocol, TypeVar

from sprocket.base import log
from sprocket.base.errors import StoreFailed
from sprocket.runtime.service_manager import ServiceManager
from sprocket.runtime.standard_streams import write_at_once

START_END_SECONDS = 0.5
"""How long a start that is told to stop may take to end: half of the second that people wait."""
POLL_SECONDS = 1.0
"""How often it is checked whether everything still stores what it gets."""
STOP_SECONDS = 60.0
"""How long a stop may take of a process that gave up; a disk that stalls would hold it for ever."""
FEEDS = 3
"""How often a watchdog is told that the loop runs in the time after which it would act."""


STOPPING = "SIGINT", "SIGTERM", "SIGHUP"
"""Signals that stop it. The last comes when a terminal is closed; `nohup` has it ignored."""
PASSED_OVER = "SIGUSR1", "SIGUSR2"
"""Signals that would end it, by default, as `kill -9` does, and mean nothing here."""


_SERVES = "serves"
_log = log.get_logger(__name__)


class Stoppable(Protocol):
    """Something that was started."""

    async def stop(self) -> None:
        """End it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """When a process gives up what it serves."""

    refusals: Callable[[], Sequence[str]]
    """Gives why nothing is stored now, by each that does not store; empty if all do."""
    refusing_seconds_max: float = 0
    """After this long without an end it stops and fails; 0 is never."""


R = TypeVar("R", bound=Stoppable)


Line = Callable[[str], str]
"""Makes the line for people of its arguments."""


def text_line(text: str) -> str:
    """Return a line as all commands write it."""
    return f"sprocket: {text}"


def serve(
    start: Callable[[], Awaitable[R]],
    greet: Callable[[R, float], None],
    line: Line = text_line,
    patience: Callable[[R], Patience] | None = None,
) -> None:
    """Start something, say so, and stop it when SIGTERM, SIGINT or SIGHUP comes.

    The caller has said where log lines go.

    A start that is under way then has `START_END_SECONDS` to end. Is it longer, or comes a second
    signal, the process ends at once, whatever it is at, as the signal does by default. What that
    leaves of a store is what `kill -9` leaves: the next start recovers it.

    Args:
        start: Starts it.
        greet: Gets it and the seconds that the start took, once it is ready.
        line: Makes the lines that say how it ends.
        patience: Says of what was started when it is given up; without it, it never is.

    Raises:
        SprocketError: It could not be started, or was given up.
    """
    from sprocket.runtime import collector, driver

    allow_connections()
    # numpy's arithmetic starts threads, one a core, that nothing here uses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with collector.rare():
        driver.run(_run(start, greet, line, patience))


async def _run(
    start: Callable[[], Awaitable[R]],
    greet: Callable[[R, float], None],
    line: Line,
    patience: Callable[[R], Patience] | None,
) -> None:
    from sprocket.runtime import collector

    stop = asyncio.Event()
    manager = ServiceManager(os.environ)
    with _told_by_signals(stop, line), closing(manager):
        began = time.perf_counter()
        running = await _started(start, stop, line)
        if running is None:
            return
        collector.keep()
        why = ""
        with feeding(manager):
            try:
                greet(running, time.perf_counter() - began)
                manager.tell(READY="1", STATUS=_SERVES)
                why = await until_ended(
                    stop, manager, None if patience is None else patience(running)
                )
                if why:
                    _give_up(why, line)
            finally:
                manager.tell(STOPPING="1", STATUS=why or "stops")
                await running.stop()
    if why:
        raise StoreFailed(why)


@contextmanager
def feeding(manager: ServiceManager) -> Iterator[None]:
    """Tell a watchdog again and again that the loop runs, also while it stops."""
    seconds = manager.watchdog_seconds
    if seconds is None:
        yield
        return
    pause = seconds / FEEDS
    loop = asyncio.get_running_loop()
    timer: asyncio.Handle | None = None

    def feed() -> None:
        nonlocal timer
        manager.tell(WATCHDOG="1")
        timer = loop.call_later(pause, feed)

    timer = loop.call_soon(feed)
    try:
        yield
    finally:
        timer.cancel()


async def until_ended(
    stop: asyncio.Event, manager: ServiceManager, patience: Patience | None
) -> str:
    """Wait until it is told to stop, or is given up; return why it is, nothing if it is not."""
    from sprocket.runtime import tasks

    if patience is None:
        await stop.wait()
        return ""
    loop = asyncio.get_running_loop()
    told: list[str] = []
    since = loop.time()
    while True:
        now, refusals = loop.time(), [*patience.refusals()]
        if not refusals:
            since = now
        if refusals != told:
            told = refusals
            manager.tell(STATUS=f"stores nothing: {'; '.join(told)}" if told else _SERVES)
        if 0 < patience.refusing_seconds_max <= now - since:
            return f"nothing was stored for {now - since:.0f} s: {'; '.join(refusals)}"
        if await tasks.is_set_within(POLL_SECONDS, stop):
            return ""


def _give_up(why: str, line: Line) -> None:
    """Say why it stops, and have it end at once if that takes too long."""
    _log.critical("the process gives up, so that it is started again", why=why)

    def end() -> None:
        write_at_once(sys.stderr, line(f"ended at once, as the stop takes longer: {why}"))
        os._exit(1)

    asyncio.get_running_loop().call_later(STOP_SECONDS, end)


async def _started(start: Callable[[], Awaitable[R]], stop: asyncio.Event, line: Line) -> R | None:
    """Start something; None if it was told to stop before that was done."""
    from sprocket.runtime import tasks

    try:
        return await tasks.unless(stop, start(), START_END_SECONDS)
    except tasks.NotEnded:
        _end_at_once(signal.SIGTERM, line("ended at once since the start did not end by itself"))
        raise


@contextmanager
def _told_by_signals(stop: asyncio.Event, line: Line) -> Iterator[None]:
    """Set `stop` at the first signal, and end the process at the second.

    The handlers are the interpreter's, not the loop's, which would wait for the loop to be idle:
    a recovery, or a thread that is waited for, can take minutes.
    """
    loop = asyncio.get_running_loop()
    is_told = False

    def tell(number: int, _: FrameType | None) -> None:
        nonlocal is_told
        if is_told:
            _end_at_once(number, line("ended at once by a second signal"))
        is_told = True
        write_at_once(sys.stderr, line("stopping … (a second signal ends it at once)"))
        loop.call_soon_threadsafe(stop.set)

    def pass_over(number: int, _: FrameType | None) -> None:
        write_at_once(sys.stderr, line(f"{signal.Signals(number).name} means nothing here"))

    before = {
        number: signal.signal(number, handler)
        for names, handler in ((STOPPING, tell), (PASSED_OVER, pass_over))
        for number in _known(names)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _known(names: Iterable[str]) -> list[signal.Signals]:
    """Return the signals that the system has; without SIGHUP where it is ignored already."""
    found = [signal.Signals[name] for name in names if name in signal.Signals.__members__]
    return [
        one for one in found if one.name != "SIGHUP" or signal.getsignal(one) is not signal.SIG_IGN
    ]


def _end_at_once(number: int, line: str) -> None:
    """Write a line that says so and end as the signal does by default."""
    write_at_once(sys.stderr, line)
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def allow_connections() -> None:
    """Raise the limit of open files as far as we may: a connection is one, and 1024 are few."""
    try:
        import resource
    except ImportError:  # as on Windows, where there is no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
