"""What every carrier of connections keeps: real sockets under both event loops, and the pipe.

The connection carried here is a line protocol: `receive` gives one event per line.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests import pipe, sockets
from tests.waits import LONG_SECONDS

from sprocket.base.errors import NotConnected, WireError
from sprocket.runtime import driver
from sprocket.runtime.driver import ConnectionSettings, Peer, PortPolicy, carrier
from sprocket.runtime.pressure import Pressure
from sprocket.runtime.settings import ClientLimits
from sprocket.runtime.turns import Turns

HOST = "127.0.0.1"


class Lines:
    """Gives each line as an event; a line `bad` breaks it."""

    def __init__(self) -> None:
        self.broken: WireError | None = None
        self._rest = b""

    def receive(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if b"bad" in lines:
            self.broken = WireError("a bad line")
            lines = lines[: lines.index(b"bad")]
            if not lines:
                raise self.broken
        return lines


class Side:
    """Collects events and lets a test wait for a number of them."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.peers: list[Peer] = []
        self._changed = asyncio.Event()

    def __call__(self, peer: Peer, line: bytes) -> None:
        """Take one event."""
        self.lines.append(line)
        self.peers.append(peer)
        self._changed.set()

    async def count(self, number: int) -> None:
        """Wait until `number` lines have come."""
        while len(self.lines) < number:
            self._changed.clear()
            await self._changed.wait()


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something holds."""
    while not condition():
        await asyncio.sleep(0)


def _run_uvloop(main: Any) -> None:
    driver.run(main)


def _run_asyncio(main: Any) -> None:
    asyncio.run(main)


CARRIERS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "sockets-uvloop": (lambda: sockets, _run_uvloop),
    "sockets-asyncio": (lambda: sockets, _run_asyncio),
    "pipe": (lambda: pipe.PipeNetwork(), _run_asyncio),
    "pipe-pieces": (lambda: pipe.PipeNetwork(chunk_bytes=500), _run_asyncio),
}

Carry = Callable[[Callable[[Any], Awaitable[None]]], None]


@pytest.fixture(params=CARRIERS)
def carry(request: pytest.FixtureRequest) -> Carry:
    """Return what runs a test's coroutine function with one of the networks, for 60 s at most."""
    network, run = CARRIERS[request.param]

    def go(body: Callable[[Any], Awaitable[None]]) -> None:
        async def limited() -> None:
            async with asyncio.timeout(LONG_SECONDS):
                await body(network())

        run(limited())

    return go


def test_events_arrive_in_order_both_ways(carry: Carry) -> None:
    """Whatever the pieces, on both sides; addresses fit each other."""

    async def body(network: Any) -> None:
        server_side, client_side = Side(), Side()
        server = await network.serve(Lines, server_side, HOST, 0)
        peer = await network.connect(Lines, client_side, HOST, server.port)
        for number in range(200):
            peer.send([b"%d" % number, b"\n"])
        await server_side.count(200)
        (far,) = server.peers
        far.send([memoryview(b"answer\n"), bytearray(b"more\n")])
        await client_side.count(2)
        assert server_side.lines == [b"%d" % number for number in range(200)]
        assert client_side.lines == [b"answer", b"more"]
        assert (peer.address, peer.local_address) == (far.local_address, far.address)
        assert peer.address == f"{HOST}:{server.port}"
        assert peer.host == "127.0.0.1"
        await server.close()

    carry(body)


def test_the_answers_of_a_turn_go_out_in_one_write(carry: Carry) -> None:
    """However many were sent, from wherever in the turn."""

    async def body(network: Any) -> None:
        client_side = Side()
        server = await network.serve(Lines, lambda peer, line: peer.send([line, b"\n"]), HOST, 0)
        peer = await network.connect(Lines, client_side, HOST, server.port)
        writes: list[int] = []
        write = peer.transport.writelines

        def count(buffers: list[bytes]) -> None:
            writes.append(len(buffers))
            write(buffers)

        peer.rewire(_Spy(peer.transport, count))
        for _ in range(50):
            peer.send([b"a\n"])
        assert writes == []
        await client_side.count(50)
        assert writes == [50]
        await server.close()

    carry(body)


