"""`sprocket store check`, `recover`, `salvage`, `convert`: find damage, repair it, change engines.

`check` and `salvage` only read the store; `recover` does to it what a broker's start would do, and
`convert` moves its queues.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import ForeignStore, SettingsError, StoreError
from sprocket.base.folder_report import FolderReport
from sprocket.cli.terminal import output, tables

if TYPE_CHECKING:
    from sprocket.base.disk import Disk
    from sprocket.base.progress import Step

Folder = Annotated[str, typer.Argument(metavar="DIR", help="The store's folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of a table.")]

SHOWN_MAX = 1000
"""Findings in the table for people; JSON has all of them."""


class Broken(StoreError):
    """A store breaks rules; they were told before."""


@contextmanager
def disk_of(folder: str) -> "Iterator[Disk]":
    """Give the disk that has a folder; every error of ours ends the command with one line.

    Raises:
        typer.Exit: The folder is not there, or is a file, or the block ended with such an error.
    """
    from sprocket.base.disk import RealDisk

    with output.failing_in_one_line():
        disk = RealDisk()
        if not disk.exists(folder):
            raise ForeignStore(f"{folder}: no such folder")
        if not disk.is_folder(folder):
            raise ForeignStore(f"{folder}: expected a store's folder, found a file")
        yield disk


def write_findings(
    folder: str,
    checks: "Iterable[Callable[[Step], Iterable[dict[str, Any]]]]",
    *,
    as_json: bool,
    comment: Callable[[], None] = lambda: None,
) -> None:
    """Write what checks find: JSON at once, a table for people at the end of each check.

    Args:
        folder: What is checked.
        checks: Each gives broken rules, all of the same members.
        as_json: Whether they are written as JSON.
        comment: Called after the last one.

    Raises:
        Broken: Something is wrong. Else it is said on stderr that nothing is.
    """
    count = 0

    def verdict() -> str:
        return f"{folder}: {count:,} broken rule{'s' if count > 1 else ''}"

    for check in checks:
        shown = []
        with output.progress() as step:
            for finding in check(step):
                count += 1
                if as_json:
                    output.write_json(finding)
                elif count <= SHOWN_MAX:
                    shown.append(_cells(finding, folder))
        if shown:
            tables.write_table(verdict(), shown)
    comment()
    if count:
        is_cut = not as_json and count > SHOWN_MAX
        raise Broken(verdict() + (f", the first {SHOWN_MAX} are shown" if is_cut else ""))
    output.say(f"{folder}: nothing is wrong")


def _cells(finding: Mapping[str, Any], folder: str) -> dict[str, Any]:
    cells = {**finding, "file": finding["file"].removeprefix(f"{folder.rstrip('/')}/")}
    if "physical_offset" in cells:
        offset = cells["physical_offset"]
        cells["physical_offset"] = "" if offset is None else str(offset)
    return cells


def write_report(
    title: str, report: FolderReport, *, as_json: bool, row: Mapping[str, Any] | None = None
) -> None:
    """Write what was done to a folder.

    Args:
        title: A line above it, for people.
        report: Of this.
        as_json: Whether it is written as JSON.
        row: Its values with others beside them; by default its own.
    """
    row = row or report.row()
    if as_json:
        output.write_json(row)
        return
    left_out = {*(name for name, _ in report.TABLES), *report.HIDDEN}
    tables.write_fields(title, {n: one for n, one in row.items() if n not in left_out})
    for name, heading in report.TABLES:
        rows = row.get(name)
        if isinstance(rows, dict):
            rows = [{"queue": queue, "messages": count} for queue, count in rows.items()]
        if rows:
            cells = [one if isinstance(one, dict) else {report.SENTENCES: one} for one in rows]
            tables.write_table(heading, cells)


def check_store(folder: Folder, as_json: AsJson = False) -> None:
    """Report each broken rule of the store's files; exit with 1 if there are any."""
    output.end_quietly_with_the_reader()
    with disk_of(folder) as disk:
        check = partial(store_findings, disk, folder)
        write_findings(
            folder, [check], as_json=as_json, comment=partial(warn_if_open, disk, folder)
        )


def store_findings(disk: "Disk", folder: str, step: "Step") -> "Iterator[dict[str, Any]]":
    """Give each broken rule of a store's files, as JSON shows it."""
    from sprocket.rocketmq.store.repair import check, row

    return map(row, check.check(disk, folder, step=step))


def warn_if_open(disk: "Disk", folder: str) -> None:
    """Say on stderr that a store may have had changes while it was checked."""
    from sprocket.rocketmq.store.repair import check

    if check.is_open(disk, folder):
        output.say(f"{folder} is open or was not closed; its last moments were not judged")


def recover_store(
    folder: Folder,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole", help="Check the whole log, and make queues and index again from it."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Do in place what a broker's start does, and tell what that was; not while one runs."""
    from sprocket.node import backup

    with disk_of(folder) as disk:
        with output.progress() as step:
            done, folded = backup.recover_store(disk, folder, step, whole=whole)
        row = {**done.row(), "tables": folded}
        write_report(f"{folder}: recovered", done, as_json=as_json, row=row)


def salvage_store(
    folder: Folder,
    target: Annotated[str, typer.Argument(metavar="NEW", help="Folder of the new store.")],
    as_json: AsJson = False,
) -> None:
    """Copy every intact record to its own place in a new store; the old one is only read."""
    import os

    from sprocket.base.clock import SystemClock
    from sprocket.rocketmq.store.repair import salvage

    paths = os.path.abspath(folder), os.path.abspath(target)
    with disk_of(folder) as disk:
        with output.progress() as step:
            done = salvage(disk, *paths, SystemClock(), step=step)
        write_report(f"{folder}: copied to {target}", done, as_json=as_json)


def convert_store(
    folder: Folder,
    engine: Annotated[str, typer.Argument(metavar="files|rocksdb", help="The new engine.")],
    as_json: AsJson = False,
) -> None:
    """Give the queues of a closed store to another engine, in place."""
    import msgspec

    from sprocket.rocketmq.geometry import Engine
    from sprocket.rocketmq.store.repair import convert

    with disk_of(folder) as disk:
        try:
            wanted = msgspec.convert(engine, Engine)
        except msgspec.ValidationError:
            raise SettingsError(f"no engine {engine!r}: expected files or rocksdb") from None
        with output.progress() as step:
            done = convert(disk, folder, wanted, step=step)
        write_report(f"{folder}: converted", done, as_json=as_json)
