"""`sprocket store check`, `recover`, `salvage`, `convert`: find damage, repair it, change engines.

`check` and `salvage` only read the store; `recover` does to it what a broker's start would do, and
`convert` moves its queues.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import ForeignStore, SettingsError, StoreError
from sprocket.cli.terminal import CommandAnswer, output, tables

if TYPE_CHECKING:
    from sprocket.base.disk import Disk
    from sprocket.rocketmq.store.repair import Finding

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
    from sprocket.rocketmq.store.repair import check

    output.end_quietly_with_the_reader()
    with looking_at(folder) as disk:
        count = 0
        shown = []
        with output.progress() as step:
            for finding in check.check(disk, folder, progress=partial(step, "checking")):
                count += 1
                if as_json:
                    output.write_json(_as_json(finding))
                elif count <= SHOWN_MAX:
                    shown.append(_as_row(finding, folder))
        verdict = f"{folder}: {count:,} broken rule{'s' if count > 1 else ''}"
        if shown:
            tables.write_table(verdict, shown)
        if check.is_open(disk, folder):
            output.say(f"{folder} is open or was not closed; its last moments were not judged")
        if count:
            rest = f", the first {SHOWN_MAX} are shown" if not as_json and count > SHOWN_MAX else ""
            raise Broken(verdict + rest)
        output.say(f"{folder}: nothing is wrong")


def _as_json(finding: "Finding") -> dict[str, Any]:
    return {
        "rule": finding.rule.name,
        "file": finding.path,
        "position": finding.position,
        "expected": finding.expected,
        "found": finding.found,
        "physical_offset": finding.record if finding.record >= 0 else None,
    }


def _as_row(finding: "Finding", folder: str) -> dict[str, Any]:
    fields = {**_as_json(finding), "file": finding.path.removeprefix(f"{folder.rstrip('/')}/")}
    fields["physical_offset"] = "" if finding.record < 0 else str(finding.record)
    return fields


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

    from sprocket.base.clock import SystemClock
    from sprocket.base.place import Place
    from sprocket.rocketmq.broker.admin import fold
    from sprocket.rocketmq.settings import StoreSettings
    from sprocket.rocketmq.store import opening
    from sprocket.rocketmq.store.store import Store

    with looking_at(folder) as disk:
        if not disk.is_folder(f"{folder}/commitlog"):
            raise ForeignStore(f"{folder}: there is no store, {folder}/commitlog is missing")
        if whole:
            opening.distrust(disk, folder)
        clock = SystemClock()
        settings = StoreSettings(fill_ahead_bytes=0)
        with output.progress() as step:
            store = Store.open(disk, folder, settings, clock, step=step)
        try:
            folded = fold(Place(disk, folder, clock), store)
        finally:
            store.close()
        report = msgspec.to_builtins(store.report) | {"tables": folded}
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
            done = salvage(disk, *paths, SystemClock(), progress=partial(step, "copying"))
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
            done = convert(disk, folder, wanted, progress=partial(step, "converting"))
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
