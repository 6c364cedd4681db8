"""The processes that the main job starts, each in its own group: all of them end with it."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

STOP_SECONDS_MAX = 20.0
LOG_LINE = re.compile(r"ready |\d+[-:]\d+")
"""The line for scripts, and lines that begin with a time."""


class Failed(Exception):
    """The main job cannot go on, or a check failed; the text is the one clear reason."""


class Child:
    """A process of ours, its output in a file.

    Args:
        name: What it is called in messages.
        command: Program and arguments.
        log: File that takes its stdout and stderr; what is there already stays.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        self._start = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def lines(self) -> list[str]:
        """Return the whole lines that this process (not one before it) has written."""
        text = self.log.read_bytes()[self._start :].decode(errors="replace")
        return text[: text.rfind("\n") + 1].splitlines()

    def wait_for(self, found: Callable[[list[str]], str | None], seconds: float) -> str:
        """Wait until `found` makes something of the output, and return that.

        Raises:
            Failed: The process ended, or the time passed.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            has_ended = not self.is_running
            lines = self.lines()
            if (text := found(lines)) is not None:
                return text
            if has_ended:
                last = lines[-1] if lines else "without a word"
                raise Failed(f"{self.name} ended ({self._process.returncode}): {last}")
            time.sleep(0.02)
        raise Failed(f"{self.name} did not answer within {seconds:.0f} s; see {self.log}")

    def finish(self, seconds: float) -> list[str]:
        """Wait until it ends by itself, and return what it has written.

        Raises:
            Failed: It ended with an error, or the time passed.
        """
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} was not through within {seconds:.0f} s") from None
        lines = self.lines()
        if code:
            last = lines[-1] if lines else "without a word"
            raise Failed(f"{self.name} ended ({code}): {last}")
        return lines

    def kill(self) -> None:
        """End it as `kill -9` does: it can do nothing about it."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Ask it to end, and make it end if it does not.

        Raises:
            Failed: It had to be killed.
        """
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{self.name} did not stop within {STOP_SECONDS_MAX:.0f} s") from None

    def _signal(self, number: signal.Signals) -> None:
        if self.is_running:
            os.killpg(self._process.pid, number)


class Children:
    """Every process that was started, to end them whatever happens."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def start(self, name: str, command: Sequence[str], log: Path) -> Child:
        """Start a process."""
        child = Child(name, command, log)
        self._children.append(child)
        return child

    def end(self) -> None:
        """Kill what still runs."""
        for child in self._children:
            if child.is_running:
                child.kill()


@contextmanager
def children() -> Iterator[Children]:
    """Hold the processes of a job; none outlives the block. SIGTERM ends it as Ctrl-C does."""

    def interrupted(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupted)
    held = Children()
    try:
        yield held
    finally:
        signal.signal(signal.SIGTERM, before)
        held.end()


class Broker:
    """One `sprocket up` on fixed ports and one folder, which may be killed and started again."""

    def __init__(self, held: Children, data: Path, log: Path) -> None:
        self._held = held
        self._data = data
        self._log = log
        self._nameserver_port, self._broker_port = free_port(9876), free_port(10911)
        self._child: Child | None = None

    @property
    def nameserver(self) -> str:
        """Where clients go."""
        return f"127.0.0.1:{self._nameserver_port}"

    def start(self) -> list[str]:
        """Start it, wait until it is ready, and return how it introduced itself.

        Raises:
            Failed: It was not ready within 30 s.
        """
        command = [str(Path(sys.executable).with_name("sprocket")), "up"]
        command += ["--data", str(self._data), "--nameserver-port", str(self._nameserver_port)]
        command += ["--broker-port", str(self._broker_port), "--no-amqp"]
        self._child = self._held.start("the broker", command, self._log)
        self._child.wait_for(first_ready, 30.0)
        return [line for line in self._child.lines() if not LOG_LINE.match(line)]

    def kill(self) -> None:
        """Kill it with -9."""
        assert self._child is not None, "it was started"
        self._child.kill()

    def stop(self) -> None:
        """Stop it cleanly."""
        assert self._child is not None, "it was started"
        self._child.stop()


def first_ready(lines: list[str]) -> str | None:
    """Return the line by which the broker says that it can be used."""
    return next((line for line in lines if line.startswith("ready")), None)


def free_port(wanted: int) -> int:
    """Return `wanted`, or the next port that nobody listens on."""
    for port in range(wanted, wanted + 2000, 7):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise Failed(f"no free port near {wanted}")
