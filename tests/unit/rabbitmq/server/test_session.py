"""One client from its login to its end, over a network in memory, in a time that passes at once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from tests import virtual_time
from tests.amqp import LOGIN, frame, handshake, heard, message, method
from tests.amqp_tenant import Desk, Door
from tests.pipe import PipeNetwork
from tests.virtual_time import LoopClock

from sprocket.base.errors import WireError
from sprocket.rabbitmq.codec.amqp import AmqpError, ReplyCode, frames, methods
from sprocket.rabbitmq.codec.amqp.methods import AmqpMethod
from sprocket.rabbitmq.model.fields import NO_FIELDS, Field, FieldKind, FieldTable
from sprocket.rabbitmq.server.amqp_server import LEAVE_SECONDS_MAX, AmqpServer
from sprocket.rabbitmq.server.connection import WireLimits
from sprocket.rabbitmq.server.greeting import Greeting
from sprocket.rabbitmq.server.session import BLOCKED_BYTES_MAX
from sprocket.runtime.driver import ConnectionAdmission, Peer
from sprocket.runtime.turns import Turns

LIMITS = WireLimits(heartbeat_seconds=0)
CAPABILITIES = tuple(
    (name, Field(FieldKind.BOOL, True))
    for name in ("authentication_failure_close", "connection.blocked")
)
UNDERSTANDS = FieldTable((("capabilities", Field(FieldKind.TABLE, FieldTable(CAPABILITIES))),))


class Raw:
    """A client's side that understands nothing."""

    def __init__(self) -> None:
        self.broken: WireError | None = None

    def receive(self, data: bytes) -> list[bytes]:
        """Give what came."""
        return [data]


class Caller:
    """A client of frames."""

    def __init__(self) -> None:
        self.data = b""
        self.peer: Peer

    def __call__(self, _: Peer, data: bytes) -> None:
        """Take what the server says."""
        self.data += data

    def said(self) -> list[tuple[int, AmqpMethod]]:
        """Return what it has said since this was asked last."""
        data, self.data = self.data, b""
        return heard(data)

    def say(self, *parts: bytes) -> None:
        """Send octets."""
        self.peer.send(parts)


class Scene:
    """A server, and the time that passes."""

    def __init__(self, limits: WireLimits = LIMITS) -> None:
        self.door = Door()
        self.limits = limits
        self.network = PipeNetwork()
        loop = asyncio.get_running_loop()
        turns = self.turns = Turns(loop)
        self.server = AmqpServer(self.door, Greeting("here"), limits, LoopClock(), loop, turns)
        self.port = 0
        self.peers: set[Peer] = set()
        """The server's side of every connection."""

    async def call(self, *parts: bytes) -> Caller:
        """Connect, and send octets."""
        if not self.port:
            served = await self.network.serve(
                self.server.connection,
                self.server.on_event,
                "host",
                0,
                admission=ConnectionAdmission(unknown_seconds_max=10).port("amqp", 1000),
                policy=self.server.policy(),
            )
            self.port, self.peers = served.port, served.peers
        found = Caller()
        found.peer = await self.network.connect(Raw, found, "host", self.port)
        found.say(*parts)
        await self.settle()
        return found

    async def inside(self) -> Caller:
        """Return a client that is in and has channel 1; what it heard so far is forgotten."""
        found = await self.call(handshake(self.limits), method(1, methods.ChannelOpen()))
        told = [type(one) for _, one in found.said()]
        assert told == [
            methods.ConnectionStart,
            methods.ConnectionTune,
            methods.ConnectionOpenOk,
            methods.ChannelOpenOk,
        ]
        return found

    async def ask(self, caller: Caller, *parts: bytes) -> list[tuple[int, AmqpMethod]]:
        """Send octets and return what the server says at once."""
        caller.say(*parts)
        await self.settle()
        return caller.said()

    async def settle(self, seconds: float = 0.0) -> None:
        """Let time pass, and then everything happen that is due."""
        await asyncio.sleep(seconds)
        for _ in range(20):
            await asyncio.sleep(0)


