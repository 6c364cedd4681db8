"""Users and policies as RocketMQ keeps them: JSON values of two databases.

A member of an enumeration is written as its number; RocketMQ also reads its name. A resource is
written in its parts, the sources of an entry as an object of their own.

Source: fastjson's form of `User` and `Acl`; docs/formats/rights.md.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

import msgspec

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.config import fastjson, values
from sprocket.rocketmq.model import rights
from sprocket.rocketmq.model.rights import (
    USER_PREFIX,
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
    UserStatus,
    UserType,
)

E = TypeVar("E", bound=Enum)

NUMBERS: Mapping[Enum, int] = {
    UserType.SUPER: 1,
    UserType.NORMAL: 2,
    UserStatus.ENABLED: 1,
    UserStatus.DISABLED: 2,
    Action.ALL: 1,
    Action.ANY: 2,
    Action.PUB: 3,
    Action.SUB: 4,
    Action.CREATE: 5,
    Action.UPDATE: 6,
    Action.DELETE: 7,
    Action.GET: 8,
    Action.LIST: 9,
    ResourceType.ANY: 1,
    ResourceType.CLUSTER: 2,
    ResourceType.NAMESPACE: 3,
    ResourceType.TOPIC: 4,
    ResourceType.GROUP: 5,
    ResourcePattern.ANY: 1,
    ResourcePattern.LITERAL: 2,
    ResourcePattern.PREFIXED: 3,
    Decision.ALLOW: 1,
    Decision.DENY: 2,
    PolicyType.CUSTOM: 1,
    PolicyType.DEFAULT: 2,
}
"""The numbers of RocketMQ's enumerations (`getCode`)."""

_UNKNOWN = (0, "UNKNOWN", "Unknown")
"""An action that nothing needs, and a type of resource that covers nothing: RocketMQ keeps both."""
_USER_SUBJECT = 1
_encode = msgspec.json.Encoder(order="sorted").encode


def encode_user(user: AclUser) -> bytes:
    """Write a user."""
    return _encode(
        {
            "password": user.password,
            "subjectType": _USER_SUBJECT,
            "userStatus": NUMBERS[user.status],
            "userType": NUMBERS[user.type],
            "username": user.name,
        }
    )


def decode_user(name: str, data: bytes) -> AclUser:
    """Read a user that is kept under a name. Raises WireError."""
    found = _members(data, "a user")
    return AclUser(
        name,
        values.text(found.get("password") or ""),
        _member(UserType, found.get("userType"), UserType.NORMAL),
        _member(UserStatus, found.get("userStatus"), UserStatus.ENABLED),
    )


def encode_acl(acl: Acl) -> bytes:
    """Write the policies of a subject."""
    return _encode(
        {
            "policies": [_policy_json(policy) for policy in acl.policies],
            "subject": {
                "subjectType": _USER_SUBJECT,
                "username": acl.subject.removeprefix(USER_PREFIX),
            },
        }
    )


def decode_acl(subject: str, data: bytes) -> Acl:
    """Read the policies that are kept under a subject. Raises WireError."""
    found = _members(data, "policies")
    return Acl(subject, tuple(_policy(one) for one in _list(found.get("policies"), "policies")))


def _policy_json(policy: AclPolicy) -> dict[str, Any]:
    return {
        "entries": [_entry_json(entry) for entry in policy.entries],
        "policyType": NUMBERS[policy.type],
    }


def _entry_json(entry: PolicyEntry) -> dict[str, Any]:
    resource: dict[str, Any] = {
        "resourcePattern": NUMBERS[entry.resource.pattern],
        "resourceType": NUMBERS[entry.resource.type],
    }
    if entry.resource.name is not None:
        resource["resourceName"] = entry.resource.name
    return {
        "actions": [NUMBERS[action] for action in entry.actions],
        "decision": NUMBERS[entry.decision],
        "environment": {"sourceIps": list(entry.source_ips)} if entry.source_ips else {},
        "resource": resource,
    }


def _policy(value: Any) -> AclPolicy:
    found = values.mapping(value, "a policy")
    return AclPolicy(
        _member(PolicyType, found.get("policyType"), PolicyType.CUSTOM),
        tuple(
            entry
            for one in _list(found.get("entries"), "entries")
            if (entry := _entry(one)) is not None
        ),
    )


def _entry(value: Any) -> PolicyEntry | None:
    """Read an entry; None if its resource is of a type that covers nothing."""
    found = values.mapping(value, "an entry")
    resource = values.mapping(found.get("resource"), "resource")
    if resource.get("resourceType") in _UNKNOWN:
        return None
    name = resource.get("resourceName")
    environment = values.mapping(found.get("environment") or {}, "environment")
    return PolicyEntry(
        resource=AclResource(
            _member(ResourceType, resource.get("resourceType")),
            None if name is None else values.text(name),
            _member(ResourcePattern, resource.get("resourcePattern")),
        ),
        actions=tuple(
            _member(Action, one)
            for one in _list(found.get("actions"), "actions")
            if one not in _UNKNOWN
        ),
        decision=_member(Decision, found.get("decision")),
        source_ips=tuple(map(values.text, _list(environment.get("sourceIps"), "sourceIps"))),
    )


def _members(data: bytes, what: str) -> Mapping[str, Any]:
    return values.mapping(fastjson.read(data), what)


def _list(value: Any, name: str) -> Sequence[Any]:
    return () if value is None else values.sequence(value, name)


def _member(kind: type[E], value: Any, absent: E | None = None) -> E:
    """Return the member that a number or a name stands for. Raises WireError."""
    if value is None and absent is not None:
        return absent
    if isinstance(value, str):
        named = rights.named(kind, value)
        for one in kind:
            if one is named or one.name == value:
                return one
    for one in kind:
        if NUMBERS[one] == value:
            return one
    raise WireError(f"{value!r} is not a {kind.__name__}")
