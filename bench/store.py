"""The store by itself: `make bench`. `bench/README.md` says what each figure means.

Exit code 0 if every goal is met, 1 if one is missed, 2 if the bench could not run.
"""

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from bench.store_rows import Figure
from rich.console import Console
from rich.table import Table

from bench import store_rows as rows
from sprocket.base.errors import StoreError
from sprocket.base.units import GIB

GROUPS: dict[str, Callable[[Path], Iterator[Figure]]] = {
    "appends": rows.appends,
    "reads": rows.reads,
    "puts": rows.index_puts,
    "lookups": rows.lookups,
    "dispatch": rows.dispatch,
    "recovery": rows.recovery,
    "files": partial(rows.many_queues, engine="files"),
    "rocksdb": partial(rows.many_queues, engine="rocksdb"),
}
FREE_BYTES_MIN = 6 * GIB


def main() -> int:
    """Run the bench and return the exit code."""
    options = _options()
    options.folder.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(options.folder).free < FREE_BYTES_MIN:
        print(f"bench: {options.folder} has less than 6 GiB free", file=sys.stderr)
        return 2
    began = time.perf_counter()
    figures: list[Figure] = []
    try:
        for name in options.only or GROUPS:
            figures += _group(name, options.folder)
    except (StoreError, OSError) as error:
        print(f"bench could not run: {error}", file=sys.stderr)
        return 2
    report = {
        "machine": {
            "cpus": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
        "seconds": round(time.perf_counter() - began, 1),
        "figures": [{**asdict(figure), "is_met": figure.is_met} for figure in figures],
    }
    if options.json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        Console(highlight=False).print(table("The store", figures))
    return 0 if all(figure.is_met for figure in figures) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.store", description=__doc__)
    parser.add_argument("--json", action="store_true", help="for programs instead of people")
    parser.add_argument("--only", nargs="+", choices=GROUPS, help="some groups of figures")
    parser.add_argument(
        "--folder", type=Path, default=Path("build"), help="on the disk that is to be measured"
    )
    return parser.parse_args()


def _group(name: str, parent: Path) -> list[Figure]:
    """Measure one group in a folder of its own, which is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{name}-", dir=parent))
    try:
        figures = []
        for figure in GROUPS[name](folder):
            print(f"{figure.name}: {_value(figure)} {figure.unit}", file=sys.stderr, flush=True)
            figures.append(figure)
        return figures
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def table(title: str, figures: Sequence[Figure]) -> Table:
    """Return figures beside their goals."""
    made = Table(title=title, title_justify="left")
    for head in ("what", "figure", "goal", "", "made of"):
        made.add_column(head, justify="right" if head in ("figure", "goal") else "left")
    for figure in figures:
        sign = "≥" if figure.at_least else "≤"
        goal = "" if figure.goal is None else f"{sign} {figure.goal:,}"
        word = "" if figure.goal is None else "met" if figure.is_met else "MISSED"
        made.add_row(figure.name, f"{_value(figure)} {figure.unit}", goal, word, figure.note)
    return made


def _value(figure: Figure) -> str:
    return f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:.2f}"


if __name__ == "__main__":
    sys.exit(main())
