"""Requests about users and what they may do: 3001 to 3010.

Only a super user makes, changes or removes one.

Source: RocketMQ `AdminBrokerProcessor`, `UserConverter`, `AclConverter`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from sprocket.rocketmq.broker.rights import Acls, Done, Rights, UserTable
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from sprocket.rocketmq.codec.codes import NOT_SET, RequestCode
from sprocket.rocketmq.codec.headers import (
    AclFilters,
    DeleteAcl,
    SubjectOnly,
    UserFilter,
    UserOnly,
)
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model import rights
from sprocket.rocketmq.model.rights import (
    USER_PREFIX,
    AclPolicy,
    AclResource,
    Action,
    Decision,
    PolicyEntry,
    PolicyType,
    UserStatus,
    UserType,
)
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, row

ONLY_SUPER = "The super user can only be update by super user"
BLANK = "The username is blank"
NO_SUBJECT = "The subject is not a user, such as User:alice"


class RightsHandlers:
    """Making, changing, removing and showing users and policies."""

    def __init__(self, known: Rights) -> None:
        self._users: UserTable = known.users
        self._acls: Acls = known.acls

    def rows(self) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.AUTH_CREATE_USER, UserOnly, self.create_user),
            row(RequestCode.AUTH_UPDATE_USER, UserOnly, self.update_user),
            row(RequestCode.AUTH_DELETE_USER, UserOnly, self.delete_user),
            row(RequestCode.AUTH_GET_USER, UserOnly, self.user),
            row(RequestCode.AUTH_LIST_USER, UserFilter, self.list_users),
            row(RequestCode.AUTH_CREATE_ACL, SubjectOnly, self.put_acl),
            row(RequestCode.AUTH_UPDATE_ACL, SubjectOnly, self.put_acl),
            row(RequestCode.AUTH_DELETE_ACL, DeleteAcl, self.delete_acl),
            row(RequestCode.AUTH_GET_ACL, SubjectOnly, self.acl),
            row(RequestCode.AUTH_LIST_ACL, AclFilters, self.list_acls),
        ]

    def create_user(self, request: Request, header: UserOnly) -> None:
        """Make a user."""
        found = _read_user(request, header)
        if found.type is UserType.SUPER and not _is_by_super(request):
            raise Refused(Refusal.OTHER, "The super user can only be create by super user")
        self._users.create(
            header.username, found.password, found.type, found.status, _done(request)
        )

    def update_user(self, request: Request, header: UserOnly) -> None:
        """Change what the request says of a user."""
        found = _read_user(request, header)
        if found.type is UserType.SUPER and not _is_by_super(request):
            raise Refused(Refusal.OTHER, ONLY_SUPER)
        self._refuse_if_super(request, header.username)
        self._users.update(
            header.username, found.password, found.type, found.status, _done(request)
        )

    def delete_user(self, request: Request, header: UserOnly) -> None:
        """Remove a user and their policies; one that is not there is a success."""
        self._refuse_if_super(request, header.username)
        self._users.delete(header.username, _done(request))

    def user(self, _: Request, header: UserOnly) -> Answer:
        """Answer a user, nothing if there is none of this name."""
        if not header.username.strip():
            raise Refused(Refusal.INVALID_ARGUMENT, BLANK)
        found = self._users.get(header.username)
        return Answer(
            remark=NOT_SET, body=() if found is None else (bodies.encode(bodies.user_info(found)),)
        )

    def list_users(self, _: Request, header: UserFilter) -> Answer:
        """Answer the users whose names contain a text."""
        found = self._users.all(_part(header.filter))
        return Answer(remark=NOT_SET, body=_each(map(bodies.user_info, found)))

    def put_acl(self, request: Request, header: SubjectOnly) -> None:
        """Add policies to those of a user; entries with the same resource are replaced."""
        found = bodies.decode_request(AclInfo, request.body)
        if not found.policies:
            raise Refused(Refusal.OTHER, "The body of acl is null")
        subject = _subject(found.subject) or _subject(header.subject)
        policies = [_policy(one) for one in found.policies if one.entries]
        if not policies:
            raise Refused(Refusal.NO_PERMISSION, "The policies is empty.")
        self._acls.put(self._existing(subject), policies, _done(request))

    def delete_acl(self, request: Request, header: DeleteAcl) -> None:
        """Remove the entry of a resource, or all policies of a user."""
        subject = _subject(header.subject)
        if subject is None:
            raise Refused(Refusal.NO_PERMISSION, "The subject is null.")
        kind = rights.named(PolicyType, header.policy_type) or PolicyType.CUSTOM
        resource = AclResource.parse(header.resource)
        if resource is None and (header.resource or "").strip():
            raise Refused(Refusal.NO_PERMISSION, f"{header.resource} is not a resource.")
        if self._users.get(subject.removeprefix(USER_PREFIX)) is None:
            raise Refused(Refusal.NO_PERMISSION, "The subject is not exist.")
        self._acls.delete(subject, kind, resource, _done(request))

    def acl(self, _: Request, header: SubjectOnly) -> Answer:
        """Answer the policies of a user, nothing if there are none."""
        subject = _subject(header.subject)
        if subject is None:
            raise Refused(Refusal.OTHER, NO_SUBJECT)
        if self._users.get(subject.removeprefix(USER_PREFIX)) is None:
            raise Refused(Refusal.NO_PERMISSION, "The subject is not exist.")
        found = self._acls.get(subject)
        return Answer(
            remark=NOT_SET, body=() if found is None else (bodies.encode(bodies.acl_info(found)),)
        )

    def list_acls(self, _: Request, header: AclFilters) -> Answer:
        """Answer the policies of which subject and resource contain a text."""
        found = self._acls.all(_part(header.subject_filter), _part(header.resource_filter))
        return Answer(remark=NOT_SET, body=_each(map(bodies.acl_info, found)))

    def _refuse_if_super(self, request: Request, name: str) -> None:
        found = self._users.get(name)
        if found is not None and found.type is UserType.SUPER and not _is_by_super(request):
            raise Refused(Refusal.NO_PERMISSION, ONLY_SUPER)

    def _existing(self, subject: str | None) -> str:
        """Return a subject that there is. Raises Refused."""
        if subject is None:
            raise Refused(Refusal.OTHER, NO_SUBJECT)
        if self._users.get(subject.removeprefix(USER_PREFIX)) is None:
            raise Refused(Refusal.NO_PERMISSION, f"The subject of {subject} is not exist.")
        return subject


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request says of a user."""

    password: str | None
    type: UserType | None
    status: UserStatus | None

    def __repr__(self) -> str:
        return f"_Asked({self.type}, {self.status})"


