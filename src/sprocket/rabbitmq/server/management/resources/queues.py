"""Queues: what there is, and what can be done with their messages."""

import asyncio
import base64
from collections.abc import Callable, Sequence
from typing import TypeVar

from sprocket.base.errors import StoreError
from sprocket.rabbitmq.broker.access import Need
from sprocket.rabbitmq.broker.channels import Got
from sprocket.rabbitmq.broker.publishing import Publisher
from sprocket.rabbitmq.broker.queues import BrokerQueue, message_of
from sprocket.rabbitmq.broker.vhost_broker import VhostBroker
from sprocket.rabbitmq.codec.amqp import SentMessage, methods, properties
from sprocket.rabbitmq.codec.definitions import arguments_to_json
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.binding import Destination
from sprocket.rabbitmq.model.declared_queue import DeclaredQueue
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.resource import ResourceKind, queue_resource
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
from sprocket.rabbitmq.server.management.resources.connections import channels_by_identity
from sprocket.rabbitmq.server.management.resources.exchanges import table
from sprocket.rabbitmq.server.management.services import NodeServices
from sprocket.rabbitmq.server.management.short_channel import ShortChannel
from sprocket.runtime.http import HttpResponse

T = TypeVar("T")
Begin = Callable[[Callable[[T], None], Callable[[StoreError], None]], None]
"""Begins an operation that calls one of two functions when it ends."""

ANSWER_BYTES_MAX = 64 << 20
"""Of the bodies that one answer to a get has; what is beyond it stays in the queue."""
_ACK_MODES = {
    "ack_requeue_true": True,
    "reject_requeue_true": True,
    "ack_requeue_false": None,
    "reject_requeue_false": False,
}
"""Whether what was got is given back; None if it counts as acknowledged."""


