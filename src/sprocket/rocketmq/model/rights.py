"""Who may do what: users, their policies, what policies are about, and what clients log in with.

The names of members of the enumerations are those that RocketMQ's tools read and print. A policy of
a user has entries. Each allows or denies some actions on a resource:

    *               everything
    Topic:*         all topics
    Topic:orders*   all topics whose names begin with `orders`
    Topic:orders    this topic

A secret is in no `repr`, so that no log and no traceback shows it.

Source: RocketMQ `User`, `Acl`, `Policy`, `PolicyEntry`, `Resource`, `Action`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, TypeVar

from sprocket.rocketmq.model.internal import RETRY_PREFIX

EVERYTHING: Final = "*"
"""The resource that is everything, and the end of a name that is a prefix."""

E = TypeVar("E", bound=Enum)
Address = IPv4Address | IPv6Address


def named(kind: type[E], name: str | None) -> E | None:
    """Return the member that RocketMQ calls so, in any case; None if there is none."""
    wanted = (name or "").lower()
    return next((one for one in kind if one.value.lower() == wanted), None)


@dataclass(frozen=True, slots=True)
class SessionCredentials:
    """What a client signs its requests with.

    Attributes:
        access_key: The name of a user.
        secret_key: Its password.
        security_token: Sent and signed with each request, for servers that want it; ours do not.
    """

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


class UserType(Enum):
    """Whether a user needs policies."""

    SUPER = "Super"
    """May do everything."""
    NORMAL = "Normal"


class UserStatus(Enum):
    """Whether a user may log in."""

    ENABLED = "enable"
    DISABLED = "disable"


@dataclass(frozen=True, slots=True)
class AclUser:
    """Somebody with a password."""

    name: str
    password: str = field(repr=False)
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLED

    @property
    def subject(self) -> str:
        """What policies call the user."""
        return subject(self.name)


USER_PREFIX: Final = "User:"


def subject(name: str) -> str:
    """Return what policies call the user of this name."""
    return USER_PREFIX + name


class Action(Enum):
    """What is done to a resource."""

    ALL = "All"
    """Any of those below; in policies."""
    ANY = "Any"
    """Not in policies, which RocketMQ refuses."""
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class ResourceType(Enum):
    """What kind of thing a resource is."""

    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class ResourcePattern(Enum):
    """Which things of its type a resource covers."""

    ANY = "ANY"
    LITERAL = "LITERAL"
    PREFIXED = "PREFIXED"


@dataclass(frozen=True, slots=True)
class AclResource:
    """One thing, or all things that a pattern covers; `name` is None for all of a type."""

    type: ResourceType
    name: str | None
    pattern: ResourcePattern = ResourcePattern.LITERAL

    @classmethod
    def parse(cls, text: str | None) -> "AclResource | None":
        """Return what a text says, such as `Topic:orders*`; None if it is not a resource."""
        if text is None or not text.strip():
            return None
        if text == EVERYTHING:
            return cls(ResourceType.ANY, None, ResourcePattern.ANY)
        type_name, _, name = text.partition(":")
        found = named(ResourceType, type_name)
        if found is None:
            return None
        if name == EVERYTHING:
            return cls(found, None, ResourcePattern.ANY)
        if name.endswith(EVERYTHING):
            return cls(found, name.partition(EVERYTHING)[0], ResourcePattern.PREFIXED)
        return cls(found, name)

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        if self.type is ResourceType.ANY:
            return EVERYTHING
        end = "" if self.pattern is ResourcePattern.LITERAL else EVERYTHING
        return f"{self.type.value}:{self.name or ''}{end}"

    def covers(self, one: "AclResource") -> bool:
        """Tell whether this covers one thing."""
        if self.type is ResourceType.ANY:
            return True
        if self.type is not one.type:
            return False
        if self.pattern is ResourcePattern.ANY:
            return True
        if self.pattern is ResourcePattern.LITERAL:
            return self.name == one.name
        return (one.name or "").startswith(self.name or "")

    @property
    def rank(self) -> tuple[int, int, int]:
        """How specific this is: a higher one decides over a lower one that covers the same thing.

        A type goes before everything, a name before a prefix, a longer prefix before a shorter one.
        So RocketMQ's documentation says; its 5.3.3 takes the shorter prefix.
        """
        order = (ResourcePattern.ANY, ResourcePattern.PREFIXED, ResourcePattern.LITERAL)
        return (
            int(self.type is not ResourceType.ANY),
            order.index(self.pattern),
            len(self.name or ""),
        )


def of_topic(name: str) -> AclResource:
    """Return the resource that a topic is: a retry topic is its group.

    Dead letters are a topic of their own, as in RocketMQ.
    """
    if name.startswith(RETRY_PREFIX):
        return of_group(name)
    return AclResource(ResourceType.TOPIC, name)


def of_group(name: str) -> AclResource:
    """Return the resource that a group is, which may be named by its retry topic."""
    return AclResource(ResourceType.GROUP, name.removeprefix(RETRY_PREFIX))


class Decision(Enum):
    """What an entry of a policy says."""

    ALLOW = "Allow"
    DENY = "Deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEntry:
    """What a policy says of one resource.

    Attributes:
        resource: What it covers.
        actions: Which actions it is about.
        decision: What it says of them.
        source_ips: Addresses and networks of which the client's must be one; none are all.
    """

    resource: AclResource
    actions: Sequence[Action]
    decision: Decision
    source_ips: Sequence[str] = ()


class PolicyType(Enum):
    """Which policy is looked at first."""

    CUSTOM = "Custom"
    DEFAULT = "Default"
    """Counts only where no entry of the custom one matches."""


@dataclass(frozen=True, slots=True)
class AclPolicy:
    """Entries of one type, a resource once."""

    type: PolicyType
    entries: Sequence[PolicyEntry]


@dataclass(frozen=True, slots=True)
class Acl:
    """All policies of a subject, such as `User:alice`; a type once."""

    subject: str
    policies: Sequence[AclPolicy]


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a request needs: one of some actions on one thing."""

    resource: AclResource
    actions: tuple[Action, ...]


def need(kind: ResourceType, name: str, actions: tuple[Action, ...]) -> Requirement:
    """Return what a request needs that does something to a thing."""
    if kind is ResourceType.GROUP:
        return Requirement(of_group(name), actions)
    resource = AclResource(kind, name) if kind is ResourceType.CLUSTER else of_topic(name)
    if resource.type is ResourceType.GROUP:
        actions = tuple(Action.SUB if one is Action.PUB else one for one in actions)
    return Requirement(resource, actions)


def is_source(text: str) -> bool:
    """Tell whether a text is an address or a network, such as `10.0.0.0/8`."""
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" not in text or text.partition("/")[2].isdecimal()


def is_from(address: str, sources: Sequence[str]) -> bool:
    """Tell whether an address is one of these, or in one of these networks."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found in ip_network(one, strict=False) for one in sources)