def test_what_is_sent_now_is_written_at_once_behind_what_was_sent(carry: Carry) -> None:
    """With one write; nothing of it is written again at the end of the turn."""

    async def body(network: Any) -> None:
        client_side = Side()
        server = await network.serve(Lines, lambda *_: None, HOST, 0)
        await network.connect(Lines, client_side, HOST, server.port)
        await until(lambda: bool(server.peers))
        (far,) = server.peers
        writes: list[list[bytes]] = []
        write = far.transport.writelines

        def count(buffers: list[bytes]) -> None:
            writes.append(buffers)
            write(buffers)

        far.rewire(_Spy(far.transport, count))
        far.send_now([b"a\n", b"b\n"])
        assert writes == [[b"a\n", b"b\n"]]
        far.send([b"c\n"])
        far.send_now([b"d\n"])
        assert writes[1:] == [[b"c\n", b"d\n"]]
        far.send([b"e\n"])
        await client_side.count(5)
        assert writes[2:] == [[b"e\n"]]
        assert client_side.lines == [b"a", b"b", b"c", b"d", b"e"]
        await server.close()
        far.send_now([b"late\n"])
        assert len(writes) == 3

    carry(body)


def test_who_is_held_handles_nothing_while_somebody_sends_now(carry: Carry) -> None:
    """What it kept is handled once the turn is over, and it is answered in order."""

    async def body(network: Any) -> None:
        handled: list[bytes] = []
        client_side = Side()

        def handle(peer: Peer, line: bytes) -> None:
            handled.append(line)
            peer.send([line + b"y" * 1000 + b"\n"])

        settings = ConnectionSettings(limits=ClientLimits(answer_bytes_high=500))
        server = await network.serve(Lines, handle, HOST, 0, settings=settings)
        peer = await network.connect(Lines, client_side, HOST, server.port)
        peer.send([b"1\n2\n3\n"])
        await until(lambda: handled == [b"1"])
        (far,) = server.peers
        far.send_now([b"now\n"])
        assert handled == [b"1"]
        await client_side.count(4)
        assert [line.rstrip(b"y") for line in client_side.lines] == [b"1", b"now", b"2", b"3"]
        await server.close()

    carry(body)


class _Spy:
    """A transport whose `writelines` is watched."""

    def __init__(self, transport: Any, writelines: Callable[[Any], object]) -> None:
        self._transport = transport
        self.writelines = writelines

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def test_a_broken_connection_is_closed_after_its_good_events(carry: Carry) -> None:
    """What came before the break is handled and answered; nothing after it is."""

    async def body(network: Any) -> None:
        server_side, client_side = Side(), Side()

        def answer(peer: Peer, line: bytes) -> None:
            server_side(peer, line)
            peer.send([line, b"\n"])

        server = await network.serve(Lines, answer, HOST, 0)
        peer = await network.connect(Lines, client_side, HOST, server.port)
        peer.send([b"one\ntwo\nbad\nthree\n"])
        await until(lambda: not peer.is_open)
        assert server_side.lines == [b"one", b"two"]
        assert client_side.lines == [b"one", b"two"]
        await until(lambda: not server.peers)
        await server.close()

    carry(body)


def test_a_connection_that_breaks_at_once_is_closed(carry: Carry) -> None:
    """No event came before; nothing is handled."""

    async def body(network: Any) -> None:
        server_side = Side()
        server = await network.serve(Lines, server_side, HOST, 0)
        peer = await network.connect(Lines, Side(), HOST, server.port)
        peer.send([b"bad\n"])
        await until(lambda: not peer.is_open)
        assert server_side.lines == []
        await server.close()

    carry(body)


