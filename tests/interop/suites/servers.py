"""The two servers that a suite is run against: the real RabbitMQ 3.10.8, and `sprocket up`.

Each is fresh for each suite, in a folder of its own, on free ports of 127.0.0.1, but for what a
suite has in its source: the port of the HTTP API, or that of AMQP, which the server then takes on a
loopback address that nobody else uses.
"""

import contextlib
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.interop import peers, rabbitmq_node
from tests.interop.peers import Process
from tests.interop.rabbitmq_node import RabbitNode

NAMES = ("rabbitmq", "sprocket")


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files that a suite expects the server to have; clients need not have one."""

    authority: Path
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, and the port of 127.0.0.1 where its HTTP API does, if it has one."""

    port: int
    tls_port: int
    host: str = "127.0.0.1"
    api_port: int | None = None


def anywhere() -> Address:
    """Return free ports."""
    return Address(peers.free_port(), peers.free_port())


def with_api() -> Address:
    """Return free ports, and 15672 for the HTTP API: for a suite that has it in its source."""
    return replace(anywhere(), api_port=15672)


def under_another_name() -> Address:
    """Return 5672 of an address of its own.

    For a suite that cannot be told another port, but what the name `localhost` means.
    """
    return Address(5672, 5671, f"127.0.77.{random.SystemRandom().randrange(1, 255)}")


_API = threading.Lock()
"""Is held by who has the one port for the HTTP API."""


@contextlib.contextmanager
def running(
    name: str, folder: Path, address: Address, tls: Certificates | None = None
) -> Iterator[Address]:
    """Run the server `name` of `NAMES` in a new folder."""
    turn = contextlib.nullcontext() if address.api_port is None else _API
    with turn, (_real if name == "rabbitmq" else _ours)(folder, tls, address) as found:
        yield found


@contextlib.contextmanager
def _real(folder: Path, tls: Certificates | None, address: Address) -> Iterator[Address]:
    settings = ["channel_max = 2047"]
    if tls is not None:
        settings += [
            f"listeners.ssl.1 = {address.host}:{address.tls_port}",
            f"ssl_options.cacertfile = {tls.authority}",
            f"ssl_options.certfile = {tls.certificate}",
            f"ssl_options.keyfile = {tls.key}",
            "ssl_options.verify = verify_peer",
            "ssl_options.fail_if_no_peer_cert = false",
        ]
    lines = "".join(f"{line}\n" for line in settings)
    root, host, port = rabbitmq_node.installed(), address.host, address.port
    api: dict[str, Any] = {"has_api": address.api_port is not None, "api_port": address.api_port}
    with RabbitNode(root, folder, lines, host=host, port=port, **api) as node:
        node.start()
        yield address
        try:
            node.stop()
        except subprocess.TimeoutExpired:  # what its tests gave is there, and is not thrown away
            print("RabbitMQ did not stop by itself, and was killed", flush=True)


@contextlib.contextmanager
def _ours(folder: Path, tls: Certificates | None, address: Address) -> Iterator[Address]:
    folder.mkdir(parents=True)
    host, port = address.host, address.port
    settings = []
    if tls is not None:
        settings = [
            f"tls.cert_path={tls.certificate}",
            f"tls.key_path={tls.key}",
            "tls.client_auth=optional",
            f"tls.trust_path={tls.authority}",
        ]
    command = [sys.executable, "-m", "sprocket.cli.main", "up", "--no-rocketmq"]
    command += ["--data", str(folder / "data"), "--amqp-port", str(port), "--host", host]
    command += ["--amqp-http-port", "off" if address.api_port is None else str(address.api_port)]
    for setting in settings:
        command += ["--set", setting]
    process = Process(command, folder / "server.log", {"PYTHONPATH": str(peers.ROOT / "src")})

    def is_ready() -> bool:
        process.check()
        return f"ready amqp={host}:{port}" in process.said()

    try:
        peers.wait_until(is_ready, "`sprocket up`", every=0.05)
        yield replace(address, tls_port=port)
    finally:
        code = process.end()
    if code != 0:
        print(f"`sprocket up` did not stop by itself, and ended with {code}", flush=True)
