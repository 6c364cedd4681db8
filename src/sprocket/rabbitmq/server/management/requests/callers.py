"""The caller: the user that a request names, and what its tags let it do.

| tag | may |
|---|---|
| `management` | see and change what its permissions allow |
| `policymaker` | that, and set policies in virtual hosts that it may enter |
| `monitoring` | what `management` may, and see all connections, and the node |
| `administrator` | everything, but that virtual hosts need a permission, too |

Source: `rabbit_mgmt_util:is_authorized`.
"""

import base64
import binascii
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Final

from sprocket.base import log
from sprocket.rabbitmq.broker.access import UserAccess, Users
from sprocket.rabbitmq.broker.topology import Requester, Vhosts
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.user import User
from sprocket.rabbitmq.server.management.requests.answers import (
    REALM,
    ApiError,
    bad_request,
    not_authorised,
)
from sprocket.runtime.driver import Peer

ADMINISTRATOR: Final = "administrator"
MONITORING: Final = "monitoring"
POLICYMAKER: Final = "policymaker"
MANAGEMENT: Final = "management"
LAST_ADMINISTRATOR: Final = "last-administrator"
"""In the query of a call: it may leave the node without any administrator."""

_log = log.get_limited_logger(__name__)


class Level(Enum):
    """What a route demands of its caller."""

    ANYBODY = "anybody"
    """Also without a login."""
    USER = "management"
    IN_VHOST = "management, in the virtual host that is named"
    SEES_VHOST = "that, or monitoring"
    MONITOR = "monitoring"
    POLICYMAKER = "policymaker, in the virtual host that is named"
    ADMINISTRATOR = "administrator"


class Caller:
    """A user who asks.

    Args:
        user: Which.
        users: All, with their permissions.
        vhosts: All of them.
    """

    def __init__(self, user: User, users: Users, vhosts: Vhosts) -> None:
        self.user = user
        self._users = users
        self._vhosts = vhosts

    @property
    def name(self) -> str:
        """The user's name."""
        return self.user.name

    @property
    def is_administrator(self) -> bool:
        """Whether it may do everything."""
        return ADMINISTRATOR in self.user.tags

    @property
    def is_monitor(self) -> bool:
        """Whether it may see everything."""
        return self.is_administrator or MONITORING in self.user.tags

    @property
    def is_policymaker(self) -> bool:
        """Whether it may set policies."""
        return self.is_administrator or POLICYMAKER in self.user.tags

    @property
    def may_ask(self) -> bool:
        """Whether it may ask anything."""
        return self.is_monitor or self.is_policymaker or MANAGEMENT in self.user.tags

    def may_enter(self, vhost: str) -> bool:
        """Whether it has a permission in a virtual host."""
        return self._users.has_permission(self.name, vhost)

    def may_see(self, vhost: str) -> bool:
        """Whether a virtual host is visible to it."""
        return self.is_monitor or self.may_enter(vhost)

    def access(self, vhost: str) -> UserAccess:
        """Return what it may do in a virtual host that it may enter."""
        return self._users.access(self.name, vhost)

    def requester(self, vhost: str) -> Requester:
        """Return it as the one that declares something in a virtual host that it may enter."""
        return Requester(self.access(vhost))

    def check(self, level: Level, vhost: str | None) -> None:
        """Refuse what it may not.

        Args:
            level: What it must be.
            vhost: The virtual host that the request names, if any; one that is not there is found
                to be missing later.

        Raises:
            ApiError: 401.
        """
        if not self.may_ask:
            raise not_authorised("Not management user")
        is_there = vhost is not None and self._vhosts.find(vhost) is not None
        match level:
            case Level.MONITOR if not self.is_monitor:
                raise not_authorised("Not monitor user")
            case Level.ADMINISTRATOR if not self.is_administrator:
                raise not_authorised("Not administrator user")
            case Level.POLICYMAKER if not self.is_policymaker:
                raise not_authorised("User not authorised to access object")
            case Level.SEES_VHOST if vhost is not None and is_there and not self.may_see(vhost):
                raise not_authorised("User not authorised to access virtual host")
            case Level.IN_VHOST | Level.POLICYMAKER:
                if vhost is not None and is_there and not self.may_enter(vhost):
                    raise not_authorised("User not authorised to access virtual host")
            case _:
                return


class Callers:
    """Finds out who asks.

    Args:
        users: All of them.
        vhosts: Where they may have permissions.
    """

    def __init__(self, users: Users, vhosts: Vhosts) -> None:
        self._users = users
        self._vhosts = vhosts
        self.succeeded_count = 0
        self.failed_count = 0

    def find(self, headers: Mapping[str, str], peer: Peer) -> Caller:
        """Return who asks.

        Args:
            headers: Of the request.
            peer: The address that sent it.

        Raises:
            ApiError: 401; it does not say, or the password is wrong.
        """
        given = _credentials(headers)
        if given is None:
            raise Unnamed
        name, password = given
        try:
            user = self._users.log_in(name, password, is_loopback=peer.is_local)
        except RequestRefused as refusal:
            self.failed_count += 1
            _log.warning(
                "an HTTP login is refused", peer=peer.told_address, user=name, reason=refusal.remark
            )
            raise ApiError(
                401, "not_authorized", "Login failed", {"www-authenticate": REALM}
            ) from refusal
        self.succeeded_count += 1
        return Caller(user, self._users, self._vhosts)

    def is_known(self, headers: Mapping[str, str], *, is_local: bool = True) -> bool:
        """Whether headers have a right name and password; by default wherever they come from."""
        given = _credentials(headers)
        if given is None:
            return False
        try:
            self._users.log_in(*given, is_loopback=is_local)
        except RequestRefused:
            return False
        return True


class Unnamed(Exception):
    """A request does not say who asks."""


def _credentials(headers: Mapping[str, str]) -> tuple[str, bytes] | None:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(given.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return (name.decode("utf-8", "surrogateescape"), password) if colon else None


def keep_an_administrator(
    users: Users, *, gone: Collection[str], come: Collection[str] = (), is_meant: bool
) -> None:
    """Refuse what leaves the node without any administrator, unless that is meant.

    Args:
        users: All of them.
        gone: Users that it deletes, or that lose the tag.
        come: Users that get the tag, or keep it.
        is_meant: Whether the query says so, by `LAST_ADMINISTRATOR`.

    Raises:
        ApiError: 400.
    """
    if is_meant:
        return
    before = {one.name for one in users if ADMINISTRATOR in one.tags}
    if before and not (before - set(gone)) | set(come):
        names = ", ".join(sorted(before))
        raise bad_request(
            f"{names}: nobody would be an administrator any more, and nobody could change that "
            f"over the wire; {LAST_ADMINISTRATOR}=true in the query does it anyway"
        )
