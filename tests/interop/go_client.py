"""Runs the program in `go`, the official Go client under orders, and reads what it wrote."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.interop.java_client import Half


@dataclass(frozen=True, slots=True, kw_only=True)
class GoClient:
    """The program, with a folder for its files."""

    program: Path
    folder: Path

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """Start it."""
        return subprocess.Popen(
            [self.program, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # It keeps offsets in HOME.
            env={"HOME": str(self.folder), "ROCKETMQ_GO_LOG_LEVEL": "error"},
        )

    def trace(self, nameserver: str, topic: str, *, group: str) -> list[str]:
        """Send a message and consume it, noting it; return its id."""
        out = self.folder / "trace.jsonl"
        lines = Half(self.start("trace", nameserver, topic, group, out), out).finish()
        return [line["ids"] for line in lines if line["event"] == "sent"]

    def start_answering(self, nameserver: str, topic: str, *, group: str) -> Half:
        """Start a member of a group that knows how transactions ended; it commits one of its own.

        It answers questions until it is killed, as `Transactions.java` says of words.
        """
        out = self.folder / "answer.jsonl"
        return Half(self.start("answer", nameserver, topic, group, out), out)
