"""One client: from its login to the end of its connection, and what serves its channels.

    events ── Session ── ChannelService, one for each channel, which the client's vhost gives
                 │
                 └── what is said on channel 0, refusals, heartbeats, and how everything ends

Invariants

1. What a channel is told comes in the order in which the client sent it; nothing after it is over.
2. Whoever ends a channel or the connection, every service is closed once, before the client hears
   of it: a client that has its close-ok can rely on what that promises.
3. A client that is refused before it is in waits `REFUSAL_SECONDS`; one that does not answer a
   close is dropped. One that does not get in is cut off by its port, see `runtime.driver`.

Source: `rabbit_reader`; docs/formats/amqp.md.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Protocol

from sprocket.base import log
from sprocket.base.units import KIB
from sprocket.rabbitmq.codec.amqp import AmqpError, ReplyCode, SentMessage, frames, methods
from sprocket.rabbitmq.model.fields import NO_FIELDS
from sprocket.rabbitmq.server.alarms import Alarms
from sprocket.rabbitmq.server.connection import (
    Acknowledged,
    AmqpConnection,
    Called,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    ClientClosed,
    ConnectionState,
    Ended,
    Event,
    Failed,
    LoginOffered,
    ProtocolChosen,
    Published,
    SecretUpdated,
    ToSend,
    Tuned,
    VhostChosen,
    WireChannel,
    WireLimits,
)
from sprocket.rabbitmq.server.greeting import Greeting
from sprocket.rabbitmq.server.heartbeats import Heartbeats, HeartbeatWatch
from sprocket.rabbitmq.server.login import (
    Credentials,
    Subject,
    capabilities,
    credentials,
    given_name,
)
from sprocket.runtime.driver import Peer
from sprocket.runtime.timers import Timer, Timers
from sprocket.runtime.turns import CALL_WORK, Turns

REFUSAL_SECONDS: Final = 3.0
"""How long a client waits that is refused, so that it cannot guess passwords quickly."""
CLOSE_SECONDS_MAX: Final = 30.0
"""How long the server waits for the answer to its close."""

BLOCKED_BYTES_MAX: Final = 64 * KIB
"""What is read of a client that is blocked: it may say that it goes, and end its connection."""

IGNORED_BYTES_PER_WORK: Final = 128
"""Reading a client that was told to close means two frames to search, 1 us."""

FAILURE_CLOSE: Final = "authentication_failure_close"
BLOCKED: Final = "connection.blocked"

_log = log.get_logger(__name__)
_limited_log = log.get_limited_logger(__name__)


class LoginRefused(Exception):
    """A client is not let in; the text is for the log, and the client does not get it."""


class ChannelService(Protocol):
    """What serves one channel.

    An `AmqpError` closes the channel or, by its code, the connection. If it names no method, it is
    about the one that was to be done.
    """

    def published(self, messages: Sequence[SentMessage]) -> None:
        """Take messages, in order; after an error none that comes after what it is about."""

    def acknowledged(self, tags: Sequence[int], *, is_multiple: bool) -> None:
        """Take acknowledgements, in order: of single deliveries, or one of all up to a tag."""

    def called(self, method: methods.AmqpMethod) -> None:
        """Do what a method asks for."""

    def close_in_turns(self) -> Iterator[None]:
        """Send nothing more on the channel.

        Returns:
            What gives back what it holds, which is not begun yet; it yields when others should have
            their turn first.
        """


class ConnectionService(Protocol):
    """A client in its vhost."""

    def open_channel(self, replies: "Replies") -> ChannelService:
        """Return what serves a channel. Raises AmqpError."""

    def leave_in_turns(self) -> Iterator[None]:
        """Give back what the connection holds, in steps; all its channels are closed."""


class Authenticator(Protocol):
    """Decides which clients may log in."""

    def certified_user(self, subject: Subject) -> str | None:
        """Return the user that a certificate is for, None if there is none."""

    def log_in(self, given: Credentials, session: "Session") -> None:
        """Let a user in, or raise LoginRefused."""

    def enter(self, vhost: str, session: "Session") -> ConnectionService:
        """Let the user of a session into a vhost. Raises AmqpError."""


class Replies:
    """What the service of a channel says to its client; nothing, once the channel is over."""

    def __init__(self, session: "Session", channel: WireChannel) -> None:
        self._session = session
        self._channel = channel
        self.number = channel.number

    def send(self, method: methods.AmqpMethod) -> None:
        """Send a method."""
        if not self._channel.is_over:
            self._session.send([frames.encode_method(self.number, method)])

    def send_content(self, payload: bytes, properties: bytes, fragments: Sequence[bytes]) -> None:
        """Send a method with content; see `frames.encode_content`."""
        if not self._channel.is_over:
            largest = self._session.frame_bytes_max
            self._session.send(
                frames.encode_content(self.number, payload, properties, fragments, largest)
            )

    def deliver(
        self, consumer: bytes, first_tag: int, deliveries: Iterable[frames.Delivery]
    ) -> None:
        """Deliver messages; see `frames.encode_deliveries`."""
        if not self._channel.is_over:
            largest = self._session.frame_bytes_max
            self._session.send(
                frames.encode_deliveries(self.number, consumer, first_tag, deliveries, largest)
            )

    @property
    def is_ready(self) -> bool:
        """Whether the client takes what it is sent: else nothing should be delivered to it."""
        return self._session.peer.is_ready

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Have something called once when `is_ready` holds again."""
        self._session.peer.when_ready(callback)

    def wait_for(self, begin: Callable[[Callable[[], None]], None]) -> None:
        """Have nothing done that the client asks for after this, until something has ended.

        For what has to wait, for the disk mostly: answers come in the order of the questions. It
        holds the other channels of the connection, too; nothing piles up but what one read brings.

        Args:
            begin: Begins it, and is given what is to be called at the end: perhaps at once.
        """
        self._session.wait_for(begin)

    def fail(self, error: AmqpError) -> None:
        """Close the channel, or the connection, for something that went wrong later on."""
        self._session.fail_channel(self._channel, error)


