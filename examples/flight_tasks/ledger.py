"""What the workers have done: a line for each run of a task, in a file of each process.

A line is there when the write returns, whatever happens to the process then. All lines are equally
long, so that the size of a file says how many there are.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

VARIABLE = "FLIGHT_TASKS_LEDGER"
"""Names the folder, for the workers."""
Run: TypeAlias = Sequence[int | str | None]
RUNS = {
    "row": 6,
    "carrier": 2,
    "month": 2,
    "hour": 2,
    "dep_delay": 5,
    "arr_delay": 5,
    "redelivered": 1,
    "ran_at_ms": 13,
}
"""Columns of a flight's run, and their widths. Delays are minutes, blank for none."""
NOTICES = {"row": 6, "due_at_ms": 13, "redelivered": 1, "ran_at_ms": 13}
"""Columns of a notice's run."""


class Book:
    """The file of one process and one kind of task.

    Args:
        name: Of the kind; files are `NAME-WORKER-PID.csv`.
        columns: The widths of its columns.
    """

    def __init__(self, name: str, columns: dict[str, int]) -> None:
        self._name = name
        self._widths = list(columns.values())
        self._file: int | None = None

    def write(self, values: Run, worker: str) -> None:
        """Add a line."""
        if self._file is None:
            path = Path(os.environ[VARIABLE]) / f"{self._name}-{worker}-{os.getpid()}.csv"
            self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        cells = zip(values, self._widths, strict=True)
        line = ",".join(f"{'' if one is None else one:>{size}}" for one, size in cells)
        os.write(self._file, f"{line}\n".encode())


def count(folder: Path) -> int:
    """Return how many runs of flights the ledger has, from the sizes of its files."""
    line = sum(RUNS.values()) + len(RUNS)
    return sum(path.stat().st_size for path in folder.glob("runs-*.csv")) // line


def runs(folder: Path) -> pd.DataFrame:
    """Return every run of a flight in the order of time: `RUNS`, and `worker`."""
    return _read(folder, "runs", RUNS)


def notices(folder: Path) -> pd.DataFrame:
    """Return every run of a notice in the order of time: `NOTICES`, and `worker`."""
    return _read(folder, "notices", NOTICES)


def _read(folder: Path, name: str, columns: dict[str, int]) -> pd.DataFrame:
    types: Any = {one: "string" if one == "carrier" else "Int64" for one in columns}
    tables = [pd.DataFrame({one: pd.Series(dtype=types[one]) for one in columns})]
    for path in sorted(folder.glob(f"{name}-*.csv")):
        table = pd.read_csv(path, names=list(columns), dtype=types, skipinitialspace=True)
        tables.append(table.assign(worker=path.stem.split("-", 1)[1]))
    return pd.concat(tables, ignore_index=True).sort_values("ran_at_ms", ignore_index=True)