def test_a_break_waits_for_the_events_that_are_kept(carry: Carry) -> None:
    """A peer that does not read breaks the protocol: what came before is still served."""

    async def body(network: Any) -> None:
        client_side = Side()
        settings = ConnectionSettings(limits=ClientLimits(answer_bytes_high=1000))
        answer = b"y" * 999 + b"\n"
        server = await network.serve(
            Lines, lambda peer, _: peer.send([answer]), HOST, 0, settings=settings
        )
        peer = await network.connect(Lines, client_side, HOST, server.port)
        peer.send([b"x\n" * 100 + b"bad\nx\n"])
        await until(lambda: not peer.is_open)
        assert len(client_side.lines) == 100
        await server.close()

    carry(body)


def test_a_handler_that_fails_costs_its_connection_only(carry: Carry) -> None:
    """The server goes on with the others."""

    async def body(network: Any) -> None:
        client_side = Side()

        def handle(peer: Peer, line: bytes) -> None:
            if line == b"fail":
                raise ValueError("a bug")
            if line == b"refuse":
                raise WireError("late")
            peer.send([line, b"\n"])

        server = await network.serve(Lines, handle, HOST, 0)
        good = await network.connect(Lines, client_side, HOST, server.port)
        for word in (b"fail\n", b"refuse\n"):
            bad = await network.connect(Lines, Side(), HOST, server.port)
            bad.send([word])
            while bad.is_open:
                await asyncio.sleep(0)
        good.send([b"still here\n"])
        await client_side.count(1)
        await server.close()

    carry(body)


def test_close_callbacks_run_once_on_both_sides(carry: Carry) -> None:
    """Whoever closed; one that fails does not keep the others from running."""

    async def body(network: Any) -> None:
        server_side = Side()
        server = await network.serve(Lines, server_side, HOST, 0)
        peer = await network.connect(Lines, Side(), HOST, server.port)
        peer.send([b"x\n"])
        await server_side.count(1)
        (far,) = server.peers
        closed: list[str] = []

        def fail(_: Peer) -> None:
            raise ValueError("a bug")

        peer.on_close.append(lambda _: closed.append("near"))
        far.on_close += [fail, lambda _: closed.append("far")]
        peer.close()
        peer.close()
        await until(lambda: len(closed) == 2)
        assert sorted(closed) == ["far", "near"]
        assert not server.peers
        peer.send([b"dropped\n"])
        far.send([b"dropped\n"])
        assert (peer.pending_bytes, far.pending_bytes) == (0, 0)
        await server.close()

    carry(body)


def test_what_was_sent_before_close_arrives(carry: Carry) -> None:
    """`close` flushes; `Server.close` does so for all its connections."""

    async def body(network: Any) -> None:
        server_side, client_side = Side(), Side()
        server = await network.serve(Lines, server_side, HOST, 0)
        peer = await network.connect(Lines, client_side, HOST, server.port)
        other = await network.connect(Lines, Side(), HOST, server.port)
        other.send([b"last words\n"])
        other.close()
        await server_side.count(1)
        peer.send([b"x\n"])
        await server_side.count(2)
        server_side.peers[-1].send([b"good bye\n"])
        await server.close()
        await until(lambda: not peer.is_open)
        assert client_side.lines == [b"good bye"]

    carry(body)


def test_who_connects_where_nobody_listens_gets_an_error(carry: Carry) -> None:
    """An error that users of a client know; so after the server closed."""

    async def body(network: Any) -> None:
        server = await network.serve(Lines, Side(), HOST, 0)
        await server.close()
        with pytest.raises(NotConnected, match=str(server.port)):
            await network.connect(Lines, Side(), HOST, server.port)

    carry(body)