def _read_user(request: Request, header: UserOnly) -> _Asked:
    if not header.username:
        raise Refused(Refusal.INVALID_ARGUMENT, BLANK)
    found = bodies.decode_request(UserInfo, request.body)
    return _Asked(
        found.password,
        rights.named(UserType, found.type),
        rights.named(UserStatus, found.status),
    )


def _is_by_super(request: Request) -> bool:
    signer = request.command.signer
    return signer is not None and signer.user.type is UserType.SUPER


def _done(request: Request) -> Done:
    """Return what answers a change, with the remark that RocketMQ has there."""
    return partial(request.done, what=Answer(remark=NOT_SET))


def _each(found: Iterable[UserInfo | AclInfo]) -> Sequence[bytes]:
    """Return a body that has each of them, none if there are none."""
    written = b",".join(map(bodies.encode, found))
    return (b"[%b]" % written,) if written else ()


def _part(text: str | None) -> str:
    """Return what names must contain; a blank text is every name."""
    return text if text is not None and text.strip() else ""


def _subject(text: str | None) -> str | None:
    """Return a subject as policies call it, None if it is not one: `User:` in any case, a name."""
    kind, colon, name = (text or "").partition(":")
    if not colon or kind.lower() != USER_PREFIX[:-1].lower() or not name:
        return None
    return rights.subject(name)


def _policy(info: PolicyInfo) -> AclPolicy:
    """Return what a policy says. Raises Refused."""
    kind = rights.named(PolicyType, info.type) or PolicyType.CUSTOM
    return AclPolicy(kind, tuple(map(_entry, info.entries)))


def _entry(info: PolicyEntryInfo) -> PolicyEntry:
    """Return what an entry says. Raises Refused."""
    resource = AclResource.parse(info.resource)
    if resource is None:
        raise Refused(Refusal.NO_PERMISSION, "The resource is null.")
    actions = _actions(info.actions)
    for source in info.source_ips or ():
        if not source.strip():
            raise Refused(Refusal.NO_PERMISSION, "The source ip is empty.")
        if not rights.is_source(source):
            raise Refused(Refusal.NO_PERMISSION, "The source ip is invalid.")
    decision = rights.named(Decision, info.decision)
    if decision is None:
        raise Refused(Refusal.NO_PERMISSION, "The decision is null or illegal.")
    return PolicyEntry(
        resource=resource,
        actions=actions,
        decision=decision,
        source_ips=tuple(info.source_ips or ()),
    )


def _actions(names: Sequence[str]) -> tuple[Action, ...]:
    """Return actions by their names; RocketMQ passes over those that it does not know."""
    found = []
    for name in names:
        action = rights.named(Action, name)
        if action is Action.ANY:
            raise Refused(Refusal.NO_PERMISSION, "The actions can not be Any.")
        if action is not None and action not in found:
            found.append(action)
    if not found:
        raise Refused(Refusal.NO_PERMISSION, "The actions is empty.")
    return tuple(found)
