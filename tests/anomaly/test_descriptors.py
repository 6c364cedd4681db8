"""A process whose file descriptors strangers use up: the store and those with a password go on."""

import contextlib
import resource
import socket
import subprocess
import sys
import urllib.request
from base64 import b64encode
from pathlib import Path

import pika
import pytest

from sprocket.rocketmq.client.blocking import Message, Producer

LIMIT = 256
STRANGERS = 250
PORTS = ("amqp", "amqp-http", "broker")

PROGRAM = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT}))
from sprocket.cli.main import main
main()
"""


def addresses(process: "subprocess.Popen[str]") -> dict[str, tuple[str, int]]:
    """Return where a server says that it can be reached."""
    assert process.stdout is not None
    line = process.stdout.readline()
    words = dict(word.split("=", 1) for word in line.split()[1:])
    found = {}
    for name in words:
        host, colon, port = words[name].rpartition(":")
        if colon and port.isdecimal():
            found[name] = (host, int(port))
    return found


def store(places: dict[str, tuple[str, int]], name: str) -> None:
    """Have both products store something durably in a new place, and an administrator look."""
    host, port = places["nameserver"]
    with Producer(f"{host}:{port}") as producer:
        producer.send(Message(name, b"x"))
    host, port = places["amqp"]
    with pika.BlockingConnection(pika.ConnectionParameters(host, port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(name, durable=True)
        channel.basic_publish("", name, b"x" * 10_000, pika.BasicProperties(delivery_mode=2))
        assert channel.basic_get(name)[2] == b"x" * 10_000
    host, port = places["amqp-http"]
    given = b64encode(b"guest:guest").decode()
    request = urllib.request.Request(
        f"http://{host}:{port}/api/whoami", headers={"authorization": f"Basic {given}"}
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        assert b"administrator" in answer.read()


@pytest.mark.slow
def test_strangers_that_hold_all_descriptors_stop_nobody(tmp_path: Path) -> None:
    """Whether they say nothing or half a login, at any port, and when they are gone again."""
    log = tmp_path / "log"
    ports = [f"--{name}-port=0" for name in ("nameserver", "broker", "amqp")]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "up", "--data", str(tmp_path / "data"), *ports],
        stdout=subprocess.PIPE,
        stderr=log.open("w"),
        text=True,
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        places = addresses(process)
        store(places, "before")
        with contextlib.ExitStack() as opened:
            for port in PORTS:
                for number in range(STRANGERS):
                    one = opened.enter_context(socket.create_connection(places[port]))
                    with contextlib.suppress(OSError):  # it was sent away
                        one.sendall((b"", b"A", b"AMQP\0\0\x09\x01", b"GET / H")[number % 4])
                store(places, f"beside_{port}")
        store(places, "after")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        process.terminate()
        process.communicate()
    said = log.read_text()
    assert process.returncode == 0, said
    assert "see ulimit -n" in said
    assert "Too many open files" not in said