@pytest.mark.slow
def test_a_server_stops_reading_from_a_peer_that_does_not_read(carry: Carry) -> None:
    """Answers and events stay bounded, and all arrive once the peer reads again."""

    async def body(network: Any) -> None:
        handled = []
        client_side = Side()
        answer = b"y" * 1000 + b"\n"

        def handle(peer: Peer, line: bytes) -> None:
            handled.append(line)
            peer.send([answer])

        settings = ConnectionSettings(limits=ClientLimits(answer_bytes_high=10_000))
        server = await network.serve(Lines, handle, HOST, 0, settings=settings)
        peer = await network.connect(Lines, client_side, HOST, server.port)
        peer.transport.pause_reading()
        total = 20_000
        peer.send([(b"x" * 99 + b"\n") * total])
        most = most_kept = 0
        for _ in range(2000):
            await asyncio.sleep(0)
            most = max([most, *(far.pending_bytes for far in server.peers)])
            most_kept = max([most_kept, *(len(far.backlog) for far in server.peers)])
        assert len(handled) < total
        assert 100 * most_kept <= 2 * pipe.READ_BYTES
        assert most < 2 * 10_000 + 2 * len(answer)
        peer.transport.resume_reading()
        await client_side.count(total)
        assert len(handled) == total
        await server.close()

    carry(body)


def test_a_peer_that_never_reads_is_cut_off(carry: Carry) -> None:
    """Messages that it did not ask for pile up to a limit, then the connection goes."""

    async def body(network: Any) -> None:
        server_side = Side()
        settings = ConnectionSettings(
            limits=ClientLimits(answer_bytes_high=1000, answer_bytes_max=100_000)
        )
        server = await network.serve(Lines, server_side, HOST, 0, settings=settings)
        peer = await network.connect(Lines, Side(), HOST, server.port)
        peer.send([b"x\n"])
        await server_side.count(1)
        peer.transport.pause_reading()
        (far,) = server.peers
        most = 0
        while server.peers:
            far.send([b"z" * 9999 + b"\n"])
            most = max(most, far.pending_bytes)
            await asyncio.sleep(0)
        assert most <= 100_000 + 2 * 10_000
        await server.close()

    carry(body)


def test_a_peer_that_is_sent_too_much_now_is_cut_off(carry: Carry) -> None:
    """At once, not when something else is sent."""

    async def body(network: Any) -> None:
        settings = ConnectionSettings(
            limits=ClientLimits(answer_bytes_high=1000, answer_bytes_max=100_000)
        )
        server = await network.serve(Lines, Side(), HOST, 0, settings=settings)
        peer = await network.connect(Lines, Side(), HOST, server.port)
        await until(lambda: bool(server.peers))
        peer.transport.pause_reading()
        (far,) = server.peers
        far.send_now([b"z" * 50_000_000])
        assert not far.is_open
        await server.close()

    carry(body)


def test_idle_connections_are_closed_and_busy_ones_are_not(carry: Carry) -> None:
    """Reading or writing counts; 120 s without either do not pass."""

    async def body(network: Any) -> None:
        client_side = Side()
        server = await network.serve(Lines, lambda peer, line: peer.send([line, b"\n"]), HOST, 0)
        busy = await network.connect(Lines, client_side, HOST, server.port)
        idle = await network.connect(Lines, Side(), HOST, server.port)
        for number in range(1, 24):
            carrier().sweep(5.0)
            busy.send([b"x\n"])
            await client_side.count(number)
        assert (busy.is_open, idle.is_open) == (True, True)
        carrier().sweep(5.0)
        assert (busy.is_open, idle.is_open) == (True, False)
        await until(lambda: len(server.peers) == 1)
        await server.close()

    carry(body)


def test_connections_beyond_the_limit_are_refused(carry: Carry) -> None:
    """The ones before stay that have said something; of others the oldest goes."""

    async def body(network: Any) -> None:
        client_side = Side()
        settings = ConnectionSettings(limits=ClientLimits(connections_max=1))
        server = await network.serve(
            Lines, lambda peer, line: peer.send([line, b"\n"]), HOST, 0, settings=settings
        )
        silent = await network.connect(Lines, Side(), HOST, server.port)
        first = await network.connect(Lines, client_side, HOST, server.port)
        await until(lambda: not silent.is_open)
        first.send([b"x\n"])
        await client_side.count(1)
        second = await network.connect(Lines, Side(), HOST, server.port)
        await until(lambda: not second.is_open)
        first.send([b"x\n"])
        await client_side.count(2)
        await server.close()

    carry(body)


