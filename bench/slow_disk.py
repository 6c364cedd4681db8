"""Senders beside a cold reader on a slow disk: `python -m bench.slow_disk`.

A broker in a process of its own, over a disk that takes 20 ms for each read that the system's
memory cannot serve, which here is each one of the log's older part and of the queues, and 2 ms
longer for each sync than the machine's. Senders (16 connections × 1, 1 KiB, sync flush) are
measured by themselves and while four connections read a backlog that only the disk has, in turns.
The figure is the ratio of their p99, the median of the turns. Exit code 0 if it meets its goal, 1
if not, 2 if the bench could not run.
"""

import argparse
import asyncio
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.load import Load, LoadError, Row
from bench.pull_load import MESSAGES_PER_PULL, PullLoad
from tests.interop import link

from sprocket.base.disk import File, RealDisk
from sprocket.base.units import MIB
from sprocket.node.rocketmq import Node
from sprocket.rocketmq.settings import ServerSettings, Settings, StoreSettings

READ_SECONDS = 0.02
SYNC_SECONDS = 0.002
SENDERS = Row(connections=16, outstanding=1)
FILL = Row(connections=4, outstanding=32)
BACKLOG_MESSAGES = 30_000
QUEUES = 4
TURNS = 5
TURN_SECONDS = 2.0

P99_RATIO_MAX = 1.5
"""Senders may wait half as long again: the reader takes its share of the CPU, no more."""


class SlowFile:
    """A file of which nothing stays in memory but what is mapped."""

    def __init__(self, file: File) -> None:
        self.path = file.path
        self._file = file
        self.size = file.size
        self.data_end = file.data_end
        self.next_data = file.next_data
        self.view = file.view
        self.write = file.write
        self.start_reading = file.start_reading
        self.give_back = file.give_back
        self.allocate = file.allocate
        self.resize = file.resize
        self.close = file.close

    def read(self, position: int, size: int) -> bytes:
        """Read, slowly."""
        time.sleep(READ_SECONDS)
        return self._file.read(position, size)

    def read_view(self, position: int, size: int) -> memoryview:
        """Read, slowly."""
        return memoryview(self.read(position, size))

    def read_nowait(self, position: int, buffer: memoryview) -> int | None:  # noqa: ARG002
        """Say that the disk has to be asked."""
        return None

    def sync(self) -> None:
        """Sync, slowly."""
        time.sleep(SYNC_SECONDS)
        self._file.sync()

    def start_sync(self) -> None:
        """Have nothing begun by the system."""


class SlowDisk(RealDisk):
    """The machine's disk, made slow."""

    def open(
        self, path: str, *, write: bool = False, create: bool = False, size: int | None = None
    ) -> File:
        """See `Disk.open`."""
        file = super().open(path, write=write, create=create, size=size)
        return SlowFile(file) if "/commitlog/" in path or "/consumequeue/" in path else file


async def serve(folder: str) -> None:
    """Run the broker until the standard input ends."""
    settings = Settings(
        server=ServerSettings(nameserver_port=0, broker_port=0),
        store=StoreSettings(cached_bytes=MIB),
    )
    node = await Node.start(settings, folder, disk=SlowDisk())
    print(node.addresses.broker, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await node.stop()


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Run the broker in a process of its own; give its address."""
    command = [sys.executable, "-m", "bench.slow_disk", "--serve", str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise LoadError("the broker did not start")
        try:
            yield address
        finally:
            process.stdin.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """p99 in ms of senders by themselves and beside the reader, and how many messages that read."""

    alone_ms: float
    beside_ms: float
    read: int


def measure(address: str) -> list[Turn]:
    """Return what each turn gave."""
    with link.Link(address) as connection:
        for topic in ("Backlog", "Senders"):
            link.create_topic(connection, topic, QUEUES)
    with Load(address, "Backlog", FILL, queues=QUEUES) as load:
        load.run(messages=BACKLOG_MESSAGES)
    turns: list[Turn] = []
    with Load(address, "Senders", SENDERS, queues=QUEUES) as load:
        load.run(seconds=TURN_SECONDS)  # they are warm
        for _ in range(TURNS):
            alone = load.run(seconds=TURN_SECONDS)
            counts: list[int] = []
            reader = threading.Thread(target=_read, args=(address, counts))
            reader.start()
            beside = load.run(seconds=TURN_SECONDS)
            reader.join()
            turns.append(
                Turn(
                    alone_ms=1e3 * alone.percentile(0.99),
                    beside_ms=1e3 * beside.percentile(0.99),
                    read=sum(counts),
                )
            )
    return turns


def _read(address: str, counts: list[int]) -> None:
    with PullLoad(address, "Backlog", queues=QUEUES, asked=MESSAGES_PER_PULL) as load:
        counts.append(load.run(seconds=TURN_SECONDS).messages)


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.slow_disk", description=__doc__)
    parser.add_argument("--serve", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument(
        "--folder", type=Path, default=Path("build"), help="on the disk that is to be measured"
    )
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.serve))
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-slow-disk-", dir=options.folder))
    try:
        with broker(folder / "store") as address:
            turns = measure(address)
    except (LoadError, OSError) as error:
        print(f"bench.slow_disk could not run: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ratio = statistics.median(turn.beside_ms / turn.alone_ms for turn in turns)
    alone = statistics.median(turn.alone_ms for turn in turns)
    beside = statistics.median(turn.beside_ms for turn in turns)
    read = statistics.median(turn.read for turn in turns)
    if not read:
        print("bench.slow_disk could not run: the reader got nothing", file=sys.stderr)
        return 2
    word = "met" if ratio <= P99_RATIO_MAX else "MISSED"
    print(
        f"senders beside a cold reader on a slow disk: p99 {alone:.1f} ms by themselves,"
        f" {beside:.1f} ms while {read / TURN_SECONDS:,.0f} messages/s are read,"
        f" ratio {ratio:.2f} ≤ {P99_RATIO_MAX}: {word}"
    )
    return 0 if ratio <= P99_RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
