"""Commands that serve, as processes (used by the tests of each)."""

import os
import re
import subprocess
import sys

from tests.waits import LONG_SECONDS

SECONDS_MAX = LONG_SECONDS


class Serving:
    """Starts commands; ends what still runs at the end."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[str]] = []

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `sprocket` with arguments."""
        process = subprocess.Popen(
            [sys.executable, "-m", "sprocket.cli.main", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={name: value for name, value in os.environ.items() if "SPROCKET" not in name},
        )
        self._running.append(process)
        return process

    def end(self) -> None:
        """Kill what still runs."""
        for process in self._running:
            process.kill()
            process.communicate()


def said(process: subprocess.Popen[str], pattern: str) -> re.Match[str]:
    """Wait for the ready line, which fits `pattern`."""
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.fullmatch(pattern + "\n", line)
    assert found, (line, process.stderr and process.stderr.read())
    return found


def stopped(process: subprocess.Popen[str]) -> str:
    """Ask a process to stop; return what it said to people. It must end with code 0."""
    process.terminate()
    out, err = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, out) == (0, "")
    return err
