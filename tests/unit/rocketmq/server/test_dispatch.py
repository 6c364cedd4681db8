"""From requests to handlers to answers."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import structlog
from tests import sockets
from tests.pipe import PipeNetwork
from tests.waits import LONG_SECONDS

from sprocket.base.errors import MessageTooLarge, StoreFailed, WireError
from sprocket.rocketmq.codec import command, headers
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.headers import NoFields, QueryConsumerOffset
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.remoting import Connection
from sprocket.rocketmq.server.dispatch import Answer, Dispatcher, Request, Row, row
from sprocket.runtime import driver
from sprocket.runtime.driver import Peer


def exchange(
    dispatcher: Dispatcher, requests: list[bytes], answer_count: int
) -> list[tuple[int, int, str | None]]:
    """Send requests over a pipe; return opaque, code and remark of the answers."""

    async def main() -> list[Command]:
        answers: list[Command] = []
        enough = asyncio.Event()

        def collect(_: Peer, answer: Command) -> None:
            answers.append(answer)
            if len(answers) == answer_count:
                enough.set()

        network = PipeNetwork()
        server = await network.serve(Connection, dispatcher, "127.0.0.1", 0)
        peer = await network.connect(Connection, collect, "127.0.0.1", server.port)
        peer.send(requests)
        async with asyncio.timeout(LONG_SECONDS):
            await enough.wait()
        assert peer.is_open
        await server.close()
        return answers

    return [(one.opaque, one.code, one.remark) for one in asyncio.run(main())]


def request(code: int, opaque: int, *, oneway: bool = False) -> bytes:
    """Return a request as bytes."""
    return b"".join(command.request(code, opaque, oneway=oneway))


Function = Callable[[Request, NoFields], Answer | None]


def table(functions: Mapping[int, Function]) -> list[Row]:
    """Return rows for requests without fields."""
    return [row(RequestCode(code), NoFields, one) for code, one in functions.items()]


def ok(_request: Request, _header: NoFields) -> Answer:
    """Handle anything."""
    return Answer()


@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (Refused(Refusal.NO_TOPIC, "no such topic"), 17, "no such topic"),
        (WireError("no JSON"), 1, "no JSON"),
        (StoreFailed("a sync failed"), 1, "a sync failed"),
        (MessageTooLarge("too large"), 1, "too large"),
        (ValueError("a bug"), 1, "ValueError: a bug"),
    ],
)
def test_what_a_handler_raises_is_answered_and_the_connection_goes_on(
    error: Exception, code: int, remark: str
) -> None:
    """The next request of the same connection is served."""

    def fail(_request: Request, _header: NoFields) -> Answer:
        raise error

    answers = exchange(Dispatcher(table({10: fail, 11: ok})), [request(10, 1), request(11, 2)], 2)
    assert answers == [(1, code, remark), (2, 0, None)]


@pytest.mark.parametrize("why", Refusal)
def test_what_a_service_declines_has_a_code_for_each_kind(why: Refusal) -> None:
    """None of them is one of those that the server has for itself."""

    def fail(_request: Request, _header: NoFields) -> Answer:
        raise Refused(why, "so it is")

    ((_, code, remark),) = exchange(Dispatcher(table({10: fail})), [request(10, 1)], 1)
    assert ResponseCode(code) not in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY)
    assert (code == ResponseCode.SYSTEM_ERROR) == (why is Refusal.OTHER)
    assert remark == "so it is"


def test_an_answer_that_cannot_be_written_is_an_error_of_its_request() -> None:
    """Our own mistake costs one request, not the connection."""

    def too_large(_request: Request, _header: NoFields) -> Answer:
        return Answer(0, None, None, [bytes(1 << 24)])

    answers = exchange(
        Dispatcher(table({10: too_large, 11: ok})), [request(10, 1), request(11, 2)], 2
    )
    assert [(opaque, code) for opaque, code, _ in answers] == [(1, 1), (2, 0)]


def test_an_unexpected_error_is_logged_with_its_request() -> None:
    """Who asked for what, so that the bug can be found."""

    def fail(_request: Request, _header: NoFields) -> Answer:
        raise KeyError("bug")

    with structlog.testing.capture_logs() as logs:
        exchange(Dispatcher(table({310: fail})), [request(310, 7)], 1)
    (entry,) = [one for one in logs if one["log_level"] == "error"]
    assert (entry["code"], entry["request"], entry["opaque"]) == (310, "SEND_MESSAGE_V2", 7)
    assert isinstance(entry["exc_info"], KeyError)
    assert entry["peer"].startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (36, " request type 36 not supported (CONSUMER_SEND_MSG_BACK)"),
        (200050, " request type 200050 not supported (POP_MESSAGE)"),
        (9999, " request type 9999 not supported"),
        (-1, " request type -1 not supported"),
    ],
)
def test_an_unknown_code_is_refused_by_name(code: int, remark: str) -> None:
    """Code 3, beginning as RocketMQ's remark does."""
    answers = exchange(Dispatcher([]), [request(code, 5)], 1)
    assert answers == [(5, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)]


