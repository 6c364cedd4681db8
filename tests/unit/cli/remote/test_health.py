"""`sprocket health` says what a process says of itself, and ends with 0 only if all is well."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner, Result

from sprocket.cli.main import app

WHY = "broker b: the disk is 93 % full, more than 90 %"
WELL = {"status": "ok", "checks": {"live": [], "ready": [], "stores": []}}
FULL = {"status": "failed", "checks": {"live": [], "ready": [], "stores": [WHY]}}


@contextmanager
def answering(*answers: bytes) -> Iterator[tuple[str, list[str]]]:
    """Answer requests, one each; give the address, and what was asked for."""
    asked: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for answer in answers:
                client, _ = server.accept()
                with client:
                    asked.append(client.recv(4096).decode().split(" ")[1])
                    client.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
        thread.join()


def http(body: object, status: int = 200) -> bytes:
    """Return an answer of HTTP."""
    text = json.dumps(body).encode()
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(text), text)


def run(*words: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(app("health"), ["health", *words])


def test_all_that_is_well_is_code_0() -> None:
    """A line for each check."""
    with answering(http(WELL)) as (url, asked):
        ended = run("--url", url)
    assert (ended.exit_code, ended.stdout) == (0, "live: ok\nready: ok\nstores: ok\n")
    assert asked == ["/health"]


def test_what_fails_is_told_and_code_1() -> None:
    """For people and for scripts; one check can be asked for alone."""
    only = {"status": "failed", "checks": {"stores": [WHY]}}
    with answering(http(FULL, 503), http(FULL, 503), http(only, 503)) as (url, asked):
        text, lines = run("--url", url), run("--url", url, "--json")
        one = run("stores", "--url", url)
    assert (text.exit_code, lines.exit_code, one.exit_code) == (1, 1, 1)
    assert text.stdout == f"live: ok\nready: ok\nstores: {WHY}\n"
    assert [json.loads(line) for line in lines.stdout.splitlines()] == [
        {"check": "live", "status": "ok", "reasons": []},
        {"check": "ready", "status": "ok", "reasons": []},
        {"check": "stores", "status": "failed", "reasons": [WHY]},
    ]
    assert one.stdout == f"stores: {WHY}\n"
    assert asked == ["/health", "/health", "/health/stores"]


@pytest.mark.parametrize(
    "answer",
    [b"", b"SSH-2.0-x\r\n", http(["a list"]), http({"checks": 1}), http({"checks": {"live": 1}})],
    ids=str,
)
def test_something_else_is_not_well(answer: bytes) -> None:
    """Another server at that port, or one that closes at once: one line and code 1."""
    with answering(answer) as (url, _):
        ended = run("--url", url)
    assert ended.exit_code == 1
    assert ended.stderr.startswith("sprocket: ")
    assert ended.stderr.count("\n") == 1


def test_nobody_is_not_well() -> None:
    """Who does not answer is stuck, who is not there is down; the line names what to give."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        ended = run("--url", url, "--timeout", "0.01")
        assert (ended.exit_code, "no answer from" in ended.stderr) == (1, True)
    ended = run("--url", url)
    assert (ended.exit_code, "--health-port" in ended.stderr) == (1, True)
    for wrong in ("127.0.0.1:9880", "http://127.0.0.1", "http://h:x", "ftp://h:1"):
        ended = run("--url", wrong)
        assert (ended.exit_code, "expected http://" in ended.stderr) == (1, True)