class QueueRoutes:
    """See the head of the module."""

    def __init__(self, services: NodeServices) -> None:
        self._services = services

    def routes(self) -> Sequence[ApiRoute]:
        """Return the routes."""
        level, one = Level.IN_VHOST, "queues/{vhost}/{queue}"
        return [
            get("queues", level, self.list_queues),
            get("queues/{vhost}", level, self.list_queues),
            get(one, level, self.get_queue),
            put(one, level, self.put_queue, "declare queue"),
            delete(one, level, self.delete_queue, "delete queue"),
            delete(f"{one}/contents", level, self.purge, "purge queue"),
            post(f"{one}/get", level, self.get_messages),
            post(f"{one}/actions", level, self.act),
            get("aliveness-test/{vhost}", level, self.test_aliveness),
        ]

    async def list_queues(self, call: Call) -> HttpResponse:
        """Return all queues, or those of one virtual host."""
        services, node = self._services, self._services.facts.name
        rates = services.samples.rates(call.query)
        is_short, with_totals = call.flag("disable_stats"), call.flag("enable_queue_totals")

        def view(one: tuple[VhostBroker, BrokerQueue]) -> Json | None:
            vhost, queue = one
            declared = vhost.topology.find_queue(queue.label)
            if declared is None or vhost.find(queue.label) is not queue:
                return None  # it was deleted while others were listed
            if is_short:
                return _declared(vhost, declared, queue, node, with_totals=with_totals)
            return views.queue(vhost, declared, queue, node, rates)

        what = Listed(
            [(of, one) for of in services.some(call.caller, call.vhost) for one in of.queues],
            lambda one: one[1].name[:2],
            lambda one: one[1].label,
            view,
        )
        return await listed(what, call.query, services.slicer)

    async def get_queue(self, call: Call) -> HttpResponse:
        """Return one queue, with its consumers."""
        services, node = self._services, self._services.facts.name
        vhost, found = self._found(call)
        rates = services.samples.rates(call.query)
        view = views.queue(vhost, self._declaration(vhost, found), found, node, rates)
        channels = channels_by_identity(services) if found.consumers else {}
        view["consumer_details"] = [
            views.consumer(one, channels.get(id(one.receiver)), found, node)
            for one in found.consumers
        ]
        view["deliveries"] = view["incoming"] = []
        owner = self._declaration(vhost, found).owner
        for connection in services.authenticator.connections() if owner is not None else ():
            if connection.number == owner:
                view["owner_pid_details"] = views.connection_details(connection)
        return shown(view, call.query)

    async def put_queue(self, call: Call) -> HttpResponse:
        """Declare a queue."""
        vhost, body = self._services.declarable(call.vhost), call.body()
        node = text(body, "node", self._services.facts.name)
        if node != self._services.facts.name:
            raise answers.bad_request(f"Node {node} could not be contacted")
        wanted = DeclaredQueue(
            vhost=vhost.name,
            name=call.name("queue"),
            is_durable=boolean(body, "durable"),
            is_auto_delete=boolean(body, "auto_delete"),
            arguments=table(members(body, "arguments")),
        )
        call.is_change = is_new = await self._declare(call, vhost, wanted)
        return answers.put(is_new=is_new)

    async def delete_queue(self, call: Call) -> HttpResponse:
        """Delete a queue."""
        vhost, found = self._found(call)

        def begin(done: Callable[[int], None], failed: Callable[[StoreError], None]) -> None:
            vhost.delete(
                found.label,
                call.caller.requester(vhost.name),
                done,
                failed,
                if_unused=call.flag("if-unused"),
                if_empty=call.flag("if-empty"),
            )

        with answers.refused_as(answers.of_declaration):
            await _ended(begin)
        return answers.done()

    async def purge(self, call: Call) -> HttpResponse:
        """Drop all messages that are ready."""
        vhost, found = self._found(call)
        with answers.refused_as(answers.of_declaration):
            self._check_readable(call, vhost, found.label)
        await _ended(found.purge)
        vhost.note_write()
        return answers.done()

    async def get_messages(self, call: Call) -> HttpResponse:
        """Get messages, and perhaps give them back."""
        vhost = self._services.vhost(call.vhost)
        body = call.body("ackmode", "count", "encoding")
        count = _integer(body["count"])
        mode = body["ackmode"]
        if mode not in _ACK_MODES:
            raise answers.bad_request(["unsupported_ackmode", mode])
        encoding = body["encoding"]
        if encoding not in ("auto", "base64"):
            raise answers.bad_request("Unsupported encoding. Please use auto or base64.")
        truncate = _integer(body["truncate"]) if "truncate" in body else None
        is_requeue = _ACK_MODES[str(mode)]
        with answers.refused_as(answers.of_channel):
            self._check_readable(call, vhost, call.name("queue"))
            queue = vhost.queue(call.name("queue"), call.caller.requester(vhost.name))
        channel = ShortChannel(vhost, self._services.clock)
        found: list[Json] = []
        size = 0
        last: Got | None = None
        try:
            while len(found) < count and size < ANSWER_BYTES_MAX:
                got = await channel.get(queue, no_ack=is_requeue is None)
                if got is None:
                    break
                last = got
                size += got.entry.body_bytes
                found.append(_message(got, is_base64=encoding == "base64", truncate=truncate))
            if last is not None and is_requeue is not None:
                await channel.reject_all(last, is_requeue=is_requeue)
        except RequestRefused as refusal:
            raise answers.of_channel(refusal) from refusal
        finally:
            channel.close()
        return answers.json_response(found)

    async def act(self, call: Call) -> HttpResponse:
        """Do what mirrored queues do, of which there are none: nothing."""
        self._found(call)
        action = call.body("action")["action"]
        if action not in ("sync", "cancel_sync"):
            raise answers.bad_request(["unknown", action])
        return answers.done()

    async def test_aliveness(self, call: Call) -> HttpResponse:
        """Declare a queue, publish to it and get the message."""
        vhost, name = self._services.vhost(call.vhost), "aliveness-test"
        wanted = DeclaredQueue(vhost=vhost.name, name=name)
        publisher = Publisher(call.caller.user, call.caller.access(vhost.name))
        none = properties.NO_PROPERTIES
        channel = ShortChannel(vhost, self._services.clock)
        try:
            call.caller.requester(vhost.name).access.check(
                Need.CONFIGURE, queue_resource(name, vhost.name)
            )
            await self._declare(call, vhost, wanted)
            method = methods.BasicPublish(0, "", name, True, False)
            sent = SentMessage(method, none, properties.read_envelope(none), (b"test_message",))
            await channel.publish(sent, publisher)
            self._check_readable(call, vhost, name)
            queue = vhost.queue(name, call.caller.requester(vhost.name))
            await channel.get(queue, no_ack=True)
        except RequestRefused as refusal:
            raise answers.of_channel(refusal) from refusal
        finally:
            channel.close()
        return answers.json_response({"status": "ok"})

    async def _declare(self, call: Call, vhost: VhostBroker, wanted: DeclaredQueue) -> bool:
        await vhost.until_gone(Destination(ResourceKind.QUEUE, wanted.name))
        with answers.refused_as(answers.of_declaration):
            declared = vhost.declare(wanted, call.caller.requester(vhost.name))
        await self._services.administration.durable()
        return declared.is_new

    def _found(self, call: Call) -> tuple[VhostBroker, BrokerQueue]:
        vhost = self._services.vhost(call.vhost)
        found = vhost.find(call.name("queue"))
        if found is None:
            raise answers.not_found()
        return vhost, found

    def _declaration(self, vhost: VhostBroker, found: BrokerQueue) -> DeclaredQueue:
        declared = vhost.topology.find_queue(found.label)
        assert declared is not None, f"{found.name} is not declared"
        return declared

    def _check_readable(self, call: Call, vhost: VhostBroker, name: str) -> None:
        access = call.caller.access(vhost.name)
        access.check(Need.READ, queue_resource(name, vhost.name))


