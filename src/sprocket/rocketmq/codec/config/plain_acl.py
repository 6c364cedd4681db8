"""The rules of RocketMQ 4, `plain_acl.yml`: accounts, and what they may do.

    accounts:
    - accessKey: shop
      secretKey: 12345678
      admin: false
      defaultTopicPerm: DENY
      defaultGroupPerm: SUB
      topicPerms: [orders=PUB|SUB]
      groupPerms: [shop=SUB]

A permission is DENY, PUB, SUB, PUB|SUB or SUB|PUB. What RocketMQ 5 makes of these rules when it
takes them over, `broker.rights.migration` does; it passes over what it cannot read, and takes a
permission that it does not know for all that there are. Here both are errors.

Source: `PlainAccessConfig`, `AuthMigrator`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.config import values
from sprocket.rocketmq.model.rights import Action

PERMISSIONS: Final[Mapping[str, tuple[Action, ...]]] = {
    "DENY": (),
    "PUB": (Action.PUB,),
    "SUB": (Action.SUB,),
    "PUB|SUB": (Action.PUB, Action.SUB),
    "SUB|PUB": (Action.PUB, Action.SUB),
}
"""What each word allows; nothing is denied."""

Permission = tuple[Action, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One account.

    Attributes:
        access_key: Its name.
        secret_key: What it signs with.
        is_admin: Whether it may do everything.
        topics: What it may do with single topics, by name.
        groups: The same of groups.
        other_topics: What it may do with all others; None for what the file does not say.
        other_groups: The same of groups.
        has_white_addresses: Whether addresses are named from which it need not sign.
    """

    access_key: str
    secret_key: str = field(repr=False)
    is_admin: bool = False
    topics: Mapping[str, Permission] = field(default_factory=dict)
    groups: Mapping[str, Permission] = field(default_factory=dict)
    other_topics: Permission | None = None
    other_groups: Permission | None = None
    has_white_addresses: bool = False


def read_accounts(content: Any) -> list[Account]:
    """Return the accounts of a file.

    Args:
        content: What a reader of YAML made of it; None for an empty one.

    Raises:
        WireError: Something in it is not as above.
    """
    found = values.mapping(content or {}, "the file")
    listed = values.sequence(found.get("accounts") or [], "accounts")
    return [_account(values.mapping(one, "an account")) for one in listed]


def has_white_addresses(content: Any) -> bool:
    """Tell whether a file names addresses from which nobody need sign."""
    return bool(values.mapping(content or {}, "the file").get("globalWhiteRemoteAddresses"))


def _account(found: Mapping[str, Any]) -> Account:
    name = values.text(found.get("accessKey") or "").strip()
    secret = values.text(found.get("secretKey") or "").strip()
    if not name or not secret:
        raise WireError(f"account {name!r} has no accessKey or no secretKey")
    what = f"account {name!r}"
    return Account(
        access_key=name,
        secret_key=secret,
        is_admin=values.boolean(found.get("admin"), default=False),
        topics=_permissions(found, "topicPerms", what),
        groups=_permissions(found, "groupPerms", what),
        other_topics=_default(found, "defaultTopicPerm", what),
        other_groups=_default(found, "defaultGroupPerm", what),
        has_white_addresses=bool(values.text(found.get("whiteRemoteAddress") or "").strip()),
    )


def _permissions(found: Mapping[str, Any], member: str, what: str) -> dict[str, Permission]:
    listed: Sequence[Any] = values.sequence(found.get(member) or [], member)
    permissions = {}
    for one in listed:
        name, equals, word = values.text(one).partition("=")
        if not equals or not name.strip():
            raise WireError(f"{what}: {member} has {one!r}, expected name=PERMISSION")
        permissions[name.strip()] = _permission(word, f"{what}: {member} of {name.strip()!r}")
    return permissions


def _default(found: Mapping[str, Any], member: str, what: str) -> Permission | None:
    word = values.text(found.get(member) or "")
    return _permission(word, f"{what}: {member}") if word.strip() else None


def _permission(word: str, what: str) -> Permission:
    permission = PERMISSIONS.get(word.strip())
    if permission is None:
        raise WireError(f"{what} is {word.strip()!r}, expected {', '.join(PERMISSIONS)}")
    return permission
