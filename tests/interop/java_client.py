"""Runs the program in `java`, the official Java client under orders, and reads what it wrote."""

import base64
import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.interop import peers, told
from tests.interop.samples import Sample
from tests.interop.told import Telling


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What the client said about one message it sent."""

    number: int
    status: str
    id: str
    offset_id: str
    queue_id: int
    queue_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message as the client handed it to its user."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    id: str
    offset_id: str
    tag: str
    keys: str
    flag: int
    properties: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The answer to one question by key or by id."""

    question: Mapping[str, str]
    messages: Sequence[Received]
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaClient:
    """The compiled program, with a folder for its files and logs."""

    version: str
    jars: Path
    classes: Path
    folder: Path

    def send(self, nameserver: str, samples: Sequence[Sample]) -> list[Sent]:
        """Send all of `samples` and return what came of each, in their order."""
        orders, results = self.folder / "orders.jsonl", self.folder / "results.jsonl"
        _write_lines(orders, (sample.line() for sample in samples))
        self._finish(self._start("send", nameserver, orders, results))
        sent = [one for line in _read_lines(results) for one in _sent(line)]
        return sorted(sent, key=lambda one: one.number)

    def start_consumer(
        self,
        nameserver: str,
        topic: str,
        tag: str,
        *,
        group: str,
        count: int,
        broadcast: bool = False,
    ) -> "Consumer":
        """Start a push consumer; it ends when it got `count` and then nothing for 3 seconds."""
        out = self.folder / f"received-{group}.jsonl"
        command = "listen" if broadcast else "consume"
        child = self._start(command, nameserver, topic, tag, group, count, 3_000, 200_000, out)
        return Consumer(child, out)

    def read(
        self, nameserver: str, topic: str, questions: Sequence[Mapping[str, str]]
    ) -> tuple[list[Received], list[Found]]:
        """Pull every message of the topic, then ask each question: `{"key": …}`, `{"id": …}`."""
        asked, answers = self.folder / "questions.jsonl", self.folder / "answers.jsonl"
        _write_lines(asked, questions)
        self._finish(self._start("read", nameserver, topic, asked, answers))
        lines = list(_read_lines(answers))
        pulled = [_received(line) for line in lines if "question" not in line]
        found = [
            Found(
                question=line["question"],
                messages=[_received(one) for one in line["found"]],
                error=line.get("error"),
            )
            for line in lines
            if "question" in line
        ]
        return pulled, found

    def start_scenarios(self, nameserver: str, prefix: str, killed: Path) -> Telling:
        """Start every scenario of `Scenarios.java`; `killed` is the file that it waits for."""
        out = self.folder / "scenarios.jsonl"
        return Telling(self._start("show", nameserver, prefix, killed, out), out)

    def start_victim(self, nameserver: str, topic: str, *, group: str) -> Telling:
        """Start an ordered consumer that goes on until it is killed."""
        out = self.folder / "victim.jsonl"
        return Telling(self._start("victim", nameserver, topic, group, out), out)

    def start_asking(self, nameserver: str, topic: str, count: int) -> "Half":
        """Start to ask, one request after the other; it ends when the last reply has come."""
        return self._half("ask", nameserver, topic, count)

    def start_answering(self, nameserver: str, topic: str, count: int) -> "Half":
        """Start to reply to requests; it ends when it has replied so often."""
        return self._half("answer", nameserver, topic, count)

    def start_transacting(
        self, nameserver: str, topic: str, *, group: str, plan: Sequence[str], silent: bool = False
    ) -> "Half":
        """Start to send messages in transactions, which end as `Transactions.java` says of words.

        It answers questions until it is killed; one that is silent never knows how they ended.
        """
        out = self.folder / f"transact-{topic}-{'silent' if silent else 'talking'}.jsonl"
        words = ",".join(plan), "silent" if silent else "talking"
        return Half(self._start("transact", nameserver, topic, group, *words, out), out)

    def trace(self, nameserver: str, topic: str, *, group: str) -> list[str]:
        """Send and consume two messages, noting it; the second fails once. Return their ids."""
        out = self.folder / f"trace-{topic}.jsonl"
        self._finish(self._start("trace", nameserver, topic, group, out))
        return [line["id"] for line in _read_lines(out)]

    def _half(self, command: str, nameserver: str, topic: str, count: int) -> "Half":
        out = self.folder / f"{command}-{topic}.jsonl"
        return Half(self._start(command, nameserver, topic, count, out), out)

    def _start(self, *arguments: object) -> subprocess.Popen[str]:
        command = peers.java(self.jars, home=self.folder, classes=self.classes)
        return subprocess.Popen(
            [*command, "Interop", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _finish(self, child: subprocess.Popen[str]) -> None:
        told.wait(child)


@dataclass(frozen=True, slots=True)
class Consumer:
    """A push consumer that runs."""

    child: subprocess.Popen[str]
    out: Path

    def finish(self) -> list[Received]:
        """Wait for its end and return what it received, in the order of arrival."""
        told.wait(self.child)
        return [_received(line) for line in _read_lines(self.out)]


@dataclass(frozen=True, slots=True)
class Half:
    """A client's half of a talk, under way."""

    child: subprocess.Popen[str]
    out: Path

    def lines(self) -> list[dict[str, Any]]:
        """Return what it has written so far."""
        if not self.out.exists():
            return []
        whole = self.out.read_text("utf-8").rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def finish(self) -> list[dict[str, Any]]:
        """Wait for its end; return the replies it got, or the requests it replied to."""
        told.wait(self.child)
        return list(_read_lines(self.out))

    def kill(self) -> None:
        """End it with SIGKILL, unless it has ended."""
        if self.child.poll() is None:
            self.child.kill()
            self.child.communicate()


def _sent(line: Mapping[str, Any]) -> Iterable[Sent]:
    """Yield one `Sent` a message; those of a batch have ids joined by commas, offsets in a row."""
    if line["status"].startswith("FAILED"):
        raise AssertionError(f"message {line['numbers']}: {line['status']}")
    ids, offset_ids = line["ids"].split(","), line["offset_ids"].split(",")
    for at, number in enumerate(line["numbers"]):
        yield Sent(
            number=number,
            status=line["status"],
            id=ids[min(at, len(ids) - 1)],  # one of all where a batch is one record
            offset_id=offset_ids[min(at, len(offset_ids) - 1)],
            queue_id=line["queue_id"],
            queue_offset=line["queue_offset"] + at,
        )


def _received(line: Mapping[str, Any]) -> Received:
    return Received(
        body=base64.b64decode(line["body"]),
        **{name: line[name] for name in Received.__slots__ if name != "body"},
    )


def _write_lines(path: Path, lines: Iterable[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def _read_lines(path: Path) -> Iterable[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)
