"""Streaming queries that are killed with -9, and what must be in their output afterwards.

A kill comes at a drawn time after a drawn step of a micro-batch: the steps leave files behind, in
Spark's checkpoint and in the log of its file sink. So kills fall into the planning of batches, into
their tasks and between the commit of a sink and that of its batch, and not only in between.

What must hold in the end, `check`, for each output by its sink's own log:
1. Each message that was acknowledged is there, at the place that was acknowledged.
2. Each queue offset from 0 on is there once, up to the end of the queue.
3. Nothing else is there but messages that were sent. One that was not answered was sent again, so
   that the broker may have it at two places.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.crash.spark_query import SOURCES, TOPIC
from tests.interop import peers
from tests.killable import Broker
from tests.waits import LONG_SECONDS

from sprocket.base.errors import ClientError
from sprocket.rocketmq.client import Message
from sprocket.rocketmq.client.blocking import Producer, Puller

ROOT = Path(__file__).resolve().parents[2]
STEP_SECONDS_MAX = LONG_SECONDS
"""How long a query may take to reach a step: it has to start a JVM, on a machine that is busy."""
SENDS_MAX = 50
"""How often messages are sent while a step is waited for; more would keep Spark busy."""
TOO_LATE = "Python worker failed to connect back"
"""What ends a query on a machine so busy that the Python process of a stream needs more than ten
seconds to start, which is what Spark gives it."""
STEPS = ("checkpoint/{}/offsets", "checkpoint/{}/commits", "out/{}/_spark_metadata")
"""Folders where a micro-batch leaves a file: when it is planned, committed, and in the sink."""


@dataclass(slots=True)
class Ledger:
    """What was sent, and the texts that were acknowledged, by queue and offset."""

    sent: set[str] = field(default_factory=set)
    acknowledged: dict[tuple[int, int], str] = field(default_factory=dict)


class Load:
    """A producer that sends as long as it is asked to."""

    def __init__(self, nameserver: str, ledger: Ledger) -> None:
        self._nameserver = nameserver
        self._ledger = ledger

    def send(self, count: int, broker_to_kill: Broker | None = None) -> None:
        """Send some messages, and kill the broker among them, if one is given.

        What is not answered then may be stored or not.
        """
        with Producer(self._nameserver, group="load") as producer:
            waiting = []
            for _ in range(count):
                text = f"message {len(self._ledger.sent):08d}"
                self._ledger.sent.add(text)
                waiting.append((text, producer.send_soon(Message(TOPIC, text.encode()))))
            if broker_to_kill is not None:
                broker_to_kill.kill()
                broker_to_kill.start()
            for text, future in waiting:
                with contextlib.suppress(ClientError):
                    result = future.result(STEP_SECONDS_MAX)
                    place = result.queue.queue_id, result.queue_offset
                    assert place not in self._ledger.acknowledged, f"{place} acknowledged twice"
                    self._ledger.acknowledged[place] = text

    def ends(self) -> dict[int, int]:
        """Return the end of each queue."""
        with Puller(self._nameserver) as puller:
            return {one.queue_id: puller.max_offset(one) for one in puller.queues(TOPIC)}


class Queries:
    """A program with queries, in a process group of its own."""

    def __init__(
        self, broker: Broker, folder: Path, *options: str, program: str = "tests.crash.spark_query"
    ) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._log = folder / "spark.log"
        arguments = [broker.nameserver, str(broker.folder), str(folder), *options]
        self._command = [sys.executable, "-m", program, *arguments]
        self._start()

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_for(self, step: str, load: Load) -> None:
        """Return when a micro-batch has left a new file in a folder; messages go on coming."""
        seen, rounds = self._files(step), iter(range(SENDS_MAX))

        def has_more() -> bool:
            if self._process.poll() is not None:
                self._start_again()
            if next(rounds, None) is not None:
                load.send(5)
            return not self._files(step) <= seen

        peers.wait_until(has_more, f"a file in {step}", seconds=STEP_SECONDS_MAX, every=0.02)

    def wait(self) -> None:
        """Wait for the end; it must be a good one."""
        while self._process.wait(STEP_SECONDS_MAX) != 0:
            self._start_again()

    def _start_again(self) -> None:
        """Do what whoever runs the queries would, if all that ended them was a busy machine."""
        said = self._log.read_bytes()[self._log_start :].decode(errors="replace")
        code = self._process.returncode
        assert TOO_LATE in said, f"the query ended with {code}:\n{said[-6000:]}"
        self.kill()
        self._start()

    def kill(self) -> None:
        """Kill Python and the JVM with -9; Spark's workers end as nobody is there any more."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _files(self, step: str) -> set[str]:
        folder = self._folder / step
        if not folder.is_dir():
            return set()
        return {name for name in os.listdir(folder) if not name.startswith(".")}


def draw_step(rng: random.Random) -> str:
    """Draw which step of which query a kill comes after."""
    return rng.choice(STEPS).format(rng.choice(SOURCES))


def check(folder: Path, ledger: Ledger, ends: dict[int, int]) -> None:
    """Assert for both outputs what the module's head lists; queues end at `ends`."""
    for source in SOURCES:
        rows: dict[tuple[int, int], str] = {}
        for row in _rows(folder / "out" / source):
            place = row["queueId"], row["queueOffset"]
            assert place not in rows, f"{source}: {place} is there twice"
            rows[place] = row["text"]
        for place, text in ledger.acknowledged.items():
            assert place in rows, f"{source}: {text} at {place} is lost"
            assert text == rows[place]
        found = {queue: sorted(at for one, at in rows if one == queue) for queue in ends}
        assert found == {queue: list(range(end)) for queue, end in ends.items()}
        assert set(rows.values()) <= ledger.sent


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Give the rows of the files that the log of Spark's file sink names."""
    import pyarrow.parquet as parquet

    for path in _files_of_sink(folder / "_spark_metadata"):
        yield from parquet.read_table(path).to_pylist()


def _files_of_sink(folder: Path) -> list[str]:
    """Return the files in the log: the newest compact entry has all those before it."""
    entries = {int(path.name.partition(".")[0]): path for path in folder.glob("[0-9]*")}
    compact = [number for number, path in entries.items() if path.suffix == ".compact"]
    named: dict[str, bool] = {}
    for number in sorted(entries):
        if number < max(compact, default=0):
            continue
        version, *lines = entries[number].read_text().splitlines()
        assert version == "v1", version
        for line in lines:
            entry = json.loads(line)
            path = unquote(urlsplit(entry["path"]).path)
            named[path] = entry["action"] == "add"
    return [path for path, is_there in named.items() if is_there]
