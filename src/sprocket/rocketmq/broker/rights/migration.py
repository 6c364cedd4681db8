"""Users and policies made of the rules of RocketMQ 4.

An account becomes a user, one of an administrator a super user; what it may do with single topics
and groups its custom policy, and with all others its default policy. Addresses from which 4 wants
no signature have no like in 5, and are not taken over; that is logged.

Source: RocketMQ `AuthMigrator`.
"""

from collections.abc import Iterator, Mapping

from sprocket.base import log
from sprocket.base.disk import Disk
from sprocket.rocketmq.broker.rights import rule_files
from sprocket.rocketmq.codec.config import plain_acl
from sprocket.rocketmq.model import rights
from sprocket.rocketmq.model.rights import (
    Acl,
    AclPolicy,
    AclResource,
    AclUser,
    Action,
    Decision,
    PolicyEntry,
    PolicyType,
    ResourcePattern,
    ResourceType,
    UserType,
)
from sprocket.rocketmq.store.rights_tables import RightsTables

_log = log.get_logger(__name__)


def migrate(disk: Disk, path: str, tables: RightsTables) -> None:
    """Make the users of a `plain_acl.yml`, or of a folder `conf`, who are not there yet.

    Raises:
        SettingsError: A file is missing or cannot be read, or the package that reads it is.
        StoreError: A user could not be made.
    """
    known = {user.name for user in tables.users()}
    users, acls = [], []
    for file in rule_files.parse(rule_files.read(disk, path)):
        if file.white_addresses:
            _log.warning("addresses that need no signature are not taken over", file=file.path)
        for account in file.accounts:
            if account.access_key in known:
                continue
            known.add(account.access_key)
            user, acl = user_of(account), acl_of(account)
            users.append(user)
            if acl.policies:
                acls.append(acl)
            _log.info("a user of RocketMQ 4 was taken over", user=user.name, type=user.type.value)
            if account.white_addresses:
                _log.warning("addresses that need no signature are not taken over", user=user.name)
    if users:
        # First the policies: a user without them would be one that a later start passes by.
        tables.put_all(users, acls)


def user_of(account: plain_acl.Account) -> AclUser:
    """Return the user that an account becomes."""
    kind = UserType.SUPER if account.is_admin else UserType.NORMAL
    return AclUser(account.access_key, account.secret_key, kind)


def acl_of(account: plain_acl.Account) -> Acl:
    """Return what that user may do."""
    custom = (
        *_entries(ResourceType.TOPIC, account.topics),
        *_entries(ResourceType.GROUP, account.groups),
    )
    default = tuple(
        _entry(AclResource(kind, None, ResourcePattern.ANY), permission)
        for kind, permission in (
            (ResourceType.TOPIC, account.other_topics),
            (ResourceType.GROUP, account.other_groups),
        )
        if permission is not None
    )
    policies = [
        AclPolicy(kind, entries)
        for kind, entries in ((PolicyType.CUSTOM, custom), (PolicyType.DEFAULT, default))
        if entries
    ]
    return Acl(rights.subject(account.access_key), tuple(policies))


def _entries(
    kind: ResourceType, permissions: Mapping[str, plain_acl.Permission]
) -> Iterator[PolicyEntry]:
    for name, permission in permissions.items():
        yield _entry(AclResource(kind, name), permission)


def _entry(resource: AclResource, permission: plain_acl.Permission) -> PolicyEntry:
    return PolicyEntry(
        resource=resource,
        actions=permission or (Action.ALL,),
        decision=Decision.ALLOW if permission else Decision.DENY,
    )
