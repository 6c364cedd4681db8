"""A broker's rights at its start: who is made, and what is refused."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base.disk import RealDisk
from sprocket.base.errors import SettingsError, StoreError
from sprocket.rocketmq.broker.rights import Rights, check_settings, open_tables
from sprocket.rocketmq.model.rights import (
    Acl,
    AclPolicy,
    AclResource,
    AclUser,
    Action,
    Decision,
    PolicyEntry,
    PolicyType,
    UserType,
)
from sprocket.rocketmq.settings import RightsSettings
from sprocket.rocketmq.store.queue import Database
from sprocket.rocketmq.store.rights_tables import FAMILIES
from sprocket.runtime import driver
from sprocket.runtime.offload import DiskThread


def opened(folder: Path, **settings: Any) -> list[AclUser]:
    """Open the tables of a folder, and return the users that they have then."""
    tables = open_tables(RealDisk(), str(folder), RightsSettings(authentication=True, **settings))
    found = tables.users()
    tables.close()
    return found


def test_users_of_the_settings_are_made_once(tmp_path: Path) -> None:
    """A later start leaves them as they are by then."""
    first = opened(
        tmp_path,
        initial_user="root",
        initial_password="a",  # noqa: S106
        inner_user="inner",
        inner_password="b",  # noqa: S106
    )
    assert first == [AclUser("inner", "b", UserType.SUPER), AclUser("root", "a", UserType.SUPER)]
    assert first == opened(tmp_path, initial_user="root", initial_password="other")  # noqa: S106
    assert first == opened(tmp_path)


def test_a_broker_without_users_is_refused(tmp_path: Path) -> None:
    """Nobody could ever log in."""
    with pytest.raises(SettingsError, match=r"rights\.initial_user"):
        opened(tmp_path)
    assert opened(tmp_path, initial_user="root", initial_password="a")  # noqa: S106


@pytest.mark.parametrize("which", ["initial", "inner"])
def test_a_user_needs_a_password(tmp_path: Path, which: str) -> None:
    """And a password a user."""
    for part in ("user", "password"):
        with pytest.raises(SettingsError, match=rf"{which}_user and rights\.{which}_password"):
            opened(tmp_path, **{f"{which}_{part}": "x"})


def test_policies_without_signatures_are_refused() -> None:
    """Anybody could claim to be anybody, as in RocketMQ."""
    with pytest.raises(SettingsError, match=r"needs rights\.authentication"):
        check_settings(RightsSettings(authorization=True))
    check_settings(RightsSettings(authorization=True, authentication=True))
    check_settings(RightsSettings())


def test_what_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    """Nobody's rights are guessed."""
    for value in (b"", b"[1]", b'{"userType":9}', json.dumps({"userStatus": "on"}).encode()):
        database = Database(RealDisk(), str(tmp_path / "config" / "users"), FAMILIES, write=True)
        batch = database.batch()
        batch.put(b"root", value)
        database.write(batch)
        database.close()
        with pytest.raises(StoreError, match="root"):
            opened(tmp_path)


def test_changes_are_made_on_the_disks_thread(tmp_path: Path) -> None:
    """In the order in which they were asked for, and told on the loop."""

    async def main() -> None:
        settings = RightsSettings(initial_user="root", initial_password="a")  # noqa: S106
        tables = open_tables(RealDisk(), str(tmp_path), settings)
        thread = DiskThread()
        rights = Rights(tables, thread)
        ended: list[StoreError | None] = []
        done = asyncio.Event()

        def last(error: StoreError | None) -> None:
            ended.append(error)
            done.set()

        rights.users.create("alice", "a", None, None, ended.append)
        rights.users.update("alice", "b", None, None, last)
        assert not ended
        async with asyncio.timeout(LONG_SECONDS):
            await done.wait()
        await thread.stop()
        assert ended == [None, None]
        assert tables.users()[0] == AclUser("alice", "b")
        tables.close()

    driver.run(main())


def policies_of(subject: str, *topics: str) -> Acl:
    """Return policies that allow to send to topics."""
    entries = [
        PolicyEntry(
            resource=AclResource.parse(f"Topic:{topic}") or pytest.fail(topic),
            actions=(Action.PUB,),
            decision=Decision.ALLOW,
            source_ips=(),
        )
        for topic in topics
    ]
    return Acl(subject, (AclPolicy(PolicyType.CUSTOM, tuple(entries)),))


def test_the_rights_of_another_broker_are_taken(tmp_path: Path) -> None:
    """All of them and no others, but for users of its own settings; they are on the disk then."""

    async def main() -> None:
        settings = RightsSettings(initial_user="root", initial_password="a")  # noqa: S106
        tables = open_tables(RealDisk(), str(tmp_path), settings)
        thread = DiskThread()
        rights = Rights(tables, thread)
        changes: list[None] = []
        rights.when_changed(lambda: changes.append(None))
        alice, bob = AclUser("alice", "a"), AclUser("bob", "b")
        of_alice = policies_of(alice.subject, "t", "u")
        for users, acls in (
            ([alice, bob], [of_alice, policies_of(bob.subject, "t")]),
            ([AclUser("alice", "c")], [policies_of(alice.subject, "t")]),
        ):
            rights.take(users, acls, {"root"})
            found = {user.name: user for user in rights.users.all()}
            assert found == {"root": found["root"], **{user.name: user for user in users}}
            assert rights.acls.all() == acls
            changes.clear()
            rights.take(users, acls, {"root"})
            assert not changes
        async with asyncio.timeout(LONG_SECONDS):
            while tables.users() != rights.users.all():
                await asyncio.sleep(0.005)
        await thread.stop()
        assert tables.acls() == rights.acls.all()
        tables.close()

    driver.run(main())
