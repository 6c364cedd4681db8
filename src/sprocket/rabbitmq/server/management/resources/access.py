"""Users, virtual hosts, permissions and limits."""

import base64
import binascii
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from sprocket.rabbitmq.broker.vhost_broker import VhostBroker
from sprocket.rabbitmq.codec import entities
from sprocket.rabbitmq.codec.definitions import UserDefinition, VhostDefinition, VhostMetadata
from sprocket.rabbitmq.codec.entities import Output, Row
from sprocket.rabbitmq.model.user import TopicPermission, User, VhostPermission
from sprocket.rabbitmq.server.management import measures
from sprocket.rabbitmq.server.management.requests import (
    ADMINISTRATOR,
    LAST_ADMINISTRATOR,
    ApiRoute,
    Call,
    Json,
    Level,
    Listed,
    answers,
    delete,
    get,
    in_order,
    json_array,
    keep_an_administrator,
    listed,
    made_of_each,
    post,
    put,
    shown,
    text,
)
from sprocket.rabbitmq.server.management.samples import Rates
from sprocket.rabbitmq.server.management.services import NodeServices
from sprocket.rabbitmq.server.management.tallies import Tally, tallied
from sprocket.runtime.http import HttpResponse

P = TypeVar("P", VhostPermission, TopicPermission)