def play(scene: Callable[[], Awaitable[None]]) -> None:
    """Run a test's coroutine."""

    async def main() -> None:
        await scene()

    virtual_time.run(main())


def close(code: int, text: str, failed: tuple[int, int] = (0, 0)) -> methods.ConnectionClose:
    """Return such a method."""
    return methods.ConnectionClose(code, text, *failed)


DECLARE_NONE = method(
    1, methods.QueueDeclare(0, "none", True, False, False, False, False, NO_FIELDS)
)
DECLARE = method(1, methods.QueueDeclare(0, "q", False, False, False, False, False, NO_FIELDS))
CLOSED = methods.ChannelClose(404, "NOT_FOUND - no queue 'none' in vhost '/'", 50, 10)


def test_a_client_comes_in_and_leaves() -> None:
    """What it held is given back before it is told."""

    async def scene() -> None:
        at = Scene()
        caller = await at.inside()
        assert at.door.inside == ["guest"]
        (session,) = at.server.sessions.values()
        assert (session.user, session.vhost) == ("guest", "/")
        assert await at.ask(caller, DECLARE) == [(1, methods.QueueDeclareOk("q", 0, 0))]
        told = await at.ask(caller, method(0, close(200, "bye")))
        assert told == [(0, methods.ConnectionCloseOk())]
        assert at.door.inside == []
        caller.peer.close()
        await at.settle()
        assert at.server.sessions == {}

    play(scene)


def slow_desk(turns: Turns) -> type[Desk]:
    """Return what serves a channel that gives back in as many turns as `STEPS` what it holds.

    `basic.recover` has to wait until the channel is closed.
    """

    class SlowDesk(Desk):
        ends: tuple[Callable[[], None], ...] = ()

        def called(self, method: AmqpMethod) -> None:
            if isinstance(method, methods.BasicRecover):
                self._replies.wait_for(lambda ended: setattr(self, "ends", (ended,)))
            else:
                super().called(method)

        def close_in_turns(self) -> Iterator[None]:
            super().close_in_turns()
            for ended in self.ends:
                ended()
            return self._give_back()

        def _give_back(self) -> Iterator[None]:
            self._door.acked.append(0)
            for _ in range(STEPS):
                turns.work_left = 0
                yield
            self._door.acked.append(STEPS)

    return SlowDesk


STEPS = 30
FORCED = AmqpError(ReplyCode.PRECONDITION_FAILED, "no")


def test_nothing_is_done_before_a_channel_has_given_back_that_waited() -> None:
    """What was read with it waits until the client is told; then it leaves in that order."""

    async def scene() -> None:
        at = Scene()
        at.door.desk = slow_desk(at.turns)
        caller = await at.inside()
        asked = method(1, methods.BasicRecover(True)) + method(0, close(200, "bye"))
        assert await at.ask(caller, asked) == []
        at.door.replies[0].fail(FORCED)
        await at.settle()
        assert at.door.acked == [0]
        assert (caller.said(), at.door.inside) == ([], ["guest"])
        await at.settle()
        assert at.door.acked == [0, STEPS]
        assert caller.said() == [
            (1, methods.ChannelClose(406, "PRECONDITION_FAILED - no", 0, 0)),
            (0, methods.ConnectionCloseOk()),
        ]
        assert at.door.inside == []

    play(scene)


def test_nothing_is_done_that_waited_when_the_connection_ends() -> None:
    """Not on another channel either: what came behind a question is dropped with it."""

    async def scene() -> None:
        at = Scene()
        at.door.desk = slow_desk(at.turns)
        caller = await at.inside()
        await at.ask(caller, method(2, methods.ChannelOpen()))
        asked = method(1, methods.BasicRecover(True))
        late = method(2, methods.QueueDeclare(0, "q", False, False, False, False, True, NO_FIELDS))
        assert await at.ask(caller, asked + late) == []
        at.server.close_all("over")
        await at.settle()
        assert at.door.queues == {}

    play(scene)