def test_one_way_requests_are_never_answered() -> None:
    """Neither success, nor refusal, nor an error; the answer after them is the first."""

    def fail(_request: Request, _header: NoFields) -> Answer:
        raise ValueError

    requests = [request(code, 1, oneway=True) for code in (10, 11, 9999)] + [request(10, 2)]
    assert exchange(Dispatcher(table({10: ok, 11: fail})), requests, 1) == [(2, 0, None)]


def test_a_handler_may_answer_later() -> None:
    """It returns nothing and keeps the request."""
    kept: list[Any] = []

    def later(request: Request, _header: NoFields) -> None:
        kept.append(request)
        if len(kept) == 2:
            for one in reversed(kept):
                one.answer(Answer(19, None, "late"))

    answers = exchange(Dispatcher(table({11: later})), [request(11, 1), request(11, 2)], 2)
    assert answers == [(2, 19, "late"), (1, 19, "late")]


def test_an_answer_carries_everything() -> None:
    """Header, extra fields and body, in the frame."""
    sent: list[Any] = []

    class FakePeer:
        address = ""

        def send(self, buffers: list[Any]) -> None:
            sent.extend(buffers)

    def handle(_request: Request, _header: NoFields) -> Answer:
        return Answer(0, headers.OffsetAnswer(offset=5), None, [b"bo", b"dy"], {"x": "y"})

    Dispatcher(table({30: handle}))(FakePeer(), Command(30, 8))  # type: ignore[arg-type]
    (found,) = Connection().receive(b"".join(sent))
    assert (found.ext_map(), found.body) == ({"offset": "5", "x": "y"}, b"body")


def test_responses_go_to_who_waits_for_them_or_nowhere() -> None:
    """A server that asked nothing drops them; they are never answered."""
    response = b"".join(command.response(Command(10, 3), 0))
    got: list[int] = []

    def waiting(_peer: Peer, command: Command) -> None:
        got.append(command.opaque)

    for dispatcher in (Dispatcher(table({10: ok})), Dispatcher(table({10: ok}), waiting)):
        assert exchange(dispatcher, [response, request(10, 4)], 1) == [(4, 0, None)]
    assert got == [3]


def test_frames_that_are_none_close_the_connection_and_the_server_goes_on() -> None:
    """Over a real socket."""

    async def main() -> None:
        server = await sockets.serve(
            lambda: Connection(frame_bytes_max=1000), Dispatcher(table({10: ok})), "127.0.0.1", 0
        )
        for bad in (b"\xff" * 12, b"GET / HTTP/1.1\r\n", (997).to_bytes(4, "big") + b"\0" * 8):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(bad)
            assert await reader.read() == b""
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request(10, 6))
        (answer,) = Connection().receive(await reader.read(1000))
        assert answer.opaque == 6
        writer.close()
        await server.close()

    driver.run(main())


def test_a_handler_is_given_the_header_of_its_row() -> None:
    """Typed; one that cannot be read is refused, and the handler is not called."""
    given: list[QueryConsumerOffset] = []

    def handle(request: Request, header: QueryConsumerOffset) -> Answer:
        given.append(header)
        return Answer(remark=request.body.decode())

    code = RequestCode.QUERY_CONSUMER_OFFSET
    header = QueryConsumerOffset(consumer_group="g", topic="T", queue_id=3)
    requests = [
        b"".join(command.request(code, 1, header, b"body")),
        b"".join(command.request(code, 2, None, extra={"topic": "T"})),
    ]
    answers = exchange(Dispatcher([row(code, QueryConsumerOffset, handle)]), requests, 2)
    assert given == [header]
    assert answers[0] == (1, 0, "body")
    assert answers[1][:2] == (2, ResponseCode.SYSTEM_ERROR)
    assert "is missing" in (answers[1][2] or "")


def test_two_rows_for_a_code_are_a_mistake() -> None:
    """One of them would never be asked."""
    with pytest.raises(AssertionError, match="two rows"):
        Dispatcher([*table({10: ok}), *table({10: ok})])
