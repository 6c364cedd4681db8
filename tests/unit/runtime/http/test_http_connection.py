"""HTTP without I/O: whole requests out of any pieces, one at a time, within limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.runtime.http import BodyBegun, HttpConnection, HttpFailure, HttpRequest, HttpResponse

TWO = (
    b"PUT /a?b=c HTTP/1.1\r\nHost: h\r\nX-Reason: because\r\nContent-Length: 5\r\n\r\nhello"
    b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n"
)


def connection(limit: int = 100) -> HttpConnection:
    """Return a connection that nothing has come on."""
    return HttpConnection(lambda _: limit)


@pytest.mark.parametrize("size", [1, 7, len(TWO)])
def test_requests_come_whole_and_one_by_one(size: int) -> None:
    """However the bytes are divided; the second one when the first is answered."""
    one = connection()
    found: list[object] = []
    for at in range(0, len(TWO), size):
        found += one.receive(TWO[at : at + size])
    begun = [event for event in found if isinstance(event, BodyBegun)]
    assert [one.headers["host"] for one in begun] == ["h"] * (size < len(TWO))
    assert [event for event in found if event not in begun] == [
        HttpRequest(
            method="PUT",
            target="/a?b=c",
            headers={"host": "h", "x-reason": "because", "content-length": "5"},
            body=b"hello",
        )
    ]
    octets = b"".join(one.answer(HttpResponse(status=200, body=[b"y", b"es"])))
    assert octets.startswith(b"HTTP/1.1 200")
    assert octets.endswith(b"content-length: 3\r\n\r\nyes")
    (second,) = one.read_on()
    assert isinstance(second, HttpRequest)
    assert (second.method, second.target) == ("GET", "/b")
    assert not one.is_over


def test_a_head_is_answered_without_a_body() -> None:
    """But with its size."""
    one = connection()
    one.receive(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")
    octets = b"".join(one.answer(HttpResponse(status=200, body=[b"y", b"es"])))
    assert octets.endswith(b"content-length: 3\r\n\r\n")
    assert not one.is_over


def test_who_wants_to_close_is_closed() -> None:
    """After the answer."""
    one = connection()
    one.receive(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    one.answer(HttpResponse(status=204))
    assert one.is_over


@pytest.mark.parametrize("headers", [b"Content-Length: 101\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_a_body_has_a_limit(headers: bytes) -> None:
    """However its size is told; what is below it is taken."""
    body = b"x" * 101
    if b"chunked" in headers:
        body = b"65\r\n" + body + b"\r\n0\r\n\r\n"
    one = connection()
    (found,) = one.receive(b"PUT / HTTP/1.1\r\nHost: h\r\n" + headers + b"\r\n" + body)
    assert found == HttpFailure(413, "the body is too large")
    assert one.receive(b"more") == ()
    assert b"connection: close" in b"".join(one.answer(HttpResponse(status=413))).lower()


def test_a_client_that_waits_is_told_to_go_on() -> None:
    """Before it sends the body."""
    one = connection()
    head = b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    (told,) = one.receive(head)
    assert isinstance(told, BodyBegun)
    assert told.octets.startswith(b"HTTP/1.1 100")
    (request,) = one.receive(b"ok")
    assert isinstance(request, HttpRequest)
    assert request.body == b"ok"


@given(st.binary(max_size=200))
def test_any_bytes_give_events(data: bytes) -> None:
    """Never anything else than requests, their beginnings and failures."""
    one = connection()
    for event in one.receive(data):
        assert isinstance(event, HttpRequest | HttpFailure | BodyBegun)
    one.receive(data)
