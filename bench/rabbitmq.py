"""Messages per second and per CPU second: Sprocket and the real RabbitMQ 3.10.8.

The first part of `make bench-rabbitmq`. Both brokers run on this machine with their defaults, each
in a new folder on the same disk; the same load process speaks to one of them at a time while the
other is stopped (SIGSTOP). For each row they take turns, three rounds, the other way round each
time; the figures are medians.

Exit code 0 if every goal is met, 1 if one is missed, 2 if the bench could not run.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from bench.amqp_goals import OURS, ROWS, THEIRS, Row, compare
from bench.amqp_load import (
    Corpus,
    LoadError,
    Run,
    Shape,
    acknowledgements,
    consume,
    declare,
    publish,
    purge,
    through,
)
from bench.amqp_nodes import Node, ours, theirs
from bench.goals import Figures
from bench.row_names import WORDS_HELP, is_wanted
from tests.interop import peers

from bench import processes

UNCONFIRMED = 512
"""Messages of all connections of a row that wait for confirms, or 16 of each if that is more."""
UNCONFIRMED_MIN = 16
CONSUMED_MESSAGES = 60_000
UNSETTLED_MAX = 10_000
"""Messages that consumers may be behind publishers before these wait."""
WARM_MESSAGES = 50_000
SETTLE_SECONDS = 1.5
"""After which both have brought what was published to where they keep it."""
ACKS = 1_500_000


def main() -> int:
    """Run the bench and return the exit code."""
    options = _options()
    build = peers.ROOT / "build"
    build.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=build))  # on the disk, never in memory
    rows = rows_of(options.rows)
    try:
        runs = _runs(folder, rows, options)
    except (peers.PeerMissing, LoadError, RuntimeError, TimeoutError, OSError) as error:
        print(f"bench-rabbitmq could not run: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    medians = {key: _median([figures_of(one) for one in many]) for key, many in runs.items()}
    goals = compare(medians)
    _print(medians, runs)
    print("\nGoals, ratios are Sprocket ÷ RabbitMQ")
    for goal in goals:
        print(goal)
    report = {
        "machine": processes.machine(),
        "rounds": options.rounds,
        "seconds": options.seconds,
        "runs": [
            {"row": row, "broker": name, **one}
            for (row, name), many in runs.items()
            for one in many
        ],
        "goals": [asdict(goal) for goal in goals],
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    print(f"\nas JSON: {options.json}")
    return 0 if all(goal.is_met for goal in goals) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.rabbitmq", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of load, each time")
    parser.add_argument("--only", choices=[OURS, THEIRS], help="no comparison, no goals")
    parser.add_argument("--rows", nargs="*", help=WORDS_HELP)
    parser.add_argument("--json", type=Path, default=peers.ROOT / "build/bench-rabbitmq.json")
    return parser.parse_args()


def rows_of(words: Sequence[str] | None) -> list[Row]:
    """Return the rows that are wanted; see `bench.row_names`."""
    return [row for row in ROWS if is_wanted(row.name, words)]


def _runs(
    folder: Path, rows: Sequence[Row], options: argparse.Namespace
) -> dict[tuple[str, str], list[dict[str, float]]]:
    with ExitStack() as stack:
        nodes: dict[str, Node] = {}
        if options.only != THEIRS:
            nodes[OURS] = stack.enter_context(ours(folder / OURS))
        if options.only != OURS:
            nodes[THEIRS] = stack.enter_context(theirs(folder / THEIRS))
        return in_rounds(nodes, rows, options.rounds, options.seconds)


def in_rounds(
    nodes: Mapping[str, Node], rows: Sequence[Row], rounds: int, seconds: float
) -> dict[tuple[str, str], list[dict[str, float]]]:
    """Put each row's load on each node, one after the other; the other way round each time.

    Returns:
        By row and node what was seen in each round.
    """
    acks = acknowledgements(ACKS)
    queues = max(row.queues for row in rows)
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    pids = [one.pid for one in nodes.values()]
    for node in nodes.values():
        with processes.alone(node.pid, pids):
            declare(node.port, queues)
            shape = _shape(rows[0])
            publish(node.port, shape, Corpus(shape), messages=WARM_MESSAGES)
            purge(node.port, queues)
    for turn in range(rounds):
        for row in rows:
            shape = _shape(row)
            corpus = Corpus(shape)
            for name in list(nodes)[:: 1 if turn % 2 == 0 else -1]:
                with processes.alone(nodes[name].pid, pids):
                    one = _measured(nodes[name], row, shape, corpus, acks, seconds)
                    purge(nodes[name].port, queues)
                found.setdefault((row.name, name), []).append(one)
                print(
                    f"round {turn + 1}  {row.name:28} {name:9} {one['messages_per_s']:9,.0f}/s"
                    f" {one['cpu_us_per_message']:6.1f} µs CPU  p99 {one['p99_ms']:.1f} ms"
                    f"  load {one['load_cpu_us_per_message']:.1f} µs",
                    flush=True,
                )
    return found


def _shape(row: Row) -> Shape:
    return Shape(
        connections=row.connections,
        unconfirmed=max(UNCONFIRMED // row.connections, UNCONFIRMED_MIN),
        queues=row.queues,
        is_persistent=row.kind.is_persistent,
        body_bytes=row.kind.body_bytes,
    )


def _measured(
    node: Node, row: Row, shape: Shape, corpus: Corpus, acks: memoryview, seconds: float
) -> dict[str, float]:
    if not row.kind.publishes:
        filling = Shape(
            connections=4,
            unconfirmed=UNCONFIRMED,
            queues=shape.queues,
            is_persistent=shape.is_persistent,
            body_bytes=shape.body_bytes,
        )
        publish(node.port, filling, corpus, messages=CONSUMED_MESSAGES)
        time.sleep(SETTLE_SECONDS)
    before = processes.cpu_seconds(node.pid)
    run = _run(node.port, row, shape, corpus, acks, seconds)
    time.sleep(processes.REST_SECONDS)
    spent = processes.cpu_seconds(node.pid) - before
    return {
        "messages_per_s": run.messages / run.seconds,
        "cpu_us_per_message": spent / run.messages * 1e6,
        "load_cpu_us_per_message": run.cpu_seconds / run.messages * 1e6,
        "p50_ms": run.percentile(0.5) * 1e3,
        "p99_ms": run.percentile(0.99) * 1e3,
    }


def _run(
    port: int, row: Row, shape: Shape, corpus: Corpus, acks: memoryview, seconds: float
) -> Run:
    if not row.kind.publishes:
        return consume(
            port,
            connections=row.connections,
            queues=row.queues,
            messages=CONSUMED_MESSAGES,
            acks=acks,
        )
    if not row.kind.consumes:
        return publish(port, shape, corpus, seconds=seconds)
    return through(port, shape, corpus, acks, seconds=seconds, unsettled_max=UNSETTLED_MAX)


def figures_of(one: Mapping[str, float]) -> Figures:
    """Return what goals and comparisons need of what was seen."""
    return Figures(**{name: one[name] for name in Figures.__slots__})


def _median(runs: Sequence[Figures]) -> Figures:
    return Figures(
        **{
            name: statistics.median(getattr(figures, name) for figures in runs)
            for name in Figures.__slots__
        }
    )


def _print(
    medians: Mapping[tuple[str, str], Figures],
    runs: Mapping[tuple[str, str], Sequence[Mapping[str, float]]],
) -> None:
    print(
        "\n| row, connections × queues | broker | messages/s | CPU µs/message | p99 ms | load µs |"
    )
    print("|---|---|---:|---:|---:|---:|")
    for key, figures in medians.items():
        load = statistics.median(one["load_cpu_us_per_message"] for one in runs[key])
        print(
            f"| {key[0]} | {key[1]} | {figures.messages_per_s:,.0f}"
            f" | {figures.cpu_us_per_message:.1f} | {figures.p99_ms:.1f} | {load:.1f} |"
        )


if __name__ == "__main__":
    sys.exit(main())
