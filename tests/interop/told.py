"""What foreign clients tell: programs that write a line of JSON for each thing that happened."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.waits import LONG_SECONDS

RUN_SECONDS_MAX = LONG_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that a scenario told: what, when, a message or other details."""

    scenario: str
    name: str
    at_ms: int
    line: Mapping[str, Any]

    @property
    def number(self) -> int:
        """The number that the message was sent with."""
        return int(self.line["keys"].removeprefix("key-"))

    @property
    def place(self) -> tuple[int, int]:
        """Queue id and queue offset."""
        return self.line["queue_id"], self.line["queue_offset"]


@dataclass(frozen=True, slots=True)
class Telling:
    """A program that runs and tells what happens."""

    child: subprocess.Popen[str]
    out: Path

    def events(self) -> list[Event]:
        """Return what it told so far; the last line may still be on its way."""
        if not self.out.exists():
            return []
        lines = self.out.read_text("utf-8").split("\n")[:-1]
        return [_event(json.loads(line)) for line in lines]

    def finish(self) -> list[Event]:
        """Wait for its end and return all that it told."""
        wait(self.child)
        return self.events()

    def kill(self) -> None:
        """End it with SIGKILL, unless it has ended."""
        if self.child.poll() is None:
            self.child.kill()
            self.child.communicate()


def _event(line: dict[str, Any]) -> Event:
    scenario, name, at_ms = (line.pop(member) for member in ("scenario", "event", "at_ms"))
    return Event(scenario=scenario, name=name, at_ms=at_ms, line=line)


class Shown:
    """What a program told, by scenario."""

    def __init__(self, prefix: str, version: str, events: Sequence[Event]) -> None:
        self.prefix = prefix
        self.version = version
        self.events = events

    def of(self, scenario: str, name: str) -> list[Event]:
        """Return one kind of event of a scenario, which must have come to its end."""
        told = [event for event in self.events if event.scenario == scenario]
        assert [e.line for e in told if e.name == "failed"] == []
        assert [e.name for e in told].count("finished") == 1
        return [event for event in told if event.name == name]


def numbers(events: Sequence[Event]) -> list[int]:
    """Return the numbers of the messages, sorted."""
    return sorted(event.number for event in events)


def wait(child: subprocess.Popen[str]) -> None:
    """Wait for the end of a client's program; it must end by itself, and well."""
    try:
        said, _ = child.communicate(timeout=RUN_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        child.kill()
        said, _ = child.communicate()
        raise AssertionError(f"the client did not end:\n{said[-4000:]}") from None
    assert child.returncode == 0, f"the client failed:\n{said[-4000:]}"
