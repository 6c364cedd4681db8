"""Users and what they may do, by name.

Source: `rabbit_auth_backend_internal`.
"""

from collections.abc import Collection, Iterator

from sprocket.rabbitmq.broker.access import passwords
from sprocket.rabbitmq.broker.access.access import UserAccess, check_expressions
from sprocket.rabbitmq.broker.patterns import PatternInvalid
from sprocket.rabbitmq.broker.refusals import access_refused, not_allowed, precondition_failed
from sprocket.rabbitmq.codec import erlang_text
from sprocket.rabbitmq.model.user import TopicPermission, User, VhostPermission
from sprocket.rabbitmq.model.vhost import CHANNELS_MAX, CONNECTIONS_MAX, Vhost
from sprocket.rabbitmq.store.metadata_table import MetadataTable


class Users:
    """All users of the node.

    Args:
        table: Where they are kept.
        loopback_users: Those that may log in from this machine only.

    Durability: as the table's.
    Threads: event loop only.
    """

    def __init__(self, table: MetadataTable, loopback_users: Collection[str] = ("guest",)) -> None:
        self._table = table
        self._loopback = frozenset(loopback_users)
        self._users = {one.name: one for one in table.of_node(User)}
        self._permissions: dict[str, dict[str, VhostPermission]] = {}
        self._topics: dict[str, dict[str, dict[str, TopicPermission]]] = {}
        self._accesses: dict[tuple[str, str], UserAccess] = {}
        for vhost in table.of_node(Vhost):
            for permission in table.of_vhost(vhost.name, VhostPermission):
                self._permissions.setdefault(vhost.name, {})[permission.user] = permission
            for rule in table.of_vhost(vhost.name, TopicPermission):
                self._rules(vhost.name, rule.user)[rule.exchange] = rule

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def __len__(self) -> int:
        return len(self._users)

    def get(self, name: str) -> User | None:
        """Return a user; None if there is none of that name."""
        return self._users.get(name)

    def permissions(self) -> Iterator[VhostPermission]:
        """Give what users may do."""
        for of_vhost in self._permissions.values():
            yield from of_vhost.values()

    def topic_permissions(self) -> Iterator[TopicPermission]:
        """Give which keys users may use."""
        for of_vhost in self._topics.values():
            for of_user in of_vhost.values():
                yield from of_user.values()

    # Logging in.

    def log_in(self, name: str, password: bytes | None, *, is_loopback: bool) -> User:
        """Return the user that somebody is.

        Args:
            name: The name that they give.
            password: None if a certificate has shown it.
            is_loopback: Whether they come from this machine.

        Raises:
            RequestRefused: ACCESS_REFUSED; the text is for the log.
        """
        user = self._users.get(name)
        if user is None or (
            password is not None
            and not passwords.fits(password, user.password_hash, user.hashing_algorithm)
        ):
            raise access_refused(f"user '{name}' - invalid credentials")
        if name in self._loopback and not is_loopback:
            raise access_refused(f"user '{name}' can only connect via localhost")
        return user

    def has_permission(self, user: str, vhost: str) -> bool:
        """Whether a user may enter a virtual host."""
        return user in self._permissions.get(vhost, ())

    def access(self, user: str, vhost: str) -> UserAccess:
        """Return a user in a virtual host that is there; its permissions are always the latest.

        Raises:
            RequestRefused: NOT_ALLOWED; it may not enter.
        """
        if user not in self._permissions.get(vhost, ()):
            raise not_allowed(f"access to vhost '{vhost}' refused for user '{user}'")
        found = self._accesses.get((user, vhost))
        if found is None:
            found = self._accesses[user, vhost] = UserAccess(user, vhost)
            self._refresh(user, vhost)
        return found

    # Changes.

    def put(self, user: User) -> None:
        """Add or replace a user.

        Raises:
            RequestRefused: PRECONDITION_FAILED; there is no such hash, or no such limit.
            DiskFull, DiskFailed: All is as before.
        """
        if user.hashing_algorithm not in passwords.ALGORITHMS:
            raise precondition_failed(
                f"user '{user.name}': unknown hashing algorithm {user.hashing_algorithm}"
            )
        unknown = {
            name: limit
            for name, limit in user.limits.items()
            if name not in (CONNECTIONS_MAX, CHANNELS_MAX)
        }
        if unknown:
            raise precondition_failed(
                f"Unrecognised terms {erlang_text.json_text(unknown)} in user-limits"
            )
        self._table.write(put=[user])
        self._users[user.name] = user

    def remove(self, name: str) -> bool:
        """Take a user away, with its permissions; say whether it was there.

        Its connections have to be closed by the caller.

        Raises:
            DiskFull, DiskFailed: All is as before.
        """
        user = self._users.get(name)
        if user is None:
            return False
        permissions = [of[name] for of in self._permissions.values() if name in of]
        rules = [rule for of in self._topics.values() for rule in of.get(name, {}).values()]
        self._table.write(gone=[*permissions, *rules, user])
        del self._users[name]
        for vhost in {one.vhost for one in permissions} | {rule.vhost for rule in rules}:
            self._permissions.get(vhost, {}).pop(name, None)
            self._topics.get(vhost, {}).pop(name, None)
            self._refresh(name, vhost)
        return True

    def allow(self, permission: VhostPermission | TopicPermission) -> None:
        """Set what a user may do in a virtual host that is there, or with an exchange of it.

        Raises:
            RequestRefused: PRECONDITION_FAILED; there is no such user, or an expression is wrong.
            DiskFull, DiskFailed: All is as before.
        """
        self._check_user(permission.user)
        try:
            check_expressions(permission)
        except PatternInvalid as error:
            raise precondition_failed(f"invalid regular expression: {error}") from error
        self._table.write(put=[permission])
        if isinstance(permission, VhostPermission):
            self._permissions.setdefault(permission.vhost, {})[permission.user] = permission
        else:
            self._rules(permission.vhost, permission.user)[permission.exchange] = permission
        self._refresh(permission.user, permission.vhost)

    def forbid(self, user: str, vhost: str) -> bool:
        """Take a user's permissions in a virtual host away; say whether it had any.

        Raises:
            RequestRefused: PRECONDITION_FAILED; there is no such user.
            DiskFull, DiskFailed: All is as before.
        """
        self._check_user(user)
        found = self._permissions.get(vhost, {}).get(user)
        if found is None:
            return False
        self._table.write(gone=[found])
        del self._permissions[vhost][user]
        self._refresh(user, vhost)
        return True

    def clear_topics(self, user: str, vhost: str, exchange: str | None = None) -> bool:
        """Take rules about routing keys away, those of one exchange or all; say if there were any.

        Raises:
            RequestRefused: PRECONDITION_FAILED; there is no such user.
            DiskFull, DiskFailed: All is as before.
        """
        self._check_user(user)
        rules = self._topics.get(vhost, {}).get(user, {})
        gone = [rule for name, rule in rules.items() if exchange in (None, name)]
        self._table.write(gone=gone)
        for rule in gone:
            del rules[rule.exchange]
        self._refresh(user, vhost)
        return bool(gone)

    def forget_vhost(self, vhost: str) -> None:
        """Note that a virtual host is gone, and what users might do there with it."""
        self._permissions.pop(vhost, None)
        self._topics.pop(vhost, None)
        for user, one in list(self._accesses):
            if one == vhost:
                self._refresh(user, vhost)

    def _check_user(self, name: str) -> None:
        if name not in self._users:
            raise precondition_failed(f"no such user: {name}")

    def _rules(self, vhost: str, user: str) -> dict[str, TopicPermission]:
        return self._topics.setdefault(vhost, {}).setdefault(user, {})

    def _refresh(self, user: str, vhost: str) -> None:
        access = self._accesses.get((user, vhost))
        if access is not None:
            permission = self._permissions.get(vhost, {}).get(user)
            access.change(permission, self._topics.get(vhost, {}).get(user, {}))
            if permission is None:
                # A client that is logged in still has it, and is refused; its next login gets
                # another one.
                del self._accesses[user, vhost]
