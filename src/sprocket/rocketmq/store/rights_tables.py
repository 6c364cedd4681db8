"""Users and policies on the disk, as RocketMQ 5.3.3 keeps them: two RocksDBs below `config`.

    config/users   key: the name of the user            value: the user as JSON
    config/acls    key: the subject, such as User:bob   value: its policies as JSON

Both have the column families that RocketMQ opens, of which only `default` is used. A change is on
the disk when the method that makes it returns. RocketMQ's own is not: its write-ahead log is given
to the system and not synced.

Source: `LocalAuthenticationMetadataProvider`, `LocalAuthorizationMetadataProvider`,
`ConfigRocksDBStorage`; docs/formats/rights.md.
"""

from collections.abc import Callable
from typing import TypeVar

from sprocket.base.disk import Disk
from sprocket.base.errors import CorruptRecord, WireError
from sprocket.rocketmq.codec.config import kept_rights
from sprocket.rocketmq.model.rights import Acl, AclUser
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import Database, is_database, read_all

FAMILIES = ("default", "kvDataVersion", "forbidden")

V = TypeVar("V")


class RightsTables:
    """Both tables of a store, open.

    Args:
        disk: Where the store lies; only the operating system's will do.
        folder: The store's.

    Raises:
        StoreError: As `Database`.
    Threads: any, one at a time.
    """

    def __init__(self, disk: Disk, folder: str) -> None:
        layout = StoreLayout(folder)
        self._users = Database(disk, layout.users, FAMILIES, write=True)
        try:
            self._acls = Database(disk, layout.acls, FAMILIES, write=True)
        except BaseException:
            self._users.close()
            raise

    def users(self) -> list[AclUser]:
        """Return all users. Raises CorruptRecord."""
        return _all(self._users, kept_rights.decode_user)

    def acls(self) -> list[Acl]:
        """Return the policies of all subjects. Raises CorruptRecord."""
        return _all(self._acls, kept_rights.decode_acl)

    def put_user(self, user: AclUser) -> None:
        """Add or replace a user, durably. Raises StoreError."""
        _put(self._users, user.name, kept_rights.encode_user(user))

    def delete_user(self, name: str) -> None:
        """Remove a user, durably. Raises StoreError."""
        _delete(self._users, name)

    def put_acl(self, acl: Acl) -> None:
        """Add or replace the policies of a subject, durably. Raises StoreError."""
        _put(self._acls, acl.subject, kept_rights.encode_acl(acl))

    def delete_acl(self, subject: str) -> None:
        """Remove the policies of a subject, durably. Raises StoreError."""
        _delete(self._acls, subject)

    def close(self) -> None:
        """Give the files up; closing twice is allowed."""
        self._users.close()
        self._acls.close()


def copy_rights(disk: Disk, source: str, target: str) -> int:
    """Copy both tables of a store that somebody may have open, as far as they are there.

    The databases are read, not their files copied: an open one removes files at any time.

    Args:
        disk: Where both are.
        source: The store's folder.
        target: That of the copy.

    Returns:
        Bytes of what they hold.

    Raises:
        StoreError: As `Database`.
    """
    old, new = StoreLayout(source), StoreLayout(target)
    size = 0
    for path, copied in ((old.users, new.users), (old.acls, new.acls)):
        if not is_database(disk, path):
            continue
        found = read_all(disk, path)
        database = Database(disk, copied, FAMILIES, write=True)
        try:
            batch = database.batch()
            for key, value in found.items():
                batch.put(key, value)
                size += len(key) + len(value)
            database.write(batch)
            database.flush()
        finally:
            database.close()
    return size


def _all(database: Database, decode: Callable[[str, bytes], V]) -> list[V]:
    found = []
    for key, value in database.all():
        try:
            found.append(decode(key.decode(), value))
        except (WireError, UnicodeDecodeError) as error:
            raise CorruptRecord(f"{database.folder}: key {key!r}: {error}") from error
    return found


def _put(database: Database, key: str, value: bytes) -> None:
    batch = database.batch()
    batch.put(key.encode("utf-8", "replace"), value)
    database.write(batch)
    database.flush()


def _delete(database: Database, key: str) -> None:
    batch = database.batch()
    batch.delete(key.encode("utf-8", "replace"))
    database.write(batch)
    database.flush()
