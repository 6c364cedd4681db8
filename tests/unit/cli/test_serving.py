"""Serving until told to stop; the commands' own tests see it as processes."""

import os
import resource
import signal

import pytest

from sprocket.cli import serving


class Thing:
    """Something that runs."""

    def __init__(self) -> None:
        self.is_stopped = False

    async def stop(self) -> None:
        """End it."""
        self.is_stopped = True


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the collector and the log of the tests alone."""
    monkeypatch.setattr(serving, "_tune_collector", lambda: None)
    monkeypatch.setattr(serving, "_allow_connections", lambda: None)
    monkeypatch.setattr("sprocket.cli.logs.log_to_stderr", lambda: None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it(number: signal.Signals) -> None:
    """After it was greeted."""
    thing = Thing()
    seconds: list[float] = []

    async def start() -> Thing:
        return thing

    def greet(_: Thing, took: float) -> None:
        seconds.append(took)
        os.kill(os.getpid(), number)

    serving.serve(start, greet)
    assert thing.is_stopped
    assert len(seconds) == 1


def test_it_is_stopped_if_the_greeting_fails() -> None:
    """A closed stdout must not leave a store open."""
    thing = Thing()

    async def start() -> Thing:
        return thing

    def greet(_: Thing, __: float) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        serving.serve(start, greet)
    assert thing.is_stopped


def test_people_and_scripts_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr and stdout."""
    serving.say("hello")
    serving.ready("x=1")
    told = capsys.readouterr()
    assert (told.out, told.err) == ("ready x=1\n", "sprocket: hello\n")


def test_as_many_files_as_the_system_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell's usual 1024 would be 1024 connections."""
    monkeypatch.undo()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1] // 2, before[1]))
    try:
        serving._allow_connections()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
        serving._allow_connections()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
