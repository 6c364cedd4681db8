"""Asking a server: whole answers, streams, and every way in which none comes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.base.clock import SystemClock
from sprocket.base.errors import NotConnected, RequestTimeout, WireError
from sprocket.runtime import driver
from sprocket.runtime.driver import Peer
from sprocket.runtime.http import (
    AnswerEnd,
    AnswerHead,
    AnswerPart,
    HttpAnswer,
    HttpAnswers,
    HttpClient,
    HttpRequest,
    HttpResponse,
    HttpServer,
)

ANSWER = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
)


@given(st.lists(st.integers(1, len(ANSWER)), max_size=8))
def test_an_answer_comes_whole_whatever_the_pieces(sizes: list[int]) -> None:
    """And the connection can be used again."""
    one = HttpAnswers()
    one.request("/a", {"host": "h"}, b"{}")
    found: list[object] = []
    at = 0
    for size in [*sizes, len(ANSWER)]:
        if at < len(ANSWER):
            found += one.receive(ANSWER[at : at + size])
        at += size
    assert found[0] == AnswerHead(200)
    assert found[-1] == AnswerEnd(True)
    parts = [event.data for event in found if isinstance(event, AnswerPart)]
    assert b"".join(parts) == b"hello world"


@given(st.binary(min_size=1))
def test_any_bytes_give_an_answer_or_an_error(data: bytes) -> None:
    """Never anything else."""
    one = HttpAnswers()
    one.request("/a", {"host": "h"}, b"")
    try:
        one.receive(data)
    except WireError:
        assert one.broken is not None


@asynccontextmanager
async def served(
    handle: Callable[[HttpRequest, Peer], Awaitable[HttpResponse]],
) -> AsyncIterator[HttpClient]:
    """Give a client of a server of ours."""
    http = HttpServer(handle, lambda _: 1000, lambda *_: True, SystemClock())
    bound = await driver.bind("127.0.0.1", 0)
    server = await driver.listen(bound, http.connection, http.on_event)
    client = HttpClient("127.0.0.1", server.port)
    try:
        yield client
    finally:
        client.close()
        await http.stop()
        await server.close(0.1)


@asynccontextmanager
async def answering(*pieces: bytes, closes: bool = False) -> AsyncIterator[HttpClient]:
    """Give a client of a server that says some bytes to whoever asks."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if not closes:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    client = HttpClient("127.0.0.1", server.sockets[0].getsockname()[1])
    try:
        yield client
    finally:
        client.close()
        server.close()


def test_requests_share_a_connection() -> None:
    """One after the other; two at a time have two."""
    addresses: list[str] = []

    async def handle(request: HttpRequest, peer: Peer) -> HttpResponse:
        addresses.append(peer.address)
        await asyncio.sleep(0.01)
        return HttpResponse(status=200, body=[request.target.encode(), request.body])

    async def main() -> None:
        async with served(handle) as client:
            for body in (b"1", b"2"):
                answer = await client.ask("/a", {"x": "y"}, body, 5)
                assert answer == HttpAnswer(status=200, body=b"/a" + body)
            async with asyncio.TaskGroup() as group:
                for _ in range(2):
                    group.create_task(client.ask("/b", {}, b"", 5))

    asyncio.run(main())
    assert addresses[0] == addresses[1]
    assert len(set(addresses)) == 2


def test_who_does_not_answer_in_time_is_not_waited_for() -> None:
    """The next request has a connection of its own: a late answer is read by nobody."""

    async def handle(request: HttpRequest, _: Peer) -> HttpResponse:
        if request.target == "/slow":
            await asyncio.sleep(0.2)
        return HttpResponse(status=200, body=[request.target.encode()])

    async def main() -> None:
        async with served(handle) as client:
            await client.ask("/a", {}, b"", 5)
            with pytest.raises(RequestTimeout):
                await client.ask("/slow", {}, b"", 0.05)
            assert (await client.ask("/b", {}, b"", 5)).body == b"/b"

    asyncio.run(main())


def test_nobody_listens() -> None:
    """Nothing was sent."""

    async def main() -> None:
        bound = await driver.bind("127.0.0.1", 0)
        client = HttpClient("127.0.0.1", bound.port)
        with pytest.raises(NotConnected):
            await client.ask("/a", {}, b"", 5)
        with pytest.raises(NotConnected):
            await anext(client.stream("/a", {}, b"", 5))
        bound.close()

    asyncio.run(main())


@pytest.mark.parametrize("pieces", [(), (ANSWER[:-10],), (b"what?\r\n\r\n",)])
def test_an_answer_that_is_cut_off_may_have_been_carried_out(pieces: tuple[bytes, ...]) -> None:
    """Whatever was said before."""

    async def main() -> None:
        async with answering(*pieces, closes=True) as client:
            with pytest.raises(RequestTimeout):
                await client.ask("/a", {}, b"", 5)

    asyncio.run(main())


def test_a_stream_comes_in_pieces_until_it_is_cut_off() -> None:
    """While nothing comes it says so."""

    async def main() -> None:
        async with answering(ANSWER[:-15]) as client:
            async with aclosing(client.stream("/a", {}, b"", 0.05)) as pieces:
                found = b""
                async for piece in pieces:
                    if not piece and found:
                        break
                    found += piece
            assert found == b"hello"
        async with answering(ANSWER[:-15], closes=True) as client:
            with pytest.raises(NotConnected):
                async for _ in client.stream("/a", {}, b"", 5):
                    pass

    asyncio.run(main())


def test_a_stream_that_is_refused_is_an_error() -> None:
    """And what ends as it should, ends."""

    async def main() -> None:
        async with answering(ANSWER) as client:
            assert [one async for one in client.stream("/a", {}, b"", 5)] == [b"hello", b" world"]
        async with answering(ANSWER.replace(b"200 OK", b"401 No")) as client:
            with pytest.raises(WireError, match="401"):
                await anext(client.stream("/a", {}, b"", 5))

    asyncio.run(main())
