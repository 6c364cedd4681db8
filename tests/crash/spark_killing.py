"""Streaming queries that are killed with -9, and what must be in their output afterwards.

A kill comes at a drawn time after a drawn step of a micro-batch: the steps leave files behind, in
Spark's checkpoint and in the log of its file sink. So kills fall into the planning of batches, into
their tasks and between the commit of a sink and that of its batch, and not only in between.

What must hold in the end, `check_files`, for each output in files by its sink's own log:
1. Each message that was acknowledged is there, at the place that was acknowledged.
2. Each queue offset from 0 on is there once, up to the end of the queue.
3. Nothing else is there but messages that were sent. One that was not answered was sent again, so
   that the broker may have it at two places.

And of the copy that the third query makes of the topic by our sink, `check_copy`:
1. Each message of the topic is there.
2. One that is there twice has the same unique key both times, so that a reader can drop doubles.
3. No unique key stands for two messages: whoever drops doubles loses nothing.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.crash import spark_query
from tests.crash.spark_query import COPIED, COPY, SOURCES, TOPIC
from tests.interop import peers
from tests.killable import Broker
from tests.waits import LONG_SECONDS

from sprocket.base.errors import ClientError
from sprocket.rocketmq.client import Message
from sprocket.rocketmq.client.blocking import Producer, Puller
from sprocket.rocketmq.codec.record import batch
from sprocket.rocketmq.model.message import StoredMessage

ROOT = Path(__file__).resolve().parents[2]
STEP_SECONDS_MAX = LONG_SECONDS
"""How long a query may take to reach a step: it has to start a JVM, on a machine that is busy."""
SENDS_MAX = 50
"""How often messages are sent while a step is waited for; more would keep Spark busy."""
TOO_LATE = "Python worker failed to connect back"
"""What ends a query on a machine so busy that the Python process of a stream needs more than ten
seconds to start, which is what Spark gives it."""
STEPS = (
    *(f"checkpoint/{name}/{step}" for name in (*SOURCES, COPY) for step in ("offsets", "commits")),
    *(f"out/{name}/_spark_metadata" for name in SOURCES),
)
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
    """The program with the queries, in a process group of its own."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._log = folder / "spark.log"
        arguments = [broker.nameserver, str(broker.folder), str(folder)]
        self._command = [sys.executable, "-m", spark_query.__name__, *arguments]
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


def finish(spark: Any, broker: Broker, folder: Path) -> None:
    """Let the queries go on from their checkpoints in another Spark, until all was read."""
    while True:
        queries = spark_query.start(
            spark, broker.nameserver, str(broker.folder), folder, is_last=True
        )
        try:
            spark_query.wait(queries)
        except Exception as error:
            if TOO_LATE not in str(error):
                raise
        else:
            return
        finally:
            for query in queries:
                query.stop()


def check_files(folder: Path, ledger: Ledger, ends: dict[int, int]) -> None:
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


def check_copy(broker: Broker, ledger: Ledger) -> None:
    """Assert for the copy what the module's head lists."""
    written, copied = messages(broker, TOPIC), messages(broker, COPIED)
    keys: dict[str, bytes] = {}
    for message in copied:
        body = keys.setdefault(message.message_id, message.body)
        assert body == message.body, f"{message.message_id} stands for two messages"
    assert Counter(message.body for message in written) == Counter(keys.values())
    assert {text.encode() for text in ledger.acknowledged.values()} <= set(keys.values())
    print(f"  {len(written):,} written, {len(copied) - len(keys):,} doubles of {len(copied):,}")


def messages(broker: Broker, topic: str) -> list[StoredMessage]:
    """Return all messages of a topic."""
    found: list[StoredMessage] = []
    with Puller(broker.nameserver) as puller:
        for queue in puller.queues(topic):
            at, end = puller.min_offset(queue), puller.max_offset(queue)
            while at < end:
                answer = puller.pull(queue, at, 1024)
                found += batch.decode_messages(answer.body)
                at = answer.next_offset
    return found


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
