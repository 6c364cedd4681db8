"""Everything that is served over gRPC: makes the handlers with the parts that each needs."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from msgspec import Struct

from sprocket.base.clock import Clock
from sprocket.base.units import MIB
from sprocket.rocketmq.broker.broker import Broker
from sprocket.rocketmq.codec.grpc import plain_send
from sprocket.rocketmq.codec.grpc.messages import (
    AckMessageRequest,
    AckMessageResponse,
    ChangeInvisibleDurationRequest,
    ChangeInvisibleDurationResponse,
    EndTransactionRequest,
    EndTransactionResponse,
    ForwardMessageToDeadLetterQueueRequest,
    ForwardMessageToDeadLetterQueueResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    NotifyClientTerminationRequest,
    NotifyClientTerminationResponse,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    QueryRouteRequest,
    QueryRouteResponse,
    RecallMessageRequest,
    RecallMessageResponse,
    ReceiveMessageRequest,
    TelemetryCommand,
)
from sprocket.rocketmq.codec.grpc.schema import RPCS
from sprocket.rocketmq.codec.grpc.standard_messages import (
    HealthCheckRequest,
    ServerReflectionRequest,
)
from sprocket.rocketmq.codec.grpc.standard_schema import HEALTH_RPCS, REFLECTION_RPCS
from sprocket.rocketmq.server.grpc import needs
from sprocket.rocketmq.server.grpc.acks import AckHandlers
from sprocket.rocketmq.server.grpc.dispatch import (
    CallGuard,
    GrpcDispatcher,
    GrpcRow,
    one,
    row,
    stream_row,
)
from sprocket.rocketmq.server.grpc.fence import Fence
from sprocket.rocketmq.server.grpc.guard import GrpcGuard
from sprocket.rocketmq.server.grpc.health import LOOK_SECONDS, HealthHandlers
from sprocket.rocketmq.server.grpc.popped import PoppedMessages
from sprocket.rocketmq.server.grpc.questions import Questions
from sprocket.rocketmq.server.grpc.receives import ReceiveHandlers, answers
from sprocket.rocketmq.server.grpc.reflection import reflect
from sprocket.rocketmq.server.grpc.renewals import SWEEP_SECONDS, Renewals
from sprocket.rocketmq.server.grpc.routes import RouteHandlers
from sprocket.rocketmq.server.grpc.sends import GrpcSends, failed_send
from sprocket.rocketmq.server.grpc.sessions import Sessions
from sprocket.rocketmq.server.grpc.transactions import GrpcTransactions
from sprocket.rocketmq.settings import Settings
from sprocket.runtime import http2
from sprocket.runtime.driver import Carried, PortPolicy
from sprocket.runtime.grpc import GrpcConnection
from sprocket.runtime.tasks import Tasks

MESSAGE_BYTES_MAX: Final = 130 * MIB
"""The largest request; RocketMQ's `grpcMaxInboundMessageSize`."""

_RPC: Final = {rpc.name: rpc for rpc in RPCS}


class GrpcPlace(Struct, frozen=True):
    """Where clients of gRPC find the broker, and when it stores nothing.

    Attributes:
        advertised_host: What they are told; empty: where they have come.
        port: Where it listens.
        refusal: Gives why nothing may be stored now; None if that never happens.
    """

    advertised_host: str
    port: int
    refusal: Callable[[], str] | None = None


class GrpcService:
    """What a port of gRPC needs: a codec, and what handles its events.

    Args:
        broker: Does what is asked.
        settings: Of broker, of gRPC and of rights.
        place: Where its clients find it.

    Threads: event loop only.
    """

    def __init__(self, broker: Broker, settings: Settings, place: GrpcPlace) -> None:
        clock: Clock = broker.place.clock
        log_now_ms = broker.store.log_clock.now_ms
        name, limits = settings.broker.name, settings.grpc
        body_bytes_max = settings.store.message_bytes_max
        self._tasks = Tasks("grpc")
        popped = PoppedMessages(
            broker.pops,
            broker.pop_hold,
            broker.send_back,
            broker.durable,
            broker.reads,
            broker.keep_pops,
            broker.store.log_clock.elapsed_ms,
            name,
        )
        self.renewals = Renewals(popped, broker.groups, log_now_ms)
        """What is kept invisible."""
        self.questions = Questions(asyncio.get_running_loop())
        """What clients are asked."""
        self.sessions = Sessions(
            broker.members,
            broker.groups,
            broker.topics,
            clock,
            body_bytes_max=body_bytes_max,
            poll_ms=limits.poll_ms_max,
            has_left=self.renewals.left,
            questions=self.questions,
        )
        """Who is there."""
        routes = RouteHandlers(
            broker.topics, broker.groups, name, place.advertised_host, place.port
        )
        sends = GrpcSends(
            broker.sender,
            broker.durable,
            broker.topics,
            broker.recent_halves,
            broker_name=name,
            body_bytes_max=body_bytes_max,
            now_ms=clock.now_ms,
        )
        receives = ReceiveHandlers(
            broker.pops,
            broker.pop_hold,
            broker.reads,
            broker.filter_turns,
            popped,
            self.renewals,
            self.sessions,
            broker.groups,
            clock,
            limits,
        )
        acks = AckHandlers(popped, self.renewals, self.sessions)
        transactions = GrpcTransactions(
            broker.transactions, broker.recalls, broker.durable, broker.reads
        )
        guard: CallGuard | None = None
        if broker.known_rights is not None:
            guard = GrpcGuard(broker.known_rights, settings.rights)
        if place.refusal is not None:
            guard = Fence(place.refusal, guard)
        self.health = HealthHandlers(lambda: broker.refusal)
        rows = [
            *_producer_rows(routes, sends, transactions),
            *_consumer_rows(routes, receives, acks, clock.now_ms),
            *_session_rows(self.sessions),
            *_standard_rows(self.health),
        ]
        self.dispatcher = GrpcDispatcher(rows, guard)
        """Handles the events of connections."""
        self.connection: Callable[[], GrpcConnection] = partial(
            GrpcConnection,
            self.dispatcher.methods,
            MESSAGE_BYTES_MAX,
            http2.Limits(),
            clock.monotonic,
        )
        """Makes what reads one."""

    def policy(self, shared: PortPolicy) -> PortPolicy:
        """Return how clients of gRPC are read.

        Args:
            shared: How those of the other ports are.
        """
        return replace(shared, withheld=withheld_bytes)

    def start(self) -> None:
        """Begin what happens now and then."""
        self._tasks.repeat(SWEEP_SECONDS, self.sessions.sweep, "sessions")
        self._tasks.repeat(SWEEP_SECONDS, self.renewals.sweep, "renewals")
        self._tasks.repeat(LOOK_SECONDS, self.health.look, "health")

    async def stop(self) -> None:
        """End all streams."""
        self.questions.end_all()
        self.sessions.end_all()
        self.health.end_all()
        await self._tasks.close()