@pytest.mark.slow
def test_a_server_that_closes_does_not_wait_for_ever(carry: Carry) -> None:
    """Peers that do not take their answers are cut off after the grace time."""

    async def body(network: Any) -> None:
        server_side = Side()
        server = await network.serve(Lines, server_side, HOST, 0)
        peer = await network.connect(Lines, Side(), HOST, server.port)
        peer.send([b"x\n"])
        await server_side.count(1)
        peer.transport.pause_reading()
        server_side.peers[0].send([b"z" * 30_000_000])
        await server.close(grace_seconds=0.01)
        assert not server.peers

    carry(body)


@pytest.mark.slow
def test_the_slowest_is_cut_off_when_too_much_waits_for_all(carry: Carry) -> None:
    """The others stay, and so does who reads."""

    async def body(network: Any) -> None:
        server_side, client_side = Side(), Side()
        settings = ConnectionSettings(
            limits=ClientLimits(answer_bytes_high=1000, all_answer_bytes_max=30_000_000)
        )
        server = await network.serve(Lines, server_side, HOST, 0, settings=settings)
        slow = [await network.connect(Lines, Side(), HOST, server.port) for _ in range(3)]
        good = await network.connect(Lines, client_side, HOST, server.port)
        for number, peer in enumerate([*slow, good]):
            peer.send([b"%d\n" % number])
            await server_side.count(number + 1)
        far = server_side.peers
        for peer in slow:
            peer.transport.pause_reading()
        sizes = [12_000_000, 40_000_000, 12_000_000]
        for peer, size in zip(far, sizes, strict=False):
            peer.send([b"z" * size + b"\n"])
        await until(lambda: not far[1].is_open)
        far[3].send([b"fine\n"])
        await client_side.count(1)
        assert [peer.is_open for peer in far] == [True, False, True, True]
        assert carrier().slow_bytes < 30_000_000
        for peer in slow:
            peer.abort("a test")
        await until(lambda: carrier().slow_bytes == 0)
        await server.close()

    carry(body)


