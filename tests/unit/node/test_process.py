"""Serving until told to stop; the commands' own tests see it as processes."""

import asyncio
import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests import virtual_time
from tests.waits import LONG_SECONDS

from sprocket.base.errors import DiskFailed, StoreFailed
from sprocket.node import process
from sprocket.node.process import Patience
from sprocket.runtime import collector
from sprocket.runtime.service_manager import ServiceManager

SECONDS_MAX = LONG_SECONDS
HANGING = """
import asyncio, sys, threading
from contextlib import suppress
from sprocket.node import process

def hang():
    print("ready to hang", flush=True)
    while not threading.Event().wait(1):  # a signal just before a wait is handled behind it
        pass

class Hanging:
    async def stop(self):
        hang() if where == "a stop on the loop" else print("ready to hang", flush=True)
        await asyncio.Event().wait()

async def start():
    if where == "a start on the loop":
        hang()
    if where == "a start that goes on":
        print("ready to hang", flush=True)
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
    return Hanging()

where, loop = sys.argv[1:]
if loop == "asyncio":
    sys.modules["uvloop"] = None
process.serve(start, lambda *_: print("ready to stop", flush=True))
"""
"""A server that cannot stop, because of what it waits for, and where."""


class Thing:
    """Something that runs."""

    def __init__(self) -> None:
        self.is_stopped = False

    async def stop(self) -> None:
        """End it."""
        self.is_stopped = True


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the collector, the limits and the process of the tests alone.

    A start that takes its time to end would end the process: on a busy machine any does.
    """
    monkeypatch.setattr(collector, "rare", contextlib.nullcontext)
    monkeypatch.setattr(collector, "keep", lambda: None)
    monkeypatch.setattr(process, "allow_connections", lambda: None)
    monkeypatch.setattr(process, "START_END_SECONDS", LONG_SECONDS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_it(number: signal.Signals) -> None:
    """After it was greeted."""
    thing = Thing()
    seconds: list[float] = []

    async def start() -> Thing:
        return thing

    def greet(_: Thing, took: float) -> None:
        seconds.append(took)
        os.kill(os.getpid(), number)

    process.serve(start, greet)
    assert thing.is_stopped
    assert len(seconds) == 1


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP])
def test_some_signals_end_nothing(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    """Those that mean nothing here, with a line; and the one of a terminal under `nohup`."""
    thing = Thing()

    async def start() -> Thing:
        return thing

    def greet(_: Thing, __: float) -> None:
        os.kill(os.getpid(), number)
        assert not thing.is_stopped
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process.serve(start, greet)
    finally:
        signal.signal(signal.SIGHUP, before)
    lines = capfd.readouterr().err.splitlines()
    said = [] if number == signal.SIGHUP else [f"sprocket: {number.name} means nothing here"]
    assert lines == [*said, "sprocket: stopping … (a second signal ends it at once)"]


def test_the_signals_are_what_they_were() -> None:
    """Before and after; what was served in a test must not change how the next one ends."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]

    async def start() -> Thing:
        return Thing()

    process.serve(start, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (signal.SIGTERM, signal.SIGTERM),
        (signal.SIGINT, signal.SIGINT),
        (signal.SIGTERM, signal.SIGINT),
    ],
)
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("where", ["a stop", "a stop on the loop", "a start on the loop"])
def test_a_second_signal_ends_it_at_once(
    first: signal.Signals, second: signal.Signals, loop: str, where: str
) -> None:
    """As the signal does by default, with one line that says so, whatever the process waits for."""
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING, where, loop],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        lines = [process.stdout.readline()]
        process.send_signal(first)
        assert "stopping" in process.stderr.readline()
        if where != "a start on the loop":
            lines.append(process.stdout.readline())
        process.send_signal(second)
        _, told = process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
        process.communicate()
    assert lines[-1] == "ready to hang\n"
    assert process.returncode == -second
    assert told == "sprocket: ended at once by a second signal\n"


def test_a_signal_ends_a_start() -> None:
    """It was ignored for as long as a store was opened, which could be minutes."""
    ended: list[str] = []

    async def start() -> Thing:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("start")
        return Thing()

    process.serve(start, lambda *_: ended.append("greeted"))
    assert ended == ["start"]


def test_a_start_that_fails_when_it_is_told_to_end_says_why() -> None:
    """What it raises is not lost."""

    async def start() -> Thing:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            raise DiskFailed("the lock could not be given up")

    with pytest.raises(DiskFailed):
        process.serve(start, lambda *_: None)


