"""What each call needs of the rights of whoever makes it.

Source: RocketMQ `DefaultAuthorizationContextBuilder`.
"""

from collections.abc import Sequence
from typing import Final

from sprocket.rocketmq.codec.grpc.messages import (
    AckMessageRequest,
    ChangeInvisibleDurationRequest,
    EndTransactionRequest,
    ForwardMessageToDeadLetterQueueRequest,
    HeartbeatRequest,
    NotifyClientTerminationRequest,
    QueryAssignmentRequest,
    QueryRouteRequest,
    RecallMessageRequest,
    ReceiveMessageRequest,
    SendMessageRequest,
    TelemetryCommand,
)
from sprocket.rocketmq.codec.grpc.plain_send import PlainSend
from sprocket.rocketmq.model.rights import Action, Requirement, ResourceType, need
from sprocket.rocketmq.server.grpc.calls import A, ClientCall

_PUB: Final = (Action.PUB,)
_SUB: Final = (Action.SUB,)
_EITHER: Final = (Action.PUB, Action.SUB)

Needed = Sequence[Requirement]


def _topic(name: str, actions: tuple[Action, ...]) -> Requirement:
    return need(ResourceType.TOPIC, name, actions)


def _group(name: str) -> Requirement:
    return need(ResourceType.GROUP, name, _SUB)


def of_route(call: ClientCall[QueryRouteRequest, A]) -> Needed:
    """Return what it takes to ask where a topic is."""
    return [_topic(call.name(call.request.topic), _EITHER)]


def of_assignment(call: ClientCall[QueryAssignmentRequest, A]) -> Needed:
    """Return what it takes to ask what a consumer is to read."""
    request = call.request
    return [_topic(call.name(request.topic), _SUB), _group(call.name(request.group))]


def of_send(call: ClientCall[PlainSend | SendMessageRequest, A]) -> Needed:
    """Return what it takes to send."""
    request = call.request
    given = [request] if isinstance(request, PlainSend) else request.messages
    names = dict.fromkeys(call.name(one.topic) for one in given)
    return [_topic(name, _PUB) for name in names]


def of_end(call: ClientCall[EndTransactionRequest, A]) -> Needed:
    """Return what it takes to end a transaction."""
    return [_topic(call.name(call.request.topic), _PUB)]


def of_recall(call: ClientCall[RecallMessageRequest, A]) -> Needed:
    """Return what it takes to take a message back."""
    return [_topic(call.name(call.request.topic), _PUB)]


def of_receive(call: ClientCall[ReceiveMessageRequest, A]) -> Needed:
    """Return what it takes to receive."""
    request = call.request
    topic = call.name(request.message_queue.topic)
    return [_topic(topic, _SUB), _group(call.name(request.group))]


def of_ack(call: ClientCall[AckMessageRequest, A]) -> Needed:
    """Return what it takes to acknowledge."""
    request = call.request
    return [_topic(call.name(request.topic), _SUB), _group(call.name(request.group))]


def of_forward(call: ClientCall[ForwardMessageToDeadLetterQueueRequest, A]) -> Needed:
    """Return what it takes to give a message up."""
    request = call.request
    return [_topic(call.name(request.topic), _SUB), _group(call.name(request.group))]


def of_change(call: ClientCall[ChangeInvisibleDurationRequest, A]) -> Needed:
    """Return what it takes to say when a message comes again."""
    request = call.request
    return [_topic(call.name(request.topic), _SUB), _group(call.name(request.group))]


def of_heartbeat(call: ClientCall[HeartbeatRequest, A]) -> Needed:
    """Return what it takes to be there."""
    request = call.request
    return [_group(call.name(request.group))] if request.HasField("group") else []


def of_termination(call: ClientCall[NotifyClientTerminationRequest, A]) -> Needed:
    """Return what it takes to take leave."""
    request = call.request
    return [_group(call.name(request.group))] if request.HasField("group") else []


def of_telemetry(call: ClientCall[TelemetryCommand, A]) -> Needed:
    """Return what it takes to come: all that a client will do."""
    said = call.request.settings
    if said.HasField("publishing"):
        return [_topic(call.name(one), _PUB) for one in said.publishing.topics]
    if not said.HasField("subscription"):
        return []
    wanted = said.subscription
    topics = [_topic(call.name(one.topic), _SUB) for one in wanted.subscriptions]
    return [_group(call.name(wanted.group)), *topics]