class AccessRoutes:
    """See the head of the module."""

    def __init__(self, services: NodeServices) -> None:
        self._services = services
        self._change = services.administration

    def routes(self) -> Sequence[ApiRoute]:
        """Return the routes."""
        boss = Level.ADMINISTRATOR
        vhost, user = "vhosts/{vhost}", "users/{user}"
        permission, topic = "permissions/{vhost}/{user}", "topic-permissions/{vhost}/{user}"
        return [
            get("whoami", Level.USER, self.whoami),
            get("users", boss, self.list_users),
            get("users/without-permissions", boss, self.list_users_without),
            post("users/bulk-delete", boss, self.delete_users, "delete users"),
            get(user, boss, self.get_user),
            put(user, boss, self.put_user, "put user"),
            delete(user, boss, self.delete_user, "delete user"),
            get(f"{user}/permissions", boss, self.list_permissions),
            get(f"{user}/topic-permissions", boss, self.list_topics),
            get("user-limits", boss, self.list_user_limits),
            get("user-limits/{user}", boss, self.list_user_limits),
            put("user-limits/{user}/{limit}", boss, self.put_user_limit, "put user limit"),
            delete("user-limits/{user}/{limit}", boss, self.clear_user_limit, "clear user limit"),
            get("vhosts", Level.USER, self.list_vhosts),
            get(vhost, boss, self.get_vhost),
            put(vhost, boss, self.put_vhost, "put virtual host"),
            delete(vhost, boss, self.delete_vhost, "delete virtual host"),
            get(f"{vhost}/permissions", boss, self.list_permissions),
            get(f"{vhost}/topic-permissions", boss, self.list_topics),
            get("vhost-limits", Level.USER, self.list_vhost_limits),
            get("vhost-limits/{vhost}", Level.SEES_VHOST, self.list_vhost_limits),
            put(
                "vhost-limits/{vhost}/{limit}", boss, self.put_vhost_limit, "put virtual host limit"
            ),
            delete(
                "vhost-limits/{vhost}/{limit}",
                boss,
                self.clear_vhost_limit,
                "clear virtual host limit",
            ),
            get("permissions", boss, self.list_permissions),
            get(permission, boss, self.get_permission),
            put(permission, boss, self.put_permission, "put permission"),
            delete(permission, boss, self.delete_permission, "delete permission"),
            get("topic-permissions", boss, self.list_topics),
            get(topic, boss, self.get_topics),
            put(topic, boss, self.put_topic, "put topic permission"),
            delete(topic, boss, self.delete_topics, "delete topic permission"),
        ]

    # Users.

    async def whoami(self, call: Call) -> HttpResponse:
        """Return who asks."""
        return answers.json_response({"name": call.caller.name, "tags": call.caller.user.tags})

    async def list_users(self, call: Call) -> HttpResponse:
        """Return all users."""
        return await self._told_users(list(self._services.users), call)

    async def list_users_without(self, call: Call) -> HttpResponse:
        """Return the users that may enter no virtual host."""
        slicer = self._services.slicer
        permissions = list(self._services.users.permissions())
        some = set(await made_of_each(permissions, lambda one: one.user, slicer))
        found = [one for one in self._services.users if one.name not in some]
        return await self._told_users(found, call)

    async def get_user(self, call: Call) -> HttpResponse:
        """Return one user."""
        return answers.json_response(_user(self._user(call)))

    async def put_user(self, call: Call) -> HttpResponse:
        """Add or replace a user."""
        given = _user_definition(call.name("user"), call.body())
        if ADMINISTRATOR not in given.tag_names:
            self._keep_an_administrator(call, {given.name})
        call.details["tags"] = given.tag_names
        return answers.put(is_new=await self._change.put_user(given))

    async def delete_user(self, call: Call) -> HttpResponse:
        """Delete a user."""
        self._keep_an_administrator(call, {call.name("user")})
        if not await self._change.remove_user(call.name("user")):
            raise answers.not_found()
        return answers.done()

    async def delete_users(self, call: Call) -> HttpResponse:
        """Delete several users."""
        names = call.body("users")["users"]
        if not isinstance(names, list):
            raise answers.bad_request(["not_a_list", "users"])
        self._keep_an_administrator(call, {one for one in names if isinstance(one, str)})
        call.details["names"] = names
        for name in names:
            if not isinstance(name, str) or not await self._change.remove_user(name):
                raise answers.bad_request(["no_such_user", name])
            call.has_begun = True
        return answers.done()

    async def list_user_limits(self, call: Call) -> HttpResponse:
        """Return the limits of users that have any."""
        named = self._user(call) if "user" in call.names else None
        some = list(self._services.users) if named is None else [named]
        found = [{"user": one.name, "value": one.limits} for one in some if one.limits]
        return answers.json_response(sorted(found, key=lambda one: str(one["user"])))

    async def put_user_limit(self, call: Call) -> HttpResponse:
        """Set one limit of a user."""
        user, name = self._limited_user(call), call.name("limit")
        value = call.body("value")["value"]
        if isinstance(value, bool) or not isinstance(value, int):
            told = f'<<"{value}">>' if isinstance(value, str) else str(value)
            raise answers.bad_request(f"{name} should be a number, actually was {told}")
        call.details["value"] = value
        await self._change.limit_user(user.name, {**user.limits, name: value})
        return answers.done()

    async def clear_user_limit(self, call: Call) -> HttpResponse:
        """Take one limit of a user away."""
        user, name = self._limited_user(call), call.name("limit")
        left = {one: value for one, value in user.limits.items() if one != name}
        await self._change.limit_user(user.name, left)
        return answers.done()

    def _keep_an_administrator(self, call: Call, gone: Collection[str]) -> None:
        is_meant = call.flag(LAST_ADMINISTRATOR)
        keep_an_administrator(self._services.users, gone=gone, is_meant=is_meant)

    def _user(self, call: Call) -> User:
        found = self._services.users.get(call.name("user"))
        if found is None:
            raise answers.not_found()
        return found

    def _limited_user(self, call: Call) -> User:
        found = self._services.users.get(call.name("user"))
        if found is None:
            raise answers.bad_request(["no_such_user", call.name("user")])
        return found

    async def _told_users(self, users: Sequence[User], call: Call) -> HttpResponse:
        what = Listed(users, lambda one: (one.name,), lambda one: one.name, _user)
        return await listed(what, call.query, self._services.slicer)

    # Virtual hosts.

    async def list_vhosts(self, call: Call) -> HttpResponse:
        """Return the virtual hosts that the user may see."""
        seen = self._services.seen(call.caller)
        tallies = await tallied(self._services, seen)
        rates = self._services.samples.rates(call.query)
        what = Listed(
            seen,
            lambda one: (one.name,),
            lambda one: one.name,
            lambda one: self._vhost_view(one, tallies[one.name], rates),
        )
        return await listed(what, call.query, self._services.slicer)

    async def get_vhost(self, call: Call) -> HttpResponse:
        """Return one virtual host."""
        vhost = self._services.vhost(call.vhost)
        tallies = await tallied(self._services, [vhost])
        rates = self._services.samples.rates(call.query)
        return shown(self._vhost_view(vhost, tallies[vhost.name], rates), call.query)

    async def put_vhost(self, call: Call) -> HttpResponse:
        """Make a virtual host, in which its maker may do everything; or change one."""
        body, name = call.body(), call.name("vhost")
        given = VhostDefinition(name=name, metadata=_metadata(body))
        is_new = await self._change.make_vhost(given)
        if is_new:
            anything = ".*"
            await self._change.allow(
                VhostPermission(
                    user=call.caller.name,
                    vhost=name,
                    configure=anything,
                    write=anything,
                    read=anything,
                )
            )
        return answers.put(is_new=is_new)

    async def delete_vhost(self, call: Call) -> HttpResponse:
        """Delete a virtual host."""
        if not await self._change.remove_vhost(call.name("vhost")):
            raise answers.not_found()
        return answers.done()

    async def list_vhost_limits(self, call: Call) -> HttpResponse:
        """Return the limits of virtual hosts that have any."""
        services = self._services
        some = services.seen(call.caller) if call.vhost is None else [services.vhost(call.vhost)]
        found = [
            {"vhost": one.name, "value": one.topology.vhost.limits}
            for one in some
            if one.topology.vhost.limits
        ]
        return answers.json_response(found)

    async def put_vhost_limit(self, call: Call) -> HttpResponse:
        """Set one limit of a virtual host."""
        limits = self._limits(call)
        value = call.details["value"] = call.body("value")["value"]
        await self._change.limit_vhost(call.name("vhost"), {**limits, call.name("limit"): value})
        return answers.done()

    async def clear_vhost_limit(self, call: Call) -> HttpResponse:
        """Take one limit of a virtual host away."""
        limits = self._limits(call)
        left = {name: value for name, value in limits.items() if name != call.name("limit")}
        await self._change.limit_vhost(call.name("vhost"), left)
        return answers.done()

    def _limits(self, call: Call) -> Mapping[str, int]:
        return self._services.declarable(call.vhost).topology.vhost.limits

    def _vhost_view(self, one: VhostBroker, tally: Tally, rates: Rates) -> Json:
        services, vhost = self._services, one.topology.vhost
        view = entities.VHOST.row(vhost, Output.API) | {
            "tracing": False,
            "cluster_state": {services.facts.name: "stopped" if one.refusal else "running"},
        }
        if tally.queues:
            view |= rates.counters(
                measures.SUM_LENGTHS, measures.lengths(tally.ready, tally.unacked), one
            )
        counts = measures.channel_row(tally.published, tally.deliveries)
        if any(counts):
            view["message_stats"] = rates.counters(measures.SUM_STATS, counts, one)
        return view

    # Permissions.

    async def list_permissions(self, call: Call) -> HttpResponse:
        """Return all permissions, those of a user, or those in a virtual host."""
        return await self._some(self._services.users.permissions(), call)

    async def list_topics(self, call: Call) -> HttpResponse:
        """Return all rules about routing keys, those of a user, or those in a virtual host."""
        return await self._some(self._services.users.topic_permissions(), call)

    async def get_permission(self, call: Call) -> HttpResponse:
        """Return what a user may do in a virtual host."""
        return answers.json_response(_of_user(self._services.users.permissions(), call)[0])

    async def put_permission(self, call: Call) -> HttpResponse:
        """Set what a user may do in a virtual host."""
        return await self._allow(call, VhostPermission, "configure", "write", "read")

    async def delete_permission(self, call: Call) -> HttpResponse:
        """Take a user's permission in a virtual host away."""
        _of_user(self._services.users.permissions(), call)
        await self._change.forbid(call.name("user"), call.name("vhost"))
        return answers.done()

    async def get_topics(self, call: Call) -> HttpResponse:
        """Return a user's rules about routing keys in a virtual host."""
        return answers.json_response(_of_user(self._services.users.topic_permissions(), call))

    async def put_topic(self, call: Call) -> HttpResponse:
        """Set which routing keys a user may use with an exchange."""
        return await self._allow(call, TopicPermission, "exchange", "write", "read")

    async def delete_topics(self, call: Call) -> HttpResponse:
        """Take a user's rules about routing keys in a virtual host away."""
        _of_user(self._services.users.topic_permissions(), call)
        await self._change.clear_topics(call.name("user"), call.name("vhost"))
        return answers.done()

    async def _allow(
        self, call: Call, kind: type[VhostPermission] | type[TopicPermission], *names: str
    ) -> HttpResponse:
        body = call.body(*names)
        user, vhost = call.name("user"), call.name("vhost")
        users = self._services.users
        if users.get(user) is None or vhost not in self._services.vhosts:
            raise answers.bad_request("vhost_or_user_not_found")
        given = {name: text(body, name) for name in names}
        call.details |= given
        if kind is VhostPermission:
            is_new = not users.has_permission(user, vhost)
        else:
            is_new = all(
                (one.user, one.vhost) != (user, vhost) for one in users.topic_permissions()
            )
        with answers.refused_as(lambda refusal: answers.bad_request(refusal.remark)):
            await self._change.allow(kind(user=user, vhost=vhost, **given))
        return answers.put(is_new=is_new)

    async def _some(
        self, every: Iterable[VhostPermission] | Iterable[TopicPermission], call: Call
    ) -> HttpResponse:
        if call.vhost is not None:
            self._services.vhost(call.vhost)
        if "user" in call.names:
            self._user(call)
        user = call.name("user") if "user" in call.names else None
        found = [
            one for one in every if call.vhost in (None, one.vhost) and user in (None, one.user)
        ]
        slicer = self._services.slicer
        ordered = await in_order(found, lambda one: (one.vhost, one.user), slicer)
        return answers.json_pieces(await json_array(ordered, lambda one: one, slicer))


