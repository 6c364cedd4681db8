"""The client of the HTTP API: whatever comes back is a value or an error in one line."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.rabbit_api import Exchange, RecordedApi
from tests.waits import LONG_SECONDS

from sprocket.base.errors import (
    BrokerRefused,
    NotConnected,
    RequestTimeout,
    SettingsError,
)
from sprocket.cli.remote.rabbit.failures import ForeignAnswer, NoSuchResource
from sprocket.cli.remote.rabbit.management import Management
from sprocket.testing.clock import FakeClock

LOGIN = ("guest", "guest")
PATIENCE_SECONDS = LONG_SECONDS


def asking(url: str, seconds: float = PATIENCE_SECONDS) -> Management:
    """Return a client."""
    return Management(url, LOGIN, timeout_seconds=seconds)


@contextmanager
def peer(answer: bytes) -> Iterator[str]:
    """Listen, answer whoever connects with these bytes, and close; give the address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            taken, _ = listening.accept()
            with taken:
                if answer:
                    taken.recv(65536)
                    taken.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://broker", "http://broker:15672"),
        ("https://broker", "https://broker:15671"),
        ("broker:8080", "http://broker:8080"),
        ("http://[::1]:1", "http://::1:1"),
    ],
)
def test_addresses(url: str, address: str) -> None:
    """A port and a protocol may be left out."""
    assert asking(url).address == address


@pytest.mark.parametrize("url", ["ftp://broker", "http://", "http://broker:x", "http://b:99999"])
def test_what_is_no_address(url: str) -> None:
    """It is said before anything is asked."""
    with pytest.raises(SettingsError, match="http://HOST:15672"):
        asking(url)


def test_a_login_may_stand_in_the_address() -> None:
    """Its signs may be escaped."""
    assert asking("http://ann%40home:p%3Aw@broker").user == "ann@home"


def test_names_and_prefix_are_escaped() -> None:
    """A slash in a name is none in the path; what stands behind the port is before it."""
    wanted = Exchange("GET", "/mq/api/queues/%2F/a%2Fb%20%C3%A9?x=1", "", 200, "[]")
    with RecordedApi([wanted]) as api:
        client = asking(f"{api.url}/mq/")
        assert client.get("queues", "/", "a/b é", query={"x": "1"}) == []
        client.close()
    assert api.unexpected == []


@pytest.mark.parametrize(
    ("status", "answer", "kind", "text"),
    [
        (404, '{"error":"Object Not Found","reason":"Not Found"}', NoSuchResource, "Not Found"),
        (404, "", ForeignAnswer, "has no such path"),
        (404, "<html>", ForeignAnswer, "has no such path"),
        (400, '{"error":"bad_request","reason":"a &lt;b&gt;"}', BrokerRefused, "a <b>"),
        (400, '{"error":"bad_request"}', BrokerRefused, "bad_request"),
        (400, '{"error":"x","reason":["no",[104,105],[1]]}', BrokerRefused, "no hi 1"),
        (401, '{"error":"not_authorised","reason":"Login failed"}', BrokerRefused, "user 'guest'"),
        (401, '{"error":"not_authorised","reason":"loopback"}', BrokerRefused, "loopback"),
        (500, "oops", ForeignAnswer, "answered with 500"),
        (200, "<html>", ForeignAnswer, "not JSON"),
        (200, '{"a":1}', ForeignAnswer, "not a list of objects"),
        (200, "[1]", ForeignAnswer, "not a list of objects"),
        (200, "[" * 100_000, ForeignAnswer, "not JSON"),
        (400, "[" * 100_000, ForeignAnswer, "answered with 400"),
    ],
)
def test_what_is_no_list(status: int, answer: str, kind: type[Exception], text: str) -> None:
    """Refusals have the broker's reason; what is none of the API's says so."""
    with RecordedApi([Exchange("GET", "/api/queues", "", status, answer)]) as api:
        client = asking(api.url)
        with pytest.raises(kind, match=text):
            client.rows("queues")
        client.close()


def test_a_member_that_is_missing_is_named() -> None:
    """Whatever answers may call itself an HTTP API."""
    with RecordedApi([Exchange("GET", "/api/queues", "", 200, '[{"a":{}}]')]) as api:
        client = asking(api.url)
        (row,) = client.rows("queues")
        with pytest.raises(ForeignAnswer, match="an answer lacks 'name'"):
            row["a"]["name"]
        client.close()


def test_a_long_reason_is_cut() -> None:
    """What a broker says fits the terminal."""
    answer = f'{{"error":"bad_request","reason":"{"x" * 100_000}"}}'
    with RecordedApi([Exchange("GET", "/api/queues", "", 400, answer)]) as api:
        client = asking(api.url)
        with pytest.raises(BrokerRefused) as caught:
            client.rows("queues")
        client.close()
    assert len(str(caught.value)) < 1000


def test_an_answer_that_is_no_object() -> None:
    """Where there must be one."""
    with RecordedApi([Exchange("GET", "/api/overview", "", 200, "[]")]) as api:
        client = asking(api.url)
        with pytest.raises(ForeignAnswer, match="not an object"):
            client.row("overview")
        client.close()


@pytest.mark.parametrize("answer", [b"AMQP\x00\x00\x09\x01", b"\x00" * 100, b"HTTP/1.1 x\r\n\r\n"])
def test_another_protocol(answer: bytes) -> None:
    """As that of AMQP's own port."""
    with peer(answer) as url, pytest.raises(ForeignAnswer, match="does not speak HTTP"):
        asking(url).get("overview")


def test_a_connection_that_is_closed_at_once() -> None:
    """Whoever listens wants nothing to do with it."""
    with peer(b"") as url, pytest.raises(NotConnected, match="no connection to"):
        asking(url).get("overview")


def test_nobody_listens() -> None:
    """The error names the address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(NotConnected, match=f"no connection to http://127.0.0.1:{port}: "):
        asking(f"http://127.0.0.1:{port}").get("overview")


def test_nobody_answers() -> None:
    """Who listens and says nothing is not waited for for ever."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(RequestTimeout, match="no answer from"):
            asking(url, seconds=0.01).get("overview")


def test_tls_towards_a_port_without() -> None:
    """It says that it is the encryption which failed."""
    with peer(b"HTTP/1.1 400 Bad Request\r\n\r\n") as url, pytest.raises(NotConnected, match="enc"):
        asking(url.replace("http:", "https:")).get("overview")


def test_a_file_of_authorities_must_be_one(tmp_path: object) -> None:
    """It is named."""
    with pytest.raises(SettingsError, match="cannot be used"):
        Management("https://b", LOGIN, trust_path=f"{tmp_path}/none", timeout_seconds=1)


def test_a_connection_is_used_again_until_it_is_old() -> None:
    """The broker may be closing one that was not used for long."""
    clock = FakeClock()
    asked = Exchange("GET", "/api/overview", "", 200, "{}")
    with RecordedApi([asked] * 4) as api:
        client = Management(api.url, LOGIN, timeout_seconds=PATIENCE_SECONDS, clock=clock)
        client.get("overview")
        client.get("overview")
        assert api.connections == 1
        clock.advance(6_000)
        client.get("overview")
        client.get("overview")
        assert api.connections == 2
        client.close()
