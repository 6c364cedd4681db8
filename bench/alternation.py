"""Two source trees of Sprocket in turns, under the load of `bench.rocketmq`: is one slower?

`make bench-alternation OLD=<ref>`; with `--amqp` under that of `bench.rabbitmq`. A commit is
checked out below `build/`; the new tree is this folder's, unless another commit is named. The old
tree runs twice, as *old* and as *twin*, so that the same run shows how far apart two equal trees
come out. All brokers run at the same time, each on a new store, and all but one are stopped
(SIGSTOP) while that one is under load; they take turns, each round the other way.

Judged are messages/s and CPU a message of each row. The new tree is held against the old runs and
the twin's together. The noise of a row is by how much old and twin differ there, or in the middle
row if they differ more there, since they may be alike in a row by chance. A row is slower if it is
so by more than 3 % beyond its noise. What is resident in memory after all rounds is shown as well.

Exit code 0 if no row is slower, 1 if one is, 2 if the bench could not run.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.goals import ASYNC, SYNC, Figures, Key
from bench.row_names import WORDS_HELP
from tests.interop import peers

from bench import amqp_nodes, processes, rabbitmq, rocketmq

OLD, TWIN, NEW = "old", "twin", "new"
SLOWER_RATIO_MAX = 0.03
"""What a row may lose beyond its noise."""
WARM_MESSAGES = 50_000
BUILD = peers.ROOT / "build"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One figure of one row: 1.05 is 5 % more than the old tree's; noise is given likewise."""

    row: str
    flush: str
    what: str
    old: float
    new: float
    noise: float
    is_better_high: bool

    @property
    def ratio(self) -> float:
        """The new tree's figure over the old one's."""
        return self.new / self.old

    @property
    def is_slower(self) -> bool:
        """Whether it is worse by more than equal trees are."""
        loss = 1 - self.ratio if self.is_better_high else self.ratio - 1
        return loss > self.noise + SLOWER_RATIO_MAX

    def __str__(self) -> str:
        """Say it in a line."""
        word = "SLOWER" if self.is_slower else ""
        return (
            f"{self.row:28} {self.flush:5} {self.what:12} {self.old:10,.1f} {self.new:10,.1f}"
            f"  {self.ratio:5.3f}  ±{self.noise:.3f}  {word}"
        ).rstrip()


def judge(runs: Mapping[Key, Sequence[Figures]]) -> list[Verdict]:
    """Compare the trees in each row that was measured, CPU and messages/s."""
    verdicts = []
    rows = list(dict.fromkeys((key.row, key.flush) for key in runs))
    for what, name, is_better_high in (
        ("CPU µs", "cpu_us_per_message", False),
        ("messages/s", "messages_per_s", True),
    ):
        medians = {
            (row, flush, tree): statistics.median(
                getattr(figures, name)
                for part in ((OLD, TWIN) if tree == "both" else (tree,))
                for figures in runs[Key(row=row, flush=flush, broker=part)]
            )
            for row, flush in rows
            for tree in (OLD, TWIN, NEW, "both")
        }
        apart = {row: abs(medians[*row, TWIN] / medians[*row, OLD] - 1) for row in rows}
        usual = statistics.median(apart.values())
        verdicts += [
            Verdict(
                row=row,
                flush=flush,
                what=what,
                old=medians[row, flush, "both"],
                new=medians[row, flush, NEW],
                noise=max(apart[row, flush], usual),
                is_better_high=is_better_high,
            )
            for row, flush in rows
        ]
    return sorted(verdicts, key=lambda one: rows.index((one.row, one.flush)))


