"""What a broker knows of rights: opened, and put together."""

from collections.abc import Callable, Container, Sequence
from functools import partial

from sprocket.base import log
from sprocket.base.disk import Disk
from sprocket.base.errors import SettingsError, StoreError
from sprocket.rocketmq.broker.rights.acls import Acls, Done
from sprocket.rocketmq.broker.rights.authorizer import Authorizer
from sprocket.rocketmq.broker.rights.migration import migrate
from sprocket.rocketmq.broker.rights.rules import RuleReader
from sprocket.rocketmq.broker.rights.users import UserTable
from sprocket.rocketmq.errors import Refusal
from sprocket.rocketmq.model.rights import USER_PREFIX, Acl, AclUser, UserType
from sprocket.rocketmq.settings import RightsSettings
from sprocket.rocketmq.store.rights_tables import RightsTables
from sprocket.runtime.offload import DiskThread

_log = log.get_logger(__name__)


def open_tables(disk: Disk, folder: str, settings: RightsSettings) -> RightsTables:
    """Open what a store keeps of rights, and make the users that settings ask for.

    Raises:
        SettingsError: They ask for what cannot be, or nobody could ever log in.
        StoreError: As `RightsTables`.
    Threads: any.
    """
    wanted = _wanted(settings)
    tables = RightsTables(disk, folder)
    try:
        if settings.migrate_path:
            migrate(disk, settings.migrate_path, tables)
        names = {user.name for user in tables.users()}
        for user in wanted:
            if user.name not in names:
                tables.put_user(user)
                names.add(user.name)
                _log.info("a user was made who may do everything", user=user.name)
        if not names:
            raise SettingsError(
                "rights.authentication is on and there is no user, so that nobody could log in: "
                "name one with rights.initial_user and rights.initial_password"
            )
    except BaseException:
        tables.close()
        raise
    return tables


def open_rules(disk: Disk, settings: RightsSettings, cluster: str) -> RuleReader:
    """Read the rules that settings name. Raises SettingsError."""
    return RuleReader(disk, settings.rules_path, cluster)


def _wanted(settings: RightsSettings) -> list[AclUser]:
    """Return the users that settings name. Raises SettingsError."""
    found = []
    for which, name, password in (
        ("initial", settings.initial_user, settings.initial_password),
        ("inner", settings.inner_user, settings.inner_password),
    ):
        if bool(name.strip()) != bool(password.strip()):
            raise SettingsError(f"rights.{which}_user and rights.{which}_password go together")
        if name.strip():
            found.append(AclUser(name, password, UserType.SUPER))
    return found


def check_settings(settings: RightsSettings) -> None:
    """Refuse settings that would protect nothing, or protect in two ways. Raises SettingsError."""
    if settings.rules_path and (settings.authentication or settings.authorization):
        raise SettingsError(
            "rights.rules_path, or aclEnable, keeps the rules of RocketMQ 4, and "
            "rights.authentication the users of 5: one of them must be off. rights.migrate_path "
            "makes users of rules"
        )
    if settings.authorization and not settings.authentication:
        raise SettingsError(
            "rights.authorization needs rights.authentication: what a request says of its user "
            "proves nothing unless it is signed"
        )


class Rights:
    """Users, their policies, and who may do what.

    Attributes:
        users: The users.
        acls: Their policies.
        authorizer: Decides by them.

    Args:
        tables: Where they are kept; already open.
        thread: Runs what waits for the disk.
    Threads: event loop only.
    """

    refusal = Refusal.NO_PERMISSION
    """How requests are refused."""

    def __init__(self, tables: RightsTables, thread: DiskThread) -> None:
        keep = partial(_keep, thread)
        self.acls = Acls(tables, keep, self._changed)
        self.authorizer = Authorizer(self.acls.get)
        self.users = UserTable(tables, keep, self.acls, self._changed)
        self._told: list[Callable[[], None]] = []

    def who(self, name: str) -> AclUser:
        """Return the user that a request says it is from. Raises Refused."""
        return self.users.who(name)

    def is_trusted(self, name: str, address: str) -> bool:  # noqa: ARG002 - as `KnownRights`
        """Tell that everybody has to sign, wherever they are."""
        return False

    def take(self, users: Sequence[AclUser], acls: Sequence[Acl], kept: Container[str]) -> None:
        """Have the users and policies of another broker, and no others.

        Args:
            users: All of its users.
            acls: All of their policies.
            kept: Names of users who stay in any case, with their policies.
        """
        names = {user.name for user in users}
        for user in users:
            if self.users.get(user.name) != user:
                self.users.put(user, _taken)
        for user in self.users.all():
            if user.name not in names and user.name not in kept:
                self.users.delete(user.name, _taken)
        subjects = {acl.subject for acl in acls}
        for acl in acls:
            if self.acls.get(acl.subject) != acl:
                self.acls.replace(acl, _taken)
        for acl in self.acls.all():
            name = acl.subject.removeprefix(USER_PREFIX)
            if acl.subject not in subjects and (name in names or name not in kept):
                self.acls.forget(acl.subject, _taken)

    def when_changed(self, callback: Callable[[], None]) -> None:
        """Have something called whenever rights may be others, before anybody uses them."""
        self._told.append(callback)

    def _changed(self, subject: str) -> None:
        self.authorizer.forget(subject)
        for callback in self._told:
            callback()


def _taken(error: StoreError | None) -> None:
    if error is not None:
        _log.error("a user or policy of the master is lost at the next start", why=str(error))


def _keep(thread: DiskThread, job: Callable[[], None], done: Done) -> None:
    """Run a change of the tables on the disk's thread, then `done` on the loop."""

    def ended(_: None, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, StoreError):
            raise error
        done(error)

    thread.submit(job, ended)