def test_who_is_stopped_is_neither_read_nor_handled(carry: Carry) -> None:
    """What came with the event that stopped it waits as well; then everything goes on in order."""

    async def body(network: Any) -> None:
        server_side, client_side = Side(), Side()

        def handle(peer: Peer, line: bytes) -> None:
            server_side(peer, line)
            if line == b"stop":
                peer.stop_reading()
            peer.send([line, b"\n"])

        server = await network.serve(Lines, handle, HOST, 0)
        peer = await network.connect(Lines, client_side, HOST, server.port)
        peer.send([b"one\nstop\ntwo\n"])
        await client_side.count(2)
        peer.send([b"three\n"])
        (far,) = server.peers
        far.send([b"told\n"])
        await client_side.count(3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (server_side.lines, far.is_held) == ([b"one", b"stop"], True)
        far.start_reading()
        far.start_reading()
        await client_side.count(5)
        assert server_side.lines == [b"one", b"stop", b"two", b"three"]
        assert client_side.lines == [b"one", b"stop", b"told", b"two", b"three"]
        assert not far.is_held
        await server.close()

    carry(body)


@pytest.mark.slow
def test_who_is_slow_may_be_read_all_the_same(carry: Carry) -> None:
    """Others see that it is, and are told when it is not any more."""

    async def body(network: Any) -> None:
        server_side, client_side = Side(), Side()
        settings = ConnectionSettings(limits=ClientLimits(answer_bytes_high=1000))
        policy = PortPolicy(reads_on_when_slow=True)
        server = await network.serve(Lines, server_side, HOST, 0, settings=settings, policy=policy)
        peer = await network.connect(Lines, client_side, HOST, server.port)
        peer.send([b"one\n"])
        await server_side.count(1)
        (far,) = server.peers
        peer.transport.pause_reading()
        assert far.is_ready
        far.send([(b"y" * 999 + b"\n") * 20_000])
        assert not far.is_ready
        told: list[str] = []
        far.when_ready(lambda: told.append("first"))
        far.when_ready(lambda: far.send([b"z" * 2000, b"\n"]))
        far.when_ready(lambda: told.append("last"))
        for number in range(3):
            peer.send([b"%d\n" % number])
            await server_side.count(2 + number)
        assert (told, far.is_ready, far.is_held) == ([], False, False)
        peer.transport.resume_reading()
        await client_side.count(20_001)
        await until(lambda: told == ["first", "last"])
        assert far.is_ready
        await server.close()

    carry(body)


def test_nobody_is_told_that_a_closed_connection_is_ready(carry: Carry) -> None:
    """Nor is it ready."""

    async def body(network: Any) -> None:
        server_side = Side()
        server = await network.serve(Lines, server_side, HOST, 0)
        peer = await network.connect(Lines, Side(), HOST, server.port)
        peer.send([b"one\n"])
        await server_side.count(1)
        (far,) = server.peers
        told: list[str] = []
        far.when_ready(lambda: told.append("told"))
        far.send([b"answer\n"])
        far.close()
        await until(lambda: not server.peers)
        assert (told, far.is_ready) == ([], False)
        await server.close()

    carry(body)


@pytest.mark.parametrize("is_held_by", ["a handler", "turns"])
def test_who_was_held_waits_under_pressure_as_well(carry: Carry, is_held_by: str) -> None:
    """Whoever handles it says that it goes on; it is not read before the pressure is over."""

    async def body(network: Any) -> None:
        pressure = Pressure(1000, 100_000)
        work = Turns(asyncio.get_running_loop())
        taken: list[bytes] = []

        def on_line(peer: Peer, line: bytes) -> None:
            taken.append(line)
            if is_held_by == "turns":
                work.work_left -= 101
            elif not len(taken) % 100:
                peer.stop_reading()
                asyncio.get_running_loop().call_soon(peer.start_reading)

        policy = PortPolicy(
            pressure=pressure,
            turns=work if is_held_by == "turns" else None,
            reads_on_when_slow=True,
        )
        server = await network.serve(Lines, on_line, HOST, 0, policy=policy)
        quick = await network.connect(Lines, Side(), HOST, server.port)
        quick.send([b"hello\n"])
        await until(lambda: bool(taken))
        pressure.weigh(500)
        total = 30_000
        quick.send([(b"x" * 99 + b"\n") * (total - 1)])
        before = 0
        while len(taken) > before:
            before = len(taken)
            for _ in range(200):
                await asyncio.sleep(0)
        (peer,) = server.peers
        assert (peer.is_held, peer.backlog) == (True, [])
        assert len(taken) < total
        pressure.weigh(499)
        await until(lambda: len(taken) == total)
        await server.close()

    carry(body)


def test_who_brings_most_waits_under_pressure(carry: Carry) -> None:
    """Nothing is lost; others are read meanwhile, and so is it when the pressure is over."""

    async def body(network: Any) -> None:
        server_side = Side()
        pressure = Pressure(1000, 100_000)
        policy = PortPolicy(pressure=pressure)
        server = await network.serve(Lines, server_side, HOST, 0, policy=policy)
        quick = await network.connect(Lines, Side(), HOST, server.port)
        other = await network.connect(Lines, Side(), HOST, server.port)
        pressure.weigh(500)
        total = 30_000
        quick.send([(b"x" * 99 + b"\n") * total])
        await until(lambda: any(peer.is_held for peer in server.peers))
        taken = len(server_side.lines)
        assert taken < total
        other.send([b"hello\n"])
        await server_side.count(taken + 1)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(server_side.lines) == taken + 1
        pressure.weigh(499)
        await server_side.count(total + 1)
        pressure.weigh(500)
        quick.send([(b"x" * 99 + b"\n") * total])
        await until(lambda: any(peer.is_held for peer in server.peers))
        for peer in list(server.peers):
            peer.abort("a test")
        await until(lambda: not server.peers)
        pressure.weigh(0)
        await server.close()

    carry(body)
