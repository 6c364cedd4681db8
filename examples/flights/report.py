"""What a person sees: steps, progress, tables, checks."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from examples.flights.processes import Failed

HEADS = {
    "carrier": "",
    "departure_minutes": "late\noff, min",
    "arrival_minutes": "late\non, min",
    "late_percent": "over 15\nmin, %",
    "mean_minutes": "late\non, min",
    "worst_minutes": "worst\nmin",
    "sched_dep_time": "scheduled",
    "dep_delay": "late\noff, min",
    "arr_delay": "late\non, min",
    "origin": "",
    "origin_name": "from",
    "dest": "",
    "dest_name": "to",
}


class RateColumn(ProgressColumn):
    """Messages in a second."""

    def render(self, task: Task) -> Text:
        """Write the rate, measured over the last seconds."""
        rate = task.finished_speed or task.speed
        return Text("" if rate is None else f"{rate:,.0f} msg/s", style="cyan")


@dataclass
class Report:
    """Writes to the terminal, and remembers which checks failed."""

    console: Console = field(default_factory=lambda: Console(highlight=False))
    began: float = field(default_factory=time.monotonic)
    failures: list[str] = field(default_factory=list)

    def step(self, text: str) -> None:
        """Say what happens now."""
        seconds = time.monotonic() - self.began
        self.console.print(f"[dim]{seconds:5.1f} s[/]  {text}", soft_wrap=True)

    def note(self, lines: Sequence[str]) -> None:
        """Repeat what a program said."""
        for line in lines:
            self.console.print(Text(f"         │ {line.rstrip()}", style="dim"), soft_wrap=True)

    def progress(self) -> Progress:
        """Make a progress bar with a rate."""
        return Progress(
            TextColumn("         {task.description}"),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            RateColumn(),
            TimeElapsedColumn(),
            console=self.console,
        )

    def table(self, title: str, answer: pd.DataFrame) -> None:
        """Print an answer."""
        self.console.print()
        table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
        table.padding = (0, 1, 0, 0)
        for name in answer.columns:
            is_number = pd.api.types.is_numeric_dtype(answer[name])
            head = HEADS.get(str(name), str(name))
            table.add_column(head, justify="right" if is_number else "left", no_wrap=is_number)
        for row in answer.itertuples(index=False):
            table.add_row(*(cell(value) for value in row))
        self.console.print(table)

    def check(self, text: str, problem: str) -> None:
        """Say that something was verified, or what is wrong with it."""
        if problem:
            self.failures.append(f"{text}: {problem}")
            self.console.print(f"  [red]✗[/] {text}: [red]{problem}[/]", soft_wrap=True)
        else:
            self.console.print(f"  [green]✓[/] {text}", soft_wrap=True)

    def verdict(self) -> None:
        """End the job if a check failed.

        Raises:
            Failed: One did; the text is the first of them.
        """
        if self.failures:
            more = len(self.failures) - 1
            raise Failed(self.failures[0] + (f" (and {more} more)" if more else ""))


def cell(value: object) -> str:
    """Write a value as tables show it."""
    if value is None or pd.isna(value):
        return "–"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def unequal(found: int, expected: int) -> str:
    """Return an empty string if the numbers agree, else what is wrong."""
    return "" if found == expected else f"{found:,} instead of {expected:,}"
