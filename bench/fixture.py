"""How soon a broker for tests is ready: `python -m bench.fixture`, goal 50 ms.

From the call that makes a `LocalBroker` to its return, when NameServer and broker listen and know
each other: twenty times in one process, after the one import that every test run pays once. Exit
code 0 if the median meets the goal, else 1.
"""

import statistics
import sys
import time

from sprocket.testing.local_broker import LocalBroker

ROUNDS = 20
READY_MS_MAX = 50.0


def main() -> int:
    """Measure, print, and return the exit code."""
    took_ms = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        with LocalBroker():
            took_ms.append((time.perf_counter() - began) * 1000)
    median, worst = statistics.median(took_ms), max(took_ms)
    word = "met" if median <= READY_MS_MAX else "MISSED"
    print(
        f"a broker for tests is ready after {median:.1f} ms (median of {ROUNDS}, at most"
        f" {worst:.1f} ms), goal {READY_MS_MAX:.0f} ms: {word}"
    )
    return 0 if median <= READY_MS_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
