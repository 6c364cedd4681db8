"""Chooses mutants by a seed, runs them, and reports: see the head of `tests.mutants`.

Exit code 0 if each survivor is explained in docs/mutants.md, 1 if one is not.
"""

import argparse
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, settings
from tests.mutants.mutations import Mutation, places
from tests.mutants.running import Ended, MutantRuns

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sprocket"
EXPLAINED = ROOT / "docs" / "mutants.md"
FOLDER = ROOT / "build" / "mutants"

ROOMS: dict[str, tuple[str, ...]] = {
    "rocketmq/store": (
        "tests/unit/rocketmq/store",
        "tests/contract/test_queues.py",
        "tests/crash/test_power_loss.py",
    ),
    "rabbitmq/store/write_ahead": (
        "tests/unit/rabbitmq/store",
        "tests/contract/test_write_ahead_log.py",
        "tests/crash/test_queue_index.py",
        "tests/crash/test_vhost.py",
    ),
    "rabbitmq/store/queue_index": (
        "tests/unit/rabbitmq/store",
        "tests/crash/test_queue_index.py",
        "tests/crash/test_vhost.py",
    ),
    "runtime/group_commit.py": (
        "tests/unit/runtime",
        "tests/contract/test_group_commit.py",
        "tests/contract/test_write_ahead_log.py",
        "tests/unit/rocketmq/broker/messages",
        "tests/unit/rabbitmq/broker/test_commits.py",
    ),
    "rabbitmq/broker/channels/confirms.py": (
        "tests/unit/rabbitmq/broker",
        "tests/property/test_amqp_channels.py",
    ),
    "rabbitmq/broker/commits.py": ("tests/unit/rabbitmq/broker",),
}
"""What is mutated, and the tests that must see it."""

_ROW = re.compile(r"^\| `([^`]+)` `([^`]+)` \| `(.+?)` → `(.+?)` \|", re.MULTILINE)


def files(rooms: Sequence[str]) -> list[str]:
    """Return the modules of rooms."""
    found: list[Path] = []
    for room in rooms:
        path = SOURCE / room
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [str(path) for path in found]


def room_of(path: str) -> str:
    """Return the room of a module."""
    inside = os.path.relpath(path, SOURCE)
    return next(room for room in ROOMS if inside.startswith(room))


def key(one: Mutation) -> tuple[str, ...]:
    """Return what names a mutation whatever else changes in its file."""
    return os.path.relpath(one.path, SOURCE), one.function, one.before, one.after


def explained() -> set[tuple[str, ...]]:
    """Return the mutations that docs/mutants.md explains."""
    text = EXPLAINED.read_text(encoding="utf-8").replace("\\|", "|")
    return {match.groups() for match in _ROW.finditer(text)}


def report(ended: Sequence[Ended], known: set[tuple[str, ...]]) -> str:
    """Return the figures of each room, and the survivors."""
    outcomes = ("killed", "timed out", "survived", "not run", "no code")
    counts = Counter((room_of(one.mutation.path), one.outcome) for one in ended)
    rooms = {room: [room] for room in ROOMS} | {"all": list(ROOMS)}
    lines = ["| room | " + " | ".join(outcomes) + " |", "|---" * 6 + "|"]
    for room, parts in rooms.items():
        figures = [sum(counts[part, which] for part in parts) for which in outcomes]
        lines.append(f"| `{room}` | " + " | ".join(map(str, figures)) + " |")
    for which in ("survived", "not run", "timed out"):
        some = [one.mutation for one in ended if one.outcome == which]
        if some:
            lines += ["", f"{which}:"]
        for one in sorted(some, key=lambda one: (one.path, one.line)):
            place = f"{os.path.relpath(one.path, ROOT)}:{one.line} {one.function}"
            why = " (explained)" if key(one) in known else ""
            lines.append(f"* {place}: `{one.before}` → `{one.after}`{why}")
    return "\n".join(lines)


def main() -> int:
    """Do it."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="how many mutants")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="which ones")
    parser.add_argument("--room", choices=ROOMS, action="append", help="of this room alone")
    parser.add_argument("--only", default="", help="of functions whose place has this text in it")
    parser.add_argument("--quick", action="store_true", help="without the tests marked slow")
    given = parser.parse_args()
    rooms = given.room or list(ROOMS)
    every = [
        one
        for path in files(rooms)
        for one in places(path)
        if given.only in f"{path}:{one.line} {one.function}"
    ]
    sample = Random(given.seed).sample(every, min(given.count, len(every)))
    chosen = [place.mutation() for place in sample]
    print(f"{len(chosen)} of {len(every)} mutants, SEED={given.seed}", flush=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    settings.register_profile(
        "mutants",
        deadline=None,
        database=None,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    ended: list[Ended] = []
    began = time.monotonic()

    def told(one: Ended) -> None:
        ended.append(one)
        at = one.mutation
        print(
            f"{len(ended)} {time.monotonic() - began:.0f} s {one.outcome}"
            f" {os.path.relpath(at.path, ROOT)}:{at.line} {at.function}:"
            f" `{at.before}` → `{at.after}` {one.test}",
            flush=True,
        )

    runs = MutantRuns(chosen, frozenset(files(rooms)), FOLDER, told)
    tests = dict.fromkeys(path for room in rooms for path in ROOMS[room])
    pytest.main(
        [
            *tests,
            "-m",
            "not nightly and not spark and not interop" + " and not slow" * given.quick,
            "--hypothesis-profile=mutants",
            "--timeout=0",
            f"--basetemp={FOLDER / 'tmp'}",
            *("-p", "no:cacheprovider"),
        ],
        plugins=[runs],
    )
    known = explained()
    text = report(ended, known)
    (FOLDER / "report.md").write_text(text + "\n", encoding="utf-8")
    print(f"\n{text}")
    for name in runs.failed_before:
        print(f"fails without a mutation: {name}")
    is_new = any(
        key(one.mutation) not in known for one in ended if one.outcome in ("survived", "not run")
    )
    return 1 if is_new or len(ended) < len(chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