def withheld_bytes(connection: Carried[object]) -> int:
    """Return what of answers waits until a client opens its windows."""
    assert isinstance(connection, GrpcConnection), "a connection of this port"
    return connection.http.waiting_bytes


def _producer_rows(
    routes: RouteHandlers, sends: GrpcSends, transactions: GrpcTransactions
) -> list[GrpcRow]:
    return [
        row(
            _RPC["QueryRoute"],
            QueryRouteRequest.FromString,
            one(lambda said: QueryRouteResponse(status=said)),
            needs.of_route,
            routes.route,
        ),
        row(_RPC["SendMessage"], plain_send.read, failed_send, needs.of_send, sends.send),
        row(
            _RPC["EndTransaction"],
            EndTransactionRequest.FromString,
            one(lambda said: EndTransactionResponse(status=said)),
            needs.of_end,
            transactions.end,
        ),
        row(
            _RPC["RecallMessage"],
            RecallMessageRequest.FromString,
            one(lambda said: RecallMessageResponse(status=said)),
            needs.of_recall,
            transactions.recall,
        ),
    ]


def _consumer_rows(
    routes: RouteHandlers,
    receives: ReceiveHandlers,
    acks: AckHandlers,
    now_ms: Callable[[], int],
) -> list[GrpcRow]:
    return [
        row(
            _RPC["QueryAssignment"],
            QueryAssignmentRequest.FromString,
            one(lambda said: QueryAssignmentResponse(status=said)),
            needs.of_assignment,
            routes.assignment,
        ),
        row(
            _RPC["ReceiveMessage"],
            ReceiveMessageRequest.FromString,
            lambda said: answers(said, now_ms),
            needs.of_receive,
            receives.receive,
        ),
        row(
            _RPC["AckMessage"],
            AckMessageRequest.FromString,
            one(lambda said: AckMessageResponse(status=said)),
            needs.of_ack,
            acks.acknowledge,
        ),
        row(
            _RPC["ChangeInvisibleDuration"],
            ChangeInvisibleDurationRequest.FromString,
            one(lambda said: ChangeInvisibleDurationResponse(status=said)),
            needs.of_change,
            acks.change,
        ),
        row(
            _RPC["ForwardMessageToDeadLetterQueue"],
            ForwardMessageToDeadLetterQueueRequest.FromString,
            one(lambda said: ForwardMessageToDeadLetterQueueResponse(status=said)),
            needs.of_forward,
            acks.forward,
        ),
    ]


def _session_rows(sessions: Sessions) -> list[GrpcRow]:
    return [
        row(
            _RPC["Heartbeat"],
            HeartbeatRequest.FromString,
            one(lambda said: HeartbeatResponse(status=said)),
            needs.of_heartbeat,
            sessions.heartbeat,
        ),
        row(
            _RPC["NotifyClientTermination"],
            NotifyClientTerminationRequest.FromString,
            one(lambda said: NotifyClientTerminationResponse(status=said)),
            needs.of_termination,
            sessions.terminate,
        ),
        stream_row(_RPC["Telemetry"], TelemetryCommand, needs.of_telemetry, sessions.telemetry),
    ]


def _standard_rows(health: HealthHandlers) -> list[GrpcRow]:
    """Return the rows of what anybody may ask."""
    check, watch = HEALTH_RPCS
    return [
        row(check, HealthCheckRequest.FromString, lambda _: (), None, health.check),
        row(watch, HealthCheckRequest.FromString, lambda _: (), None, health.watch),
        *(stream_row(rpc, ServerReflectionRequest, None, reflect) for rpc in REFLECTION_RPCS),
    ]
