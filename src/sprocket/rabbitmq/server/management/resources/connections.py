"""Connections, channels and consumers."""

from collections.abc import Sequence

from sprocket.rabbitmq.broker.channels import ConsumedQueue
from sprocket.rabbitmq.codec.amqp import AmqpError, ReplyCode
from sprocket.rabbitmq.server.management import views
from sprocket.rabbitmq.server.management.requests import (
    ApiRoute,
    Call,
    Caller,
    Level,
    Listed,
    answers,
    delete,
    get,
    in_order,
    json_array,
    listed,
    made_of_each,
    shown,
)
from sprocket.rabbitmq.server.management.services import NodeServices, OpenChannel, connection_name
from sprocket.rabbitmq.server.vhost_connection import VhostConnection
from sprocket.runtime.http import HttpResponse

CLOSED = "Closed via management plugin"
"""What clients are told unless the header X-Reason says something else."""


class ConnectionRoutes:
    """See the head of the module."""

    def __init__(self, services: NodeServices) -> None:
        self._services = services

    def routes(self) -> Sequence[ApiRoute]:
        """Return the routes."""
        return [
            get("connections", Level.USER, self.list_connections),
            get("vhosts/{vhost}/connections", Level.SEES_VHOST, self.list_connections),
            get("connections/{connection}", Level.USER, self.get_connection),
            delete(
                "connections/{connection}", Level.USER, self.close_connection, "close connection"
            ),
            get("connections/{connection}/channels", Level.USER, self.channels_of),
            get("connections/username/{user}", Level.USER, self.connections_of_user),
            delete("connections/username/{user}", Level.USER, self.close_user, "close connections"),
            get("channels", Level.USER, self.list_channels),
            get("vhosts/{vhost}/channels", Level.SEES_VHOST, self.list_channels),
            get("channels/{channel}", Level.USER, self.get_channel),
            get("consumers", Level.USER, self.list_consumers),
            get("consumers/{vhost}", Level.IN_VHOST, self.list_consumers),
        ]

    async def list_connections(self, call: Call) -> HttpResponse:
        """Return all connections, or those in one virtual host."""
        services = self._services
        if call.vhost is not None:
            services.vhost(call.vhost)
        rates = services.samples.rates(call.query)
        what = Listed(
            services.connections(call.caller, call.vhost),
            lambda one: (one.vhost.name, connection_name(one)),
            connection_name,
            lambda one: views.connection(one, services.facts.name, rates),
        )
        return await listed(what, call.query, services.slicer)

    async def get_connection(self, call: Call) -> HttpResponse:
        """Return one connection."""
        services = self._services
        found = self._connection(call)
        view = views.connection(found, services.facts.name, services.samples.rates(call.query))
        return shown(views.without_nothing(view), call.query)

    async def close_connection(self, call: Call) -> HttpResponse:
        """Close one connection."""
        self._close(self._connection(call), call)
        return answers.done()

    async def channels_of(self, call: Call) -> HttpResponse:
        """Return the channels of one connection."""
        return await self._channels(call, [self._connection(call)])

    async def connections_of_user(self, call: Call) -> HttpResponse:
        """Return the connections of one user."""
        node, slicer = self._services.facts.name, self._services.slicer
        found = await json_array(
            self._of_user(call), lambda one: views.tracked_connection(one, node), slicer
        )
        return answers.json_pieces(found)

    async def close_user(self, call: Call) -> HttpResponse:
        """Close the connections of one user."""
        found = self._of_user(call)
        await made_of_each(found, lambda one: self._close(one, call), self._services.slicer)
        return answers.done()

    async def list_channels(self, call: Call) -> HttpResponse:
        """Return all channels, or those in one virtual host."""
        if call.vhost is not None:
            self._services.vhost(call.vhost)
        return await self._channels(call, self._services.connections(call.caller, call.vhost))

    async def get_channel(self, call: Call) -> HttpResponse:
        """Return one channel, with its consumers."""
        services, node = self._services, self._services.facts.name
        name = call.name("channel")
        for one in services.channels(services.connections(call.caller)):
            if one.name == name:
                view = views.channel(one, node, services.samples.rates(call.query))
                view["consumer_details"] = [
                    views.consumer(mine.consumer, one, mine.queue, node)
                    for mine in one.channel.consumed()
                ]
                view["deliveries"] = view["publishes"] = []
                return shown(view, call.query)
        raise answers.not_found()

    async def list_consumers(self, call: Call) -> HttpResponse:
        """Return all consumers, or those in one virtual host."""
        services = self._services
        vhosts = {one.name for one in services.some(call.caller, call.vhost)}
        connections = [
            one for one in services.authenticator.connections() if one.vhost.name in vhosts
        ]
        found: list[tuple[ConsumedQueue, OpenChannel]] = []

        def add(one: OpenChannel) -> None:
            found.extend([(mine, one) for mine in one.channel.consumed()])

        await made_of_each(services.channels(connections), add, services.slicer)
        found = await in_order(
            found, lambda one: (one[0].queue.name.vhost, one[0].queue.label), services.slicer
        )
        node = services.facts.name
        told = await json_array(
            found,
            lambda one: views.consumer(one[0].consumer, one[1], one[0].queue, node),
            services.slicer,
        )
        return answers.json_pieces(told)

    async def _channels(self, call: Call, connections: Sequence[VhostConnection]) -> HttpResponse:
        services = self._services
        rates, slicer = services.samples.rates(call.query), services.slicer
        channels = await made_of_each(services.channels(connections), lambda one: one, slicer)
        what = Listed(
            channels,
            lambda one: (one.connection.vhost.name, connection_name(one.connection), one.number),
            lambda one: one.name,
            lambda one: views.channel(one, services.facts.name, rates),
        )
        return await listed(what, call.query, slicer)

    def _connection(self, call: Call) -> VhostConnection:
        name = call.name("connection")
        for one in self._services.authenticator.connections():
            if connection_name(one) == name:
                _check_own(call.caller, one)
                return one
        raise answers.not_found()

    def _of_user(self, call: Call) -> list[VhostConnection]:
        user = call.name("user")
        if user != call.caller.name and not call.caller.is_monitor:
            raise answers.not_authorised("User not authorised to access object")
        return [one for one in self._services.authenticator.connections() if one.user.name == user]

    def _close(self, one: VhostConnection, call: Call) -> None:
        _check_own(call.caller, one)
        if one.user.name != call.caller.name and not call.caller.is_administrator:
            raise answers.not_authorised("User not authorised to access object")
        why = call.headers.get("x-reason", CLOSED)
        one.session.close(AmqpError(ReplyCode.CONNECTION_FORCED, why))


def channels_by_identity(services: NodeServices) -> dict[int, OpenChannel]:
    """Return every channel by the `id` of what its consumers deliver to."""
    every = services.channels(services.authenticator.connections())
    return {id(one.channel): one for one in every}


def _check_own(caller: Caller, one: VhostConnection) -> None:
    """Refuse a connection that is another user's."""
    if one.user.name != caller.name and not caller.is_monitor:
        raise answers.not_authorised("User not authorised to access object")