def source(tree: str, build: Path = BUILD) -> Path:
    """Return the folder with the package of a commit, which is checked out, or of a folder.

    Args:
        tree: Whatever git takes for a commit, or a path that has `src/sprocket`.
        build: Where commits are checked out, each in a folder of its name, once.

    Raises:
        RuntimeError: It is neither.
    """
    if Path(tree, "src/sprocket").is_dir():
        return Path(tree, "src").resolve()
    asked = ["git", "rev-parse", "--verify", "--quiet", f"{tree}^{{commit}}"]
    found = subprocess.run(asked, cwd=peers.ROOT, capture_output=True, text=True, check=False)
    commit = found.stdout.strip()
    if found.returncode != 0 or not commit:
        raise RuntimeError(f"{tree} is neither a commit nor a folder with src/sprocket")
    folder = build / f"tree-{commit[:12]}"
    if not folder.exists():
        archive = ["git", "archive", "--format=tar", commit, "src"]
        packed = subprocess.run(archive, cwd=peers.ROOT, capture_output=True, check=True).stdout
        build.mkdir(exist_ok=True)
        unpacked = tempfile.mkdtemp(prefix="tree-", dir=build)
        subprocess.run(["tar", "-x", "-C", unpacked], input=packed, check=True)
        Path(unpacked).rename(folder)
    return folder / "src"


def main() -> int:
    """Run the bench and return the exit code."""
    options = _options()
    BUILD.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=BUILD))  # on the disk, never in memory
    try:
        runs = (_alternate_amqp if options.amqp else _alternate)(folder, options)
    except (RuntimeError, TimeoutError) as error:
        print(f"bench-alternation could not run: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    verdicts = judge(runs)
    print(f"\n{'row':28} {'flush':5} {'median':12} {'old':>10} {'new':>10}  ratio   noise")
    for verdict in verdicts:
        print(verdict)
    return 1 if any(verdict.is_slower for verdict in verdicts) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.alternation", description=__doc__)
    parser.add_argument("old", help="a commit, or a folder with src/sprocket")
    parser.add_argument("new", nargs="?", default=str(peers.ROOT), help="this folder by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of load, each time")
    parser.add_argument("--warm", type=int, default=WARM_MESSAGES, help="sends before the first")
    parser.add_argument("--flush", choices=[SYNC, ASYNC], help="one mode only")
    parser.add_argument("--amqp", action="store_true", help="AMQP brokers, synced as they are")
    parser.add_argument("--rows", nargs="*", help=WORDS_HELP)
    return parser.parse_args()


def _alternate(folder: Path, options: argparse.Namespace) -> dict[Key, list[Figures]]:
    old, new = source(options.old), source(options.new)
    trees = {OLD: old, TWIN: old, NEW: new}
    brokers: dict[tuple[str, str], peers.Broker] = {}
    with ExitStack() as stack:
        for flush in [options.flush] if options.flush else [SYNC, ASYNC]:
            for name, tree in trees.items():
                own = folder / f"{name}-{flush}"
                broker = peers.Sprocket(own, own / "store", ["--flush", flush], source=tree)
                brokers[flush, name] = stack.enter_context(broker)
        bench = rocketmq.Bench(brokers=brokers, seconds=options.seconds)
        bench.prepare(options.warm)
        runs = rocketmq.in_rounds(bench, options.rounds, options.rows)
        for (flush, name), one in brokers.items():
            _print_memory(f"{name} {flush}", one.pid)
        return runs


def _alternate_amqp(folder: Path, options: argparse.Namespace) -> dict[Key, list[Figures]]:
    old, new = source(options.old), source(options.new)
    with ExitStack() as stack:
        nodes = {
            name: stack.enter_context(amqp_nodes.ours(folder / name, source=tree))
            for name, tree in {OLD: old, TWIN: old, NEW: new}.items()
        }
        rows = rabbitmq.rows_of(options.rows)
        found = rabbitmq.in_rounds(nodes, rows, options.rounds, options.seconds)
        for name, node in nodes.items():
            _print_memory(name, node.pid)
    return {
        Key(row=row, flush=SYNC, broker=name): [rabbitmq.figures_of(one) for one in many]
        for (row, name), many in found.items()
    }


def _print_memory(name: str, pid: int) -> None:
    said = processes.memory(pid)
    print(f"{name:12} {said['anonymous_mib']:7.1f} MiB anonymous, {said['rss_mib']:7.1f} resident")


if __name__ == "__main__":
    sys.exit(main())
