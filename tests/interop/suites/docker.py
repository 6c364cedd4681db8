"""What aiormq's and aio-pika's suites ask Docker for: a container whose port is the server's.

Their fixtures speak Docker's HTTP API at `DOCKER_HOST`. This answers the five requests that they
make: each image is "pulled", and the ports of each container are those of the server under test,
which runs already.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self


class Docker:
    """Answers on a free port of 127.0.0.1 while it is entered.

    Args:
        ports: From the name of a port in the container, as `5672/tcp`, to the server's.
    """

    def __init__(self, ports: dict[str, int]) -> None:
        published = {
            name: [{"HostIp": "127.0.0.1", "HostPort": str(port)}] for name, port in ports.items()
        }
        answers = type("Answers", (_Answers,), {"published": published})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), answers)
        self._thread = Thread(target=self._server.serve_forever)
        self.host = f"tcp://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Answers(BaseHTTPRequestHandler):
    published: dict[str, list[dict[str, str]]]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/containers/create"):
            self._answer(201, {"Id": "under-test"})
        else:
            self._answer(200, {})

    def do_GET(self) -> None:
        self._answer(200, {"Id": "under-test", "NetworkSettings": {"Ports": self.published}})

    def do_DELETE(self) -> None:
        self._answer(200, {})

    def log_message(self, *_: Any) -> None:
        """Say nothing: the suite's own output is what counts."""

    def _answer(self, status: int, what: dict[str, Any]) -> None:
        body = json.dumps(what).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
