"""Serving until told to stop; the commands' own tests see it as processes."""

import os
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
