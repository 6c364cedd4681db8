"""What every command shares: how it writes, how it fails, how it shows times and long work."""

import json
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from sprocket.base.clock import Clock, SystemClock
from sprocket.base.errors import SettingsError, SprocketError

T = TypeVar("T")

PATIENCE_SECONDS = 1.0
"""Work that takes longer shows a progress bar."""
PROGRESS_EVERY = 256
"""Items between two looks at the clock."""


def console() -> Console:
    """Return a console on stdout as it is now; without a terminal it neither colours nor cuts."""
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


@contextmanager
def failing_in_one_line() -> Iterator[None]:
    """Turn Sprocket's own errors into one line on stderr and exit code 1.

    Raises:
        typer.Exit: A `SprocketError` ended the block.
    """
    try:
        yield
    except SprocketError as error:
        text = " ".join(str(error).split()) or type(error).__name__
        sys.stdout.flush()
        sys.stderr.write(f"sprocket: {text}\n")
        raise typer.Exit(1) from None


def end_quietly_with_the_reader() -> None:
    """Let `sprocket … | head` end without a word, as other commands do.

    Only for commands that hold no socket: a lost connection must stay an error there.
    """
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def write_json(value: Any) -> None:
    """Write one JSON value in one line."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def write_line(text: str) -> None:
    """Write one line, its control characters spelled out."""
    shown = text if text.isprintable() else "".join(map(_printable, text))
    sys.stdout.write(shown + "\n")


def _printable(letter: str) -> str:
    return letter if letter.isprintable() or letter == "\t" else repr(letter)[1:-1]


def table(title: str, *heads: str, right: Iterable[str] = ()) -> Table:
    """Make an empty table; columns named in `right` hold numbers."""
    numbers = set(right)
    made = Table(title=title, title_justify="left", title_style="bold")
    for head in heads:
        made.add_column(head, justify="right" if head in numbers else "left", overflow="fold")
    return made


def time_text(at_ms: int) -> str:
    """Write wall time in milliseconds since 1970 as UTC; a dash for none (−1 or 0)."""
    if at_ms <= 0:
        return "–"
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"
    return at.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")


def time_ms(text: str) -> int:
    """Read a time that a person typed: milliseconds since 1970, or ISO 8601 (UTC if it says none).

    Raises:
        SettingsError: It is neither.
    """
    if text.isdecimal():
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(
            f"{text!r} is no time: expected milliseconds since 1970 or 2013-01-31T10:15:00"
        ) from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def with_progress(
    items: Iterable[T], what: str, total: int, place: Any, clock: Clock | None = None
) -> Iterator[T]:
    """Pass `items` through; past one second show a bar on stderr, if that is a terminal.

    Args:
        items: What is worked through.
        what: What the bar is called.
        total: Where `place` ends.
        place: Function of an item that says how far the work is.
        clock: For tests.
    """
    clock = clock or SystemClock()
    deadline = clock.monotonic() + PATIENCE_SECONDS
    bar: Progress | None = None
    task = None
    try:
        for number, item in enumerate(items):
            if number % PROGRESS_EVERY == 0 and clock.monotonic() >= deadline:
                if bar is None:
                    bar = _bar()
                    task = bar.add_task(what, total=total)
                    bar.start()
                if task is not None:
                    bar.update(task, completed=place(item))
            yield item
    finally:
        if bar is not None:
            bar.stop()


def _bar() -> Progress:
    err = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    return Progress(
        *columns, TimeRemainingColumn(), console=err, transient=True, disable=not err.is_terminal
    )
