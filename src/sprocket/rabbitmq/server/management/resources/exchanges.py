"""Exchanges and bindings, and what is published by the API."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from sprocket.base.errors import WireError
from sprocket.rabbitmq.broker.publishing import Publisher
from sprocket.rabbitmq.codec.amqp import AmqpError, SentMessage, methods, properties
from sprocket.rabbitmq.codec.definitions import arguments_from_json
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.binding import Binding, Destination, binding
from sprocket.rabbitmq.model.declared_queue import DeclaredQueue
from sprocket.rabbitmq.model.exchange import DEFAULT_EXCHANGE, Exchange
from sprocket.rabbitmq.model.fields import FieldTable
from sprocket.rabbitmq.model.properties import BasicProperties
from sprocket.rabbitmq.model.resource import ResourceKind
from sprocket.rabbitmq.server.management import views
from sprocket.rabbitmq.server.management.requests import (
    ApiRoute,
    Call,
    Json,
    Level,
    Listed,
    answers,
    boolean,
    delete,
    get,
    listed,
    members,
    post,
    put,
    shown,
    text,
)
from sprocket.rabbitmq.server.management.services import NodeServices
from sprocket.rabbitmq.server.management.short_channel import ShortChannel
from sprocket.runtime.http import HttpResponse

DEFAULT_NAME = "amq.default"
"""What paths call the exchange without a name."""
_KINDS = {"e": ResourceKind.EXCHANGE, "q": ResourceKind.QUEUE}
_INTEGERS = {"delivery_mode": 255, "priority": 255, "timestamp": (1 << 64) - 1}
_TEXTS = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
_SHORT_BYTES_MAX = 255


Bound: TypeAlias = Binding | DeclaredQueue
"""A binding, or the queue that the default exchange has one to."""


class ExchangeRoutes:
    """See the head of the module."""

    def __init__(self, services: NodeServices) -> None:
        self._services = services

    def routes(self) -> Sequence[ApiRoute]:
        """Return the routes."""
        level, one = Level.IN_VHOST, "exchanges/{vhost}/{exchange}"
        ends = "bindings/{vhost}/e/{exchange}/{kind}/{destination}"
        return [
            get("exchanges", level, self.list_exchanges),
            get("exchanges/{vhost}", level, self.list_exchanges),
            get(one, level, self.get_exchange),
            put(one, level, self.put_exchange, "declare exchange"),
            delete(one, level, self.delete_exchange, "delete exchange"),
            post(f"{one}/publish", level, self.publish),
            get(f"{one}/bindings/source", level, self.bindings_from),
            get(f"{one}/bindings/destination", level, self.bindings_to),
            get("queues/{vhost}/{queue}/bindings", level, self.bindings_of_queue),
            get("bindings", level, self.list_bindings),
            get("bindings/{vhost}", level, self.list_bindings),
            get(ends, level, self.bindings_between),
            post(ends, level, self.bind, "bind"),
            get(f"{ends}/{{key}}", level, self.get_binding),
            delete(f"{ends}/{{key}}", level, self.unbind, "unbind"),
        ]

    # Exchanges.

    async def list_exchanges(self, call: Call) -> HttpResponse:
        """Return all exchanges, or those of one virtual host."""
        services, rates = self._services, self._services.samples.rates(call.query)
        what = Listed(
            [
                (vhost, one)
                for vhost in services.some(call.caller, call.vhost)
                for one in vhost.topology.exchanges()
            ],
            lambda one: (one[1].vhost, one[1].name),
            lambda one: one[1].name,
            lambda one: views.exchange(one[0], one[1], rates),
        )
        return await listed(what, call.query, services.slicer)

    async def get_exchange(self, call: Call) -> HttpResponse:
        """Return one exchange."""
        vhost = self._services.vhost(call.vhost)
        found = vhost.topology.find_exchange(_exchange_name(call))
        if found is None:
            raise answers.not_found()
        view = views.exchange(vhost, found, self._services.samples.rates(call.query))
        view["incoming"] = view["outgoing"] = []
        return shown(view, call.query)

    async def put_exchange(self, call: Call) -> HttpResponse:
        """Declare an exchange."""
        vhost, body = self._services.declarable(call.vhost), call.body()
        wanted = Exchange(
            vhost=vhost.name,
            name=_exchange_name(call),
            type=text(body, "type", "direct"),
            is_durable=boolean(body, "durable"),
            is_auto_delete=boolean(body, "auto_delete"),
            is_internal=boolean(body, "internal"),
            arguments=table(members(body, "arguments")),
        )
        await vhost.until_gone(Destination(ResourceKind.EXCHANGE, wanted.name))
        with answers.refused_as(answers.of_declaration):
            is_new = vhost.topology.declare_exchange(wanted, call.caller.requester(vhost.name))
            call.is_change = is_new
            call.details["type"] = wanted.type
        await self._services.administration.durable()
        return answers.put(is_new=is_new)

    async def delete_exchange(self, call: Call) -> HttpResponse:
        """Delete an exchange."""
        vhost = self._services.vhost(call.vhost)
        name = _exchange_name(call)
        if vhost.topology.find_exchange(name) is None:
            raise answers.not_found()
        with answers.refused_as(answers.of_declaration):
            vhost.topology.delete_exchange(
                name, call.caller.requester(vhost.name), if_unused=call.flag("if-unused")
            )
        await self._services.administration.durable()
        return answers.done()

    async def publish(self, call: Call) -> HttpResponse:
        """Publish one message, and say whether a queue has got it."""
        vhost = self._services.vhost(call.vhost)
        body = call.body("routing_key", "properties", "payload", "payload_encoding")
        octets = properties.encode(_properties(members(body, "properties")))
        payload = _payload(text(body, "payload"), body["payload_encoding"])
        channel = ShortChannel(vhost, self._services.clock)
        try:
            method = methods.BasicPublish(
                0, _exchange_name(call), text(body, "routing_key"), True, False
            )
            sent = SentMessage(
                method,
                octets,
                properties.read_envelope(octets),
                (payload,) if payload else (),
            )
            publisher = Publisher(call.caller.user, call.caller.access(vhost.name))
            is_routed = await channel.publish(sent, publisher)
        except RequestRefused as refusal:
            raise answers.of_publish(refusal) from refusal
        except AmqpError as error:
            raise answers.bad_request(error.text) from error
        finally:
            channel.close()
        return answers.json_response({"routed": is_routed})

    # Bindings.

    async def list_bindings(self, call: Call) -> HttpResponse:
        """Return all bindings, those of the default exchange too, or those of one vhost."""
        found: list[Bound] = []
        for vhost in self._services.some(call.caller, call.vhost):
            found += vhost.topology.queues()
            found += vhost.topology.bindings()
            await vhost.turns.pass_turn()
        return await self._told(found, call)

    async def bindings_from(self, call: Call) -> HttpResponse:
        """Return the bindings from an exchange."""
        topology = self._services.vhost(call.vhost).topology
        name = _exchange_name(call)
        if name == DEFAULT_EXCHANGE:
            return await self._told(list(topology.queues()), call)
        return await self._told(topology.bindings_from(name), call)

    async def bindings_to(self, call: Call) -> HttpResponse:
        """Return the bindings to an exchange."""
        return await self._to(Destination(ResourceKind.EXCHANGE, _exchange_name(call)), call)

    async def bindings_of_queue(self, call: Call) -> HttpResponse:
        """Return the bindings to a queue."""
        return await self._to(Destination(ResourceKind.QUEUE, call.name("queue")), call)

    async def bindings_between(self, call: Call) -> HttpResponse:
        """Return the bindings from an exchange to something."""
        return await self._told(self._every_between(call), call)

    async def bind(self, call: Call) -> HttpResponse:
        """Add a binding, and say what it is called."""
        vhost, body = self._services.declarable(call.vhost), call.body()
        destination = _destination(call)
        wanted = binding(
            vhost.name,
            _exchange_name(call),
            destination,
            text(body, "routing_key"),
            table(members(body, "arguments")),
        )
        with answers.refused_as(answers.of_declaration):
            call.is_change = vhost.topology.bind(wanted, call.caller.requester(vhost.name))
            call.details["key"] = text(body, "routing_key")
        await self._services.administration.durable()
        location = views.location(destination.name, views.properties_key(wanted))
        return HttpResponse(status=201, headers={"location": location})

    async def get_binding(self, call: Call) -> HttpResponse:
        """Return one binding."""
        for view in map(_view, self._every_between(call)):
            if view["properties_key"] == call.name("key") or (
                view["routing_key"] == call.name("key") and not view["arguments"]
            ):
                return answers.json_response(view)
        raise answers.not_found()

    async def unbind(self, call: Call) -> HttpResponse:
        """Take one binding away."""
        vhost = self._services.vhost(call.vhost)
        found = _called(self._between(call), call.name("key"))
        with answers.refused_as(answers.of_declaration):
            vhost.topology.unbind(found, call.caller.requester(vhost.name))
        await self._services.administration.durable()
        return answers.done()

    def _between(self, call: Call) -> list[Binding]:
        topology = self._services.vhost(call.vhost).topology
        destination = _destination(call)
        found = topology.bindings_to(destination)
        return [one for one in found if one.source == _exchange_name(call)]

    def _every_between(self, call: Call) -> list[Bound]:
        found: list[Bound] = [*self._between(call)]
        destination = _destination(call)
        queue = self._services.vhost(call.vhost).topology.find_queue(destination.name)
        if (
            _exchange_name(call) == DEFAULT_EXCHANGE
            and destination.kind is ResourceKind.QUEUE
            and queue is not None
        ):
            found.append(queue)
        return found

    async def _to(self, destination: Destination, call: Call) -> HttpResponse:
        topology = self._services.vhost(call.vhost).topology
        found: list[Bound] = [*topology.bindings_to(destination)]
        queue = topology.find_queue(destination.name)
        if destination.kind is ResourceKind.QUEUE and queue is not None:
            found.append(queue)
        return await self._told(found, call)

    async def _told(self, found: Sequence[Bound], call: Call) -> HttpResponse:
        what = Listed(found, _order, _source, _view)
        return await listed(what, call.query, self._services.slicer)


def table(given: Mapping[str, object]) -> FieldTable:
    """Return arguments. Raises ApiError."""
    try:
        return arguments_from_json(given)
    except WireError as error:
        raise answers.bad_request(str(error)) from error


def _order(one: Bound) -> tuple[object, ...]:
    if isinstance(one, DeclaredQueue):
        return one.vhost, DEFAULT_EXCHANGE, one.name, one.name, ""
    return one.vhost, one.source, one.destination.name, one.key, views.properties_key(one)


def _source(one: Bound) -> str:
    return DEFAULT_EXCHANGE if isinstance(one, DeclaredQueue) else one.source


def _view(one: Bound) -> Json:
    if isinstance(one, DeclaredQueue):
        to = Destination(ResourceKind.QUEUE, one.name)
        one = binding(one.vhost, DEFAULT_EXCHANGE, to, one.name)
    return views.binding(one)


def _exchange_name(call: Call) -> str:
    name = call.name("exchange")
    return DEFAULT_EXCHANGE if name == DEFAULT_NAME else name


def _destination(call: Call) -> Destination:
    kind = _KINDS.get(call.name("kind"))
    if kind is None:
        raise answers.not_found()
    return Destination(kind, call.name("destination"))


def _called(found: Sequence[Binding], key: str) -> Binding:
    for one in found:
        if views.properties_key(one) == key or (one.key == key and not len(one.arguments)):
            return one
    raise answers.not_found()


def _payload(payload: str, encoding: object) -> bytes:
    if encoding == "string":
        return payload.encode("utf-8", "surrogateescape")
    if encoding != "base64":
        raise answers.bad_request(["unsupported_encoding", encoding])
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError) as error:
        raise answers.bad_request(["not_base64", payload]) from error


def _properties(given: Mapping[str, object]) -> BasicProperties:
    found: dict[str, object] = {}
    for name, limit in _INTEGERS.items():
        value = given.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
            raise answers.bad_request(["not_int", name])
        found[name] = value
    for name in _TEXTS:
        value = given.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or len(value.encode("utf-8", "replace")) > _SHORT_BYTES_MAX:
            raise answers.bad_request(["not_string", name])
        found[name] = value
    headers = table(members(given, "headers")) if "headers" in given else None
    return msgspec.structs.replace(BasicProperties(headers=headers), **found)
