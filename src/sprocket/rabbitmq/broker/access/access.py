"""What somebody may do in a virtual host.

Source: `rabbit_access_control`, `rabbit_auth_backend_internal`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from sprocket.rabbitmq.broker.patterns import Pattern
from sprocket.rabbitmq.broker.refusals import access_refused
from sprocket.rabbitmq.model.exchange import DEFAULT_EXCHANGE, TOPIC, Exchange
from sprocket.rabbitmq.model.resource import Resource, ResourceKind
from sprocket.rabbitmq.model.user import TopicPermission, VhostPermission

REMEMBERED_MAX = 4096
"""Answers that are remembered of each user in each virtual host; then it begins anew."""

_DEFAULT_EXCHANGE_NAME = "amq.default"
"""What permissions call the exchange without a name."""


class Need(Enum):
    """What for: each has an expression."""

    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"

    __hash__ = object.__hash__  # as that of `ResourceKind`


class Access(Protocol):
    """What somebody may do in a virtual host; each method raises RequestRefused, ACCESS_REFUSED."""

    @property
    def changes(self) -> int:
        """How often that has changed: answers may be remembered until it does again."""

    def check(self, need: Need, resource: Resource) -> None:
        """Refuse the use of a queue or an exchange."""

    def check_topic(self, need: Need, exchange: Exchange, key: str) -> None:
        """Refuse a routing key; only topic exchanges have such rules."""


class Unlimited:
    """A user that may do everything: the broker itself, and the import of definitions."""

    changes = 0

    def check(self, need: Need, resource: Resource) -> None:
        """See `Access`."""

    def check_topic(self, need: Need, exchange: Exchange, key: str) -> None:
        """See `Access`."""


class UserAccess:
    """A user in a virtual host, with the permissions of the moment.

    Args:
        user: The name.
        vhost: The virtual host's.
    """

    def __init__(self, user: str, vhost: str) -> None:
        self.changes = 0
        self._user = user
        self._vhost = vhost
        self._patterns: dict[Need, Pattern] = {}
        self._topics: dict[tuple[Need, str], Pattern] = {}
        self._known: dict[tuple[Need, Resource], bool] = {}
        self._known_keys: dict[tuple[Need, str, str], bool] = {}

    def change(
        self, permission: VhostPermission | None, topics: Mapping[str, TopicPermission]
    ) -> None:
        """Use other permissions from now on.

        Args:
            permission: None if the user may do nothing any more.
            topics: By exchange.
        """
        self.changes += 1
        self._known.clear()
        self._known_keys.clear()
        self._patterns = {}
        if permission is not None:
            self._patterns = {
                Need.CONFIGURE: Pattern(_whole(permission.configure)),
                Need.WRITE: Pattern(_whole(permission.write)),
                Need.READ: Pattern(_whole(permission.read)),
            }
        self._topics = {}
        for exchange, rule in topics.items():
            for need, text in ((Need.WRITE, rule.write), (Need.READ, rule.read)):
                expanded = _whole(text).replace("{username}", self._user)
                self._topics[need, exchange] = Pattern(expanded.replace("{vhost}", self._vhost))

    def check(self, need: Need, resource: Resource) -> None:
        """See `Access`."""
        is_allowed = self._known.get((need, resource))
        if is_allowed is None:
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            is_allowed = self._known[need, resource] = self._may(need, resource)
        if not is_allowed:
            raise access_refused(
                f"access to {_named(resource).text} refused for user '{self._user}'"
            )

    def check_topic(self, need: Need, exchange: Exchange, key: str) -> None:
        """See `Access`."""
        if exchange.type != TOPIC or not self._topics:
            return
        pattern = self._topics.get((need, exchange.name))
        if pattern is None:
            return
        is_allowed = self._known_keys.get((need, exchange.name, key))
        if is_allowed is None:
            if len(self._known_keys) >= REMEMBERED_MAX:
                self._known_keys.clear()
            is_allowed = self._known_keys[need, exchange.name, key] = pattern.fits(key)
        if not is_allowed:
            raise access_refused(
                f"access to topic '{key}' in {exchange.resource.text} refused for user "
                f"'{self._user}'"
            )

    def _may(self, need: Need, resource: Resource) -> bool:
        pattern = self._patterns.get(need)
        return pattern is not None and pattern.fits(_named(resource).name)


def check_expressions(permission: VhostPermission | TopicPermission) -> None:
    """Refuse permissions whose expressions are none.

    Raises:
        PatternInvalid: As it says.
    """
    for text in (permission.write, permission.read):
        Pattern(text)
    if isinstance(permission, VhostPermission):
        Pattern(permission.configure)


def _whole(expression: str) -> str:
    """Return an expression; the empty one fits nothing but the empty name."""
    return expression or "^$"


def _named(resource: Resource) -> Resource:
    if resource.kind is ResourceKind.EXCHANGE and resource.name == DEFAULT_EXCHANGE:
        return resource._replace(name=_DEFAULT_EXCHANGE_NAME)
    return resource
