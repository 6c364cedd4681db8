"""What every command shares: how it writes, how it fails, how it shows times and long work."""

import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from sprocket.base.clock import Clock, SystemClock
from sprocket.base.errors import SettingsError, SprocketError
from sprocket.base.progress import Step

T = TypeVar("T")
Place = Literal["first", "last"] | int
"""Where in a topic to begin: at an end, or at a time in milliseconds since 1970."""

PATIENCE_SECONDS = 1.0
"""Work that takes longer shows a progress bar."""
TELL_SECONDS = 0.1
"""How often a bar moves; work may report its progress a million times."""
LINE_SECONDS = 30.0
"""How often a line is written where there is no terminal for a bar."""
PROGRESS_EVERY = 256
"""Items between two looks at the clock."""


@contextmanager
def failing_in_one_line() -> Iterator[None]:
    """Turn Sprocket's own errors into one line on stderr and exit code 1.

    Raises:
        typer.Exit: A `SprocketError` ended the block, or nobody reads what it writes any more.
    """
    try:
        yield
        if not sys.stdout.closed:
            sys.stdout.flush()
    except BrokenPipeError:  # of stdout: those of sockets are errors of ours
        stop_writing()
        raise typer.Exit(0) from None
    except SprocketError as error:
        text = " ".join(str(error).split()) or type(error).__name__
        say(text)
        raise typer.Exit(1) from None


def end_quietly_with_the_reader() -> None:
    """Let `sprocket … | head` end silently, as other commands do.

    Only for commands that hold no socket: a lost connection must stay an error there.
    """
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def stop_writing() -> None:
    """Close stdout, whose reader has gone; what it did not read is dropped."""
    with suppress(BrokenPipeError):
        sys.stdout.close()


def write_json(value: Any) -> None:
    """Write one JSON value in one line."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def write_line(text: str, *, is_bold: bool = False) -> None:
    """Write one line, its control characters spelled out; bold only if a terminal reads it."""
    shown = text if text.isprintable() else "".join(map(_printable, text))
    if is_bold and sys.stdout.isatty():
        shown = f"\x1b[1m{shown}\x1b[0m"
    sys.stdout.write(shown + "\n")


def _printable(letter: str) -> str:
    return letter if letter.isprintable() or letter == "\t" else repr(letter)[1:-1]


def say(text: str) -> None:
    """Write one line to stderr, for people; what scripts read is on stdout."""
    try:
        if not sys.stdout.closed:
            sys.stdout.flush()
    except BrokenPipeError:
        stop_writing()
    sys.stderr.write(f"sprocket: {' '.join(text.split())}\n")


def confirmed(question: str) -> bool:
    """Ask on stderr, so that stdout has results only; return whether the answer was yes.

    Raises:
        typer.Abort: Nobody can answer: stdin has ended.
    """
    sys.stdout.flush()
    sys.stderr.write(f"{question} [y/N]: ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:
        raise typer.Abort
    return answer.strip().lower() in ("y", "yes")


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
            f"{text!r} is not a time: expected milliseconds since 1970 or 2013-01-31T10:15:00"
        ) from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def place(text: str) -> Place:
    """Read where in a topic to begin: `first`, `last`, or a time in milliseconds since 1970.

    Raises:
        SettingsError: It is none of them.
    """
    if text == "first":
        return "first"
    return "last" if text == "last" else time_ms(text)


def pairs(texts: Iterable[str], what: str) -> dict[str, str]:
    """Read `NAME=VALUE`; the error calls each one `what`.

    Raises:
        SettingsError: One has no name or no equals sign.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise SettingsError(f"{what} {text!r}: expected NAME=VALUE")
        found[name] = value
    return found


def with_progress(
    items: Iterable[T], what: str, total: int, place: Callable[[T], int], clock: Clock | None = None
) -> Iterator[T]:
    """Pass `items` through, and show by a bar how far the place of each is on the way to `total`.

    The clock is for tests.
    """
    with progress(clock) as tell:
        for number, item in enumerate(items):
            if number % PROGRESS_EVERY == 0:
                tell(what, place(item), total)
            yield item


@contextmanager
def progress(clock: Clock | None = None) -> Iterator[Step]:
    """Give a function to call with the progress of some work.

    After one second it shows a bar on stderr with the time that is left. Where stderr is not a
    terminal, it writes a line there each half minute. The clock is for tests.
    """
    clock = clock or SystemClock()
    bar = progress_bar()
    is_bar = bar.console.is_terminal
    next_at = clock.monotonic() + (PATIENCE_SECONDS if is_bar else LINE_SECONDS)
    task = bar.add_task("", total=None)

    def step(what: str, done: int, total: int = 0) -> None:
        nonlocal next_at
        if clock.monotonic() < next_at:
            return
        next_at = clock.monotonic() + (TELL_SECONDS if is_bar else LINE_SECONDS)
        if not is_bar:
            say(f"{what}: {done:,} of {total:,}" if total else f"{what}: {done:,}")
            return
        bar.start()
        bar.update(task, description=what, completed=done, total=total or None)

    try:
        yield step
    finally:
        bar.stop()


def progress_bar() -> Progress:
    """Return a bar for stderr that goes away when it is done."""
    err = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    return Progress(
        *columns, TimeRemainingColumn(), console=err, transient=True, disable=not err.is_terminal
    )
