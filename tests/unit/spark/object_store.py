"""An S3 server in this process: moto behind a server that notes every request."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from pyarrow import fs
from werkzeug.serving import WSGIRequestHandler, make_server


class Request(NamedTuple):
    """One request: its method, the path with the bucket, and how many bytes it asked for."""

    method: str
    path: str
    size: int | None


class _Silent(WSGIRequestHandler):  # type: ignore[misc]
    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Print nothing."""


class ObjectStore:
    """An S3 server on a free port, with one bucket."""

    bucket = "stores"

    def __init__(self, port: int) -> None:
        self.requests: list[Request] = []
        self.settings = {
            "endpoint_override": f"http://127.0.0.1:{port}",
            "region": "us-east-1",
            "access_key": "somebody",
            "secret_key": "not-so-secret",
        }

    @property
    def options(self) -> dict[str, str]:
        """The options that a query needs to read here."""
        return {f"fs.{name}": value for name, value in self.settings.items()}

    def put(self, folder: str, name: str) -> str:
        """Copy a folder there with all it holds; return its address."""
        system = fs.S3FileSystem(**self.settings, allow_bucket_creation=True)
        system.create_dir(self.bucket)
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file():
                inside = f"{self.bucket}/{name}/{path.relative_to(folder).as_posix()}"
                with system.open_output_stream(inside) as target:
                    target.write(path.read_bytes())
        self.requests.clear()
        return f"s3://{self.bucket}/{name}"

    def note(self, environ: dict[str, Any]) -> None:
        """Note a request."""
        size = None
        if environ.get("HTTP_RANGE"):
            first, _, last = environ["HTTP_RANGE"].removeprefix("bytes=").partition("-")
            size = int(last) - int(first) + 1
        self.requests.append(Request(environ["REQUEST_METHOD"], environ["PATH_INFO"], size))


@contextmanager
def serving() -> Iterator[ObjectStore]:
    """Serve until the block ends."""
    app = DomainDispatcherApplication(create_backend_app)
    noted: list[ObjectStore] = []

    def noting(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        noted[0].note(environ)
        answer: Iterable[bytes] = app(environ, start)
        return answer

    server = make_server("127.0.0.1", 0, noting, threaded=True, request_handler=_Silent)
    store = ObjectStore(server.server_port)
    noted.append(store)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