def test_a_channel_that_still_gives_back_is_not_named_once_the_connection_is_closed() -> None:
    """The last that the client is told is that the connection is closed."""

    async def scene() -> None:
        at = Scene()
        at.door.desk = slow_desk(at.turns)
        caller = await at.inside()
        assert await at.ask(caller, method(1, methods.ChannelClose(200, "bye", 0, 0))) == []
        at.server.close_all("over")
        await at.settle()
        await at.settle()
        assert at.door.acked == [0, STEPS]
        told = close(320, "CONNECTION_FORCED - over")
        assert caller.said() == [(0, told)]

    play(scene)


def test_who_cannot_be_read_is_dropped_soon_even_if_it_gives_back_in_steps() -> None:
    """There is no answer to wait for."""

    async def scene() -> None:
        at = Scene()
        at.door.desk = slow_desk(at.turns)
        caller = await at.inside()
        await at.ask(caller, b"\1\0\1\0\0\0\1xx")
        await at.settle()
        await at.settle()
        ((_, told),) = caller.said()
        assert isinstance(told, methods.ConnectionClose)
        assert told.reply_code == 501
        await at.settle(3.1)
        assert at.server.sessions == {}

    play(scene)


def test_what_a_client_sends_after_its_close_is_read_and_ignored() -> None:
    """A socket that is closed with octets unread resets the connection, close-ok and all.

    Clients that write from buffers of their channels send their close between these. Who never
    closes its end is dropped when a server's own close would have to be answered.
    """

    async def scene() -> None:
        at = Scene()
        caller = await at.inside()
        told = await at.ask(caller, method(0, close(200, "bye")), DECLARE, b"\1\0")
        assert told == [(0, methods.ConnectionCloseOk())]
        assert await at.ask(caller, bytes(100_000)) == []
        await at.settle(29.9)
        assert caller.peer.is_open
        await at.settle(0.2)
        assert (caller.said(), caller.peer.is_open) == ([], False)

    play(scene)


def test_a_lost_client_gives_everything_back() -> None:
    """It is told nothing."""

    async def scene() -> None:
        at = Scene()
        caller = await at.inside()
        caller.peer.abort("a test")
        await at.settle()
        assert (at.door.inside, at.server.sessions) == ([], {})

    play(scene)


def login(client: FieldTable, password: bytes, mechanism: str = "PLAIN") -> bytes:
    """Return a login."""
    response = b"\x00guest\x00" + password
    return method(0, methods.ConnectionStartOk(client, mechanism, response, "en_US"))


def test_a_refused_login_is_told_to_who_understands() -> None:
    """And the socket stays open for 3 s."""

    async def scene() -> None:
        at = Scene()
        caller = await at.call(frames.PROTOCOL_HEADER, login(UNDERSTANDS, b"wrong"))
        _, told = caller.said()
        text = (
            "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details "
            "see the broker logfile."
        )
        assert told == (0, close(403, text))
        assert await at.ask(caller, handshake(LIMITS)) == []
        await at.settle(2.9)
        assert caller.peer.is_open
        await at.settle(0.2)
        assert not caller.peer.is_open

    play(scene)


def test_a_refused_client_that_has_sent_everything_is_told() -> None:
    """All in one piece: the wrong login, a channel, and what is to be done on it."""

    async def scene() -> None:
        at = Scene()
        wrong, unknown = login(UNDERSTANDS, b"wrong"), login(UNDERSTANDS, b"guest", "PLAIN2")
        for given, code in ((wrong, 403), (unknown, 403)):
            opening = handshake(LIMITS).replace(LOGIN, given)
            caller = await at.call(opening + method(1, methods.ChannelOpen()) + DECLARE)
            await at.settle(3.1)
            told = [one for _, one in caller.said() if isinstance(one, methods.ConnectionClose)]
            assert ([one.reply_code for one in told], caller.peer.is_open) == ([code], False)
        assert at.server.sessions == {}

    play(scene)


def test_a_refused_login_is_silence_to_others() -> None:
    """For 3 s; then the socket closes."""

    async def scene() -> None:
        at = Scene()
        caller = await at.call(frames.PROTOCOL_HEADER, login(NO_FIELDS, b"wrong"))
        assert [type(one) for _, one in caller.said()] == [methods.ConnectionStart]
        await at.settle(2.9)
        assert caller.peer.is_open
        await at.settle(0.2)
        assert (caller.said(), caller.peer.is_open) == ([], False)

    play(scene)