@dataclass(frozen=True, slots=True)
class ServerParts:
    """What all sessions of a server share.

    Attributes:
        authenticator: Says who may come in.
        greeting: What clients are told first, by how they may log in.
        limits: What they are offered.
        heartbeats: Watches them.
        alarms: Say when they may not publish.
        timers: The event loop's, for what must not take long.
        turns: Say how much may be done in one turn of it.
    """

    authenticator: Authenticator
    greeting: Greeting
    limits: WireLimits
    heartbeats: Heartbeats
    alarms: Alarms
    timers: Timers
    turns: Turns


class Session:
    """One client and its connection.

    Args:
        peer: Carries it.
        connection: What reads it.
        server: What it shares with others.

    Threads: event loop only.
    """

    def __init__(self, peer: Peer, connection: AmqpConnection, server: ServerParts) -> None:
        self.peer = peer
        self.user = ""
        """The client that has logged in."""
        self.mechanism = ""
        """How it has shown who it is."""
        self.vhost = ""
        self.client = NO_FIELDS
        """What the client says of itself."""
        self.capabilities: frozenset[str] = frozenset()
        """What the client says that it understands."""
        self.was_written = False
        self._connection = connection
        self._server = server
        self._alarms, self._turns = server.alarms, server.turns
        self._watch: HeartbeatWatch | None = None
        self._heartbeat_seconds = 0
        self._service: ConnectionService | None = None
        self._services: dict[WireChannel, ChannelService] = {}
        self._is_over = False
        """Whether what the client asks for is not done any more."""
        self._is_ended = False
        """Whether all was given back after that."""
        self._when_ended: list[Callable[[], None]] = []
        self._closing: list[Iterator[None]] = []
        """What gives back what channels held that are over."""
        self._is_blocked = False
        """Whether it waits until nothing is low."""
        self._closed_count = 0
        """How many channels it has closed, in what was handled."""
        self._is_leaving = False
        """Whether it has closed the connection: what it sent before is all that it will send."""
        self._held_count = 0
        """How much that it has asked for is under way."""
        self._deadline: Timer | None = None
        peer.when_closed(self._gone)

    @property
    def name(self) -> str:
        """What the client calls the connection; empty if it does not."""
        return given_name(self.client)

    @property
    def frame_bytes_max(self) -> int:
        """The largest frame that the client takes."""
        return self._connection.frame_bytes_max

    @property
    def heartbeat_seconds(self) -> int:
        """How often the client is to be heard; 0 for never."""
        return self._heartbeat_seconds

    @property
    def channel_max(self) -> int:
        """How many channels the client may open."""
        return self._connection.channel_max

    @property
    def is_blocked(self) -> bool:
        """Whether it may not publish at the moment."""
        return self._is_blocked

    # Called by the carrier.

    def on_event(self, event: Event) -> None:
        """Handle one event."""
        self._turns.work_left -= CALL_WORK
        match event:
            case Published() | Acknowledged() | Called():
                self._serve(event)
            case ToSend():
                self.send([event.buffer])
            case Ended():
                self.end(self.peer.close)
            case ClientClosed():
                # Closed with octets unread, the socket would be reset before the client reads this.
                answer = frames.encode_method(0, methods.ConnectionCloseOk())
                self.end(lambda: self._tell_end(answer, "it does not close its end"))
            case _ if self._is_over:
                return
            case ChannelOpened():
                self._open_channel(event.channel)
            case ChannelClosed():
                self._closed_count += 1
                self._close_channel(event.channel)
                if self._alarms.has(self) and not self._closes_channel:
                    self._stop_reading()  # until its next channel is closed, or nothing is low
            case ChannelFailed():
                self.fail_channel(event.channel, event.error)
            case ProtocolChosen():
                start = self._server.greeting.start(is_encrypted=self.peer.is_encrypted)
                self.send([frames.encode_method(0, start)])
            case LoginOffered():
                self._log_in(event.method)
            case Tuned():
                self._tune(event.heartbeat_seconds)
            case VhostChosen():
                self._enter(event.name)
            case SecretUpdated():
                self.send([frames.encode_method(0, methods.ConnectionUpdateSecretOk())])
            case Failed():
                self._fail(event)

    # Called by others.

    def send(self, buffers: Sequence[frames.Buffer]) -> None:
        """Send frames."""
        self.was_written = True
        self.peer.send(buffers)

    def close(self, error: AmqpError) -> None:
        """Close the connection and wait for the client to know; a second call does nothing."""
        self._close(error, lambda told: self._tell_end(told, "it does not answer the close"))

    def _close(self, error: AmqpError, tell: Callable[[bytes], None]) -> None:
        if self._is_over:
            return
        _log.warning("connection closed", peer=self.peer.told_address, error=error.text)
        told = self._connection.close(error)
        self.end(lambda: tell(told))

    def fail_channel(self, channel: WireChannel, error: AmqpError) -> None:
        """Close a channel or, if the error's code says so, the connection."""
        if error.code.ends_connection:
            self.close(error)
        elif not (channel.is_over or self._is_over):
            _log.info("channel closed", peer=self.peer.told_address, error=error.text)
            self._end_channel(channel, self._connection.close_channel(channel, error))

    def drop(self, reason: str) -> None:
        """End the connection at once."""
        if self.peer.is_open:
            self.peer.abort(reason)
        self.end()

    @property
    def is_ended(self) -> bool:
        """Whether it is over, and all that it held was given back."""
        return self._is_ended

    def end(self, then: Callable[[], None] = lambda: None) -> None:
        """Do nothing any more, and give back everything; `then` is called when that is done."""
        if self._is_ended:
            then()
            return
        self._when_ended.append(then)
        if self._is_over:
            return
        self._is_over = True
        self.peer.count_reads(IGNORED_BYTES_PER_WORK)
        self._set_deadline(None)
        if self._watch is not None:
            self._server.heartbeats.cancel(self._watch)
        self._alarms.forget(self)
        for channel in self._services:
            channel.is_over = True  # all of them first: one that was waited for is not any more
        for channel in list(self._services):
            self._begin_end(channel)
        self._turns.drive(self._give_back(), self._tell_ended)
        self.peer.start_reading()

    def _give_back(self) -> Iterator[None]:
        for work in self._closing:
            yield from work
        service, self._service = self._service, None
        if service is not None:
            yield from self._whole(service.leave_in_turns())

    def _tell_ended(self) -> None:
        self._is_ended = True
        waiting, self._when_ended = self._when_ended, []
        for then in waiting:
            then()

    def _tell_end(self, frame: bytes, otherwise: str) -> None:
        """Tell the client that it is over, and give it some time to end the connection."""
        self.send([frame])
        if self.peer.is_open:
            self._wait_for_end(otherwise)

    def _tell_unreadable(self, frame: bytes) -> None:
        """Tell the client that it is over: nothing that it answers could be read."""
        self.send([frame])
        if self.peer.is_open:
            self._drop_later(REFUSAL_SECONDS, "what it sends cannot be read")

    def _whole(self, work: Iterator[None]) -> Iterator[None]:
        """Do work in steps; if it fails, what comes after it is done all the same."""
        try:
            yield from work
        except Exception:
            _log.exception("something could not be given back", peer=self.peer.told_address)

    def unblock(self) -> None:
        """Read the client again, which was blocked."""
        self._is_blocked = False
        if BLOCKED in self.capabilities:
            self.send([frames.encode_method(0, methods.ConnectionUnblocked())])
        self._read_on()

    def wait_for(self, begin: Callable[[Callable[[], None]], None]) -> None:
        """Begin something, and handle nothing more of the client until it has ended.

        See `Replies.wait_for`.
        """
        is_under_way = True

        def ended() -> None:
            nonlocal is_under_way
            if is_under_way:
                is_under_way = False
                self._held_count -= 1
                self._read_on()

        self._held_count += 1
        try:
            begin(ended)
        except Exception:
            ended()
            raise
        if is_under_way:
            self.peer.stop_reading()

    def _read_on(self) -> None:
        if self._is_over or not (self._held_count or self._is_blocked):
            self.peer.start_reading()

    # What heartbeats ask for.

    @property
    def was_read(self) -> bool:
        """Whether anything has come since this was reset."""
        return self._connection.was_read

    @was_read.setter
    def was_read(self, value: bool) -> None:
        self._connection.was_read = value

    @property
    def is_reading(self) -> bool:
        """Whether the client is read at the moment."""
        return not self.peer.is_held

    def beat(self) -> None:
        """Send a heartbeat."""
        self.send([frames.HEARTBEAT])

    # Channels.

    def _serve(self, event: Published | Acknowledged | Called) -> None:
        channel = event.channel
        if channel.is_over:
            return
        service = self._services.get(channel)
        if service is None:  # it came in one piece with a login that was refused
            return
        try:
            match event:
                case Published():
                    service.published(event.messages)
                    goes = self._is_over or self._is_leaving or self._closes_channel
                    if self._alarms.low and not goes:
                        self._block()
                case Acknowledged():
                    service.acknowledged(event.tags, is_multiple=event.is_multiple)
                case Called():
                    service.called(event.method)
        except AmqpError as error:
            self.fail_channel(channel, _of(error, _method_of(event)))
        except Exception:
            _limited_log.exception("a handler failed", peer=self.peer.told_address)
            self.close(_of(AmqpError(ReplyCode.INTERNAL_ERROR, ""), _method_of(event)))

    def _block(self) -> None:
        """Handle nothing more of a client that publishes while something is low."""
        self._stop_reading()
        if not self._is_blocked or self._alarms.has(self):
            return
        self._alarms.block(self)
        if BLOCKED in self.capabilities:
            told = methods.ConnectionBlocked(self._alarms.reason)
            self.send([frames.encode_method(0, told)])

    def _stop_reading(self) -> None:
        self._is_blocked = True
        self.peer.stop_reading(ahead_bytes=BLOCKED_BYTES_MAX, on_kept=self._look_for_end)
        self._look_for_end()

    def _look_for_end(self) -> None:
        """Let a client go that is blocked, or close a channel: what it has sent before is taken.

        It is little, as no more is read. Many clients close their channels, and wait for that,
        before they close the connection.
        """
        if not self._is_blocked:
            return
        if self._connection.state is ConnectionState.ENDED:
            self._is_leaving, self._is_blocked = True, False
            self._alarms.forget(self)
            self._read_on()
        elif self._closes_channel:
            self._is_blocked = False
            self._read_on()

    @property
    def _closes_channel(self) -> bool:
        """Whether what was read and is not handled yet closes a channel."""
        return self._connection.closed_count > self._closed_count

    def _open_channel(self, channel: WireChannel) -> None:
        assert self._service is not None, "a channel before the vhost"
        try:
            self._services[channel] = self._service.open_channel(Replies(self, channel))
        except AmqpError as error:
            self.fail_channel(channel, error)
        else:
            self.send([frames.encode_method(channel.number, methods.ChannelOpenOk())])

    def _close_channel(self, channel: WireChannel) -> None:
        self._end_channel(channel, frames.encode_method(channel.number, methods.ChannelCloseOk()))

    def _begin_end(self, channel: WireChannel) -> None:
        channel.is_over = True
        service = self._services.pop(channel, None)
        if service is not None:
            self._closing.append(self._whole(service.close_in_turns()))

    def _end_channel(self, channel: WireChannel, told: bytes) -> None:
        """End a channel, and answer once all was given back; the client is held until then."""

        def begin(ended: Callable[[], None]) -> None:
            def tell() -> None:
                self._closing.clear()
                if not self._is_over:
                    self.send([told])
                ended()

            self._begin_end(channel)
            self._turns.drive(chain.from_iterable(self._closing), tell)

        self.wait_for(begin)

    # The handshake.

    def _log_in(self, login: methods.ConnectionStartOk) -> None:
        self.client = login.client_properties
        self.capabilities = capabilities(self.client)
        try:
            certified = self._server.authenticator.certified_user
            given = credentials(login, certified(self.peer.certificate_subject))
        except AmqpError as error:
            self._refuse(error)
            return
        try:
            self._server.authenticator.log_in(given, self)
        except LoginRefused as why:
            self._refuse_login(login.mechanism, given.user, str(why))
            return
        self.user = given.user
        self.mechanism = login.mechanism
        limits = self._server.limits
        offer = methods.ConnectionTune(
            limits.channel_max, limits.frame_bytes_max, limits.heartbeat_seconds
        )
        self.send([frames.encode_method(0, offer)])

    def _refuse_login(self, mechanism: str, user: str, why: str) -> None:
        _limited_log.warning("login refused", peer=self.peer.told_address, user=user, reason=why)
        self.end()
        self._connection.refuse()
        if FAILURE_CLOSE in self.capabilities:
            text = (
                f"Login was refused using authentication mechanism {mechanism}. For details see "
                "the broker logfile."
            )
            self.send([self._connection.close(AmqpError(ReplyCode.ACCESS_REFUSED, text))])
        self._drop_later(REFUSAL_SECONDS, "its login was refused")

    def _tune(self, heartbeat_seconds: int) -> None:
        self._heartbeat_seconds = heartbeat_seconds
        if heartbeat_seconds:
            self._watch = self._server.heartbeats.watch(self, heartbeat_seconds)

    def _enter(self, vhost: str) -> None:
        self.vhost = vhost
        is_admitted = self.peer.admit()  # even if it may not enter: it has time to hear why
        try:
            self._service = self._server.authenticator.enter(vhost, self)
        except AmqpError as error:
            self.close(_of(error, methods.ConnectionOpen("")))
            return
        if not is_admitted:
            refusal = AmqpError(ReplyCode.CONNECTION_FORCED, "there are too many connections")
            self.close(_of(refusal, methods.ConnectionOpen("")))
            return
        # From now on heartbeats say whether it is there, if it wants any.
        self.peer.keep_when_quiet()
        self.send([frames.encode_method(0, methods.ConnectionOpenOk())])
        _log.info("connection open", peer=self.peer.told_address, user=self.user, vhost=vhost)

    # The end.

    def _gone(self, _: Peer) -> None:
        self.end()
        self._set_deadline(None)

    def _fail(self, failed: Failed) -> None:
        if failed.is_handshake:
            self._refuse(failed.error)
        elif failed.is_out_of_step:
            self._close(failed.error, self._tell_unreadable)
        else:
            self.close(failed.error)

    def _refuse(self, error: AmqpError) -> None:
        """Keep a client waiting that is not logged in, then tell it why and end the connection."""
        _limited_log.warning("handshake failed", peer=self.peer.told_address, error=error.text)
        self.end()
        self._connection.refuse()

        def tell() -> None:
            self.send([self._connection.close(error)])
            self.peer.close()

        self._set_deadline(self._server.timers.call_later(REFUSAL_SECONDS, tell))

    def _wait_for_end(self, otherwise: str) -> None:
        """Give the client some time to end the connection."""
        limit = min(self._heartbeat_seconds or CLOSE_SECONDS_MAX, CLOSE_SECONDS_MAX)
        self._drop_later(limit, otherwise)

    def _drop_later(self, seconds: float, reason: str) -> None:
        self._set_deadline(self._server.timers.call_later(seconds, lambda: self.drop(reason)))

    def _set_deadline(self, timer: Timer | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = timer


def _method_of(event: Published | Acknowledged | Called) -> methods.AmqpMethod:
    """Return what an error is about that comes of an event."""
    match event:
        case Published():
            return event.messages[0].method
        case Acknowledged():
            return methods.BasicAck(event.tags[0], event.is_multiple)
        case Called():
            return event.method


def _of(error: AmqpError, method: methods.AmqpMethod) -> AmqpError:
    """Return an error that names a method: this one, if it names none."""
    if error.method != (0, 0):
        return error
    return AmqpError(error.code, error.explanation, methods.layout_of(method).id)
