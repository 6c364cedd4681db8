"""`sprocket store check`, `recover`, `salvage`, `convert`: find damage, repair it, change engines.

`check` and `salvage` only read the store; `recover` does to it what a broker's start would do, and
`convert` moves its queues.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import ForeignStore, SettingsError, StoreError
from sprocket.cli.terminal import CommandAnswer, output, tables

if TYPE_CHECKING:
    from sprocket.base.disk import Disk
    from sprocket.base.progress import Step

Folder = Annotated[str, typer.Argument(metavar="DIR", help="The store's folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of a table.")]

SHOWN_MAX = 1000
"""Findings in the table for people; JSON has all of them."""
TABLES = {
    "filled_up": "too short, filled up with zeros",
    "damage": "stepped over",
    "misplaced": "named another place, put right",
    "left": "left behind",
    "lost": "lost",
}
"""Members of reports that are a table for people, and what stands above it."""


class Broken(StoreError):
    """A store breaks rules; they were told before."""


@contextmanager
def looking_at(folder: str) -> "Iterator[Disk]":
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


def check_store(folder: Folder, as_json: AsJson = False) -> None:
    """Report each broken rule of the store's files; exit with 1 if there are any."""
    output.end_quietly_with_the_reader()
    with looking_at(folder) as disk:
        findings = Findings(folder, as_json)
        with output.progress() as step:
            findings.take(store_findings(disk, folder, step))
        findings.show()
        tell_if_open(disk, folder)
        findings.conclude()


class Findings:
    """Broken rules as they are told: JSON at once, a table for people at the end.

    Args:
        folder: What was checked.
        as_json: Whether they are written as JSON.
    """

    def __init__(self, folder: str, as_json: bool) -> None:
        self._folder = folder
        self._as_json = as_json
        self._count = 0
        self._shown: list[dict[str, Any]] = []

    def take(self, findings: "Iterable[dict[str, Any]]") -> None:
        """Write or keep some, all of the same members."""
        for finding in findings:
            self._count += 1
            if self._as_json:
                output.write_json(finding)
            elif self._count <= SHOWN_MAX:
                file = finding["file"].removeprefix(f"{self._folder.rstrip('/')}/")
                cells = {**finding, "file": file}
                if "physical_offset" in cells:
                    offset = cells["physical_offset"]
                    cells["physical_offset"] = "" if offset is None else str(offset)
                self._shown.append(cells)

    def show(self) -> None:
        """Write the table of what was taken since the last one."""
        if self._shown:
            tables.write_table(self._verdict, self._shown)
            self._shown = []

    @property
    def _verdict(self) -> str:
        return f"{self._folder}: {self._count:,} broken rule{'s' if self._count > 1 else ''}"

    def conclude(self) -> None:
        """Say on stderr that nothing is wrong.

        Raises:
            Broken: Something is.
        """
        if self._count:
            is_cut = not self._as_json and self._count > SHOWN_MAX
            raise Broken(self._verdict + (f", the first {SHOWN_MAX} are shown" if is_cut else ""))
        output.say(f"{self._folder}: nothing is wrong")


def store_findings(disk: "Disk", folder: str, step: "Step") -> "Iterator[dict[str, Any]]":
    """Give each broken rule of a store's files, as JSON shows it."""
    from sprocket.rocketmq.store.repair import check

    for finding in check.check(disk, folder, step=step):
        yield {
            "rule": finding.rule.name,
            "file": finding.path,
            "position": finding.position,
            "expected": finding.expected,
            "found": finding.found,
            "physical_offset": finding.record if finding.record >= 0 else None,
        }


def tell_if_open(disk: "Disk", folder: str) -> None:
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
    import msgspec

    from sprocket.node import backup

    with looking_at(folder) as disk:
        with output.progress() as step:
            done, folded = backup.recover_store(disk, folder, step, whole=whole)
        report = msgspec.to_builtins(done) | {"tables": folded}
        _reported(f"{folder}: recovered", report).write(as_json=as_json)


def salvage_store(
    folder: Folder,
    target: Annotated[str, typer.Argument(metavar="NEW", help="Folder of the new store.")],
    as_json: AsJson = False,
) -> None:
    """Copy every intact record to its own place in a new store; the old one is only read."""
    import os

    import msgspec

    from sprocket.base.clock import SystemClock
    from sprocket.rocketmq.store.repair import salvage

    with looking_at(folder) as disk:
        paths = os.path.abspath(folder), os.path.abspath(target)
        with output.progress() as step:
            done = salvage(disk, *paths, SystemClock(), step=step)
        report = msgspec.to_builtins(done)
        _reported(f"{folder}: copied to {target}", report).write(as_json=as_json)


def convert_store(
    folder: Folder,
    engine: Annotated[str, typer.Argument(metavar="files|rocksdb", help="The new engine.")],
    as_json: AsJson = False,
) -> None:
    """Give the queues of a closed store to another engine, in place."""
    import msgspec

    from sprocket.rocketmq.geometry import Engine
    from sprocket.rocketmq.store.repair import convert

    with looking_at(folder) as disk:
        try:
            wanted = msgspec.convert(engine, Engine)
        except msgspec.ValidationError:
            raise SettingsError(f"no engine {engine!r}: expected files or rocksdb") from None
        with output.progress() as step:
            done = convert(disk, folder, wanted, step=step)
        report = msgspec.to_builtins(done)
        _reported(f"{folder}: converted", report).write(as_json=as_json)


def _reported(title: str, report: Mapping[str, Any]) -> CommandAnswer:
    """Answer with what was done."""

    def show() -> None:
        tables.write_fields(title, {n: value for n, value in report.items() if n not in TABLES})
        for name, kind in TABLES.items():
            rows = report.get(name)
            if isinstance(rows, dict):
                rows = [{"queue": queue, "messages": count} for queue, count in rows.items()]
            if rows:
                tables.write_table(kind, rows)

    return CommandAnswer([report], show)