def test_who_breaks_the_handshake_is_told_late() -> None:
    """An unknown mechanism, and limits that were not offered."""
    tune = method(0, methods.ConnectionTuneOk(2047, 131072 + 1, 0))
    why = "NOT_ALLOWED - negotiated frame_max = 131073 is higher than the maximum allowed value "

    async def scene() -> None:
        at = Scene()
        for parts, told in (
            (
                [login(UNDERSTANDS, b"guest", "PLAIN2")],
                close(403, "ACCESS_REFUSED - unknown authentication mechanism 'PLAIN2'", (10, 11)),
            ),
            ([LOGIN, tune], close(530, f"{why}(131072)", (10, 31))),
        ):
            caller = await at.call(frames.PROTOCOL_HEADER, *parts)
            caller.said()
            await at.settle(2.9)
            assert caller.said() == []
            await at.settle(0.2)
            assert (caller.said(), caller.peer.is_open) == ([(0, told)], False)
        assert at.server.sessions == {}

    play(scene)


def test_a_handshake_takes_10_seconds_at_most() -> None:
    """Then the socket closes, without a word; also of who has said nothing, or half a header."""

    async def scene() -> None:
        at = Scene()
        callers = [
            await at.call(*parts)
            for parts in ((frames.PROTOCOL_HEADER, LOGIN), (frames.PROTOCOL_HEADER,), (b"AMQ",), ())
        ]
        for caller in callers:
            caller.said()
        await at.settle(9.9)
        assert all(caller.peer.is_open for caller in callers)
        await at.settle(0.2)
        for caller in callers:
            assert (caller.said(), caller.peer.is_open) == ([], False)
        inside = await at.inside()
        await at.settle(60)
        assert inside.peer.is_open

    play(scene)


def test_a_vhost_may_be_closed_to_a_client() -> None:
    """It is told; it has 30 s to say that it knows."""

    async def scene() -> None:
        at = Scene()
        told = (0, close(530, "NOT_ALLOWED - vhost v not found", (10, 40)))
        polite = await at.call(handshake(LIMITS, "v"))
        assert polite.said()[-1] == told
        await at.ask(polite, method(0, methods.ConnectionCloseOk()))
        assert not polite.peer.is_open
        silent = await at.call(handshake(LIMITS, "v"))
        assert silent.said()[-1] == told
        await at.settle(29.9)
        assert silent.peer.is_open
        await at.settle(0.2)
        assert not silent.peer.is_open

    play(scene)


def test_who_hears_often_is_waited_for_less() -> None:
    """A close is answered within one heartbeat."""

    async def scene() -> None:
        at = Scene(WireLimits(heartbeat_seconds=4))
        caller = await at.call(handshake(at.limits, "v"))
        await at.settle(3.9)
        assert caller.peer.is_open
        await at.settle(0.2)
        assert not caller.peer.is_open

    play(scene)


def test_an_error_closes_the_channel() -> None:
    """What was sent behind it has no effect; then the number can be used again."""

    async def scene() -> None:
        at = Scene()
        caller = await at.inside()
        told = await at.ask(caller, DECLARE_NONE, DECLARE, message(1, b"lost", "q"))
        assert told == [(1, CLOSED)]
        assert at.door.queues == {}
        closed = method(1, methods.ChannelCloseOk())
        reopened = await at.ask(caller, closed, method(1, methods.ChannelOpen()), DECLARE)
        assert reopened == [(1, methods.ChannelOpenOk()), (1, methods.QueueDeclareOk("q", 0, 0))]

    play(scene)


def test_both_sides_close_a_channel_at_once() -> None:
    """The client's close was read before the server closed: it gets its answer, too."""

    async def scene() -> None:
        at = Scene()
        caller = await at.inside()
        bye = method(1, methods.ChannelClose(200, "", 0, 0))
        assert await at.ask(caller, DECLARE_NONE, bye) == [
            (1, CLOSED),
            (1, methods.ChannelCloseOk()),
        ]
        again = await at.ask(
            caller, method(1, methods.ChannelOpen()), method(1, methods.ChannelCloseOk()), DECLARE
        )
        assert again == [(1, methods.ChannelOpenOk()), (1, methods.QueueDeclareOk("q", 0, 0))]

    play(scene)


