"""The load of the bench counts right, keeps its window, and does not take errors for answers."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from bench.load import Load, LoadError, Row
from tests.interop import link


@contextmanager
def broker(answer: Callable[[int], bytes]) -> Iterator[tuple[str, list[int]]]:
    """Answer each send by `answer(opaque)`; yield the address and the most that waited at once."""
    windows: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                data = b""
                while more := connection.recv(1 << 18):
                    data += more
                    requests = []
                    while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
                        end = 4 + int.from_bytes(data[:4], "big")
                        requests.append(link.decode(data[4:end]).opaque)
                        data = data[end:]
                    windows.append(len(requests))
                    connection.sendall(b"".join(map(answer, requests)))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}", windows
        thread.join(10)


def ok(opaque: int, code: int = 0) -> bytes:
    """Return an answer as RocketMQ writes it."""
    header = json.dumps({"code": code, "extFields": {}, "opaque": opaque}, separators=(",", ":"))
    body = len(header).to_bytes(4, "big") + header.encode()
    return len(body).to_bytes(4, "big") + body


def test_every_message_is_counted_within_the_window() -> None:
    """All messages are answered and timed; never more than `outstanding` wait."""
    row = Row(connections=1, outstanding=8)
    with broker(ok) as (address, windows), Load(address, "T", row, queues=4) as load:
        run = load.run(messages=100)
        assert run.messages == len(run.latencies)
        assert 100 <= run.messages < 100 + row.outstanding
        assert max(windows) <= row.outstanding
        assert 0 < run.percentile(0.5) <= run.percentile(0.99)


def test_error_is_no_answer() -> None:
    """An answer with another code than 0 ends the load."""
    row = Row(connections=1, outstanding=1)
    with (
        broker(lambda opaque: ok(opaque, code=2)) as (address, _),
        Load(address, "T", row, queues=4) as load,
        pytest.raises(LoadError),
    ):
        load.run(messages=10)


def test_strange_opaque_is_no_answer() -> None:
    """An answer to a request that was not sent ends the load."""
    row = Row(connections=1, outstanding=1)
    with (
        broker(lambda opaque: ok(opaque + 1)) as (address, _),
        Load(address, "T", row, queues=4) as load,
        pytest.raises(LoadError),
    ):
        load.run(messages=10)


def test_a_batch_is_one_request_of_many_messages() -> None:
    """Each message has keys of its own, and all of them count."""
    row = Row(connections=1, outstanding=2, batch=3)
    assert row.name == "1 × 2 × 3"
    with broker(ok) as (address, windows), Load(address, "T", row, queues=4) as load:
        run = load.run(messages=60)
        assert run.messages == 3 * len(run.latencies) >= 60
        assert max(windows) <= row.outstanding
