"""An HTTP API of RabbitMQ that was recorded, and the recorder.

`RecordedApi` answers what a real RabbitMQ 3.10.8 has answered, and only to the same requests in the
same order. `python -m tests.rabbit_api` records again; it needs the real one (`make
peers-rabbitmq`).
"""

import contextlib
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self

import pika
import pika.exceptions
from tests.interop.rabbitmq_node import RabbitNode, installed
from tests.waits import LONG_SECONDS
from typer.testing import CliRunner, Result

from sprocket.cli.main import app
from sprocket.cli.remote.rabbit.management import Management

DATA = Path(__file__).parent / "data" / "rabbitmq-3.10.8-api" / "commands.json"
LOOK_SECONDS = 0.2
"""Between two looks at figures of RabbitMQ, which counts every 5 s."""


class Command(NamedTuple):
    """One command of `sprocket rabbit`."""

    name: str
    words: Sequence[str]
    stdin: bytes = b""
    counted: int = 0
    """How many messages RabbitMQ's figures have to show in the queues first."""
    connects: bool = False
    """Whether a client of AMQP is connected meanwhile, and known to the figures."""


CONNECTION = "{connection}"
"""Stands for the name of that client's connection."""
ALL_BUT_WRITE = ["permissions", "set", "ann", "--configure", ".*", "--read", ".*", "--write"]
SCRIPT = (
    Command("no queues", ["queues"]),
    Command("create", ["queues", "create", "orders", "--argument", "x-max-length=10"]),
    Command("create quorum", ["queues", "create", "bills", "--type", "quorum"]),
    Command("create other", ["queues", "create", "orders", "--transient"]),
    Command("no such queue", ["queues", "show", "order"]),
    Command("no such vhost", ["queues", "show", "orders", "--vhost", "nowhere"]),
    Command("list nowhere", ["queues", "ls", "--vhost", "v1"]),
    Command("create exchange", ["exchanges", "create", "shop", "--type", "topic"]),
    Command("create other exchange", ["exchanges", "create", "shop", "--type", "fanout"]),
    Command("exchanges", ["exchanges"]),
    Command("all exchanges", ["exchanges", "--all"]),
    Command(
        "bind", ["bindings", "create", "shop", "orders", "-k", "a.#", "--argument", "by=[1,2]"]
    ),
    Command("bind again", ["bindings", "create", "shop", "orders", "-k", "b/c"]),
    Command("bind to exchange", ["bindings", "create", "amq.fanout", "shop", "--to-exchange"]),
    Command("bind nothing", ["bindings", "create", "shop", "ordres"]),
    Command("bindings", ["bindings"]),
    Command("bindings of queue", ["bindings", "ls", "--queue", "orders", "--all"]),
    Command(
        "publish",
        [
            *("publish", "orders", "hello", "--property", "content_type=text/plain"),
            *("--property", "priority=3", "--header", "n=1", "--header", "s=x"),
        ],
    ),
    Command("publish to exchange", ["publish", "-e", "shop", "a.b", "world", "--count", "2"]),
    Command("publish in vain", ["publish", "-e", "shop", "x.y"], b"one\ntwo\n"),
    Command("publish lines", ["publish", "orders", "--transient"], b"one\n\n\xff\xfe\n"),
    Command("publish nowhere", ["publish", "ordres", "x"]),
    Command("queues", ["queues"], counted=5),
    Command("show", ["queues", "show", "orders"]),
    Command("get", ["get", "orders", "--count", "2"]),
    Command("get all", ["get", "orders", "--ack", "--count", "1000"]),
    Command("get none", ["get", "orders"]),
    Command("purge", ["purge", "orders", "--yes"]),
    Command("purge not", ["purge", "orders"], b"n\n"),
    Command("users", ["users"]),
    Command(
        "create user",
        ["users", "create", "ann", "--new-password", "x", "--tag", "management", "--tag", "own"],
    ),
    Command("create user by pipe", ["users", "create", "bob"], b"secret\n"),
    Command("permit", [*ALL_BUT_WRITE, "^shop"]),
    Command("permit wrongly", [*ALL_BUT_WRITE, "("]),
    Command("permit nobody", ["permissions", "set", "an"]),
    Command("permissions", ["permissions", "ls", "--user", "ann"]),
    Command("forbid", ["permissions", "delete", "ann"]),
    Command("forbid again", ["permissions", "delete", "ann"]),
    Command("delete user", ["users", "delete", "ann", "--yes"]),
    Command("create vhost", ["vhosts", "create", "v/1"]),
    Command("create in vhost", ["queues", "create", "q", "--vhost", "v/1"]),
    Command("queues of vhost", ["queues", "ls", "--vhost", "v/1"]),
    Command("vhosts", ["vhosts"]),
    Command("keep vhost", ["vhosts", "delete", "v/1"], b"no\n"),
    Command("delete vhost", ["vhosts", "delete", "v/1", "--yes"]),
    Command(
        "set policy",
        [
            *("policies", "set", "short", "^ord", '{"max-length":5}'),
            *("--apply-to", "queues", "--priority", "3"),
        ],
    ),
    Command("set nonsense", ["policies", "set", "short", "^ord", '{"nonsense":5}']),
    Command("policies", ["policies"]),
    Command("delete policy", ["policies", "delete", "short"]),
    Command("no such policy", ["policies", "delete", "short"]),
    Command("no connections", ["connections"]),
    Command("connections", ["connections"], connects=True),
    Command("close connection", ["connections", "close", CONNECTION], connects=True),
    Command("no such connection", ["connections", "close", "nobody"]),
    Command("export", ["definitions", "export"]),
    Command("export vhost", ["definitions", "export", "-", "--vhost", "/"]),
    Command(
        "import",
        ["definitions", "import", "-"],
        b'{"vhosts":[{"name":"v2"}],"queues":[{"name":"q2","vhost":"v2","durable":true,'
        b'"auto_delete":false,"arguments":{}}]}',
    ),
    Command("keep used exchange", ["exchanges", "delete", "shop", "--if-unused", "--yes"]),
    Command("unbind one", ["bindings", "delete", "shop", "orders", "-k", "b/c"]),
    Command("unbind", ["bindings", "delete", "shop", "orders"]),
    Command("unbind again", ["bindings", "delete", "shop", "orders"]),
    Command("delete exchange", ["exchanges", "delete", "shop", "--yes"]),
    Command("delete queue", ["queues", "delete", "orders", "--yes", "--if-empty", "--if-unused"]),
    Command("delete no queue", ["queues", "delete", "orders", "--yes"]),
    Command("wrong password", ["queues", "ls", "--password", "wrong"]),
)
"""What is recorded, in this order: each finds what those before it have left."""