def _declared(
    vhost: VhostBroker,
    declared: DeclaredQueue,
    found: BrokerQueue,
    node: str,
    *,
    with_totals: bool,
) -> Json:
    view = views.queue_declaration(declared, node)
    policy = vhost.topology.in_force(ResourceKind.QUEUE, found.label).policy
    if policy is not None:
        view["policy"] = policy
    if with_totals:
        view |= views.totals(found.ready_count, found.unacked_count)
    return view


def _message(got: Got, *, is_base64: bool, truncate: int | None) -> Json:
    message = message_of(got.entry)
    body = message.body
    told = body if truncate is None else body[:truncate]
    payload, how = answers.body_text(told)
    if is_base64:
        payload, how = base64.b64encode(told).decode(), "base64"
    return {
        "payload_bytes": len(body),
        "redelivered": got.entry.is_delivered,
        "exchange": message.exchange,
        "routing_key": message.routing_keys[0] if message.routing_keys else "",
        "message_count": got.left_count,
        "properties": _properties(message),
        "payload": payload,
        "payload_encoding": how,
    }


def _properties(message: BasicMessage) -> object:
    held = message.properties
    known = properties.decode(held) if isinstance(held, bytes) else held
    values = {name: getattr(known, name) for name in known.__struct_fields__ if name != "headers"}
    found: dict[str, object] = {name: one for name, one in values.items() if one is not None}
    if known.headers is not None:
        found["headers"] = arguments_to_json(known.headers)
    return found or []


def _integer(value: object) -> int:
    if isinstance(value, str) and value.isdigit():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise answers.bad_request(["not_integer", value])
    return value


async def _ended(begin: Begin[T]) -> T:
    """Begin an operation, and return its result. Raises StoreError."""
    ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(result: T) -> None:
        if not ended.done():
            ended.set_result(result)

    def failed(error: StoreError) -> None:
        if not ended.done():
            ended.set_exception(error)

    begin(done, failed)
    return await ended
