"""What the commands that serve until they are told to stop have in common."""

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

COLLECT_OBJECTS = 100_000
"""New objects between two looks of the cycle collector; about 30 MiB of garbage at the worst."""


class Running(Protocol):
    """Something that was started."""

    async def stop(self) -> None:
        """End it."""


R = TypeVar("R", bound=Running)


def serve(start: Callable[[], Awaitable[R]], greet: Callable[[R, float], None]) -> None:
    """Start something, say so, and stop it when SIGTERM or SIGINT comes.

    Args:
        start: Starts it.
        greet: Gets it and the seconds that the start took, once it is ready.

    Raises:
        SprocketError: It could not be started.
    """
    from sprocket.cli.logs import log_to_stderr
    from sprocket.runtime import driver

    log_to_stderr()
    _tune_collector()
    _allow_connections()
    # numpy's arithmetic starts threads, one a core, that nothing here uses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    driver.run(_run(start, greet))


def say(text: str) -> None:
    """Tell people something, on stderr."""
    sys.stderr.write(f"sprocket: {text}\n")


def ready(line: str) -> None:
    """Tell scripts that everything is ready: the one line on stdout."""
    sys.stdout.write(f"ready {line}\n")
    sys.stdout.flush()


async def _run(start: Callable[[], Awaitable[R]], greet: Callable[[R, float], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    started = time.perf_counter()
    running = await start()
    try:
        greet(running, time.perf_counter() - started)
        await stop.wait()
        say("stopping …")
    finally:
        await running.stop()


def _tune_collector() -> None:
    """Have the cycle collector look rarely: under load it took a seventh of the time.

    A message makes a few tracked objects and no cycle, so the default of a look for each 700 of
    them finds nothing again and again. What the imports made is not looked at any more.
    """
    gc.freeze()
    gc.set_threshold(COLLECT_OBJECTS, 20, 50)


def _allow_connections() -> None:
    """Have as many files open as the system lets us: each connection is one, and 1024 are few."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