def test_a_message_beyond_the_limit_closes_its_channel() -> None:
    """And the services of that channel are told."""

    async def scene() -> None:
        at = Scene(WireLimits(heartbeat_seconds=0, message_bytes_max=3))
        caller = await at.inside()
        text = "PRECONDITION_FAILED - message size 4 is larger than configured max size 3"
        assert await at.ask(caller, DECLARE, message(1, b"long", "q")) == [
            (1, methods.QueueDeclareOk("q", 0, 0)),
            (1, methods.ChannelClose(406, text, 60, 40)),
        ]
        assert at.door.closed_count == 1

    play(scene)


def test_a_channel_that_the_client_closes_gives_back_what_it_held() -> None:
    """Before it is told."""

    async def scene() -> None:
        at = Scene()
        caller = await at.inside()
        consume = methods.BasicConsume(0, "q", "c", False, False, False, False, NO_FIELDS)
        await at.ask(caller, DECLARE, method(1, consume))
        assert list(at.door.consumers) == ["q"]
        bye = method(1, methods.ChannelClose(200, "", 0, 0))
        assert await at.ask(caller, bye) == [(1, methods.ChannelCloseOk())]
        assert list(at.door.consumers) == []
        at.door.queues["q"].append(("", "q", bytes(2), ()))
        assert caller.said() == []

    play(scene)


def test_an_error_of_the_connection_ends_it() -> None:
    """With the method that failed; the answer closes the socket."""

    async def scene() -> None:
        at = Scene()
        caller = await at.inside()
        told = await at.ask(caller, method(1, methods.TxRollback()), DECLARE)
        assert told == [(0, close(503, "COMMAND_INVALID - unimplemented method", (90, 30)))]
        assert (at.door.inside, at.door.queues) == ([], {})
        assert await at.ask(caller, method(0, methods.ConnectionCloseOk())) == []
        assert not caller.peer.is_open

    play(scene)


def test_a_failure_of_a_handler_is_the_servers_error() -> None:
    """The client is told, and the log has the rest."""

    async def scene() -> None:
        at = Scene()
        caller = await at.inside()
        at.door.fails_at_flow = True
        told = await at.ask(caller, method(1, methods.ChannelFlow(True)))
        assert told == [(0, close(541, "INTERNAL_ERROR", (20, 20)))]

    play(scene)


def test_who_is_out_of_step_is_dropped_after_3_seconds() -> None:
    """It is told why, but no answer can be read."""

    async def scene() -> None:
        at = Scene()
        caller = await at.inside()
        ((_, told),) = await at.ask(caller, frame(1, 1, b"", end=1))
        assert isinstance(told, methods.ConnectionClose)
        assert told.reply_code == 501
        await at.settle(2.9)
        assert caller.peer.is_open
        await at.settle(0.2)
        assert not caller.peer.is_open

    play(scene)


async def enter(at: Scene, client: FieldTable) -> Caller:
    """Return a client that says this of itself, and has queue `q` and channel 1."""
    opening = handshake(LIMITS).replace(LOGIN, login(client, b"guest"))
    found = await at.call(opening, method(1, methods.ChannelOpen()), DECLARE)
    assert found.said()[-1][0] == 1
    return found


