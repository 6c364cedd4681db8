"""What rights cost: `python -m bench.rights`, goal at most 15 % more CPU a message.

Two brokers run, each on a new store on the same disk with async flush, where a message costs least.
To one each send comes as clients send it without rights. The other has `rights.authentication` and
`rights.authorization`, so that each send is signed, by a user with a policy for its topic, and its
signature is looked at. The load signs for both, as what it takes decides how many sends come
together, which decides what one costs. They take turns, each round the other way; the one that
waits is stopped (SIGSTOP). The figures are medians.

Beside them stands what a signature of such a message costs by itself, in this process: what is
left of the difference is the guard.

Exit code 0 if the goal is met in each row, 1 if it is missed, 2 if the bench could not run.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
import timeit
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.load import BODY_BYTES, Load, Row
from tests.interop import link, peers

from bench import goals, processes
from sprocket.rocketmq.codec.signature import SigningKey

ROOT_USER = ("root", "root-secret")
USER = ("shop", "shop-secret")
TOPIC, QUEUES = "Bench", 4
ROWS = (Row(connections=16, outstanding=1), Row(connections=4, outstanding=32))
PLAIN, GUARDED = "plain", "guarded"
RATIO_MAX = 1.15
WARM_MESSAGES = 20_000
SIGNED_TEXT = "x" * 190
"""As much as a send has besides its body that is signed."""

Brokers = Mapping[str, peers.Sprocket]


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.rights", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.8, help="of load, each time")
    options = parser.parse_args()
    build = peers.ROOT / "build"
    build.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=build))  # on the disk, never in memory
    try:
        with ExitStack() as stack:
            brokers = {
                name: stack.enter_context(_started(name, folder / name))
                for name in (PLAIN, GUARDED)
            }
            figures = _in_rounds(brokers, options.rounds, options.seconds)
    except (RuntimeError, TimeoutError) as error:
        print(f"bench.rights could not run: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("CPU of a send, µs, without and with rights:")
    found = []
    for row in ROWS:
        plain, guarded = figures[row, PLAIN], figures[row, GUARDED]
        print(f"  {row.name:8} {plain:6.2f} {guarded:6.2f}")
        found.append(goals.at_most(f"{row.name}: with rights, ratio", guarded / plain, RATIO_MAX))
    print(f"a signature by itself: {_signature_us():.2f} µs")
    print(*found, sep="\n")
    return 0 if all(goal.is_met for goal in found) else 1


def _started(name: str, folder: Path) -> peers.Sprocket:
    options = ["--flush", "async"]
    if name == GUARDED:
        user, password = ROOT_USER
        options += [
            *("--set", "rights.authentication=true"),
            *("--set", "rights.authorization=true"),
            *("--set", f"rights.initial_user={user}"),
            *("--set", f"rights.initial_password={password}"),
        ]
    return peers.Sprocket(folder, folder / "store", options)


def _in_rounds(brokers: Brokers, rounds: int, seconds: float) -> Mapping[tuple[Row, str], float]:
    """Return the median of µs of CPU a message, of each row and broker."""
    with link.Link(brokers[PLAIN].address) as connection:
        link.create_topic(connection, TOPIC, QUEUES)
    with link.Link(brokers[GUARDED].address, credentials=ROOT_USER) as connection:
        link.create_topic(connection, TOPIC, QUEUES)
        _make_user(connection)
    runs: dict[tuple[Row, str], list[float]] = {}
    for name in brokers:
        _costs_us(brokers, name, ROWS[-1], messages=WARM_MESSAGES)
    for turn in range(rounds):
        order: Sequence[str] = list(brokers)[:: 1 if turn % 2 == 0 else -1]
        for row in ROWS:
            for name in order:
                spent = _costs_us(brokers, name, row, seconds=seconds)
                runs.setdefault((row, name), []).append(spent)
    return {key: statistics.median(many) for key, many in runs.items()}


def _make_user(connection: link.Link) -> None:
    name, password = USER
    user = json.dumps({"password": password}).encode()
    entry = {"resource": f"Topic:{TOPIC}", "actions": ["Pub"], "decision": "Allow"}
    acl = json.dumps({"policies": [{"entries": [entry]}]}).encode()
    connection.call(3001, {"username": name}, user)
    connection.call(3006, {"subject": f"User:{name}"}, acl)


def _costs_us(
    brokers: Brokers, name: str, row: Row, *, seconds: float = 60.0, messages: int = 1 << 62
) -> float:
    broker = brokers[name]
    with (
        processes.alone(broker.pid, [one.pid for one in brokers.values()]),
        Load(
            broker.address,
            TOPIC,
            row,
            queues=QUEUES,
            credentials=USER,
            sends_signature=name == GUARDED,
        ) as load,
    ):
        load.run(messages=row.connections * row.outstanding * 4)  # they are warm
        before = processes.cpu_seconds(broker.pid)
        run = load.run(seconds=seconds, messages=messages)
        time.sleep(processes.REST_SECONDS)
        return (processes.cpu_seconds(broker.pid) - before) / run.messages * 1e6


def _signature_us() -> float:
    key, body = SigningKey(USER[1]), bytes(BODY_BYTES)
    signature = key.sign({"a": SIGNED_TEXT}, body)
    step = timeit.Timer(lambda: key.is_right_of(signature, SIGNED_TEXT, body))
    return min(step.repeat(15, 20_000)) / 20_000 * 1e6


if __name__ == "__main__":
    sys.exit(main())
