"""Ten faults of ten kinds, each of which `make test` must see.

    make planted

plants them one after another in a copy of `src`, runs the tests of the room that the fault is in,
all of them a part of `make test`, and prints the first that fails. Exit code 1 if a fault is seen
by none.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Fault:
    """What is changed, and which tests of the plain run are asked."""

    kind: str
    module: str
    before: str
    after: str
    tests: str


FAULTS = (
    Fault(
        "lost sync",
        "rocketmq/store/log/flusher.py",
        "        for file, _position, _size in self.ranges:\n            file.sync()",
        "        for file, _position, _size in self.ranges[1:]:\n            file.sync()",
        "tests/crash/test_power_loss.py",
    ),
    Fault(
        "wrong offset",
        "rocketmq/store/log/offset_assigner.py",
        "after[own] = queue_offset + (1 if found is None else found.count)",
        "after[own] = queue_offset + (1 if found is None else found.count + 1)",
        "tests/unit/rocketmq/store/log",
    ),
    Fault(
        "swapped order",
        "rabbitmq/broker/queues/levels.py",
        "heappush(self._returned, (one.seq_id, one))",
        "heappush(self._returned, (-one.seq_id, one))",
        "tests/unit/rabbitmq/broker",
    ),
    Fault(
        "off by one at a roll",
        "base/disk/segments.py",
        "index = (offset - segments[0].start) // self.segment_bytes",
        "index = (offset - segments[0].start - 1) // self.segment_bytes",
        "tests/unit/base/disk",
    ),
    Fault(
        "missed wake-up",
        "rocketmq/broker/delivery/pull_hold.py",
        "if arrival.next_offset <= held.offset:",
        "if arrival.next_offset <= held.offset + 1:",
        "tests/unit/rocketmq/broker/delivery",
    ),
    Fault(
        "leaked task",
        "runtime/tasks.py",
        "others = [task for task in self._tasks if task is not current]",
        "others = [task for task in self._tasks if task is current]",
        "tests/unit/runtime/test_tasks.py",
    ),
    Fault(
        "wrong code",
        "rocketmq/server/handlers/messages/send.py",
        "return ResponseCode.MESSAGE_ILLEGAL",
        "return ResponseCode.SYSTEM_ERROR",
        "tests/unit/rocketmq/server/handlers/messages",
    ),
    Fault(
        "wrong column",
        "spark/rocketmq/rows/columns.py",
        'lambda rows: _times(rows.records.number("born_at_ms"))',
        "lambda rows: _times(rows.records.stored_at_ms)",
        "tests/unit/spark/rocketmq/rows",
    ),
    Fault(
        "lost ack",
        "rabbitmq/broker/queues/levels.py",
        "        if found:\n            self._durable.ack(found)",
        "        if found[1:]:\n            self._durable.ack(found[1:])",
        "tests/unit/rabbitmq/broker tests/contract/test_queue_storage.py",
    ),
    Fault(
        "wrong limit",
        "rabbitmq/server/connection.py",
        "elif body_bytes > self._limits.message_bytes_max:",
        "elif body_bytes >= self._limits.message_bytes_max:",
        "tests/unit/rabbitmq/server",
    ),
)


def seen_by(fault: Fault, folder: Path) -> str | None:
    """Plant a fault in a copy of `src`; return the first test that fails, if one does."""
    source = folder / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    path = source / "sprocket" / fault.module
    text = path.read_text(encoding="utf-8")
    assert text.count(fault.before) == 1, f"{fault.module} has changed: {fault.before!r}"
    path.write_text(text.replace(fault.before, fault.after), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", *fault.tests.split(), "-x", "-m", "not nightly"]
    command += ["-p", "no:cacheprovider", "-o", f"pythonpath={source} .", "--tb=no", "-rf"]
    paths = [str(source), str(ROOT), os.environ.get("PYTHONPATH", "")]
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"^FAILED (\S+)", ended.stdout, re.MULTILINE)
    return found[1] if found else None


def main() -> int:
    """Plant all; say who saw each."""
    missed = 0
    for fault in FAULTS:
        with tempfile.TemporaryDirectory() as folder:
            seen = seen_by(fault, Path(folder))
        missed += seen is None
        print(f"{fault.kind:20} {fault.module:45} {seen or 'SEEN BY NONE'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
