"""Users and policies on the disk, as RocketMQ 5.3.3 keeps them: two RocksDBs below `config`.

    config/users   key: the name of the user            value: the user as JSON
    config/acls    key: the subject, such as User:bob   value: its policies as JSON

Both have the column families that RocketMQ opens, of which only `default` is used. A change is on
the disk when the method that makes it returns. RocketMQ's own is not: its write-ahead log is given
to the system and not synced.

Nobody's rights are guessed. Each opening looks first, and changes nothing where a table is damaged:

1. RocksDB reads all of it, checks sums, and refuses a write-ahead log that is not whole.
2. It has at least what our note says (`rights_note`): a later change, or the same one and the same
   rows.
3. If others had it open since, RocketMQ or an older release, it has a write-ahead log, and its
   manifest ends where a record does. In one of ours the end may be torn: a power cut leaves that of
   a change that was not answered.

Source: `LocalAuthenticationMetadataProvider`, `LocalAuthorizationMetadataProvider`,
`ConfigRocksDBStorage`; docs/formats/rights.md.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import TypeVar

from sprocket.base import log
from sprocket.base.disk import Disk, read_file
from sprocket.base.errors import CorruptRecord, StoreError, WireError
from sprocket.rocketmq.codec import rocks_log
from sprocket.rocketmq.codec.config import kept_rights
from sprocket.rocketmq.errors import EngineMissing
from sprocket.rocketmq.model.rights import Acl, AclUser
from sprocket.rocketmq.store import rights_note
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import CURRENT, Database, is_database
from sprocket.rocketmq.store.rights_note import NOTHING, TableNote, row_sum

_log = log.get_logger(__name__)

FAMILIES = ("default", "kvDataVersion", "forbidden")

_MANIFEST = re.compile(rb"MANIFEST-\d{6,20}\n")
"""What the file CURRENT holds."""
_DATA = re.compile(r"\d+\.(sst|log)")
"""Files that hold rows."""

_ADVICE = "Restore the folder config from a backup."

V = TypeVar("V")


class RightsTables:
    """Both tables of a store, open.

    Args:
        disk: Where the store lies; only the operating system's will do.
        folder: The store's.

    Raises:
        StoreError: As `Database`; CorruptRecord also if one of them has less than it must, and then
            no byte of them has changed.
    Threads: any, one at a time.
    """

    def __init__(self, disk: Disk, folder: str) -> None:
        layout = StoreLayout(folder)
        self._disk = disk
        self._note = layout.rights_note
        noted = rights_note.load(disk, self._note)
        before = {
            name: _looked_at(disk, path, noted.get(name)).note
            for name, path in _paths(layout).items()
        }
        disk.make_folder(layout.config)
        # While they are being opened their manifests are new ones, whose ends may be torn.
        rights_note.replace(disk, self._note, before)
        self._users = _Table(disk, layout.users)
        try:
            self._acls = _Table(disk, layout.acls)
        except BaseException:
            self._users.close()
            raise
        try:
            for name, table in self._tables().items():
                _require(table.folder, table.noted(), before[name])
            self._take_note()
        except BaseException:
            self.close()
            raise

    def users(self) -> list[AclUser]:
        """Return all users. Raises CorruptRecord."""
        return self._users.all(kept_rights.decode_user)

    def acls(self) -> list[Acl]:
        """Return the policies of all subjects. Raises CorruptRecord."""
        return self._acls.all(kept_rights.decode_acl)

    def put_user(self, user: AclUser) -> None:
        """Add or replace a user, durably. Raises StoreError."""
        self._users.put(user.name, kept_rights.encode_user(user))
        self._take_note()

    def delete_user(self, name: str) -> None:
        """Remove a user, durably. Raises StoreError."""
        self._users.put(name, None)
        self._take_note()

    def put_acl(self, acl: Acl) -> None:
        """Add or replace the policies of a subject, durably. Raises StoreError."""
        self._acls.put(acl.subject, kept_rights.encode_acl(acl))
        self._take_note()

    def delete_acl(self, subject: str) -> None:
        """Remove the policies of a subject, durably. Raises StoreError."""
        self._acls.put(subject, None)
        self._take_note()

    def put_all(self, users: Iterable[AclUser], acls: Iterable[Acl]) -> None:
        """Add or replace many users and policies, durably: first all policies, then all users.

        Raises:
            StoreError: There are none of these, all policies without a user, or all.
        """
        self._acls.put_all({_key(acl.subject): kept_rights.encode_acl(acl) for acl in acls})
        self._users.put_all({_key(user.name): kept_rights.encode_user(user) for user in users})
        self._take_note()

    def close(self) -> None:
        """Give the files up; closing twice is allowed."""
        for table in self._tables().values():
            table.close()

    def _tables(self) -> Mapping[str, "_Table"]:
        return {"users": self._users, "acls": self._acls}

    def _take_note(self) -> None:
        notes = {name: table.noted() for name, table in self._tables().items()}
        rights_note.replace(self._disk, self._note, notes)


def copy_rights(disk: Disk, source: str, target: str) -> int:
    """Copy both tables of a store that somebody may have open, as far as they are there.

    The databases are read, not their files copied: an open one removes files at any time.

    Args:
        disk: Where both are.
        source: The store's folder.
        target: That of the copy; it has none of them.

    Returns:
        Bytes of what they hold.

    Raises:
        StoreError: As `RightsTables`.
    """
    old, new = StoreLayout(source), StoreLayout(target)
    noted = rights_note.load(disk, old.rights_note)  # before its rows: these are never less
    notes = {}
    size = 0
    for name, path in _paths(old).items():
        rows = _looked_at(disk, path, noted.get(name)).rows
        if not is_database(disk, path):
            continue
        copy = _Table(disk, _paths(new)[name])
        try:
            copy.put_all(rows)
            notes[name] = copy.noted()
        finally:
            copy.close()
        size += sum(len(key) + len(value) for key, value in rows.items())
    if notes:
        rights_note.replace(disk, new.rights_note, notes)
    return size


def wrong(disk: Disk, folder: str) -> Iterator[tuple[str, StoreError]]:
    """Give what is wrong with the tables of a store, by their folders; they are left as they are.

    Nothing is said where RocksDB cannot read them: without its package, and on other disks.
    """
    layout = StoreLayout(folder)
    try:
        noted = rights_note.load(disk, layout.rights_note)
    except StoreError as error:
        yield layout.rights_note, error
        return
    for name, path in _paths(layout).items():
        try:
            _looked_at(disk, path, noted.get(name))
        except EngineMissing:
            return
        except StoreError as error:
            yield path, error


class _Table:
    """One of both databases, open, and what is to be noted of it."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self.folder = folder
        self._disk = disk
        self._database = Database(disk, folder, FAMILIES, write=True, whole_log=True)
        try:
            self._sums = {key: row_sum(key, value) for key, value in self._database.all()}
        except BaseException:
            self._database.close()
            raise
        self._sum = _joined(self._sums.values())

    def all(self, decode: Callable[[str, bytes], V]) -> list[V]:
        """Return all rows. Raises CorruptRecord."""
        found = []
        for key, value in self._database.all():
            try:
                found.append(decode(key.decode(), value))
            except (WireError, UnicodeDecodeError) as error:
                raise CorruptRecord(f"{self.folder}: key {key!r}: {error}") from error
        return found

    def put(self, name: str, value: bytes | None) -> None:
        """Give a row a value, or remove it, durably. Raises StoreError."""
        self.put_all({_key(name): value})

    def put_all(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Give rows values, or remove those without one, all or none. Raises StoreError."""
        batch = self._database.batch()
        for key, value in rows.items():
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        self._database.write(batch)
        for key, value in rows.items():
            new = 0 if value is None else row_sum(key, value)
            self._sum ^= self._sums.pop(key, 0) ^ new
            if value is not None:
                self._sums[key] = new
        self._database.flush()

    def noted(self) -> TableNote:
        """Return what it holds, durably if the last change did not fail."""
        return TableNote(
            manifest=_manifest(self._disk, self.folder),
            change=self._database.last_change(),
            rows=len(self._sums),
            sum=f"{self._sum:032x}",
        )

    def close(self) -> None:
        """Give the files up; closing twice is allowed."""
        self._database.close()


@dataclass(frozen=True, slots=True)
class _Found:
    """What a database holds that nobody of us has open."""

    rows: Mapping[bytes, bytes]
    note: TableNote


def _looked_at(disk: Disk, folder: str, noted: TableNote | None) -> _Found:
    """Return what a database holds, which is left as it is; nothing if it is not there.

    Raises:
        CorruptRecord: It is damaged, or has less than was noted.
        StoreError: As `Database`.
    """
    if not is_database(disk, folder):
        left = disk.sizes(folder)
        if any(_DATA.fullmatch(name) and size for name, size in left.items()):
            raise CorruptRecord(f"{folder} has files of a database, but not {CURRENT}. {_ADVICE}")
        _require(folder, NOTHING, noted or NOTHING)
        return _Found({}, NOTHING)
    manifest = _manifest(disk, folder)
    is_ours = noted is not None and noted.manifest in ("", manifest)
    if not is_ours:
        _require_whole(disk, folder, manifest)
    database = Database(disk, folder, write=False, whole_log=True)
    try:
        rows = dict(database.all())
        change = database.last_change()
    finally:
        database.close()
    total = _joined(row_sum(key, value) for key, value in rows.items())
    found = TableNote(change=change, rows=len(rows), sum=f"{total:032x}")
    _require(folder, found, noted or NOTHING)
    if noted is not None and not is_ours and change > noted.change:
        _log.info("another program has changed it", folder=folder, changes=change - noted.change)
    return _Found(rows, found)


def _require_whole(disk: Disk, folder: str, manifest: str) -> None:
    """Check what another program left, as far as RocksDB does not. Raises CorruptRecord."""
    if not any(name.endswith(".log") for name in disk.sizes(folder)):
        raise CorruptRecord(f"{folder} has no write-ahead log, which may have had rows. {_ADVICE}")
    path = f"{folder}/{manifest}"
    try:
        rocks_log.check_ends(read_file(disk, path))
    except WireError as error:
        raise CorruptRecord(f"{path}: {error}. {_ADVICE}") from error


def _require(folder: str, found: TableNote, noted: TableNote) -> None:
    """Check that a database has what was noted. Raises CorruptRecord."""
    is_same = (found.rows, found.sum) == (noted.rows, noted.sum)
    if found.change < noted.change or (found.change == noted.change and not is_same):
        raise CorruptRecord(
            f"{folder} has {found.rows} rows as of change {found.change}, but {noted.rows} rows as "
            f"of change {noted.change} were on the disk. {_ADVICE} To go on with what is left, "
            "remove config/sprocket.rights first"
        )


def _manifest(disk: Disk, folder: str) -> str:
    """Return the name of the newest manifest of a database. Raises CorruptRecord."""
    named = read_file(disk, f"{folder}/{CURRENT}")
    if not _MANIFEST.fullmatch(named):
        raise CorruptRecord(
            f"{folder}/{CURRENT} does not name a manifest: {named[:50]!r}. {_ADVICE}"
        )
    return named.decode().removesuffix("\n")


def _key(name: str) -> bytes:
    return name.encode("utf-8", "replace")


def _paths(layout: StoreLayout) -> Mapping[str, str]:
    return {"users": layout.users, "acls": layout.acls}


def _joined(sums: Iterable[int]) -> int:
    return reduce(xor, sums, 0)
