"""Rights of a store on the disk, whose changes are made at once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sprocket.base.disk import RealDisk
from sprocket.base.errors import DiskFailed, StoreError
from sprocket.rocketmq.broker.rights import Acls, Authorizer, UserTable
from sprocket.rocketmq.store.rights_tables import RightsTables


class Known:
    """Users, policies, and who decides by them.

    Attributes:
        changed: The subjects that were said to have other rights.
        ended: How each change ended.
        is_broken: Nothing reaches the disk.
    """

    def __init__(self, tables: RightsTables) -> None:
        self.changed: list[str] = []
        self.ended: list[StoreError | None] = []
        self.is_broken = False
        self.acls = Acls(tables, self._keep, self._note)
        self.users = UserTable(tables, self._keep, self.acls, self._note)
        self.authorizer = Authorizer(self.acls.get)

    def done(self, error: StoreError | None) -> None:
        """Note how a change ended."""
        self.ended.append(error)

    def _keep(self, job: Callable[[], None], done: Callable[[StoreError | None], None]) -> None:
        if self.is_broken:
            done(DiskFailed("the disk is gone"))
        else:
            job()
            done(None)

    def _note(self, subject: str) -> None:
        self.changed.append(subject)
        self.authorizer.forget(subject)


@pytest.fixture
def reopened(tmp_path: Path) -> Iterator[Callable[[], Known]]:
    """Open the same folder, which gives up what was opened before."""
    opened: list[RightsTables] = []

    def again() -> Known:
        for one in opened:
            one.close()
        opened.append(RightsTables(RealDisk(), str(tmp_path)))
        return Known(opened[-1])

    yield again
    for one in opened:
        one.close()


@pytest.fixture
def known(reopened: Callable[[], Known]) -> Known:
    """Nobody yet."""
    return reopened()