class Exchange(NamedTuple):
    """A request and its answer."""

    method: str
    path: str
    body: str
    status: int
    answer: str


class _Api(ThreadingHTTPServer):
    """Listens on a port of its own, in a thread of its own."""

    daemon_threads = True
    protocol_version = "HTTP/1.1"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.connections = 0
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        """Where commands find it."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Count a connection."""
        self.connections += 1
        super().process_request(request, client_address)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def exchange(self, method: str, path: str, body: str, heads: dict[str, str]) -> Exchange:
        """Return a request with its answer."""
        raise NotImplementedError


class RecordedApi(_Api):
    """Answers as it was recorded.

    Args:
        exchanges: What is to be asked, in this order.
    """

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        super().__init__()
        self.left = list(exchanges)
        self.unexpected: list[tuple[str, str, str]] = []

    def exchange(self, method: str, path: str, body: str, _heads: dict[str, str]) -> Exchange:
        """Return what was recorded; 501 if something else was."""
        if self.left and self.left[0][:3] == (method, path, body):
            return self.left.pop(0)
        self.unexpected.append((method, path, body))
        return Exchange(method, path, body, 501, '{"error":"not recorded"}')


class Recorder(_Api):
    """Hands requests on to a real one, and keeps them with their answers.

    Args:
        port: Where that is.
    """

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port
        self.kept: list[Exchange] = []

    def exchange(self, method: str, path: str, body: str, heads: dict[str, str]) -> Exchange:
        """Ask the real one."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=LONG_SECONDS)
        connection.request(method, path, body.encode() or None, heads)
        response = connection.getresponse()
        found = Exchange(method, path, body, response.status, response.read().decode())
        connection.close()
        self.kept.append(found)
        return found


class _Handler(BaseHTTPRequestHandler):
    """Gives each request to the server's `exchange`."""

    protocol_version = "HTTP/1.1"
    server: _Api

    def _handle(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(size).decode()
        wanted = ("Authorization", "Accept", "Content-Type")
        heads = {name: self.headers[name] for name in wanted if name in self.headers}
        found = self.server.exchange(self.command, self.path, body, heads)
        data = found.answer.encode()
        self.send_response(found.status)
        self.send_header("Content-Type", "application/json")
        if found.status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815 - the base class looks for these

    def log_message(self, *_: object) -> None:
        """Write nothing."""


class Recording(NamedTuple):
    """What happened when a command ran."""

    words: list[str]
    exit_code: int
    exchanges: list[Exchange]


def recorded(name: str) -> Recording:
    """Return what was asked and answered when a command ran."""
    words, exit_code, exchanges = json.loads(DATA.read_text(encoding="utf-8"))[name]
    return Recording(words, exit_code, [Exchange(*one) for one in exchanges])


def run(url: str, words: Sequence[str], stdin: bytes = b"") -> Result:
    """Run a command of `sprocket rabbit` in this process."""
    return CliRunner().invoke(app(), ["rabbit", *words, "--url", url], input=stdin)


def replay(name: str, *more: str) -> Result:
    """Run a command of the script against what was recorded.

    Args:
        name: Its name.
        more: Further words, as `--json`.

    Raises:
        AssertionError: It asked for something else than when it was recorded.
    """
    stdin = next(one.stdin for one in SCRIPT if one.name == name)
    found = recorded(name)
    with RecordedApi(found.exchanges) as api:
        ended = run(api.url, [*found.words, *more], stdin)
    assert (api.unexpected, api.left) == ([], []), ended.output
    return ended


def wait_for_figures(node: RabbitNode, messages: int) -> None:
    """Wait until a node shows so many messages, and the figures of every queue."""
    api = Management(f"http://127.0.0.1:{node.api_port}", ("guest", "guest"), timeout_seconds=60)
    while sum(row.get("messages_ready", -messages) for row in api.rows("queues")) != messages:
        time.sleep(LOOK_SECONDS)
    api.close()


@contextlib.contextmanager
def connected(node: RabbitNode, *, wanted: bool) -> Iterator[str]:
    """Have a client of AMQP connected, if one is wanted; give its connection's name.

    It waits until the node shows the connection among its figures.
    """
    if not wanted:
        yield ""
        return
    parameters = pika.ConnectionParameters(
        "127.0.0.1", node.port, client_properties={"connection_name": "till 1"}
    )
    connection = pika.BlockingConnection(parameters)
    connection.channel()
    api = Management(f"http://127.0.0.1:{node.api_port}", ("guest", "guest"), timeout_seconds=60)
    while not (found := api.rows("connections")) or found[0].get("channels") != 1:
        connection.process_data_events(LOOK_SECONDS)
    try:
        yield str(found[0]["name"])
    finally:
        api.close()
        with contextlib.suppress(pika.exceptions.AMQPError):
            connection.process_data_events(0)
            connection.close()


def played(node: RabbitNode) -> Iterator[tuple[Command, Recording, Result]]:
    """Run the script against a real RabbitMQ; give what was asked and answered, and the ends."""
    for one in SCRIPT:
        if one.counted:
            wait_for_figures(node, one.counted)
        with connected(node, wanted=one.connects) as name, Recorder(node.api_port) as api:
            words = [word.replace(CONNECTION, name) for word in one.words]
            ended = run(api.url, words, one.stdin)
        yield one, Recording(words, ended.exit_code, api.kept), ended


def record() -> None:
    """Write what a real RabbitMQ is asked and answers."""
    kept: dict[str, Recording] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        RabbitNode(installed(), Path(folder) / "node", has_api=True) as node,
    ):
        node.start()
        for one, found, ended in played(node):
            kept[one.name] = found
            print(f"$ sprocket rabbit {' '.join(found.words)}\n{ended.output}[{found.exit_code}]")
    DATA.parent.mkdir(exist_ok=True)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(kept[name])}" for name in kept)
    DATA.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    record()
