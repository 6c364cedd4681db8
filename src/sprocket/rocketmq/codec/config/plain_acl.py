"""The rules of RocketMQ 4, `plain_acl.yml`: accounts, and what they may do.

    globalWhiteRemoteAddresses: [10.0.0.*]
    accounts:
    - accessKey: shop
      secretKey: 12345678
      whiteRemoteAddress: 10.1.0.7
      admin: false
      defaultTopicPerm: DENY
      defaultGroupPerm: SUB
      topicPerms: [orders=PUB|SUB]
      groupPerms: [shop=SUB]

A permission is DENY, PUB, SUB, PUB|SUB or SUB|PUB. From white addresses nobody need sign; see
`model.address_pattern`. `broker.rights.rules` holds requests to these rules; `migration` makes
users and policies of them, as RocketMQ 5 does when it takes them over. That passes over what it
cannot read, and takes a permission that it does not know for all that there are; RocketMQ 4 takes
it for none. Here both are errors.

Source: `PlainAccessConfig`, `AuthMigrator`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.config import values
from sprocket.rocketmq.model.address_pattern import AddressPattern
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

_GLOBAL: Final = "globalWhiteRemoteAddresses"


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
        white_addresses: From where it need not sign.
    """

    access_key: str
    secret_key: str = field(repr=False)
    is_admin: bool = False
    topics: Mapping[str, Permission] = field(default_factory=dict)
    groups: Mapping[str, Permission] = field(default_factory=dict)
    other_topics: Permission | None = None
    other_groups: Permission | None = None
    white_addresses: AddressPattern = field(default_factory=AddressPattern)


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


def read_white_addresses(content: Any) -> list[AddressPattern]:
    """Return the white addresses that a file lists. Raises WireError."""
    found = values.mapping(content or {}, "the file")
    listed = values.sequence(found.get(_GLOBAL), _GLOBAL)
    return [_addresses(one, _GLOBAL) for one in listed]


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
        white_addresses=_addresses(found.get("whiteRemoteAddress"), f"{what}: whiteRemoteAddress"),
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


def _addresses(value: Any, what: str) -> AddressPattern:
    try:
        return AddressPattern.parse(values.text(value or ""))
    except ValueError as error:
        raise WireError(f"{what}: {error}") from error
