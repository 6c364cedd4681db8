"""Serving until told to stop; the commands' own tests see it as processes."""

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base.errors import DiskFailed
from sprocket.node import process
from sprocket.runtime import collector

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
