"""The rules of RocketMQ 4, kept as they are: accounts of a file, and white addresses.

An account becomes a user in memory, and what it may do their policies, so that the same guard and
the same table of needs hold requests to them. Rules know `PUB`, `SUB` and administrators only:

* What publishes needs `PUB` on the topic, what reads or commits needs `SUB` on topic and group.
* What makes, changes or deletes something, or concerns the whole broker and changes it, needs an
  administrator.
* What only looks needs a signature.

An administrator may do everything, unless rules name topics or groups for them: these then decide
what they may publish and read. Everybody may publish traces and replies. Requests from a white
address need no signature and may do everything; an account's own white address is for requests that
name the account.

4.9.8 asks for an administrator for the codes 17, 25, 200, 207 and 215 only, and for `PUB` or `SUB`
in 10, 11, 12, 15, 34, 35, 36, 38 and 310. Every account could do all else.

The files are read again every second. A change takes effect once it was read twice, so that a file
that is being written has no effect; files that cannot be read change nothing and are logged once.

Source: RocketMQ 4.9.8 `PlainPermissionManager`, `PlainAccessResource`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sprocket.base import log
from sprocket.base.disk import Disk
from sprocket.base.errors import SettingsError
from sprocket.rocketmq.broker.rights import rule_files
from sprocket.rocketmq.broker.rights.authorizer import Authorizer
from sprocket.rocketmq.broker.rights.rule_files import Contents
from sprocket.rocketmq.codec.config import plain_acl
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model import internal, rights
from sprocket.rocketmq.model.address_pattern import AddressPattern
from sprocket.rocketmq.model.rights import (
    Acl,
    AclPolicy,
    AclResource,
    AclUser,
    Action,
    Decision,
    PolicyEntry,
    PolicyType,
    Requirement,
    ResourcePattern,
    ResourceType,
    UserType,
)
from sprocket.runtime.offload import DiskThread

_log = log.get_logger(__name__)

LOOK_SECONDS = 1.0
"""How often the files are read; RocketMQ compares their checksums every 5 s."""

_OPEN = (Action.GET, Action.LIST)
_ADMINISTRATORS = (*_OPEN, Action.CREATE, Action.UPDATE, Action.DELETE)
_EVERYTHING = AclResource(ResourceType.ANY, None, ResourcePattern.ANY)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """What all files together say.

    Attributes:
        users: The accounts by name.
        acls: What they may do, by subject.
        white_addresses: Requests from these need no signature.
        own_white_addresses: From where an account need not, by name.
    """

    users: Mapping[str, AclUser]
    acls: Mapping[str, Acl]
    white_addresses: Sequence[AddressPattern]
    own_white_addresses: Mapping[str, AddressPattern]


class RuleReader:
    """Reads the files of a path, and knows which of them it has seen.

    Args:
        disk: Where they are.
        path: A file, or a folder `conf`.
        cluster: The broker's; it is in the name of the topic for replies.

    Raises:
        SettingsError: See `rule_files`.
    Threads: any, one at a time.
    """

    def __init__(self, disk: Disk, path: str, cluster: str) -> None:
        self._disk = disk
        self._path = path
        self._cluster = cluster
        self._taken = self._seen = rule_files.read(disk, path)
        self.first = rule_set(self._taken, cluster)
        """What they said when this was made."""

    def look(self) -> RuleSet | None:
        """Return what files say if that is new, and they are as they were at the last look.

        Raises:
            SettingsError: They cannot be read; what is wrong in them is said once.
        """
        found = rule_files.read(self._disk, self._path)
        is_still, self._seen = found == self._seen, found
        if not is_still or found == self._taken:
            return None
        self._taken = found
        return rule_set(found, self._cluster)


class Rules:
    """Users, policies and white addresses of rules, as they are now.

    Attributes:
        authorizer: Decides what may be done.

    Args:
        reader: Has read them.
        thread: Reads them again.
    Threads: event loop only.
    """

    refusal = Refusal.OTHER
    """How requests are refused: 4.9.8 answers SYSTEM_ERROR, since its check raises."""

    def __init__(self, reader: RuleReader, thread: DiskThread) -> None:
        self._reader = reader
        self._thread = thread
        self._set = reader.first
        self._told: list[Callable[[], None]] = []
        self._is_looking = False
        self._trouble = ""
        self.authorizer = Authorizer(lambda subject: self._set.acls.get(subject), needed_by_rules)

    def who(self, name: str) -> AclUser:
        """Return the account that a request says it is from. Raises Refused."""
        user = self._set.users.get(name)
        if user is None:
            why = f"No acl config for {name}" if name else "No accessKey is configured"
            raise Refused(self.refusal, why)
        return user

    def is_trusted(self, name: str, address: str) -> bool:
        """Tell whether a request that names an account need not be signed, by where it is from."""
        rules = self._set
        own = rules.own_white_addresses.get(name)
        return any(one.matches(address) for one in rules.white_addresses) or (
            own is not None and own.matches(address)
        )

    def when_changed(self, callback: Callable[[], None]) -> None:
        """Have something called whenever rules are others, before anybody uses them."""
        self._told.append(callback)

    def look(self) -> None:
        """Read the files again, if that is not being done."""
        if self._is_looking:
            return
        self._is_looking = True
        self._thread.submit(self._reader.look, self._looked)

    def _looked(self, found: RuleSet | None, error: BaseException | None) -> None:
        self._is_looking = False
        if error is not None and not isinstance(error, SettingsError):
            raise error
        if error is not None:
            if str(error) != self._trouble:
                self._trouble = str(error)
                _log.error("rules cannot be read; those that hold stay", why=self._trouble)
            return
        if found is None:
            return
        self._trouble = ""
        self._set = found
        self.authorizer.forget_all()
        for callback in self._told:
            callback()
        _log.info("rules were read again", accounts=len(found.users))


def rule_set(contents: Contents, cluster: str) -> RuleSet:
    """Return what files say together; of an account that is in two of them the first counts.

    Raises:
        SettingsError: See `rule_files.parse`.
    """
    files = rule_files.parse(contents)
    accounts: dict[str, plain_acl.Account] = {}
    for file in files:
        for account in file.accounts:
            if accounts.setdefault(account.access_key, account) is not account:
                _log.warning(
                    "an account is there twice", account=account.access_key, file=file.path
                )
    return RuleSet(
        users={name: _user(account) for name, account in accounts.items()},
        acls={rights.subject(name): _acl(account, cluster) for name, account in accounts.items()},
        white_addresses=[one for file in files for one in file.white_addresses if one],
        own_white_addresses={
            name: account.white_addresses
            for name, account in accounts.items()
            if account.white_addresses
        },
    )


def needed_by_rules(need: Requirement) -> Requirement:
    """Return what rules ask for where a policy could allow it in several ways."""
    for action in (Action.PUB, Action.SUB):
        if action in need.actions:
            return Requirement(need.resource, (action,))
    return need


def _user(account: plain_acl.Account) -> AclUser:
    is_free = account.is_admin and not (account.topics or account.groups)
    kind = UserType.SUPER if is_free else UserType.NORMAL
    return AclUser(account.access_key, account.secret_key, kind)


def _acl(account: plain_acl.Account, cluster: str) -> Acl:
    """Return what an account may do; topics and groups decide what is published and read."""
    custom = [
        entry
        for resource, may in (
            *((rights.of_topic(topic), may) for topic, may in account.topics.items()),
            *((rights.of_group(group), may) for group, may in account.groups.items()),
        )
        for entry in _exactly(resource, may)
    ]
    open_topics = internal.TRACE_TOPIC, internal.reply_topic(cluster)
    everybody = tuple(_allow(rights.of_topic(topic), (Action.PUB,)) for topic in open_topics)
    default = (
        *_all_of(ResourceType.TOPIC, account.other_topics),
        *_all_of(ResourceType.GROUP, account.other_groups),
        _allow(_EVERYTHING, _ADMINISTRATORS if account.is_admin else _OPEN),
        *everybody,
    )
    policies = AclPolicy(PolicyType.CUSTOM, custom), AclPolicy(PolicyType.DEFAULT, default)
    return Acl(rights.subject(account.access_key), policies)


def _exactly(resource: AclResource, may: plain_acl.Permission) -> Iterable[PolicyEntry]:
    """Yield entries that allow some of publishing and reading, and deny the rest of it."""
    if may:
        yield _allow(resource, may)
    others = tuple(action for action in (Action.PUB, Action.SUB) if action not in may)
    if others:
        yield PolicyEntry(resource=resource, actions=others, decision=Decision.DENY)


def _all_of(kind: ResourceType, may: plain_acl.Permission | None) -> Iterable[PolicyEntry]:
    if may:
        yield _allow(AclResource(kind, None, ResourcePattern.ANY), may)


def _allow(resource: AclResource, actions: plain_acl.Permission) -> PolicyEntry:
    return PolicyEntry(resource=resource, actions=actions, decision=Decision.ALLOW)
