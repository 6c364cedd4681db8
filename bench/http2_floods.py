"""Floods of HTTP/2 at a broker's port of gRPC, and what another client notices: `make h2-floods`.

A flood comes from one connection as fast as the server takes it; when the server ends that, another
one is opened at once. Meanwhile another client sends a hundred messages a second.

    python -m bench.http2_floods [--flood NAME …] [--seconds N]

A flood fails if the server takes more memory than it may, if it does not end each connection as it
must, if p99 of the other client is beyond a limit, or if one of its calls fails.
"""

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.grpc_steady import TOPIC, Seen, Watch, watch
from bench.http2_attacks import BY_NAME, FLOODS, Flood, Outcome
from tests.interop.sdk_runs import SprocketServed

from sprocket.base.units import MIB
from sprocket.rocketmq.client import blocking

ALONE_SECONDS: Final = 3.0
FLOOD_SECONDS: Final = 5.0
P99_MS_MAX: Final = 500.0
"""A read of 256 KiB is handled at once, which are 5,000 of the smallest calls that are answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A flood, and what was seen.

    Attributes:
        flood: Which.
        outcome: What became of the attack.
        before_mib: What the server had before it.
        alone: What was seen before.
        beside: What was seen meanwhile.
    """

    flood: Flood
    outcome: Outcome
    before_mib: float
    alone: Seen
    beside: Seen

    @property
    def growth_mib(self) -> float:
        """By how much the server's memory grew."""
        return self.beside.peak_mib - self.before_mib

    def faults(self) -> list[str]:
        """Return what is not as it must be."""
        found = []
        expected = self.flood.ends
        if expected is not None and set(self.outcome.ends) != {expected}:
            found.append(f"connections end by {self.outcome.ends or 'nothing'}, not {expected}")
        if self.growth_mib > self.flood.growth_mib_max:
            found.append(f"{self.growth_mib:.0f} MiB, {self.flood.growth_mib_max:.0f} may be")
        if self.beside.p99_ms > P99_MS_MAX:
            found.append(f"p99 of {self.beside.p99_ms:.0f} ms, {P99_MS_MAX:.0f} may be")
        return found

    def text(self) -> str:
        """Return it as a line of the table."""
        ends = ", ".join(f"{name} × {count:,}" for name, count in self.outcome.ends.items())
        return (
            f"{self.flood.name:32} {ends or 'held back, or served':32} "
            f"{self.outcome.sent_bytes / MIB:8.1f} "
            f"{self.before_mib:7.1f} {self.beside.peak_mib:7.1f} "
            f"{self.alone.p99_ms:7.1f} {self.beside.p99_ms:7.1f}"
        )


HEAD: Final = (
    f"{'flood':32} {'its connections ended by':32} {'MiB sent':>8} "
    f"{'before':>7} {'peak':>7} {'alone':>7} {'beside':>7}"
)
"""Of the table: memory in MiB, p99 in ms."""


async def measure(look: Watch, flood: Flood, port: int, seconds: float) -> Row:
    """Return what one flood did."""
    alone = await look.look(ALONE_SECONDS)
    before_mib = look.memory_mib()
    attacker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.http2_attacks", flood.name, str(port), str(seconds)),
        stdout=subprocess.PIPE,
    )
    beside = await look.look(seconds)
    said, _ = await attacker.communicate()
    outcome = Outcome(**json.loads(said))
    return Row(flood=flood, outcome=outcome, before_mib=before_mib, alone=alone, beside=beside)


async def attack(served: SprocketServed, floods: Sequence[Flood], seconds: float) -> int:
    """Measure floods, print a table; return how many have failed."""
    port = int(served.grpc.rpartition(":")[2])
    look = await watch(served.grpc, served.pid)
    print(HEAD, flush=True)
    failed = 0
    alone_ms: list[float] = []
    for flood in floods:
        row = await measure(look, flood, port, seconds)
        alone_ms.append(row.alone.p99_ms)
        print(row.text(), flush=True)
        for fault in row.faults():
            print(f"  FAULT: {fault}", flush=True)
        failed += bool(row.faults())
    print(f"{len(floods)} floods, {failed} failed; p99 alone {statistics.median(alone_ms):.1f} ms")
    return failed


def main() -> int:
    """Start a broker, attack it, and return the exit code: 1 if a flood failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flood", action="append", default=[], choices=[*BY_NAME])
    parser.add_argument("--seconds", type=float, default=FLOOD_SECONDS)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="sprocket-h2-floods-"))
    served = SprocketServed(folder, ["--flush", "async"])
    try:
        served.start()
        with blocking.Admin(served.nameserver) as admin:
            admin.topic.create(TOPIC, 8)
        chosen = [one for one in FLOODS if not asked.flood or one.name in asked.flood]
        return 1 if asyncio.run(attack(served, chosen, asked.seconds)) else 0
    finally:
        served.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
