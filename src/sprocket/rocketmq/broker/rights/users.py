"""The users of a broker.

A change holds from the moment at which it is asked for. Its `done` is called when the disk has it,
or with the error because of which it will be forgotten at the next start.

Source: RocketMQ `AuthenticationMetadataManagerImpl`, whose sentences the refusals are.
"""

from collections.abc import Callable
from functools import partial

from sprocket.base.errors import StoreError
from sprocket.rocketmq.broker.rights.acls import Acls, Done, Keep
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.rights import AclUser, UserStatus, UserType
from sprocket.rocketmq.store.rights_tables import RightsTables


class UserTable:
    """The table of users by name.

    Args:
        tables: Where they are kept.
        keep: Runs a change of the tables elsewhere, and tells how it went.
        acls: Their policies, which are deleted with them.
        changed: Told the subject whose rights may be others now.
    Threads: event loop only.
    """

    def __init__(
        self, tables: RightsTables, keep: Keep, acls: Acls, changed: Callable[[str], None]
    ) -> None:
        self._tables = tables
        self._keep = keep
        self._acls = acls
        self._changed = changed
        self._by_name = {user.name: user for user in tables.users()}

    def get(self, name: str) -> AclUser | None:
        """Return a user, None if there is none of this name."""
        return self._by_name.get(name)

    def all(self, part: str = "") -> list[AclUser]:
        """Return users by name, those whose names contain a part."""
        return [user for name, user in sorted(self._by_name.items()) if part in name]

    def who(self, name: str) -> AclUser:
        """Return the user that a request says it is from.

        Raises:
            Refused: The user is unknown, or disabled.
        """
        user = self._by_name.get(name)
        if user is None:
            if not name:
                raise Refused(Refusal.NO_PERMISSION, "username cannot be null.")
            raise Refused(Refusal.NO_PERMISSION, f"User:{name} is not found.")
        if user.status is UserStatus.DISABLED:
            raise Refused(Refusal.NO_PERMISSION, f"User:{name} is disabled.")
        return user

    def create(
        self,
        name: str,
        password: str | None,
        kind: UserType | None,
        status: UserStatus | None,
        done: Done,
    ) -> None:
        """Add a user. Raises Refused."""
        _refuse_blank(name)
        if password is None or not password.strip():
            raise Refused(Refusal.NO_PERMISSION, "password can not be blank")
        if name in self._by_name:
            raise Refused(Refusal.NO_PERMISSION, "The user is existed")
        user = AclUser(name, password, kind or UserType.NORMAL, status or UserStatus.ENABLED)
        self.put(user, done)

    def update(
        self,
        name: str,
        password: str | None,
        kind: UserType | None,
        status: UserStatus | None,
        done: Done,
    ) -> None:
        """Change a user; what is None, or a blank password, stays as it is. Raises Refused."""
        _refuse_blank(name)
        old = self._by_name.get(name)
        if old is None:
            raise Refused(Refusal.NO_PERMISSION, "The user is not exist")
        new_password = password if password is not None and password.strip() else old.password
        user = AclUser(name, new_password, kind or old.type, status or old.status)
        self.put(user, done)

    def delete(self, name: str, done: Done) -> None:
        """Remove a user and its policies; one that is not there is a success. Raises Refused."""
        _refuse_blank(name)
        user = self._by_name.pop(name, None)
        if user is None:
            done(None)
            return
        self._changed(user.subject)

        def policies_gone(error: StoreError | None) -> None:
            if error is not None:
                done(error)
            else:
                self._keep(partial(self._tables.delete_user, name), done)

        # First the policies: a new user of this name must not get them after a crash.
        self._acls.forget(user.subject, policies_gone)

    def put(self, user: AclUser, done: Done) -> None:
        """Add or replace a user."""
        self._by_name[user.name] = user
        self._changed(user.subject)
        self._keep(partial(self._tables.put_user, user), done)


def _refuse_blank(name: str) -> None:
    if not name.strip():
        raise Refused(Refusal.NO_PERMISSION, "username can not be blank")
