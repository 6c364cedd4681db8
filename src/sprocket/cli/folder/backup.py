"""`sprocket backup` and `check`: everything that `sprocket up` keeps in its folder, as a whole."""

import os
from functools import partial
from typing import Annotated

import typer

from sprocket.base.errors import ForeignStore
from sprocket.cli.folder import rabbit_store, repair
from sprocket.cli.folder.repair import AsJson
from sprocket.cli.terminal import CommandAnswer, output, tables

Folder = Annotated[str, typer.Argument(metavar="DIR", help="The folder of `sprocket up`.")]


def backup(
    folder: Folder,
    target: Annotated[str, typer.Argument(metavar="NEW", help="The new folder; not there yet.")],
    as_json: AsJson = False,
) -> None:
    """Copy all that `sprocket up` keeps, while it runs or not; NEW is a folder to start on.

    What was acknowledged before the backup began is in it.
    """
    import msgspec

    from sprocket.node import backup as backups

    with repair.disk_of(folder) as disk:
        paths = os.path.abspath(folder), os.path.abspath(target)
        with output.progress() as step:
            done = backups.back_up(disk, *paths, step)
        told = msgspec.to_builtins(done) | {"folder": paths[1]}

        def show() -> None:
            opened = " and ".join(done.was_open) or "nothing"
            fields = {"bytes": done.bytes, "was open": opened}
            if done.store is not None:
                fields["bytes of log"] = done.store.end
            for path, one in done.vhosts.items():
                fields[os.path.basename(path)] = f"{one.messages:,} messages"
            tables.write_fields(f"{folder}: backed up as {target}", fields)

        CommandAnswer([told], show).write(as_json=as_json)


def check(folder: Folder, as_json: AsJson = False) -> None:
    """Report each broken rule of all that `sprocket up` keeps; exit with 1 if there are any."""
    from sprocket.node.rabbitmq import FOLDER as NODE_FOLDER
    from sprocket.rabbitmq.store import reading

    output.end_quietly_with_the_reader()
    with repair.disk_of(folder) as disk:
        root = folder.rstrip("/") or "/"
        has_store = disk.is_folder(f"{root}/commitlog")
        vhosts = reading.vhost_folders(disk, f"{root}/{NODE_FOLDER}")
        if not has_store and not vhosts:
            raise ForeignStore(f"{folder}: there is neither a store nor a virtual host")
        checks = [partial(rabbit_store.vhost_findings, disk, vhosts)]
        if has_store:
            checks.insert(0, partial(repair.store_findings, disk, root))
        comment = partial(repair.warn_if_open, disk, root)
        repair.write_findings(root, checks, as_json=as_json, comment=comment)
