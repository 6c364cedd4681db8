"""Requests find their answers, and every request has one outcome."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests import virtual_time
from tests.pipe import PipeNetwork
from tests.virtual_time import LoopClock

from sprocket.base.errors import BrokerRefused, NotConnected, RequestTimeout, WireError
from sprocket.rocketmq.client import ClientSettings
from sprocket.rocketmq.client.network import Connections, read
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command, request, response
from sprocket.rocketmq.remoting import Connection
from sprocket.runtime.driver import Peer, Server
from sprocket.runtime.tasks import Tasks

CODE = RequestCode.GET_MAX_OFFSET
ADDRESS = "10.0.0.2:10911"


class Net:
    """A server whose answers the test gives, and connections to it."""

    def __init__(self, connect: Any = None) -> None:
        self.network = PipeNetwork()
        self.asked: list[tuple[Peer, Command]] = []
        self.pushed: list[Command] = []
        self.opened: list[str] = []
        self.tasks = Tasks("test")
        self.connections = Connections(
            ClientSettings(),
            LoopClock(),
            self.tasks,
            on_request=lambda _, command: self.pushed.append(command),
            on_open=self.opened.append,
            connect=connect or self.network.connect,
        )

    async def serve(self) -> Server:
        """Listen, and keep what is asked."""
        return await self.network.serve(
            Connection, lambda *asked: self.asked.append(asked), "10.0.0.2", 10911
        )

    async def until_asked(self, count: int) -> None:
        """Wait until so many requests have arrived."""
        while len(self.asked) < count:
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        """Close everything."""
        self.connections.close()
        await self.tasks.close()


def test_answers_out_of_order_find_their_requests() -> None:
    """Opaques decide, and all requests share one connection."""

    async def main() -> None:
        net = Net()
        await net.serve()
        waiting = [
            asyncio.ensure_future(net.connections.request(ADDRESS, CODE, body=b"%d" % number))
            for number in range(3)
        ]
        await net.until_asked(3)
        for peer, command in reversed(net.asked):
            peer.send(response(command, 0, body=[command.body]))
        assert [(await one).body for one in waiting] == [b"0", b"1", b"2"]
        assert net.opened == [ADDRESS]
        await net.close()

    virtual_time.run(main())


def test_no_answer_is_a_timeout_that_names_the_request() -> None:
    """At its time, with address and code; a late answer is dropped."""

    async def main() -> None:
        net = Net()
        await net.serve()
        with pytest.raises(RequestTimeout, match=r"10\.0\.0\.2:10911.*GET_MAX_OFFSET.*500 ms"):
            await net.connections.request(ADDRESS, CODE, timeout_ms=500)
        peer, command = net.asked[0]
        peer.send(response(command, 0))
        await asyncio.sleep(1)
        await net.close()

    virtual_time.run(main())


def test_a_connection_gone_dead_is_given_up() -> None:
    """When an answer is late and nothing else came, the next request makes a new connection."""

    async def main() -> None:
        net = Net()
        await net.serve()
        held = asyncio.ensure_future(net.connections.request(ADDRESS, CODE, timeout_ms=30_000))
        with pytest.raises(RequestTimeout):
            await net.connections.request(ADDRESS, CODE, timeout_ms=6_000)
        with pytest.raises(NotConnected, match="lost"):
            await held
        await net.connections.channel(ADDRESS)
        assert net.opened == [ADDRESS, ADDRESS]
        await net.close()

    virtual_time.run(main())


def test_a_lost_connection_fails_its_requests_at_once() -> None:
    """They learn of it when the table has no connection any more."""

    async def main() -> None:
        net = Net()
        server = await net.serve()
        channel = await net.connections.channel(ADDRESS)
        seen: list[Any] = []

        def outcome(context: str, command: Any, error: Any) -> None:
            seen.append((context, command, error, net.connections.open_channel(ADDRESS)))

        opaque = channel.next_opaque()
        channel.send(request(CODE, opaque), opaque, 100.0, outcome, "mine")
        await net.until_asked(1)
        await server.close()
        await asyncio.sleep(1)
        ((context, command, error, now_open),) = seen
        assert (context, command, now_open) == ("mine", None, None)
        assert isinstance(error, NotConnected)
        assert not channel.is_open
        channel.send([b""], 7, 100.0, outcome, "late")
        assert isinstance(seen[1][2], NotConnected)
        await net.close()

    virtual_time.run(main())


def test_one_attempt_to_connect_serves_all_who_wait() -> None:
    """A failure reaches each of them, and the next caller tries again."""

    async def main() -> None:
        net = Net()
        failures = await asyncio.gather(
            *[net.connections.channel(ADDRESS) for _ in range(3)], return_exceptions=True
        )
        assert [type(one) for one in failures] == [NotConnected] * 3
        await net.serve()
        channels = await asyncio.gather(*[net.connections.channel(ADDRESS) for _ in range(3)])
        assert len(set(map(id, channels))) == 1
        await net.close()

    virtual_time.run(main())


def test_closing_ends_an_attempt_to_connect_as_an_error() -> None:
    """Nobody cancelled who waited; one who is cancelled as well ends so."""

    async def main() -> None:
        net = Net(never)
        waiting, leaving = (asyncio.ensure_future(net.connections.channel(ADDRESS)) for _ in "ab")
        await asyncio.sleep(1)
        leaving.cancel()
        await net.close()
        await asyncio.wait([waiting, leaving])
        assert isinstance(waiting.exception(), NotConnected)
        assert leaving.cancelled()

    async def never(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    virtual_time.run(main())


def test_a_request_of_the_peer_is_handed_on() -> None:
    """It is not an answer, whatever its opaque."""

    async def main() -> None:
        net = Net()
        await net.serve()
        waiting = asyncio.ensure_future(net.connections.request(ADDRESS, CODE))
        await net.until_asked(1)
        peer, command = net.asked[0]
        peer.send(request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, command.opaque, oneway=True))
        await asyncio.sleep(1)
        assert [one.code for one in net.pushed] == [40]
        assert not waiting.done()
        peer.send(response(command, 0))
        await waiting
        await net.close()

    virtual_time.run(main())


def test_a_code_that_is_an_error_is_raised_by_call_only() -> None:
    """`request` returns it; the error names broker, request and remark."""

    async def main() -> None:
        net = Net()
        await net.serve()
        for ask in (net.connections.request, net.connections.call):
            waiting = asyncio.ensure_future(ask(ADDRESS, CODE))
            await net.until_asked(1)
            peer, command = net.asked.pop()
            peer.send(response(command, ResponseCode.SYSTEM_BUSY, None, "too much"))
            if ask == net.connections.request:
                assert (await waiting).code == 2
            else:
                with pytest.raises(BrokerRefused, match=r"GET_MAX_OFFSET: too much \(code 2\)"):
                    await waiting
        await net.close()

    virtual_time.run(main())


def test_closing_ends_what_waits_and_opens_nothing_more() -> None:
    """No request is left without an outcome."""

    async def main() -> None:
        net = Net()
        await net.serve()
        waiting = asyncio.ensure_future(net.connections.request(ADDRESS, CODE))
        await net.until_asked(1)
        net.connections.close()
        with pytest.raises(NotConnected):
            await waiting
        with pytest.raises(NotConnected, match="closed"):
            await net.connections.channel(ADDRESS)
        await net.close()

    virtual_time.run(main())


def test_an_unreadable_answer_is_a_client_error() -> None:
    """What the codec says of it becomes part of the text."""

    def decode() -> None:
        raise WireError("not JSON")

    with pytest.raises(BrokerRefused, match="unreadable answer of b: not JSON"):
        read("b", decode)


def test_an_address_that_cannot_be_reached_is_told_after_a_second() -> None:
    """Once, with the address and why, however often it is tried; again when it went once more."""

    async def main() -> None:
        net = Net()
        for _ in range(9):
            with pytest.raises(NotConnected):
                await net.connections.channel(ADDRESS)
            await asyncio.sleep(0.11)
        assert told == []
        await asyncio.sleep(0.02)
        assert [(one["event"], one["address"]) for one in told] == [
            ("no connection after 1 s", ADDRESS)
        ]
        await asyncio.sleep(5)
        server = await net.serve()
        channel = await net.connections.channel(ADDRESS)
        await server.close()
        while channel.is_open:
            await asyncio.sleep(0.01)
        with pytest.raises(NotConnected):
            await net.connections.channel(ADDRESS)
        assert len(told) == 1
        await asyncio.sleep(1.1)
        assert len(told) == 2
        await net.close()

    with capture_logs() as told:
        virtual_time.run(main())


def test_one_that_is_reached_within_a_second_is_not_told_of() -> None:
    """Nor one that nobody wants any more."""

    async def main() -> None:
        net = Net()
        with pytest.raises(NotConnected):
            await net.connections.channel(ADDRESS)
        await net.serve()
        await net.connections.channel(ADDRESS)
        with pytest.raises(NotConnected):
            await net.connections.channel("10.0.0.9:1")
        await net.close()
        await asyncio.sleep(5)
        assert told == []

    with capture_logs() as told:
        virtual_time.run(main())


def test_a_peer_that_closes_before_it_answers_may_want_tls() -> None:
    """That is what a plain client of an encrypted port sees; one that answered wants none."""

    async def main() -> None:
        net = Net()
        await net.serve()
        for is_answered in (False, True):
            if is_answered:
                first = asyncio.ensure_future(net.connections.request(ADDRESS, CODE))
                await net.until_asked(2)
                net.asked[-1][0].send(response(net.asked[-1][1], 0))
                await first
            waiting = asyncio.ensure_future(net.connections.request(ADDRESS, CODE))
            await net.until_asked(3 if is_answered else 1)
            net.asked[-1][0].close()
            with pytest.raises(NotConnected) as lost:
                await waiting
            assert ("if it wants TLS" in str(lost.value)) is not is_answered
        await net.close()

    virtual_time.run(main())
