"""Descriptors that commands have open at most, over a store of 1,500 log files.

The files are a GiB each as a broker makes them, with one record and a blank, and sparse: 30 MB on
the disk. Each command runs in a process of its own, which counts before each file that is opened
and each that is mapped. Exit code 0 if every goal is met, 1 if one is missed, 2 if the bench could
not run.
"""

import argparse
import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.store import table
from bench.store_rows import Figure
from rich.console import Console

from sprocket.base.disk import RealDisk, SegmentFiles
from sprocket.rocketmq.codec.record import ids, record
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.store import geometry as geometries
from sprocket.rocketmq.store.layout import StoreLayout

LOG_FILES = 1500
OPEN_MAX = 256
QUEUES = 8
_HOST = ids.host_bytes("127.0.0.1", 10911)
_COUNTED = "open", "mmap.__new__"
_READY = b"ready "


def make(folder: Path, count: int) -> None:
    """Make a store of `count` log files that has neither queues nor an index yet."""
    disk, layout, geometry = RealDisk(), StoreLayout(str(folder)), Geometry()
    for path in (layout.root, layout.config, layout.commitlog):
        disk.make_folder(path)
    geometries.save(disk, layout, geometry)
    files = SegmentFiles(disk, layout.commitlog, geometry.log.segment_bytes)
    for number in range(count):
        segment = files.add(number * geometry.log.segment_bytes)
        new = NewRecord(
            topic="bench",
            queue_id=number % QUEUES,
            body=b"x" * 1024,
            properties=b"KEYS\x01key-%d\x02" % number,
            born_host=_HOST,
            store_host=_HOST,
        )
        data = record.encode(
            new,
            queue_offset=number // QUEUES,
            physical_offset=segment.start,
            stored_at_ms=1_700_000_000_000 + number,
            crc_tail=False,
        )
        segment.file.write([data, record.blank(segment.size - len(data))], 0)
    files.close()


def count_here(path: str) -> None:
    """Count, from now on, what this process has open; leave the most in a file when it ends."""
    most = 0

    def note(event: str, _arguments: object) -> None:
        nonlocal most
        if event in _COUNTED:  # the listing takes one, what is about to be opened another
            most = max(most, len(os.listdir("/proc/self/fd")))

    def tell() -> None:
        with open(path, "w", encoding="ascii") as file:
            file.write(str(most))

    sys.addaudithook(note)
    atexit.register(tell)


def measure(folder: Path, count: int) -> Iterator[Figure]:
    """Measure the commands one after the other, `recover` first, which makes queues and index.

    Raises:
        RuntimeError: A command failed.
    """
    root = folder / "store"
    make(root, count)
    commands = {
        "recover": ("store", "recover", str(root), "--whole"),
        "check": ("store", "check", str(root)),
        "dump": ("store", "dump", str(root)),
        "find": ("store", "find", str(root), "--topic", "bench", "--key", f"key-{count - 1}"),
        "salvage": ("store", "salvage", str(root), str(folder / "salvaged")),
        "up": (
            "up",
            "--data",
            str(root),
            "--nameserver-port",
            "0",
            "--broker-port",
            "0",
            "--no-amqp",
        ),
    }
    for name, arguments in commands.items():
        yield Figure(
            name=f"{name}, {count:,} log files",
            value=_most_open(folder / f"{name}.open", arguments),
            unit="descriptors",
            goal=OPEN_MAX,
            at_least=False,
            note="at most, files mapped count twice",
        )


def _most_open(path: Path, arguments: Sequence[str]) -> int:
    """Run a command to its end, a server until it is ready; return how much it had open."""
    code = (
        "import sys; from bench import descriptors; descriptors.count_here(sys.argv.pop(1));"
        "from sprocket.cli.main import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(_READY):
            process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    if process.returncode or not path.exists():
        raise RuntimeError(f"{' '.join(arguments)}: {errors.decode().strip()[-2000:]}")
    return int(path.read_text(encoding="ascii"))


def main() -> int:
    """Run the bench and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.descriptors", description=__doc__)
    parser.add_argument("--files", type=int, default=LOG_FILES, help="log files of the store")
    parser.add_argument("--folder", type=Path, default=Path("build"), help="where it is made")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-descriptors-", dir=options.folder))
    try:
        figures = list(measure(folder, options.files))
    except (RuntimeError, OSError) as error:
        print(f"bench could not run: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    Console(highlight=False).print(table("Descriptors", figures))
    return 0 if all(figure.is_met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
