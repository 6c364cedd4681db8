"""What a node keeps: declarations, and a store for each virtual host.

<folder>/sprocket.lock           locked while somebody has it open
<folder>/metadata.json, …        declarations, see `store.metadata_table`
<folder>/sprocket.reserve        room for a start on a full disk, see `store.reserve`
<folder>/msg_stores/vhosts/…     a folder for each virtual host, as in RabbitMQ's own
"""

from contextlib import ExitStack
from typing import Final

import msgspec

from sprocket.base import log, release
from sprocket.base.disk import Disk, Lock, read_file, steps
from sprocket.base.errors import DiskFull, ForeignStore, SettingsError, StoreError, WireError
from sprocket.base.progress import Step, unwatched
from sprocket.rabbitmq.broker import first_start
from sprocket.rabbitmq.broker.access import Users, passwords
from sprocket.rabbitmq.broker.cluster_name import ClusterName
from sprocket.rabbitmq.broker.definitions import Definitions, Followers, Report
from sprocket.rabbitmq.broker.policies import Policies
from sprocket.rabbitmq.broker.topology import Vhosts
from sprocket.rabbitmq.codec import definitions as definitions_codec
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.user import SHA256, User
from sprocket.rabbitmq.settings import AmqpNodeSettings
from sprocket.rabbitmq.store import reserve
from sprocket.rabbitmq.store.layout import OPENED_FROM, vhost_folder
from sprocket.rabbitmq.store.metadata_table import JOURNAL, SNAPSHOT, MetadataTable
from sprocket.rabbitmq.store.vhost import VhostPlace, VhostStore

LOCK: Final = "sprocket.lock"
VHOSTS: Final = "msg_stores/vhosts"
RESERVE_FILES: Final = 2
"""How many files of a write-ahead log are kept back: recovery begins one, and fills segments."""
LIKE_VERSION: Final = "3.10.8"
"""The RabbitMQ whose definitions these are."""

_log = log.get_logger(__name__)


