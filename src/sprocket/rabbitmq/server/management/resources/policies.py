"""Policies, parameters and definitions."""

from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from typing import Final

import msgspec

from sprocket.base.errors import WireError
from sprocket.rabbitmq.codec import definitions as definitions_codec
from sprocket.rabbitmq.codec import entities
from sprocket.rabbitmq.codec.definitions import ParameterDefinition, PolicyDefinition
from sprocket.rabbitmq.codec.entities import OPERATOR_POLICY, VHOST_LIMITS, Output, Row
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.policy import GlobalParameter, Policy
from sprocket.rabbitmq.server.management.requests import (
    ADMINISTRATOR,
    LAST_ADMINISTRATOR,
    ApiRoute,
    Call,
    Level,
    Listed,
    answers,
    delete,
    get,
    json_array,
    keep_an_administrator,
    listed,
    post,
    put,
)
from sprocket.rabbitmq.server.management.services import NodeServices
from sprocket.runtime.http import HttpResponse

PRODUCT: Final = "RabbitMQ"


class PolicyRoutes:
    """See the head of the module."""

    def __init__(self, services: NodeServices) -> None:
        self._services = services
        self._change = services.administration

    def routes(self) -> Sequence[ApiRoute]:
        """Return the routes."""
        rules, boss = Level.POLICYMAKER, Level.ADMINISTRATOR
        one, parameter = "{vhost}/{name}", "parameters/{component}/{vhost}/{name}"
        return [
            *self._policy_routes("policies", rules, is_operator=False),
            *self._policy_routes("operator-policies", boss, is_operator=True),
            put(f"policies/{one}", rules, self.put_policy, "put policy"),
            put(f"operator-policies/{one}", boss, self.put_operator_policy, "put operator policy"),
            get("parameters", rules, self.list_parameters),
            get("parameters/{component}", rules, self.list_parameters),
            get("parameters/{component}/{vhost}", rules, self.list_parameters),
            get(parameter, rules, self.get_parameter),
            put(parameter, rules, self.put_parameter, "put parameter"),
            delete(parameter, rules, self.delete_parameter, "delete parameter"),
            get("global-parameters", rules, self.list_global),
            get("global-parameters/{name}", rules, self.get_global),
            put("global-parameters/{name}", boss, self.put_global, "put global parameter"),
            delete("global-parameters/{name}", boss, self.delete_global, "delete global parameter"),
            get("definitions", boss, self.export),
            get("definitions/{vhost}", boss, self.export),
            post("definitions", boss, self.take, "import definitions"),
            post("definitions/{vhost}", boss, self.take, "import definitions"),
        ]

    # Policies.

    def _policy_routes(self, path: str, level: Level, *, is_operator: bool) -> list[ApiRoute]:
        one = f"{path}/{{vhost}}/{{name}}"
        every = partial(self.list_policies, is_operator=is_operator)
        one_of = partial(self.get_policy, is_operator=is_operator)
        removed = partial(self.delete_policy, is_operator=is_operator)
        return [
            get(path, Level.IN_VHOST, every),
            get(f"{path}/{{vhost}}", Level.IN_VHOST, every),
            get(one, level, one_of),
            delete(one, level, removed, "delete policy"),
        ]

    async def list_policies(self, call: Call, *, is_operator: bool) -> HttpResponse:
        """Return all policies, or those of one virtual host; users' or operators'."""
        found = [
            one
            for vhost in self._services.some(call.caller, call.vhost)
            for one in vhost.topology.policies()
            if one.is_operator is is_operator
        ]
        what = Listed(
            found, lambda one: (one.priority, one.vhost, one.name), lambda one: one.name, _policy
        )
        return await listed(what, call.query, self._services.slicer)

    async def get_policy(self, call: Call, *, is_operator: bool) -> HttpResponse:
        """Return one policy."""
        name = call.name("name")
        for one in self._services.vhost(call.vhost).topology.policies():
            if one.name == name and one.is_operator is is_operator:
                return answers.json_response(_policy(one))
        raise answers.not_found()

    async def delete_policy(self, call: Call, *, is_operator: bool) -> HttpResponse:
        """Clear one policy."""
        vhost = self._services.vhost(call.vhost).name
        name = call.name("name")
        if not await self._change.remove_policy(vhost, name, is_operator=is_operator):
            raise answers.not_found()
        return answers.done()

    async def put_policy(self, call: Call) -> HttpResponse:
        """Set a policy."""
        vhost = self._in_vhost(call)
        body = call.body("pattern", "definition")
        is_new = self._is_new(call, is_operator=False)
        try:
            given = _policy_definition(call.name("name"), body)
            call.details |= {one: body[one] for one in ("pattern", "definition")}
            await self._change.put_policy(vhost, given)
        except RequestRefused as refusal:
            raise answers.bad_request(escape(refusal.remark, quote=False)) from refusal
        return answers.put(is_new=is_new)

    async def put_operator_policy(self, call: Call) -> HttpResponse:
        """Set an operator's policy."""
        vhost = self._in_vhost(call)
        body = call.body("pattern", "definition")
        is_new = self._is_new(call, is_operator=True)
        members = ("pattern", "definition", "priority", "apply-to")
        value = {name: body[name] for name in members if name in body}
        _check_priority(body)
        call.details |= value
        await self._change.put_operator_policy(vhost, call.name("name"), value)
        return answers.put(is_new=is_new)

    def _is_new(self, call: Call, *, is_operator: bool) -> bool:
        policies = self._services.vhost(call.vhost).topology.policies()
        name = call.name("name")
        return not any(one.name == name and one.is_operator is is_operator for one in policies)

    def _in_vhost(self, call: Call) -> str:
        return self._services.declarable(call.vhost).name

    # Parameters.

    async def list_parameters(self, call: Call) -> HttpResponse:
        """Return parameters: operators' policies, and limits of virtual hosts."""
        component = call.names.get("component")
        found = [
            one
            for vhost in self._services.some(call.caller, call.vhost)
            for one in self._parameters(vhost.name)
            if component in (None, one["component"])
        ]
        return answers.json_response(found)

    async def get_parameter(self, call: Call) -> HttpResponse:
        """Return one parameter."""
        wanted = call.name("component"), call.name("name")
        for one in self._parameters(self._services.vhost(call.vhost).name):
            if (one["component"], one["name"]) == wanted:
                return answers.json_response(one)
        raise answers.not_found()

    async def put_parameter(self, call: Call) -> HttpResponse:
        """Set a parameter."""
        vhost, component, name = self._in_vhost(call), call.name("component"), call.name("name")
        value = call.details["value"] = call.body("value")["value"]
        if component not in (OPERATOR_POLICY, VHOST_LIMITS):
            raise answers.bad_request(f"Validation failed\n\ncomponent {component} not found\n")
        if not call.caller.is_administrator:
            raise answers.not_authorised("Not administrator user")
        before = [(one["component"], one["name"]) for one in self._parameters(vhost)]
        given = ParameterDefinition(component=component, name=name, value=value)
        await self._change.put_parameter(vhost, given)
        return answers.put(is_new=(component, name) not in before)

    async def delete_parameter(self, call: Call) -> HttpResponse:
        """Clear a parameter."""
        vhost = self._services.vhost(call.vhost).name
        component, name = call.name("component"), call.name("name")
        if not any(
            (one["component"], one["name"]) == (component, name) for one in self._parameters(vhost)
        ):
            raise answers.not_found()
        if not call.caller.is_administrator:
            raise answers.not_authorised("Not administrator user")
        if component == VHOST_LIMITS:
            await self._change.limit_vhost(vhost, {})
        else:
            await self._change.remove_policy(vhost, name, is_operator=True)
        return answers.done()

    def _parameters(self, vhost: str) -> list[Row]:
        topology = self._services.vhosts[vhost].topology
        operators = (one for one in topology.policies() if one.is_operator)
        return list(entities.parameters(topology.vhost, operators))

    async def list_global(self, _: Call) -> HttpResponse:
        """Return the settings of the node."""
        found = sorted(self._change.global_parameters(), key=lambda one: one.name)
        return answers.json_response(found)

    async def get_global(self, call: Call) -> HttpResponse:
        """Return one setting of the node."""
        return answers.json_response(self._global(call))

    async def put_global(self, call: Call) -> HttpResponse:
        """Set a setting of the node."""
        name = call.name("name")
        is_new = all(one.name != name for one in self._change.global_parameters())
        value = call.details["value"] = call.body("value")["value"]
        await self._change.put_global_parameter(GlobalParameter(name=name, value=value))
        return answers.put(is_new=is_new)

    async def delete_global(self, call: Call) -> HttpResponse:
        """Clear a setting of the node."""
        await self._change.remove_global_parameter(self._global(call))
        return answers.done()

    def _global(self, call: Call) -> GlobalParameter:
        for one in self._change.global_parameters():
            if one.name == call.name("name"):
                return one
        raise answers.not_found()

    # Definitions.

    async def export(self, call: Call) -> HttpResponse:
        """Return all definitions, or those in one virtual host."""
        vhost = call.vhost
        if vhost is not None and vhost not in self._services.vhosts:
            raise answers.bad_request("vhost_not_found")
        members = self._change.export(vhost)
        if vhost is None:
            version = members["rabbit_version"]
            members |= {"product_name": PRODUCT, "product_version": version}
        pieces: list[bytes] = []
        for name in sorted(members):
            value = members[name]
            pieces.append(b'%b"%b":' % (b"," if pieces else b"{", name.encode()))
            if isinstance(value, str):
                pieces.append(answers.encode(value))
            else:
                write, slicer = definitions_codec.encode_entries, self._services.slicer
                pieces += await json_array(value, lambda one: one, slicer, write=write)
        return answers.json_pieces([*pieces, b"}"])

    async def take(self, call: Call) -> HttpResponse:
        """Take definitions."""
        vhost = call.vhost
        if vhost is not None:
            self._in_vhost(call)
        try:
            file = definitions_codec.decode(_upload(call))
        except WireError as error:
            raise answers.bad_request(str(error)) from error
        given = {one.name: ADMINISTRATOR in one.tag_names for one in file.users or ()}
        keep_an_administrator(
            self._services.users,
            gone={name for name, is_one in given.items() if not is_one},
            come={name for name, is_one in given.items() if is_one},
            is_meant=call.flag(LAST_ADMINISTRATOR),
        )
        call.has_begun = True
        report = await self._change.take(file, vhost)
        call.details |= report.taken
        return answers.done()


def _policy(one: Policy) -> Row:
    return entities.POLICY.row(one, Output.API)


def _check_priority(body: Mapping[str, object]) -> None:
    value = body.get("priority", 0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        told = f'<<"{value}">>' if isinstance(value, str) else str(value)
        told = escape(told, quote=False)
        raise answers.bad_request(
            f"Validation failed\n\npriority should be a number, actually was {told}\n"
        )


def _policy_definition(name: str, body: Mapping[str, object]) -> PolicyDefinition:
    _check_priority(body)
    known = {
        member: body[member]
        for member in ("pattern", "definition", "apply-to", "priority")
        if member in body
    }
    try:
        return msgspec.convert({**known, "name": name}, PolicyDefinition)
    except msgspec.ValidationError as error:
        raise answers.bad_request(str(error)) from error


def _upload(call: Call) -> bytes:
    """Return the JSON of an upload; refuse what is not JSON."""
    try:
        msgspec.json.decode(call.raw())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise answers.bad_request("failed_to_parse_json") from error
    return call.raw()
