"""Where a topic is, and what of it a consumer is to read: always here.

A route names the address by which its client has come, so that it can be reached from wherever the
client is. Queues of other brokers are not named: nobody here knows where they speak gRPC.

Source: RocketMQ `RouteActivity`.
"""

import ipaddress
from collections.abc import Iterator
from typing import Final

from sprocket.rocketmq.broker.groups import Groups
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec.grpc.checks import check_group, check_topic
from sprocket.rocketmq.codec.grpc.messages import (
    Address,
    Assignment,
    Broker,
    Endpoints,
    MessageQueue,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
    Resource,
)
from sprocket.rocketmq.codec.grpc.status import Code, Declined
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.topic import READ, WRITE, TopicConfig
from sprocket.rocketmq.server.grpc.accepted_types import accepted_types
from sprocket.rocketmq.server.grpc.calls import OK, ClientCall

IPV4, IPV6, DOMAIN_NAME = 1, 2, 3
NO_PERMISSION, READABLE, WRITABLE, READ_AND_WRITE = 1, 2, 3, 4
MASTER: Final = 0
WHOLE_BROKER: Final = -1

RouteCall = ClientCall[QueryRouteRequest, QueryRouteResponse]
AssignmentCall = ClientCall[QueryAssignmentRequest, QueryAssignmentResponse]


class RouteHandlers:
    """Answers where topics are.

    Args:
        topics: What there is.
        groups: Say who consumes in order.
        broker_name: This broker's.
        advertised_host: Where clients are told to come; empty: where they have come.
        port: Of gRPC, used where no name of a client has one.
    """

    def __init__(
        self, topics: Topics, groups: Groups, broker_name: str, advertised_host: str, port: int
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._broker_name = broker_name
        self._advertised_host = advertised_host
        self._port = port

    def route(self, call: RouteCall) -> None:
        """Answer with the queues of a topic. Raises Declined, Refused."""
        request = call.request
        _check_endpoints(request.endpoints)
        topic = self._topic(call.name(request.topic))
        endpoints = self._endpoints(call, request.endpoints)
        broker = Broker(name=self._broker_name, id=MASTER, endpoints=endpoints)
        types = [*accepted_types(topic)]
        call.answer(
            QueryRouteResponse(
                status=OK,
                message_queues=[
                    MessageQueue(
                        topic=request.topic,
                        id=number,
                        permission=permission,
                        broker=broker,
                        accept_message_types=types,
                    )
                    for number, permission in _queues(topic)
                ],
            )
        )

    def assignment(self, call: AssignmentCall) -> None:
        """Answer with what a consumer is to read. Raises Declined, Refused."""
        request = call.request
        _check_endpoints(request.endpoints)
        group_name = call.name(request.group)
        check_group(group_name)
        topic = self._topic(call.name(request.topic))
        if not topic.perm & READ or topic.read_queues <= 0:
            raise Declined(Code.FORBIDDEN, "no readable queue")
        group = self._groups.get(group_name)
        numbers = [WHOLE_BROKER]
        if group is not None and group.consume_message_orderly:
            numbers = [*range(topic.read_queues)]
        endpoints = self._endpoints(call, request.endpoints)
        broker = Broker(name=self._broker_name, id=MASTER, endpoints=endpoints)
        call.answer(
            QueryAssignmentResponse(
                status=OK,
                assignments=[
                    Assignment(message_queue=_assigned(request.topic, number, topic, broker))
                    for number in numbers
                ],
            )
        )

    def _topic(self, name: str) -> TopicConfig:
        check_topic(name)
        topic = self._topics.find(name)
        if topic is None:
            raise Refused(
                Refusal.NO_TOPIC, f"No topic route info in name server for the topic: {name}"
            )
        return topic

    def _endpoints(self, call: RouteCall | AssignmentCall, asked: Endpoints) -> Endpoints:
        """Return where the client is to come for a queue: where it has come, if that is known."""
        host, port = split_authority(call.authority)
        known = [(one.host, one.port) for one in asked.addresses]
        if self._advertised_host and (host, port) not in known:
            return endpoints_of(self._advertised_host, port or self._port)
        if (host, port) in known:
            return Endpoints(scheme=asked.scheme, addresses=[Address(host=host, port=port)])
        if len(known) == 1:
            return asked
        if host and port:
            return endpoints_of(host, port)
        local_host, local_port = split_authority(call.peer.local_address)
        return endpoints_of(local_host, local_port or self._port)


def split_authority(text: str) -> tuple[str, int]:
    """Return host and port of `host:port`, an IPv6 address in brackets; 0 for what has no port."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and len(port) <= len("65535")):
        return text.strip("[]"), 0
    return host.strip("[]"), int(port)


def endpoints_of(host: str, port: int) -> Endpoints:
    """Return an address as the protocol has it."""
    try:
        scheme = IPV6 if ipaddress.ip_address(host).version == 6 else IPV4
    except ValueError:
        scheme = DOMAIN_NAME
    return Endpoints(scheme=scheme, addresses=[Address(host=host, port=port)])


def _check_endpoints(given: Endpoints) -> None:
    """Refuse a question without the address that the client was given. Raises Declined."""
    if not given.addresses:
        raise Declined(
            Code.ILLEGAL_ACCESS_POINT, "endpoint " + str(given).strip() + " is invalidate"
        )


def _queues(topic: TopicConfig) -> Iterator[tuple[int, int]]:
    """Give the queues of a topic, by their own numbers, and what may be done with each."""
    readable = topic.read_queues if topic.perm & READ else 0
    writable = topic.write_queues if topic.perm & WRITE else 0
    both = min(readable, writable)
    for number in range(max(readable, writable)):
        if number < both:
            yield number, READ_AND_WRITE
        else:
            yield number, READABLE if readable > writable else WRITABLE
    if not readable and not writable:
        for number in range(max(1, topic.read_queues, topic.write_queues)):
            yield number, NO_PERMISSION


def _assigned(name: Resource, number: int, topic: TopicConfig, broker: Broker) -> MessageQueue:
    permission = READ_AND_WRITE if topic.perm & WRITE else READABLE
    return MessageQueue(topic=name, id=number, permission=permission, broker=broker)
