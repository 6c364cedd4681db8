"""The two servers that a suite is run against: the real RabbitMQ 3.10.8, and `sprocket up`.

Each is fresh for each suite, in a folder of its own, on free ports of 127.0.0.1 or, for a suite
whose port is fixed, on that port of a loopback address that nobody else uses.
"""

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

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
    """Where a server listens."""

    port: int
    tls_port: int
    host: str = "127.0.0.1"


FIXED = Address(5672, 5671, "127.0.77.1")
"""For suites that cannot be told another port, but what the name `localhost` means."""


@contextlib.contextmanager
def running(
    name: str, folder: Path, tls: Certificates | None = None, *, is_fixed: bool = False
) -> Iterator[Address]:
    """Run the server `name` of `NAMES` in a new folder."""
    address = FIXED if is_fixed else Address(peers.free_port(), peers.free_port())
    with (_real if name == "rabbitmq" else _ours)(folder, tls, address) as found:
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
    with RabbitNode(root, folder, lines, host=host, port=port) as node:
        node.start()
        yield address


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
    if code != 0:  # what its tests gave is there, and is not thrown away
        print(f"`sprocket up` did not stop by itself, and ended with {code}", flush=True)
