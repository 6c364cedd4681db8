"""A copy of a store's folder while a broker has it open, as a crash would have left it.

What refers to the log is copied before it, and the log from its end to its beginning, so that it
has every record that the other files refer to. Its files are opened first, and new ones as they
come: those that are deleted meanwhile are in the copy all the same. A database of queues is left
out, since its files are removed at any time; recovery makes it again from the log. Those of users
and policies are read, and written anew.

What is acknowledged before a copy begins is in it. Source: docs/formats/store-folder.md.
"""

from collections.abc import Container
from contextlib import ExitStack, suppress
from posixpath import basename

from sprocket.base.disk import Disk, File, copying
from sprocket.base.errors import FileMissing
from sprocket.base.progress import Step, unwatched
from sprocket.rocketmq.store.compaction import copy_kept
from sprocket.rocketmq.store.layout import StoreLayout, trash
from sprocket.rocketmq.store.rights_tables import copy_rights

DATABASE_MARK = "CURRENT"
"""A file that the folder of queues has if it is a RocksDB."""


def back_up_store(
    disk: Disk,
    source: str,
    target: str,
    others: Container[str] = (),
    step: Step = unwatched,
) -> int:
    """Copy the folder of a store that is open, or was killed.

    Args:
        disk: Where both are.
        source: The store's.
        target: The new one; its parent exists.
        others: Names in it that are not the store's, and are left out.
        step: Is told how many files of the log were copied.

    Returns:
        Bytes.

    Raises:
        DiskFull, DiskFailed: The copy is of no use.
    Durability: none before `Disk.sync_tree`.
    """
    old, new = StoreLayout(source), StoreLayout(target)
    passed_over = {
        basename(path)
        for path in (
            *(old.lock, old.room, old.rebuilt, old.new_consumequeue, trash(old.consumequeue)),
            *(trash(old.extension), trash(old.batch_queues)),
            *(old.compaction, trash(old.compaction)),
        )
    }
    by_hand = {basename(path) for path in (old.config, old.index, old.commitlog)}
    with ExitStack() as at_the_end:
        log: dict[str, File] = {}

        def open_log() -> None:
            for name in disk.sizes(old.commitlog):
                if name not in log:
                    with suppress(FileMissing):
                        log[name] = disk.open(f"{old.commitlog}/{name}")
                        at_the_end.callback(log[name].close)

        open_log()
        disk.make_folder(target, durable=False)
        size = 0
        for path in (old.checkpoint, old.abort):
            with suppress(FileMissing):
                size += copying.copy_path(disk, path, f"{target}/{basename(path)}")
                by_hand.add(basename(path))
        rights = {basename(path) for path in (old.users, old.acls, old.rights_note)}
        size += copying.copy_tables(disk, old.config, new.config, lambda name: name not in rights)
        size += copy_rights(disk, source, target)
        if disk.exists(f"{old.consumequeue}/{DATABASE_MARK}"):
            passed_over.add(basename(old.consumequeue))

        def is_wanted(name: str) -> bool:
            return name not in passed_over and name not in by_hand and name not in others

        size += copy_kept(disk, old, new, open_log)
        size += copying.copy_tree(disk, source, target, is_wanted, open_log)
        size += copying.copy_tree(disk, old.index, new.index, after_each=open_log)
        disk.make_folder(new.commitlog, durable=False)
        open_log()
        end = ""
        for number, name in enumerate(sorted(log, reverse=True)):
            if end and f"{int(name) + log[name].size():020}" != end:
                break  # those between were made and deleted while one file was copied
            step("files of the log", number, len(log))
            size += copying.copy_filled(disk, log[name], f"{new.commitlog}/{name}")
            end = name
        return size