def _of_user(every: Iterable[P], call: Call) -> list[P]:
    user, vhost = call.name("user"), call.name("vhost")
    found = [one for one in every if (one.user, one.vhost) == (user, vhost)]
    if not found:
        raise answers.not_found()
    return found


def _user(one: User) -> Row:
    return entities.USER.row(one, Output.API)


def _user_definition(name: str, body: Mapping[str, object]) -> UserDefinition:
    if "password" in body and "password_hash" in body:
        raise answers.bad_request("both_password_and_password_hash_are_provided")
    tags = body.get("tags", body.get("administrator"))
    if tags is None:
        raise answers.bad_request("tags_not_present")
    if isinstance(tags, list):
        tags = tuple(tags)
    elif tags is True or tags is False:
        tags = "administrator" if tags else ""
    hashed = body.get("password_hash")
    if isinstance(hashed, str):
        try:
            base64.b64decode(hashed, validate=True)
        except (binascii.Error, ValueError) as error:
            raise answers.bad_request(["not_base64", hashed]) from error
    known = {"name": name, "tags": tags}
    for member in ("password", "password_hash", "hashing_algorithm", "limits"):
        if member in body:
            known[member] = body[member]
    try:
        return msgspec.convert(known, UserDefinition)
    except msgspec.ValidationError as error:
        raise answers.bad_request(str(error)) from error


def _metadata(body: Mapping[str, object]) -> VhostMetadata:
    tags = body.get("tags", [])
    if isinstance(tags, str):
        tags = [tag.strip() for tag in tags.split(",") if tag.strip()]
    known: dict[str, object] = {"description": body.get("description", ""), "tags": tags}
    default = body.get("default_queue_type", body.get("defaultqueuetype"))
    if default not in (None, "", "undefined"):
        known["default_queue_type"] = default
    try:
        return msgspec.convert(known, VhostMetadata)
    except msgspec.ValidationError as error:
        raise answers.bad_request(str(error)) from error
