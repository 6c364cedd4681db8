"""Folders with users and policies, as brokers leave them, and what is in them."""

import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import rocksdict

from sprocket.base.disk import RealDisk
from sprocket.base.errors import StoreError
from sprocket.rocketmq.codec.config import kept_rights
from sprocket.rocketmq.model.rights import (
    Acl,
    AclPolicy,
    AclUser,
    Action,
    Decision,
    PolicyEntry,
    PolicyType,
    UserType,
    of_topic,
)
from sprocket.rocketmq.store.queue import rocks_database
from sprocket.rocketmq.store.rights_tables import FAMILIES, RightsTables

DISK = RealDisk()
RECORDED = Path(__file__).parents[3] / "data" / "rocketmq-5.3.3" / "rights-store.tar.xz"


@dataclass(frozen=True)
class Kept:
    """All that a folder says."""

    users: tuple[AclUser, ...]
    acls: tuple[Acl, ...]


def opened(folder: Path) -> Kept:
    """Return what a start finds. Raises StoreError."""
    tables = RightsTables(DISK, str(folder))
    try:
        return Kept(tuple(tables.users()), tuple(tables.acls()))
    finally:
        tables.close()


def outcome(folder: Path) -> Kept | StoreError:
    """Return what a start finds, or the error with which it is refused."""
    try:
        return opened(folder)
    except StoreError as error:
        return error


def files(folder: Path) -> Mapping[str, bytes]:
    """Return the contents of all files of a folder by their names in it, but for RocksDB's logs."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith("LOG")
    }


def put_back(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Make a folder that has these files only."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def acl(name: str, *actions: Action) -> Acl:
    """Return what allows a user something with one topic."""
    entry = PolicyEntry(resource=of_topic("orders"), actions=actions, decision=Decision.ALLOW)
    return Acl(f"User:{name}", (AclPolicy(PolicyType.CUSTOM, (entry,)),))


def stopped(folder: Path, copy: Path) -> None:
    """Leave what a broker of ours leaves that is stopped after its last changes."""
    _change(folder).close()
    shutil.copytree(folder, copy)


def killed(folder: Path, copy: Path) -> None:
    """Leave what one leaves that is killed."""
    tables = _change(folder)
    shutil.copytree(folder, copy)
    tables.close()


def rocketmq_stopped(folder: Path, copy: Path) -> None:
    """Leave what a real broker left that was stopped."""
    del folder
    with tarfile.open(RECORDED) as archive:
        archive.extractall(copy / "config")  # noqa: S202 - an archive of our own


def rocketmq_killed(folder: Path, copy: Path) -> None:
    """Leave what a real broker leaves that is killed: its changes are in a write-ahead log."""
    stopped(folder, copy)
    users = _database(copy / "config/users")
    users[b"root"] = kept_rights.encode_user(AclUser("root", "newest", UserType.SUPER))
    del users[b"bob"]
    acls = _database(copy / "config/acls")
    acls[b"User:dora"] = kept_rights.encode_acl(acl("dora", Action.SUB))
    left = files(copy)
    users.close()
    acls.close()
    put_back(copy, left)


LEFT = {one.__name__: one for one in (stopped, killed, rocketmq_stopped, rocketmq_killed)}


def _change(folder: Path) -> RightsTables:
    """Make users and policies, open them again, and change them; the last changes take rights."""
    tables = RightsTables(DISK, str(folder))
    for name in ("root", "bob", "carol", "dora"):
        kind = UserType.SUPER if name == "root" else UserType.NORMAL
        tables.put_user(AclUser(name, f"{name}-secret", kind))
        tables.put_acl(acl(name, Action.PUB, Action.SUB))
    tables.close()
    tables = RightsTables(DISK, str(folder))
    tables.put_acl(acl("dora", Action.PUB))
    tables.delete_acl("User:carol")
    tables.delete_user("carol")
    tables.put_user(AclUser("root", "newer", UserType.SUPER))
    return tables


def _database(folder: Path) -> "rocksdict.Rdict":
    options = {name: rocks_database.database_options(name) for name in FAMILIES}
    return rocksdict.Rdict(
        str(folder),
        rocks_database.database_options("default"),
        options,
        rocksdict.AccessType.read_write(),
    )
