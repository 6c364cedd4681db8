"""Tables for people: aligned columns that fit the terminal and never break a name or an id.

A table that is wider than the terminal first leaves out columns that its maker marked as less
important, from the last on; JSON still has them. A table that is still too wide is written as a
block of lines for each row. In a file or a pipe everything stands in one line.
"""

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len

from sprocket.cli.terminal import output

_GAP = "  "
_OURS = re.compile(r"[a-z0-9_]+")
"""Names that are ours to write otherwise; those of settings and properties stay as they are."""


def width() -> int | None:
    """Return the columns of the terminal, or what `COLUMNS` says; None where there is no width."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def write_table(
    title: str, rows: Sequence[Mapping[str, Any]], *, spare: Sequence[str] = ()
) -> None:
    """Write rows that have the same members; a name says how its values look.

    Numbers stand at the right, and what ends in `_at_ms` is shown as a time.

    Args:
        title: A line above it; empty for none.
        rows: Values by name.
        spare: Names that may be left out where there is no room, the last one first.
    """
    _write_title(title)
    if not rows:
        return
    names = list(rows[0])
    left = [name for name in spare if name in names]
    limit = width()
    while limit is not None and left and _wide(rows, names) > limit:
        names.remove(left.pop())
    if limit is not None and _wide(rows, names) > limit:
        for row in rows:
            write_fields("", {name: row[name] for name in rows[0]})
            output.write_line("")
        return
    cells = [[_brief(name, row[name]) for name in names] for row in rows]
    heads = [head(name) for name in names]
    sizes = [max(map(cell_len, column)) for column in zip(heads, *cells, strict=True)]
    is_number = [any(_is_number(name, row[name]) for row in rows) for name in names]
    output.write_line(_line(heads, sizes, is_number), is_bold=True)
    for line in cells:
        output.write_line(_line(line, sizes, is_number))


def write_fields(title: str, fields: Mapping[str, Any]) -> None:
    """Write a line for each member: its name, then its value.

    A value that would be broken at the end of the line has one of its own.
    """
    _write_title(title)
    shown = {head(name): cell(name, value) for name, value in fields.items()}
    size = max(map(cell_len, shown), default=0)
    limit = width()
    for name, text in shown.items():
        if limit is not None and size + len(_GAP) + cell_len(text) > limit:
            output.write_line(name)
            output.write_line(_GAP + text)
        else:
            output.write_line(f"{_padded(name, size)}{_GAP}{text}".rstrip())


def head(name: str) -> str:
    """Return how people read the name of a value."""
    if not _OURS.fullmatch(name):
        return name
    return _HEADS.get(name) or name.removesuffix("_ms").replace("_", " ")


def cell(name: str, value: Any) -> str:
    """Return a value as people read it, None as a blank; its name says what it is."""
    if _is_time(name):
        return output.time_text(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and not name.endswith("_id"):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}: {one}" for key, one in value.items())
    return str(value)


def _brief(name: str, value: Any) -> str:
    """Return a cell of a table: as `cell`, but times to the second."""
    text = cell(name, value)
    return f"{text.partition('.')[0]}Z" if _is_time(name) and "." in text else text


_HEADS = {
    "queue_id": "queue",
    "in_per_second": "in/s",
    "out_per_second": "out/s",
    "disk_used_percent": "disk %",
}


def _wide(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> int:
    """Return the columns that a table with these names takes."""
    sizes = [
        max(cell_len(head(name)), *(cell_len(_brief(name, row[name])) for row in rows))
        for name in names
    ]
    return sum(sizes) + len(_GAP) * (len(sizes) - 1)


def _write_title(title: str) -> None:
    if title:
        output.write_line(title, is_bold=True)


def _line(cells: Sequence[str], sizes: Sequence[int], is_number: Sequence[bool]) -> str:
    parts = [
        _padded(text, -size if right else size)
        for text, size, right in zip(cells, sizes, is_number, strict=True)
    ]
    return _GAP.join(parts).rstrip()


def _padded(text: str, size: int) -> str:
    """Return a text with blanks up to a size, before it if that is negative."""
    blanks = " " * (abs(size) - cell_len(text))
    return blanks + text if size < 0 else text + blanks


def _is_number(name: str, value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not _is_time(name)


def _is_time(name: str) -> bool:
    return f"_{name}".endswith("_at_ms")