def test_who_publishes_is_blocked_while_something_is_low() -> None:
    """After the messages that came together; who understands is told, and when it goes on."""

    async def scene() -> None:
        at = Scene()
        knowing, plain, reader = [
            await enter(at, client) for client in (UNDERSTANDS, NO_FIELDS, UNDERSTANDS)
        ]
        at.server.alarms.set(["memory", "disk"])
        blocked = (0, methods.ConnectionBlocked("low on memory & disk"))
        first = message(1, b"1", "q")
        assert await at.ask(knowing, first, first, DECLARE, first, DECLARE) == [blocked]
        assert await at.ask(plain, first, DECLARE, first, DECLARE) == []
        assert await at.ask(reader, DECLARE) == [(1, methods.QueueDeclareOk("q", 3, 0))]
        at.server.alarms.set(["disk"])
        await at.settle()
        assert (len(at.door.queues["q"]), at.server.alarms.blocked_count) == (3, 2)
        at.server.alarms.set([])
        await at.settle()
        assert len(at.door.queues["q"]) == 5
        unblocked = (0, methods.ConnectionUnblocked())
        assert [type(one) for _, one in plain.said()] == 2 * [methods.QueueDeclareOk]
        told = [(1, methods.QueueDeclareOk("q", count, 0)) for count in (3, 4)]
        assert knowing.said() == [unblocked, *told]
        assert await at.ask(knowing, first, DECLARE) != []

    play(scene)


def test_who_is_blocked_can_be_closed() -> None:
    """What it sent meanwhile is not done, and its answer is heard."""

    async def scene() -> None:
        at = Scene()
        caller = await enter(at, UNDERSTANDS)
        at.server.alarms.set(["memory"])
        await at.ask(caller, message(1, b"1", "q"), DECLARE, message(1, b"2", "q"))
        at.server.close_all("enough")
        await at.settle()
        assert caller.said() == [(0, close(320, "CONNECTION_FORCED - enough"))]
        await at.ask(caller, method(0, methods.ConnectionCloseOk()))
        assert not caller.peer.is_open
        assert (len(at.door.queues["q"]), at.server.alarms.blocked_count) == (1, 0)

    play(scene)


@pytest.mark.parametrize("is_together", [False, True])
def test_who_is_blocked_can_leave(is_together: bool) -> None:
    """What it has sent before is taken, as nothing will follow; then it is told, at once."""

    async def scene() -> None:
        at = Scene()
        caller = await enter(at, UNDERSTANDS)
        at.server.alarms.set(["disk"])
        first, then = message(1, b"1", "q"), [message(1, b"2", "q"), message(1, b"3", "q")]
        goodbye = method(0, methods.ConnectionClose(200, "bye", 0, 0))
        answer = (0, methods.ConnectionCloseOk())
        if is_together:
            assert await at.ask(caller, first, DECLARE, *then, goodbye) == [
                (1, methods.QueueDeclareOk("q", 1, 0)),
                answer,
            ]
        else:
            blocked = (0, methods.ConnectionBlocked("low on disk"))
            assert await at.ask(caller, first) == [blocked]
            assert await at.ask(caller, *then) == []
            assert at.server.alarms.blocked_count == 1
            assert await at.ask(caller, goodbye) == [answer]
        assert (len(at.door.queues["q"]), at.server.alarms.blocked_count) == (3, 0)
        assert at.door.inside == []
        at.server.alarms.set([])

    play(scene)


@pytest.mark.parametrize("is_together", [False, True])
def test_who_is_blocked_can_close_channels(is_together: bool) -> None:
    """One by one, as many clients do before they leave; it stays blocked, and is told so once."""

    async def scene() -> None:
        at = Scene()
        caller = await enter(at, UNDERSTANDS)
        await at.ask(caller, method(2, methods.ChannelOpen()))
        at.server.alarms.set(["disk"])
        first, then = message(1, b"1", "q"), message(1, b"2", "q")
        closing = [method(number, methods.ChannelClose(200, "bye", 0, 0)) for number in (1, 2)]
        blocked = (0, methods.ConnectionBlocked("low on disk"))
        closed = [(number, methods.ChannelCloseOk()) for number in (1, 2)]
        if is_together:
            assert await at.ask(caller, first, then, *closing) == closed
        else:
            assert await at.ask(caller, first) == [blocked]
            assert await at.ask(caller, then) == []
            assert await at.ask(caller, closing[0]) == closed[:1]
            assert len(at.door.queues["q"]) == 2
            assert (caller.peer.is_open, at.server.alarms.blocked_count) == (True, 1)
            assert await at.ask(caller, message(2, b"3", "q")) == []
            assert len(at.door.queues["q"]) == 2
            assert await at.ask(caller, closing[1]) == closed[1:]
            at.server.alarms.set([])
            await at.settle()
            assert caller.said() == [(0, methods.ConnectionUnblocked())]
        answer = (0, methods.ConnectionCloseOk())
        assert await at.ask(caller, method(0, methods.ConnectionClose(200, "", 0, 0))) == [answer]
        assert at.server.alarms.blocked_count == 0
        at.server.alarms.set([])

    play(scene)


