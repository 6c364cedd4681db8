"""The real RabbitMQ 3.10.8 of Debian 12, unpacked beside the repository and run from there.

A node has a folder of its own for everything it writes and listens on 127.0.0.1. It needs
Erlang's port mapper, which is one of its own, too.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Self

import pika
from tests.interop import peers
from tests.interop.peers import ROOT, PeerMissing
from tests.waits import LONG_SECONDS

PREPARE = "make peers-rabbitmq"
"""The one command that fetches it."""
VARIABLE = "SPROCKET_RABBITMQ_ROOT"
"""Names the folder that Debian's packages were unpacked into, if it is another one."""
START_SECONDS_MAX = LONG_SECONDS
NAME = "interop@localhost"


class Delivered(NamedTuple):
    """What a consumer got."""

    exchange: str
    routing_key: str
    redelivered: bool
    body_sha256: str
    properties_hex: str


def installed() -> Path:
    """Return the folder that RabbitMQ was unpacked into.

    Raises:
        PeerMissing: It is not there.
    """
    folder = Path(os.environ.get(VARIABLE, ROOT / ".peers" / "rabbitmq-3.10.8"))
    if not (folder / "usr/lib/erlang/bin/erl").exists():
        raise PeerMissing(f"RabbitMQ 3.10.8 is not in {folder}; {PREPARE} fetches it")
    return folder


class RabbitNode:
    """One node with a folder of its own; started and stopped as often as a test likes.

    Args:
        root: What `installed` returned.
        folder: Where it writes; is made.
        settings: The text of its `rabbitmq.conf`.
        host: The address on which it listens.
        port: Its port there; a free one if it is not given.
        has_api: Whether it serves the HTTP API, on `api_port` of 127.0.0.1, and its metrics, on
            `metrics_port`.
        api_port: That port; a free one if it is not given.
    """

    def __init__(
        self,
        root: Path,
        folder: Path,
        settings: str = "",
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        has_api: bool = False,
        api_port: int | None = None,
    ) -> None:
        self.folder = folder
        self.port = peers.free_port() if port is None else port
        self.api_port = peers.free_port() if api_port is None else api_port
        self.metrics_port = peers.free_port()
        self._home = root / "usr/lib/rabbitmq/lib/rabbitmq_server-3.10.8"
        self._epmd_port = peers.free_port()
        if has_api:
            for name, own in (("management", self.api_port), ("prometheus", self.metrics_port)):
                settings += f"{name}.tcp.ip = 127.0.0.1\n{name}.tcp.port = {own}\n"
        folder.mkdir(parents=True)
        plugins = "[rabbitmq_management,rabbitmq_prometheus].\n" if has_api else "[].\n"
        (folder / "plugins").write_text(plugins)
        (folder / "rabbitmq.conf").write_text(settings)
        self._environment = {
            **os.environ,
            "PATH": f"{root}/usr/lib/erlang/bin:{os.environ['PATH']}",
            "HOME": str(folder),
            "RABBITMQ_HOME": str(self._home),
            "RABBITMQ_NODENAME": NAME,
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_NODE_IP_ADDRESS": host,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(peers.free_port()),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_PLUGINS_DIR": str(self._home / "plugins"),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        self._epmd = subprocess.Popen(
            [root / "usr/lib/erlang/bin/epmd", "-port", str(self._epmd_port)],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            self._epmd.terminate()
            self._epmd.wait()

    @property
    def rabbitmqadmin(self) -> Path:
        """The program that comes with the HTTP API."""
        plugin = self._home / "plugins" / "rabbitmq_management-3.10.8"
        return plugin / "priv" / "www" / "cli" / "rabbitmqadmin"

    @property
    def vhosts(self) -> Path:
        """The folder of all virtual hosts."""
        return self.folder / "mnesia" / NAME / "msg_stores" / "vhosts"

    def start(self) -> None:
        """Start it, and wait until it serves."""
        log = self.folder / "server.log"
        with log.open("wb") as output:
            self._server = subprocess.Popen(
                [self._home / "sbin/rabbitmq-server"],
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        limit = time.monotonic() + START_SECONDS_MAX
        while "completed with" not in log.read_text(errors="replace"):  # others write between words
            assert self._server.poll() is None, log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < limit, log.read_text(errors="replace")[-2000:]
            time.sleep(0.2)

    @property
    def beam_pid(self) -> int:
        """The process of Erlang's machine, which does the work: a child of the script's."""
        assert self._server is not None, "it does not run"
        children = Path(f"/proc/{self._server.pid}/task/{self._server.pid}/children")
        return int(children.read_text().split()[0])

    def stop(self) -> None:
        """Stop it cleanly, and wait until it has ended."""
        if self._server is None:
            return
        self._server.send_signal(signal.SIGTERM)
        try:
            self._server.wait(peers.STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(self._server.pid, signal.SIGKILL)
            raise
        finally:
            self._server = None

    def declare(self, queues: Sequence[Mapping[str, Any]]) -> None:
        """Declare durable queues with their virtual hosts.

        Args:
            queues: With `vhost`, `name` and `arguments`.
        """
        vhosts = sorted({"/", *(queue["vhost"] for queue in queues)})
        anything = dict.fromkeys(("configure", "write", "read"), ".*")
        definitions = {
            "users": [{"name": "guest", "password": "guest", "tags": "administrator"}],
            "vhosts": [{"name": vhost} for vhost in vhosts],
            "permissions": [{"user": "guest", "vhost": vhost, **anything} for vhost in vhosts],
            "queues": [
                {
                    **{name: queue[name] for name in ("vhost", "name", "arguments")},
                    "durable": True,
                    "auto_delete": False,
                }
                for queue in queues
            ],
        }
        path = self.folder / "definitions.json"
        path.write_text(json.dumps(definitions))
        subprocess.run(
            [self._home / "sbin/rabbitmqctl", "-q", "import_definitions", path],
            env=self._environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def replace_vhosts(self, source: Path) -> None:
        """Put other folders in place of those of the same virtual hosts; it is stopped."""
        for folder in source.iterdir():
            shutil.rmtree(self.vhosts / folder.name, ignore_errors=True)
            shutil.copytree(folder, self.vhosts / folder.name)

    def _connect(self, vhost: str) -> Any:
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                "127.0.0.1", self.port, vhost, pika.PlainCredentials("guest", "guest")
            )
        )

    def publish(self, vhost: str, queue: str, body: bytes) -> None:
        """Publish a persistent message, and wait for its confirm."""
        with contextlib.closing(self._connect(vhost)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2))

    def drain(self, vhost: str, queue: str, count: int | None = None) -> list[Delivered]:
        """Take all messages of a queue, or so many, one after the other."""
        found: list[Delivered] = []
        with _raw_properties(), contextlib.closing(self._connect(vhost)) as connection:
            channel = connection.channel()
            while len(found) != count:
                method, properties, body = channel.basic_get(queue, auto_ack=True)
                if method is None:
                    return found
                found.append(
                    Delivered(
                        method.exchange,
                        method.routing_key,
                        method.redelivered,
                        sha256(body).hexdigest(),
                        properties.octets.hex(),
                    )
                )
        return found


@contextlib.contextmanager
def _raw_properties() -> Iterator[None]:
    """Let pika keep the properties of a message as they came, as `octets`."""
    kind = pika.spec.BasicProperties
    decode = kind.decode

    def keep(self: Any, encoded: bytes, offset: int = 0) -> Any:
        self.octets = bytes(encoded[offset:])
        return decode(self, encoded, offset)

    kind.decode = keep
    try:
        yield
    finally:
        kind.decode = decode