class NodeFolder:
    """See the head of the module; `open` makes one.

    Attributes:
        folder: The path.
        table: Declarations.
        cluster: What clients are told that it is called.
        users: The users that may log in.
        policies: For queues and exchanges.
        vhosts: What was declared.
        definitions: Writes and takes all of that.
        stores: Those that are open, by virtual host; stopping one cleanly removes it.

    Threads: one at a time.
    """

    def __init__(self, disk: Disk, folder: str, lock: Lock, settings: AmqpNodeSettings) -> None:
        self.folder = folder
        self._disk = disk
        self._lock = lock
        self._settings = settings
        self._is_closed = False
        self.table = MetadataTable(disk, folder)
        self.cluster = ClusterName(self.table, settings.amqp.cluster)
        self.users = Users(self.table, settings.amqp.loopback_users)
        self.policies = Policies(self.table)
        self.vhosts = Vhosts(self.table, self.users, self.policies)
        self.definitions = Definitions(
            self.table, self.users, self.vhosts, self.policies, LIKE_VERSION
        )
        self.stores: dict[str, VhostStore] = {}

    @classmethod
    def open(cls, disk: Disk, folder: str, settings: AmqpNodeSettings, step: Step) -> "NodeFolder":
        """Open a node's folder, made if it is missing, whatever its last end was.

        Args:
            disk: Where it lies.
            folder: Its path.
            settings: All groups.
            step: Called with the progress.

        Raises:
            StoreLocked: Somebody has it open.
            ForeignStore: It is something else.
            SettingsError: The definitions that settings name cannot be taken.
            DiskFull, DiskFailed, StoreFailed: Nothing is lost; it may be tried again.
        """
        try:
            found = cls._open(disk, folder, settings, step)
        except DiskFull as error:
            if not reserve.give_up(disk, folder):
                raise
            _log.warning("the disk is full: what was kept back for a start is used", why=str(error))
            found = cls._open(disk, folder, settings, step)
        found.keep_reserve()
        return found

    @classmethod
    def _open(cls, disk: Disk, folder: str, settings: AmqpNodeSettings, step: Step) -> "NodeFolder":
        disk.make_folder(folder)
        with ExitStack() as undo:
            lock = disk.lock(f"{folder}/{LOCK}")
            undo.callback(lock.release)
            for damage in release.admit(disk, folder, OPENED_FROM):
                _log.error("damage was found", what=damage)
            found = cls(disk, folder, lock, settings)
            undo.pop_all()
            undo.callback(found.close)
            first_start.prepare(found.users, found.vhosts)
            for vhost in found.vhosts.removed():
                found.remove_folder(vhost)
                found.vhosts.forget_removed(vhost)
            if settings.amqp.definitions_path:
                found._take(settings.amqp.definitions_path)
            for topology in found.vhosts:
                name = topology.vhost.name
                found.stores[name] = found.open_store(name, step)
            undo.pop_all()
            return found
        raise AssertionError("unreachable")

    def keep_reserve(self) -> None:
        """Keep room back for a start on a full disk. Threads: any."""
        size = RESERVE_FILES * self._settings.vhost_store.log_file_bytes
        reserve.keep(self._disk, self.folder, size)

    def close(self) -> None:
        """Give everything up; stores that are still open are left as after a crash."""
        if self._is_closed:
            return
        self._is_closed = True
        with ExitStack() as last:
            last.callback(self._lock.release)
            last.callback(self.table.close)
            for store in self.stores.values():
                last.callback(store.close)

    def open_store(self, vhost: str, step: Step = unwatched) -> VhostStore:
        """Open the store of a virtual host, made if it is missing; the caller puts it in `stores`.

        Raises:
            StoreError: As `VhostStore.open`.
        Threads: any, for a virtual host that nobody else opens or removes meanwhile.
        """
        settings = self._settings
        store = VhostStore.open(
            VhostPlace(self._disk, self._vhost_folder(vhost), vhost),
            settings.vhost_store,
            settings.vhost_geometry,
            step,
        )
        if store.report.imported:
            count = store.report.imported
            _log.info("queues of version 2 are of version 1 now", vhost=vhost, queues=count)
        for damage in store.report.damage:
            _log.error("damage was found", vhost=vhost, what=damage)
        return store

    def remove_folder(self, vhost: str) -> None:
        """Take away all that a virtual host has kept; its store is closed.

        Raises:
            DiskFailed: Some may be left; it may be tried again.
        Threads: as for `open_store`.
        """
        folder = self._vhost_folder(vhost)
        if self._disk.is_folder(folder):
            self._disk.remove_tree(folder)
            self._disk.sync_folder(f"{self.folder}/{VHOSTS}")

    def _vhost_folder(self, vhost: str) -> str:
        return f"{self.folder}/{VHOSTS}/{vhost_folder(vhost)}"

    def _take(self, path: str) -> None:
        """Take definitions from a file."""
        followers = Followers(
            vhost_made=lambda _: None,  # all of this is looked at once the file is taken
            queue_made=lambda _: None,
            queues_changed=lambda _: None,
        )
        report = Report()
        try:
            file = definitions_codec.decode(read_file(self._disk, path))
            steps.run(self.definitions.take_steps(file, followers, report))
        except RequestRefused as error:
            raise SettingsError(f"amqp.definitions_path: {path}: {error.remark}") from error
        except (WireError, StoreError) as error:
            raise SettingsError(f"amqp.definitions_path: {path}: {error}") from error
        _log.info("definitions were taken", path=path, **report.taken)


def restore_administrator(disk: Disk, folder: str, name: str, password: str) -> bool:
    """Give a user of a stopped node a password and the tag of an administrator; made if missing.

    Returns:
        Whether they are new.

    Raises:
        StoreLocked: The node runs.
        ForeignStore: There is no node's folder.
        DiskFull, DiskFailed: All is as before.
    Durability: on the disk when it returns.
    """
    if not any(disk.exists(f"{folder}/{one}") for one in (SNAPSHOT, JOURNAL)):
        raise ForeignStore(f"{folder}: there is no AMQP node: expected {SNAPSHOT} or {JOURNAL}")
    with ExitStack() as last:
        last.callback(disk.lock(f"{folder}/{LOCK}").release)
        table = MetadataTable(disk, folder)
        last.callback(table.close)
        users = Users(table)
        before = users.get(name)
        kept = before or User(name=name)
        users.put(
            msgspec.structs.replace(
                kept,
                password_hash=passwords.hashed(password.encode()),
                hashing_algorithm=SHA256,
                tags=tuple(dict.fromkeys((*kept.tags, first_start.ADMINISTRATOR))),
            )
        )
        steps.run(table.flush_steps())
        return before is None