def test_little_is_read_of_who_is_blocked() -> None:
    """Whoever goes on publishing fills their own buffers, not the server's."""

    async def scene() -> None:
        at = Scene()
        caller = await enter(at, NO_FIELDS)
        at.server.alarms.set(["memory"])
        large = message(1, bytes(BLOCKED_BYTES_MAX // 4), "q")
        await at.ask(caller, message(1, b"1", "q"))
        (peer,) = at.peers
        before = peer.read_bytes
        for _ in range(20):
            await at.ask(caller, large)
        assert BLOCKED_BYTES_MAX <= peer.read_bytes - before < BLOCKED_BYTES_MAX + 2 * len(large)
        at.server.alarms.set([])
        await at.settle()
        assert len(at.door.queues["q"]) == 21

    play(scene)


def test_who_is_blocked_may_be_lost() -> None:
    """Nothing is left of it."""

    async def scene() -> None:
        at = Scene()
        caller = await enter(at, UNDERSTANDS)
        at.server.alarms.set(["memory"])
        await at.ask(caller, message(1, b"1", "q"))
        for peer in list(at.peers):
            peer.abort("a test")
        await at.settle()
        assert at.server.alarms.blocked_count == 0
        at.server.alarms.set([])

    play(scene)


def test_heartbeats_are_not_expected_of_who_is_blocked() -> None:
    """It is not read, so nothing can come."""

    async def scene() -> None:
        at = Scene(WireLimits(heartbeat_seconds=2))
        caller = await at.inside()
        at.server.alarms.set(["disk"])
        await at.ask(caller, DECLARE, message(1, b"1", "q"))
        await at.settle(30)
        assert caller.peer.is_open
        at.server.alarms.set([])
        await at.settle(10)
        assert not caller.peer.is_open

    play(scene)


def test_a_client_that_writes_before_it_reads_is_read() -> None:
    """However much waits for it: else both sides could wait for each other."""

    async def scene() -> None:
        at = Scene()
        caller = await enter(at, NO_FIELDS)
        consume = methods.BasicConsume(0, "q", "c", False, True, False, False, NO_FIELDS)
        caller.peer.transport.pause_reading()
        large = message(1, b"x" * 100_000, "q")
        await at.ask(caller, method(1, consume), *[large] * 100)
        while at.door.published_count < 100:
            await at.settle()
        (session,) = at.server.sessions.values()
        assert not session.peer.is_ready
        assert not session.peer.is_held
        delivered = 100 - len(at.door.queues["q"])
        assert 10 <= delivered <= 20
        caller.peer.transport.resume_reading()
        while at.door.queues["q"]:
            await at.settle()
        assert caller.peer.is_open

    play(scene)


def test_heartbeats_come_and_are_expected() -> None:
    """A client that is silent is dropped; one that sends them stays."""

    async def scene() -> None:
        at = Scene(WireLimits(heartbeat_seconds=2))
        good, bad = await at.inside(), await at.inside()
        for _ in range(10):
            await at.settle(1)
            good.say(frames.HEARTBEAT)
        assert good.peer.is_open
        assert good.data.count(frames.HEARTBEAT) in (8, 9)
        assert not bad.peer.is_open
        assert bad.data.count(frames.HEARTBEAT) in (3, 4, 5)
        assert at.door.inside == ["guest"]

    play(scene)


def test_who_wants_no_heartbeats_may_be_quiet() -> None:
    """For as long as it likes; but not before it is in."""

    async def scene() -> None:
        at = Scene()
        caller = await at.inside()
        silent = await at.call()
        for peer in list(at.peers):
            peer.sweep(1_000_000)
        await at.settle()
        assert caller.peer.is_open
        assert not silent.peer.is_open

    play(scene)


def test_a_secret_can_be_updated() -> None:
    """It changes nothing."""

    async def scene() -> None:
        at = Scene()
        caller = await at.inside()
        update = method(0, methods.ConnectionUpdateSecret(b"new", "it expires"))
        assert await at.ask(caller, update) == [(0, methods.ConnectionUpdateSecretOk())]

    play(scene)


def test_what_is_asked_while_something_waits_comes_after_it() -> None:
    """In order, once all has ended; an alarm that ends meanwhile makes no difference."""

    async def scene() -> None:
        at = Scene()
        caller = await at.inside()
        (replies,) = at.door.replies
        ends: list[Callable[[], None]] = []
        replies.wait_for(ends.append)
        replies.wait_for(ends.append)
        asked = (method(1, methods.TxSelect()), method(1, methods.BasicQos(0, 0, False)))
        assert await at.ask(caller, *asked) == []
        for _ in range(2):  # an end counts once
            ends[0]()
            await at.settle()
            assert caller.said() == []
        ends[1]()
        await at.settle()
        assert caller.said() == [(1, methods.TxSelectOk()), (1, methods.BasicQosOk())]
        at.server.alarms.set(["disk"])
        await at.ask(caller, message(1, b"x"))
        replies.wait_for(ends.append)
        at.server.alarms.set([])
        assert await at.ask(caller, asked[0]) == []
        ends[2]()
        await at.settle()
        assert caller.said() == [(1, methods.TxSelectOk())]

    play(scene)


def test_a_server_that_stops_takes_leave() -> None:
    """Of every client; what a client asks for meanwhile is not done."""

    async def scene() -> None:
        at = Scene()
        callers = [await at.inside() for _ in range(3)]
        at.server.stop()
        text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        for caller in callers:
            assert await at.ask(caller, DECLARE) == [(0, close(320, text))]
        assert (at.door.inside, at.door.queues) == ([], {})
        for caller in callers:
            await at.ask(caller, method(0, methods.ConnectionCloseOk()))
            assert not caller.peer.is_open
        assert at.server.sessions == {}

    play(scene)


def test_who_comes_while_the_server_stops_is_turned_away() -> None:
    """Who is about to come in as well; who has asked to leave is told that they may."""

    async def scene() -> None:
        at = Scene()
        early = await at.call(frames.PROTOCOL_HEADER)
        assert [type(one) for _, one in early.said()] == [methods.ConnectionStart]
        leaving, idle = await at.inside(), await at.inside()
        leaving.say(method(0, methods.ConnectionClose(200, "bye", 0, 0)))
        await at.settle()
        at.server.stop()
        late = await at.call(handshake(at.limits))
        assert (late.said(), late.peer.is_open) == ([], False)
        text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        for caller in (early, idle):
            assert await at.ask(caller) == [(0, close(320, text))]
        assert leaving.said() == [(0, methods.ConnectionCloseOk())]
        assert await at.ask(early, LOGIN) == []
        waiting = asyncio.ensure_future(at.server.settle())
        await at.settle()
        assert not waiting.done()  # they have not said that they know
        for caller in (early, idle):
            await at.ask(caller, method(0, methods.ConnectionCloseOk()))
        leaving.peer.close()
        await waiting
        assert at.server.sessions == {}

    play(scene)


def test_a_server_that_stops_does_not_wait_for_long() -> None:
    """For who does not answer."""

    async def scene() -> None:
        at = Scene()
        await at.inside()
        at.server.stop()
        began = asyncio.get_running_loop().time()
        await at.server.settle()
        assert asyncio.get_running_loop().time() - began < 2 * LEAVE_SECONDS_MAX

    play(scene)


@pytest.mark.parametrize("chunk_bytes", [1, 7])
def test_pieces_make_no_difference(chunk_bytes: int) -> None:
    """However small."""

    async def scene() -> None:
        at = Scene()
        at.network = PipeNetwork(chunk_bytes)
        caller = await at.call(handshake(LIMITS), method(1, methods.ChannelOpen()), DECLARE)
        await at.settle(1)
        while len(caller.data) < 500:
            await at.settle()
        assert caller.said()[-1] == (1, methods.QueueDeclareOk("q", 0, 0))

    play(scene)
