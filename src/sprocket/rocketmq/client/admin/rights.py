"""Users of brokers, and what they may do."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.client.admin.reach import Reach
from sprocket.rocketmq.client.network import read
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.codec.headers import (
    AclFilters,
    DeleteAcl,
    SubjectOnly,
    UserFilter,
    UserOnly,
)
from sprocket.rocketmq.model import rights
from sprocket.rocketmq.model.rights import (
    Acl,
    AclPolicy,
    AclResource,
    AclUser,
    PolicyEntry,
    PolicyType,
    UserStatus,
    UserType,
)

T = TypeVar("T")


class RightsAdmin:
    """What can be done with users and policies; `admin.rights`.

    Brokers know nothing of each other's users: what is changed is changed on all of them.
    """

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def create_user(
        self, name: str, password: str, *, is_super: bool = False, broker: str | None = None
    ) -> None:
        """Make a user.

            await admin.rights.create_user("shop", "a secret")

        Args:
            name: Of the user.
            password: What its requests are signed with.
            is_super: Whether it may do everything.
            broker: Only on this broker.
        """
        kind = UserType.SUPER if is_super else UserType.NORMAL
        user = bodies.user_info(AclUser(name, password, kind))
        await self._tell(RequestCode.AUTH_CREATE_USER, UserOnly(username=name), user, broker)

    async def update_user(
        self,
        name: str,
        *,
        password: str | None = None,
        is_super: bool | None = None,
        is_enabled: bool | None = None,
        broker: str | None = None,
    ) -> None:
        """Change a user; what is None stays as it is."""
        kind, status = None, None
        if is_super is not None:
            kind = (UserType.SUPER if is_super else UserType.NORMAL).value
        if is_enabled is not None:
            status = (UserStatus.ENABLED if is_enabled else UserStatus.DISABLED).value
        user = bodies.UserInfo(name=name, password=password, type=kind, status=status)
        await self._tell(RequestCode.AUTH_UPDATE_USER, UserOnly(username=name), user, broker)

    async def delete_user(self, name: str, *, broker: str | None = None) -> None:
        """Remove a user with all its policies; one that is not there is a success."""
        await self._tell(RequestCode.AUTH_DELETE_USER, UserOnly(username=name), None, broker)

    async def users(
        self, part: str = "", *, broker: str | None = None
    ) -> Mapping[str, Sequence[AclUser]]:
        """Return the users whose names contain a text, by broker name, with their passwords."""
        header = UserFilter(filter=part or None)
        return await self._ask(RequestCode.AUTH_LIST_USER, header, bodies.decode_users, broker)

    async def put_policy(
        self,
        user: str,
        entries: Sequence[PolicyEntry],
        *,
        kind: PolicyType = PolicyType.CUSTOM,
        broker: str | None = None,
    ) -> None:
        """Add entries to a policy of a user; they take the place of those for the same resource.

        Args:
            user: The name of the user.
            entries: What is to be allowed or denied.
            kind: Which of the user's two policies.
            broker: Only on this broker.
        """
        subject = rights.subject(user)
        acl = bodies.acl_info(Acl(subject, (AclPolicy(kind, tuple(entries)),)))
        await self._tell(RequestCode.AUTH_UPDATE_ACL, SubjectOnly(subject=subject), acl, broker)

    async def delete_policy(
        self,
        user: str,
        resource: AclResource | str | None = None,
        *,
        kind: PolicyType = PolicyType.CUSTOM,
        broker: str | None = None,
    ) -> None:
        """Remove the entry for a resource, or all policies of a user.

        Args:
            user: The name of the user.
            resource: Of the entry, such as `Topic:orders*`; None for all there is.
            kind: Which of the user's two policies has the entry.
            broker: Only on this broker.

        Raises:
            InvalidMessage: It is not a resource.
        """
        text = None if resource is None else str(resource)
        if text is not None and AclResource.parse(text) is None:
            raise InvalidMessage(f"{text!r} is not a resource, such as Topic:orders")
        header = DeleteAcl(subject=rights.subject(user), policy_type=kind.value, resource=text)
        await self._tell(RequestCode.AUTH_DELETE_ACL, header, None, broker)

    async def policies(
        self, user_part: str = "", resource_part: str = "", *, broker: str | None = None
    ) -> Mapping[str, Sequence[Acl]]:
        """Return policies whose users and resources contain texts, by broker name."""
        header = AclFilters(subject_filter=user_part or None, resource_filter=resource_part or None)
        return await self._ask(RequestCode.AUTH_LIST_ACL, header, bodies.decode_acls, broker)

    async def _tell(
        self,
        code: RequestCode,
        header: Header,
        what: bodies.UserInfo | bodies.AclInfo | None,
        broker: str | None,
    ) -> None:
        masters = await self._reach.masters(broker=broker)
        body = b"" if what is None else bodies.encode(what)
        await self._reach.call_all(masters, code, header, body)

    async def _ask(
        self,
        code: RequestCode,
        header: Header,
        decode: Callable[[bytes], Sequence[T]],
        broker: str | None,
    ) -> dict[str, Sequence[T]]:
        found: dict[str, Sequence[T]] = {}
        for name, address in (await self._reach.masters(broker=broker)).items():
            body = (await self._reach.call(address, code, header)).body
            found[name] = read(address, partial(decode, body)) if body else ()
        return found
