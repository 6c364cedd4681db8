"""Who is there: clients by the name that they give themselves, and the streams that they keep open.

    settings on a stream ── registered with its groups ── told what to go by
    heartbeat            ── registered anew
    a word of parting, or no stream and no sign of it for a while ── gone

A client is known by its id, since several may share a connection and one may have several. Its
stream is where it can be asked how a transaction ended. Some do not open another when it broke, so
that a client counts as there while it has one or was heard of lately.

Invariants

1. A client is registered with the broker's `ClientManager` exactly while it is in the table here.
2. Whoever wants to know of clients that go is told of each once.

Source: RocketMQ `ClientActivity`, `GrpcClientSettingsManager`.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Struct

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.rocketmq.broker.groups import ClientManager, Groups, make_group_of
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec.grpc import client_settings
from sprocket.rocketmq.codec.grpc.checks import check_group, check_topic
from sprocket.rocketmq.codec.grpc.client_settings import ConsumerTerms
from sprocket.rocketmq.codec.grpc.messages import (
    FilterExpression,
    HeartbeatRequest,
    HeartbeatResponse,
    NotifyClientTerminationRequest,
    NotifyClientTerminationResponse,
    Settings,
    TelemetryCommand,
)
from sprocket.rocketmq.codec.grpc.status import Code, Declined
from sprocket.rocketmq.model.filters import ALL
from sprocket.rocketmq.model.group import (
    CONSUME_ACTIVELY,
    CONSUME_PASSIVELY,
    SQL92,
    TAG,
    Heartbeat,
    Membership,
    Subscription,
)
from sprocket.rocketmq.model.message import StoredMessage
from sprocket.rocketmq.model.transaction import TransactionQuestion
from sprocket.rocketmq.server.client_links import Answered, CalledClient
from sprocket.rocketmq.server.grpc.calls import LANGUAGE, OK, ClientCall
from sprocket.rocketmq.server.grpc.questions import (
    ANSWERS,
    Questions,
    TelemetryCall,
    threads_command,
    transaction_command,
    verify_command,
)
from sprocket.runtime.grpc import StatusCode

PRODUCER, PUSH_CONSUMER, SIMPLE_CONSUMER = 1, 2, 3
KINDS: Final = frozenset({PRODUCER, PUSH_CONSUMER, SIMPLE_CONSUMER})
"""Clients that are known; others are of later versions of the protocol."""
SILENT_SECONDS: Final = 30.0
"""A client without a stream that was not heard of for so long is gone; heartbeats come every 10."""
SWEEP_SECONDS: Final = 5.0
KEPT_SECONDS: Final = 20.0
"""How often a client with a stream is registered anew, if it sends no heartbeats."""
CLIENTS_MAX: Final = 100_000
_SQL: Final = 2
_LANGUAGE: Final = re.compile(r"[A-Z0-9_]{1,16}", re.ASCII)

_log = log.get_limited_logger(__name__)


class ClientSession:
    """One client.

    Attributes:
        link: What services know it as.
        data: What it is registered with.
        group: The group of a consumer, empty for producers.
        kind: What kind of client it is.
        language: Its own.
        streams: Those that it has open, the latest last.
        seen: When it was heard of last, on the monotonic clock.
    """

    __slots__ = ("data", "group", "kind", "language", "link", "registered", "seen", "streams")

    def __init__(self, link: CalledClient, language: str) -> None:
        self.link = link
        self.language = language
        self.data = Heartbeat(client_id=link.client_id)
        self.group = ""
        self.kind = 0
        self.streams: dict[TelemetryCall, None] = {}
        self.seen = self.registered = 0.0


class Going(Struct, frozen=True):
    """A client that has gone.

    Attributes:
        client_id: Who.
        group: Its group, empty for producers.
    """

    client_id: str
    group: str


class Sessions:
    """The table of clients, and the handlers of calls that change it.

    Args:
        members: Where clients are registered.
        groups: Of consumers.
        topics: What there is.
        clock: Time.
        body_bytes_max: What producers are told.
        poll_ms: What consumers are told of how long they wait.
        has_left: Told of each client that goes.
        questions: Those that clients are asked.

    Threads: event loop only.
    """

    def __init__(
        self,
        members: ClientManager,
        groups: Groups,
        topics: Topics,
        clock: Clock,
        *,
        body_bytes_max: int,
        poll_ms: int,
        has_left: Callable[[Going], None],
        questions: Questions,
    ) -> None:
        self._members = members
        self._groups = groups
        self._topics = topics
        self._clock = clock
        self._body_bytes_max = body_bytes_max
        self._poll_ms = poll_ms
        self._has_left = has_left
        self._questions = questions
        self._sessions: dict[str, ClientSession] = {}

    @property
    def count(self) -> int:
        """How many clients are known."""
        return len(self._sessions)

    def all(self) -> list[ClientSession]:
        """Return all clients that are known."""
        return [*self._sessions.values()]

    def is_there(self, client_id: str) -> bool:
        """Tell whether a client is known."""
        return client_id in self._sessions

    def telemetry(self, call: TelemetryCall) -> None:
        """Take a word of a client on its stream. Raises Declined."""
        command = call.request
        which = command.WhichOneof("command")
        if which in ANSWERS:
            self._questions.answered(command)
            return
        if which != "settings":
            return  # of a later version of the protocol
        session = self._session(call)
        self._take_settings(session, call, command.settings)
        merged = self._merged(session, command.settings)
        call.give(TelemetryCommand(status=OK, settings=merged))

    def heartbeat(self, call: ClientCall[HeartbeatRequest, HeartbeatResponse]) -> None:
        """Note that a client is there. Raises Declined."""
        session = self._known(call.client_id)
        if call.request.client_type not in KINDS:
            raise Declined(Code.UNRECOGNIZED_CLIENT_TYPE, "UNRECOGNIZED_CLIENT_TYPE")
        if call.request.HasField("group") and call.request.client_type != PRODUCER:
            check_group(call.name(call.request.group))
        self._register(session)
        call.answer(HeartbeatResponse(status=OK))

    def terminate(
        self, call: ClientCall[NotifyClientTerminationRequest, NotifyClientTerminationResponse]
    ) -> None:
        """Forget a client that takes leave. Raises Declined."""
        session = self._known(call.client_id)
        if session.kind != PRODUCER and call.request.HasField("group"):
            check_group(call.name(call.request.group))
        self._drop(session)
        call.answer(NotifyClientTerminationResponse(status=OK))

    def _known(self, client_id: str) -> ClientSession:
        """Return a client that has said what it is. Raises Declined."""
        session = self._sessions.get(client_id)
        if session is None:
            raise Declined(
                Code.UNRECOGNIZED_CLIENT_TYPE, "cannot find client settings for this client"
            )
        return session

    def heard_of(self, client_id: str) -> None:
        """Note that a client has asked for something."""
        session = self._sessions.get(client_id)
        if session is not None:
            session.seen = self._clock.monotonic()

    def sweep(self) -> None:
        """Forget clients that are gone; every five seconds."""
        now = self._clock.monotonic()
        for session in [*self._sessions.values()]:
            if session.streams:
                if now - session.registered > KEPT_SECONDS:
                    self._register(session)
            elif now - session.seen > SILENT_SECONDS:
                _log.info("a client has gone without a word", client=session.link.client_id)
                self._drop(session)

    def _session(self, call: TelemetryCall) -> ClientSession:
        """Return the session of a client that speaks on a stream."""
        client_id = call.client_id
        session = self._sessions.get(client_id)
        if session is None:
            if len(self._sessions) >= CLIENTS_MAX:
                raise Declined(Code.TOO_MANY_REQUESTS, f"{CLIENTS_MAX} clients are there already")
            link = CalledClient(client_id, call.address, call.proxy_address, self)
            session = ClientSession(link, _language(call))
        if call not in session.streams:
            session.streams[call] = None
            call.on_left = partial(self._stream_left, session, call)
        return session

    def _stream_left(self, session: ClientSession, call: TelemetryCall) -> None:
        session.streams.pop(call, None)
        session.seen = self._clock.monotonic()

    def _take_settings(self, session: ClientSession, call: TelemetryCall, said: Settings) -> None:
        """Register a client with what it says. Raises Declined."""
        if said.client_type not in KINDS:
            raise Declined(Code.UNRECOGNIZED_CLIENT_TYPE, "UNRECOGNIZED_CLIENT_TYPE")
        client_id, before, group = session.link.client_id, session.data, ""
        which = said.WhichOneof("pub_sub")
        if which == "publishing":
            producers = [call.name(one) for one in said.publishing.topics]
            for name in producers:
                check_topic(name)
            data = Heartbeat(client_id=client_id, producers=producers)
        elif which == "subscription":
            group = call.name(said.subscription.group)
            check_group(group)
            data = Heartbeat(client_id=client_id, consumers=[self._membership(call, said, group)])
        else:
            raise Declined(
                Code.BAD_REQUEST, "there is no publishing or subscription data in settings"
            )
        session.kind, session.group, session.data = said.client_type, group, data
        self._sessions[client_id] = session
        self._leave(session, before)
        self._register(session)

    def _membership(self, call: TelemetryCall, said: Settings, group: str) -> Membership:
        """Return what a consumer says of its group."""
        is_active = said.client_type == SIMPLE_CONSUMER
        now_ms = self._clock.now_ms()
        return Membership(
            group=group,
            subscriptions=[
                subscription(call.name(one.topic), one.expression, now_ms)
                for one in said.subscription.subscriptions
            ],
            consume_type=CONSUME_ACTIVELY if is_active else CONSUME_PASSIVELY,
        )

    def _leave(self, session: ClientSession, before: Heartbeat) -> None:
        """Take a client out of the groups that it names no more."""
        now = session.data
        groups = {one.group for one in now.consumers}
        for name in before.producers:
            if name not in now.producers:
                self._members.unregister(session.link, name, None)
        for one in before.consumers:
            if one.group not in groups:
                self._members.unregister(session.link, None, one.group)

    def _register(self, session: ClientSession) -> None:
        data = session.data
        session.seen = session.registered = self._clock.monotonic()
        consumers = [
            one for one in data.consumers if make_group_of(one, self._groups, self._topics)
        ]
        self._members.heartbeat(session.link, data, session.language, 0, consumers)

    def _merged(self, session: ClientSession, said: Settings) -> Settings:
        if said.HasField("publishing"):
            return client_settings.of_producer(said, self._body_bytes_max)
        terms = ConsumerTerms(self._poll_ms, session.language)
        return client_settings.of_consumer(said, self._groups.settings_of(session.group), terms)

    def _drop(self, session: ClientSession) -> None:
        client_id = session.link.client_id
        if self._sessions.get(client_id) is session:
            del self._sessions[client_id]
        self._members.drop(session.link)
        self._has_left(Going(client_id, session.group))

    def end(self, client_id: str) -> None:
        """End the streams of a client whose registration was too old; see `Asking`."""
        session = self._sessions.get(client_id)
        if session is not None:
            self._drop(session)
            for call in [*session.streams]:
                call.end(StatusCode.CANCELLED, "no heartbeat came for too long")

    def end_all(self) -> None:
        """End all streams: the broker stops."""
        for session in self._sessions.values():
            for call in [*session.streams]:
                call.end(StatusCode.UNAVAILABLE, "the broker stops")

    def ask_transaction(self, client_id: str, question: TransactionQuestion) -> None:
        """Ask a producer how its transaction ended; see `Asking`."""
        call = self._stream_of(client_id)
        if call is not None:  # else another round asks another one
            call.give(transaction_command(question))

    def ask_threads(self, client_id: str, answered: Answered) -> None:
        """Ask a client what its threads are at; see `Asking`."""
        self._questions.ask(self._stream_of(client_id), threads_command, answered)

    def ask_to_consume(self, client_id: str, message: StoredMessage, answered: Answered) -> None:
        """Have a consumer's listener try a message; see `Asking`."""
        command = partial(verify_command, message)
        self._questions.ask(self._stream_of(client_id), command, answered)

    def _stream_of(self, client_id: str) -> TelemetryCall | None:
        """Return the latest stream of a client, None if it has none."""
        session = self._sessions.get(client_id)
        return None if session is None or not session.streams else [*session.streams][-1]


def subscription(topic: str, expression: FilterExpression, version: int) -> Subscription:
    """Return what a client wants of a topic."""
    kind = SQL92 if expression.type == _SQL else TAG
    return Subscription.parse(topic, expression.expression or ALL, type=kind, version=version)


def _language(call: ClientCall[TelemetryCommand, TelemetryCommand]) -> str:
    """Return a client's language, as lists of clients name it."""
    said = call.metadata.get(LANGUAGE, "")
    return said if _LANGUAGE.fullmatch(said) else "OTHER"