@pytest.mark.slow
def test_a_start_that_does_not_end_is_ended() -> None:
    """Some system call may take its time; the process ends in the second that people wait."""
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING, "a start that goes on", "asyncio"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        process.terminate()
        _, told = process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGTERM
    assert "since the start did not end by itself" in told


def test_it_is_stopped_if_the_greeting_fails() -> None:
    """A closed stdout must not leave a store open."""
    thing = Thing()

    async def start() -> Thing:
        return thing

    def greet(_: Thing, __: float) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        process.serve(start, greet)
    assert thing.is_stopped


def test_as_many_files_as_the_system_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell's usual 1024 would be 1024 connections."""
    monkeypatch.undo()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1] // 2, before[1]))
    try:
        process.allow_connections()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
        process.allow_connections()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


WHY = "broker b: a sync failed"


def test_what_stores_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an orderly stop, with the reason; the command's exit code is 1 then."""
    thing = Thing()
    monkeypatch.setattr(process, "POLL_SECONDS", 0)

    async def start() -> Thing:
        return thing

    def patience(_: Thing) -> Patience:
        return Patience(refusals=lambda: [WHY], refusing_seconds_max=1e-9)

    with pytest.raises(StoreFailed, match=f"nothing was stored for 0 s: {WHY}"):
        process.serve(start, lambda *_: None, patience=patience)
    assert thing.is_stopped


class Noted(ServiceManager):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__({})
        self.told: list[dict[str, str]] = []

    def tell(self, **values: str) -> None:
        """Keep it."""
        self.told.append(values)


def test_who_stores_again_in_time_is_not_given_up() -> None:
    """Each time counts by itself; a service manager shows what it is at."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        stop, manager = asyncio.Event(), Noted()

        def refusals() -> list[str]:
            return [WHY] if loop.time() % 10 < 4 or loop.time() >= 30 else []

        ended = await process.until_ended(
            stop, manager, Patience(refusals=refusals, refusing_seconds_max=5)
        )
        assert loop.time() == 34  # the last look at which all was well was 5 s before
        assert ended == f"nothing was stored for 5 s: {WHY}"
        nothing, all_is_well = f"stores nothing: {WHY}", "serves"
        assert [one["STATUS"] for one in manager.told] == [*[nothing, all_is_well] * 3, nothing]

    virtual_time.run(main())


def test_by_default_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who only reads is served on, until somebody stops it."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        loop.call_later(1e6, stop.set)
        assert await process.until_ended(stop, Noted(), Patience(refusals=lambda: [WHY])) == ""
        assert loop.time() >= 1e6

    monkeypatch.setattr(process, "POLL_SECONDS", 1e5)
    virtual_time.run(main())


def test_a_watchdog_is_told_while_the_loop_runs_and_while_it_stops() -> None:
    """Three times in its time: it may miss one. A loop that stands still tells nothing."""

    async def main() -> None:
        manager = Noted()
        manager.watchdog_seconds = 30.0
        with process.feeding(manager):
            await asyncio.sleep(95)
            assert manager.told == [{"WATCHDOG": "1"}] * 10
        await asyncio.sleep(95)
        assert len(manager.told) == 10

    virtual_time.run(main())


@pytest.mark.parametrize("is_given_up", [False, True])
def test_a_service_manager_hears_of_start_and_end(
    is_given_up: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it is ready once it was greeted, and that it stops, and why if that is its own idea."""
    path = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    monkeypatch.setattr(process, "POLL_SECONDS", 0)

    async def start() -> Thing:
        return Thing()

    def greet(*_: object) -> None:
        if not is_given_up:
            os.kill(os.getpid(), signal.SIGTERM)

    def patience(_: Thing) -> Patience:
        refusals = [WHY] if is_given_up else []
        return Patience(refusals=lambda: refusals, refusing_seconds_max=1e-9)

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as taken:
        taken.bind(path)
        with contextlib.suppress(StoreFailed):
            process.serve(start, greet, patience=patience)
        taken.setblocking(False)
        told = []
        with contextlib.suppress(BlockingIOError):
            while True:
                told.append(taken.recv(1000).decode())
    assert "READY=1\nSTATUS=serves" in told
    ends = [one for one in told if one.startswith("STOPPING=1")]
    why = f"nothing was stored for 0 s: {WHY}" if is_given_up else "stops"
    assert ends == [f"STOPPING=1\nSTATUS={why}"]
    assert "WATCHDOG=1" in told
