"""How fast SQL92 filters are: `python -m bench.filters`, goal 400,000 evaluations/s of three terms.

Each expression is evaluated for one message on one core, for 0.3 s at a time, five times, of which
the best counts. Beside it stands RocketMQ's own filter, after Java has compiled it, if its jars are
here (`make peers`). Exit code 0 if the goal is met, else 1.
"""

import sys
import tempfile
import time
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.interop import peers, sql_filter

from sprocket.rocketmq.filter import SqlFilter, compile_sql

MESSAGE = {
    "UNIQ_KEY": "7F00000100002A9F0000000000000400",
    "WAIT": "true",
    "TAGS": "new",
    "KEYS": "order-4711",
    "region": "eu",
    "amount": "17.50",
    "count": "3",
}
EXPRESSIONS = (
    "amount > 10.0 AND region = 'eu' AND count = 3",
    "count BETWEEN 1 AND 5",
    "region IN ('eu', 'us') OR KEYS STARTSWITH 'order'",
    " OR ".join(f"count = {number}" for number in range(100, 132)),
)
"""The first decides; the last says no after 32 comparisons."""
RATE_MIN = 400_000.0
ROUNDS, SECONDS = 5, 0.3
_AT_ONCE = 1000


def rate(found: SqlFilter, properties: Mapping[str, str]) -> float:
    """Return evaluations a second."""
    matches, count, began = found.matches, 0, time.perf_counter()
    while (took := time.perf_counter() - began) < SECONDS:
        for _ in range(_AT_ONCE):
            matches(properties)
        count += _AT_ONCE
    return count / took


def theirs() -> list[float]:
    """Return what RocketMQ's filter does; nothing without its jars."""
    asked: dict[str, Any] = {"message": MESSAGE, "expressions": EXPRESSIONS, "seconds": 1.0}
    try:
        jars = peers.library()
    except peers.PeerMissing as missing:
        print(f"RocketMQ's filter is not measured: {missing}")
        return []
    with tempfile.TemporaryDirectory() as folder:
        return [float(one) for one in sql_filter.ask(jars, Path(folder), asked)["rates"]]


def main() -> int:
    """Measure, print, and return the exit code."""
    ours = [max(rate(compile_sql(text), MESSAGE) for _ in range(ROUNDS)) for text in EXPRESSIONS]
    print("evaluations of a filter a second, ours and RocketMQ's:")
    for text, one, other in zip_longest(EXPRESSIONS, ours, theirs()):
        shown = text if len(text) <= 50 else f"{text[:47]}..."
        print(f"  {shown:50} {one:12,.0f}" + (f" {other:12,.0f}" if other else ""))
    word = "met" if ours[0] >= RATE_MIN else "MISSED"
    print(f"three terms: {ours[0]:,.0f}/s, goal {RATE_MIN:,.0f}: {word}")
    return 0 if ours[0] >= RATE_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
