"""`sprocket store check`, `recover`, `salvage`, `convert`: find damage, repair it, change engines.

`check` and `salvage` only read the store; `recover` does to it what a broker's start would do, and
`convert` moves its queues.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import ForeignStore, SettingsError, StoreError
from sprocket.cli.terminal import output, tables

if TYPE_CHECKING:
    from sprocket.base.disk import Disk
    from sprocket.rocketmq.store.repair import Finding

Folder = Annotated[str, typer.Argument(metavar="DIR", help="The store's folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of a table.")]

SHOWN_MAX = 1000
"""Findings in the table for people; JSON has all of them."""


class Broken(StoreError):
    """A store breaks rules; they were told before."""


def require_folder(disk: "Disk", folder: str) -> None:
    """Check that a folder is there.

    Raises:
        ForeignStore: It is not, or is a file.
    """
    if not disk.exists(folder):
        raise ForeignStore(f"{folder}: no such folder")
    if not disk.is_folder(folder):
        raise ForeignStore(f"{folder}: expected a store's folder, found a file")


def _require_store(disk: "Disk", folder: str) -> None:
    require_folder(disk, folder)
    if not disk.is_folder(f"{folder}/commitlog"):
        raise ForeignStore(f"{folder}: there is no store, {folder}/commitlog is missing")


def check_store(folder: Folder, as_json: AsJson = False) -> None:
    """Report each broken rule of the store's files; exit with 1 if there are any."""
    from sprocket.base.disk import RealDisk
    from sprocket.rocketmq.store.repair import check

    output.end_quietly_with_the_reader()
    with output.failing_in_one_line():
        disk = RealDisk()
        require_folder(disk, folder)
        count = 0
        shown = []
        with output.progress("checking") as tell:
            for finding in check.check(disk, folder, progress=tell):
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
    from sprocket.base.disk import RealDisk
    from sprocket.base.place import Place
    from sprocket.rocketmq.broker.admin import fold
    from sprocket.rocketmq.settings import StoreSettings
    from sprocket.rocketmq.store import opening
    from sprocket.rocketmq.store.store import Store

    with output.failing_in_one_line():
        disk = RealDisk()
        _require_store(disk, folder)
        if whole:
            opening.distrust(disk, folder)
        clock = SystemClock()
        settings = StoreSettings(fill_ahead_bytes=0)
        with output.steps() as step:
            store = Store.open(disk, folder, settings, clock, step=step)
        try:
            folded = fold(Place(disk, folder, clock), store)
        finally:
            store.close()
        report = msgspec.to_builtins(store.report) | {"tables": folded}
        if as_json:
            output.write_json(report)
        else:
            rows = {
                "too short, filled up with zeros": report.pop("filled_up"),
                "stepped over": report.pop("damage"),
                "named another place, put right": report.pop("misplaced"),
            }
            tables.write_fields(f"{folder}: recovered", report)
            for title, found in rows.items():
                if found:
                    tables.write_table(title, found)


def salvage_store(
    folder: Folder,
    target: Annotated[str, typer.Argument(metavar="NEW", help="Folder of the new store.")],
    as_json: AsJson = False,
) -> None:
    """Copy every intact record to its own place in a new store; the old one is only read."""
    import os

    import msgspec

    from sprocket.base.clock import SystemClock
    from sprocket.base.disk import RealDisk
    from sprocket.rocketmq.store.repair import salvage

    with output.failing_in_one_line():
        disk = RealDisk()
        require_folder(disk, folder)
        paths = os.path.abspath(folder), os.path.abspath(target)
        with output.progress("copying") as tell:
            report = msgspec.to_builtins(salvage(disk, *paths, SystemClock(), progress=tell))
        if as_json:
            output.write_json(report)
            return
        left, lost = report.pop("left"), report.pop("lost")
        tables.write_fields(f"{folder}: copied to {target}", report)
        if left:
            tables.write_table("left behind", left)
        if lost:
            rows = [{"queue": queue, "messages": count} for queue, count in lost.items()]
            tables.write_table("lost", rows)


def convert_store(
    folder: Folder,
    engine: Annotated[str, typer.Argument(metavar="files|rocksdb", help="The new engine.")],
    as_json: AsJson = False,
) -> None:
    """Give the queues of a closed store to another engine, in place."""
    import msgspec

    from sprocket.base.disk import RealDisk
    from sprocket.rocketmq.settings import Engine
    from sprocket.rocketmq.store.repair import convert

    with output.failing_in_one_line():
        try:
            wanted = msgspec.convert(engine, Engine)
        except msgspec.ValidationError:
            raise SettingsError(f"no engine {engine!r}: expected files or rocksdb") from None
        disk = RealDisk()
        require_folder(disk, folder)
        with output.progress("converting") as tell:
            report = msgspec.to_builtins(convert(disk, folder, wanted, progress=tell))
        if as_json:
            output.write_json(report)
        else:
            tables.write_fields(f"{folder}: converted", report)
