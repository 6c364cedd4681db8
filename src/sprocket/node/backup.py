"""The folder that `sprocket up` keeps, as a whole: a backup of it, and what recovery does to one.

What nobody has open is copied as it is. What somebody has open is copied as a crash would leave it
(`store.repair.backup` of each product), and the copy is recovered, so that it is one of a clean
stop. A backup has its name once it is whole and on the disk.
"""

from contextlib import ExitStack, closing
from posixpath import basename, dirname

from msgspec import Struct

from sprocket.base.clock import SystemClock
from sprocket.base.disk import Disk, copying, steps
from sprocket.base.errors import ForeignStore, StoreLocked
from sprocket.base.place import Place
from sprocket.base.progress import Step, unwatched
from sprocket.node.rabbitmq import FOLDER as NODE_FOLDER
from sprocket.rabbitmq.broker.node_folder import LOCK
from sprocket.rabbitmq.settings import VhostGeometry, VhostStoreSettings
from sprocket.rabbitmq.store.layout import VhostLayout
from sprocket.rabbitmq.store.metadata_table import MetadataTable
from sprocket.rabbitmq.store.reading import VhostReader, vhost_folders
from sprocket.rabbitmq.store.recovery import VhostReport
from sprocket.rabbitmq.store.repair import back_up_node
from sprocket.rabbitmq.store.vhost import VhostPlace, VhostStore
from sprocket.rocketmq.broker.admin import fold
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store import opening
from sprocket.rocketmq.store.layout import StoreLayout, require_store
from sprocket.rocketmq.store.recovery import RecoveryReport
from sprocket.rocketmq.store.repair import back_up_store
from sprocket.rocketmq.store.store import Store

UNFINISHED = ".part"
"""How the name of a backup ends while it is being made."""
_LEFT = "is left of a backup that did not end; remove it, or choose another name"


class Backup(Struct, frozen=True, kw_only=True):
    """What was backed up.

    Attributes:
        bytes: Of the files that were copied, with their holes.
        was_open: What somebody had open: `store`, the folder `rabbitmq`, or both.
        store: What recovery did to the copy of the store, if that was open.
        vhosts: The same of each virtual host, by the path of its folder in the backup.
    """

    bytes: int
    was_open: list[str]
    store: RecoveryReport | None = None
    vhosts: dict[str, VhostReport]


def back_up(disk: Disk, source: str, target: str, step: Step = unwatched) -> Backup:
    """Copy the folder of `sprocket up`, whether somebody has it open or not.

    Args:
        disk: Where both are.
        source: The folder; it has a store of RocketMQ, an AMQP node in `rabbitmq`, or both.
        target: The new folder, which is not there yet, outside of the other.
        step: Is told how far it is.

    Raises:
        ForeignStore: `source` has neither, or there is something called like `target`.
        StoreLocked: Somebody else is making a backup.
        DiskFull, DiskFailed: There is no backup; what was copied is removed.
    Durability: on return the backup is on the disk.
    """
    store, node = StoreLayout(source), f"{source}/{NODE_FOLDER}"
    has_store, has_node = disk.is_folder(store.commitlog), disk.is_folder(node)
    part = f"{target}{UNFINISHED}"
    if not (has_store or has_node):
        raise ForeignStore(f"{source}: there is neither a folder commitlog nor {NODE_FOLDER}")
    for path in (target, part):
        if disk.exists(path):
            is_unfinished = path.endswith(UNFINISHED)
            raise ForeignStore(f"{path} {_LEFT if is_unfinished else 'is there already'}")
    copying.require_outside(target, source)
    disk.make_folder(part)
    try:
        with ExitStack() as locks:
            is_store_open = has_store and not _lock(disk, store.lock, locks)
            is_node_open = has_node and not _lock(disk, f"{node}/{LOCK}", locks)
            if is_store_open:
                size = back_up_store(disk, source, part, (NODE_FOLDER,), step)
            else:
                size = _copy_closed(disk, source, part)
            if has_node:
                copy = back_up_node if is_node_open else _copy_closed
                size += copy(disk, node, f"{part}/{NODE_FOLDER}")
        disk.sync_tree(part)
        folders = vhost_folders(disk, f"{part}/{NODE_FOLDER}") if is_node_open else []
        found = Backup(
            bytes=size,
            was_open=["store"] * is_store_open + [NODE_FOLDER] * is_node_open,
            store=recover_store(disk, part, step)[0] if is_store_open else None,
            vhosts={
                f"{target}{folder.removeprefix(part)}": recover_vhost(disk, folder, step)
                for folder in folders
            },
        )
        if is_node_open:
            MetadataTable(disk, f"{part}/{NODE_FOLDER}").close()
        disk.sync_tree(part)
        disk.rename(part, target)
        disk.sync_folder(dirname(target))
    except BaseException:
        disk.remove_tree(part)
        raise
    return found


def recover_store(
    disk: Disk, folder: str, step: Step = unwatched, *, whole: bool = False
) -> tuple[RecoveryReport, list[str]]:
    """Do to a store of RocketMQ what a broker's start would do, and close it cleanly.

    Args:
        disk: Where it is.
        folder: The store's; nobody has it open.
        step: Is told how far it is.
        whole: Look at the whole log, and make queues and index again from it.

    Returns:
        What was done, and the tables that were written anew.

    Raises:
        StoreError: As `Store.open` and `fold`.
    """
    require_store(disk, folder)
    if whole:
        opening.distrust(disk, folder)
    clock = SystemClock()
    settings = StoreSettings(fill_ahead_bytes=0)
    with closing(Store.open(disk, folder, settings, clock, step=step)) as store:
        folded = fold(Place(disk, folder, clock), store)
    return store.report, folded


def recover_vhost(disk: Disk, folder: str, step: Step = unwatched) -> VhostReport:
    """Do to the folder of a virtual host what a start would do, and close it cleanly.

    Args:
        disk: Where it is.
        folder: Its path; nobody has it open.
        step: Is told how far it is.

    Raises:
        StoreError: As `VhostStore.open` and `close_steps`.
    """
    with closing(VhostReader(disk, folder)) as reader:
        vhost = reader.name if disk.exists(reader.layout.name) else ""
    place = VhostPlace(disk, folder, vhost)
    with closing(VhostStore.open(place, VhostStoreSettings(), VhostGeometry(), step)) as store:
        steps.run(store.close_steps())
    return store.report


def _lock(disk: Disk, path: str, locks: ExitStack) -> bool:
    """Lock what nobody has open; say whether that is so."""
    try:
        locks.callback(disk.lock(path).release)
    except StoreLocked:
        return False
    return True


def _copy_closed(disk: Disk, source: str, target: str) -> int:
    """Copy what nobody has open: all but locks, and last what must not be older than the rest.

    To open a file that is locked, and close it, would give up the lock.
    """
    last = basename(StoreLayout(source).config)
    vhost = VhostLayout("")
    left_out = {LOCK, NODE_FOLDER, basename(StoreLayout(source).lock), basename(vhost.upkeep_lock)}
    size = copying.copy_tree(disk, source, target, lambda name: name not in {*left_out, last})
    if disk.is_folder(f"{source}/{last}"):
        size += copying.copy_tree(disk, f"{source}/{last}", f"{target}/{last}")
    return size
