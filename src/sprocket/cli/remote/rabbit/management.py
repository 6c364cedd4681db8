"""RabbitMQ's HTTP API, as commands ask it.

Source: the paths and members of RabbitMQ 3.10.8's management plugin; Sprocket serves the same.
"""

import base64
import json
import ssl
from collections.abc import Iterable, Mapping
from html import unescape
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from sprocket.base.clock import Clock, SystemClock
from sprocket.base.errors import (
    BrokerRefused,
    ClientError,
    NotConnected,
    RequestTimeout,
    SettingsError,
)
from sprocket.base.units import MIB
from sprocket.cli.remote.rabbit.failures import NOT_FOUND, ForeignAnswer, NoSuchResource

DEFAULT_PORTS = {"http": 15672, "https": 15671}
EXPECTED = f"http://HOST:{DEFAULT_PORTS['http']}"
ANSWER_BYTES_MAX = 1024 * MIB
"""Of one answer; 100,000 queues with their figures are some 150 MB."""
IDLE_SECONDS_MAX = 5.0
"""A connection that was not used for longer is not used again: the broker may be closing it."""
REASON_LETTERS_MAX = 500
"""Of what the broker says of a refusal."""
UNAUTHORIZED = 401


class AnsweredObject(dict[str, Any]):
    """An object in an answer; a member that it lacks is the answer's fault."""

    def __missing__(self, name: str) -> Any:
        raise ForeignAnswer(f"an answer lacks {name!r}: is the HTTP API of RabbitMQ there?")


class Management:
    """A broker's HTTP API, on one connection that is made when something is asked.

    Args:
        url: Where it is; what stands behind the port is before every path.
        login: Name and password.
        trust_path: PEM file of authorities beside those of the system; empty for none.
        timeout_seconds: Longest wait for an answer.
        clock: For tests.

    Raises:
        SettingsError: The address is wrong, or the file cannot be used.
    """

    def __init__(
        self,
        url: str,
        login: tuple[str, str],
        *,
        trust_path: str = "",
        timeout_seconds: float,
        clock: Clock | None = None,
    ) -> None:
        split = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = split.port or DEFAULT_PORTS[split.scheme]
        except (KeyError, ValueError):
            raise SettingsError(
                f"{url!r} is not an address of an HTTP API: expected {EXPECTED}"
            ) from None
        if not split.hostname:
            raise SettingsError(f"{url!r} names no host: expected {EXPECTED}")
        if split.username is not None:
            login = unquote(split.username), unquote(split.password or "")
        self.address = f"{split.scheme}://{split.hostname}:{port}"
        self.user = login[0]
        self._prefix = split.path.rstrip("/")
        self._clock = clock or SystemClock()
        self._used_at = self._clock.monotonic()
        credentials = base64.b64encode(":".join(login).encode()).decode()
        self._heads = {"Authorization": f"Basic {credentials}", "Accept": "*/*"}
        self._connection: HTTPConnection
        if split.scheme == "https":
            context = _context(trust_path)
            self._connection = HTTPSConnection(
                split.hostname, port, timeout=timeout_seconds, context=context
            )
        else:
            self._connection = HTTPConnection(split.hostname, port, timeout=timeout_seconds)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def get(self, *path: str, query: Mapping[str, str] | None = None) -> Any:
        """Return what is at a path. Raises ClientError: see `request`."""
        return self.request("GET", path, query=query)

    def rows(self, *path: str) -> list[dict[str, Any]]:
        """Return the objects in a list.

        Raises:
            ClientError: See `request`; also if there is no list of objects.
        """
        found = self.get(*path)
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise ForeignAnswer(f"{self.address}: /{'/'.join(path)} is not a list of objects")
        return found

    def row(self, *path: str) -> dict[str, Any]:
        """Return the object at a path.

        Raises:
            ClientError: See `request`; also if there is no object.
        """
        return self._object(self.get(*path), path)

    def put(self, *path: str, body: object) -> None:
        """Make something be at a path. Raises ClientError: see `request`."""
        self.request("PUT", path, body=body)

    def post(self, *path: str, body: object, query: Mapping[str, str] | None = None) -> Any:
        """Ask for something to be done; return the answer. Raises ClientError: see `request`."""
        return self.request("POST", path, body=body, query=query)

    def delete(self, *path: str, why: str = "", query: Mapping[str, str] | None = None) -> None:
        """Delete what is at a path, and say `why`. Raises ClientError: see `request`."""
        self.request("DELETE", path, query=query, heads={"X-Reason": why} if why else {})

    def request(
        self,
        method: str,
        path: Iterable[str],
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
        heads: Mapping[str, str] | None = None,
    ) -> Any:
        """Ask for something, and return the answer, decoded; None if it is empty.

        Args:
            method: GET, PUT, POST or DELETE.
            path: Its parts after `/api`, as they are called; they are escaped here.
            body: What is sent as JSON; None sends nothing.
            query: After the path.
            heads: Further heads.

        Raises:
            NoSuchResource: There is nothing of that name.
            BrokerRefused: It is not allowed, not possible or not understood; the code is HTTP's.
            NotConnected: There is no connection, or it was lost.
            RequestTimeout: There was no answer in time.
            ForeignAnswer: The answer is not from an HTTP API of RabbitMQ.
        """
        target = f"{self._prefix}/api/{'/'.join(quote(part, safe='') for part in path)}"
        if query:
            target += f"?{urlencode(query)}"
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        given = dict(self._heads) | dict(heads or {})
        if data is not None:
            given["Content-Type"] = "application/json"
        status, answer = self._exchange(method, target, data, given)
        if status >= 400:
            raise self._refusal(status, answer)
        if not answer:
            return None
        try:
            return json.loads(answer, object_hook=AnsweredObject)
        except (ValueError, RecursionError):
            raise self._foreign(f"answered {method} {target} with what is not JSON") from None

    def _exchange(
        self, method: str, target: str, data: bytes | None, heads: dict[str, str]
    ) -> tuple[int, bytes]:
        """Send a request and return status and content of the answer."""
        now = self._clock.monotonic()
        if now - self._used_at > IDLE_SECONDS_MAX:
            self._connection.close()  # the next request opens it again
        try:
            self._connection.request(method, target, data, heads)
            response = self._connection.getresponse()
            return response.status, self._content(response)
        except TimeoutError:
            self._connection.close()
            raise RequestTimeout(f"no answer from {self.address} to {method} {target}") from None
        except ssl.SSLError as error:
            self._connection.close()
            raise NotConnected(f"no encrypted connection to {self.address}: {error}") from None
        except OSError as error:
            self._connection.close()
            raise NotConnected(f"no connection to {self.address}: {_reason(error)}") from None
        except HTTPException as error:
            self._connection.close()
            raise self._foreign(f"does not speak HTTP ({type(error).__name__})") from None
        finally:
            self._used_at = self._clock.monotonic()

    def _content(self, response: HTTPResponse) -> bytes:
        content = response.read(ANSWER_BYTES_MAX + 1)
        if len(content) > ANSWER_BYTES_MAX:
            raise self._foreign(f"sent more than {ANSWER_BYTES_MAX:,} bytes")
        return content

    def _refusal(self, status: int, answer: bytes) -> ClientError:
        """Return the error that an answer is."""
        try:
            said = json.loads(answer)
        except (ValueError, RecursionError):
            said = None
        if status == UNAUTHORIZED:
            why = said.get("reason", "") if isinstance(said, dict) else ""
            detail = "" if why in ("", "Login failed", "Not_Authorized") else f": {why}"
            return BrokerRefused(status, f"{self.address} refuses user {self.user!r}{detail}")
        if not isinstance(said, dict) or "error" not in said:
            if status == NOT_FOUND:
                return self._foreign("has no such path")
            return self._foreign(f"answered with {status}")
        reason = _text(said.get("reason") or said["error"])[:REASON_LETTERS_MAX]
        kind = NoSuchResource if status == NOT_FOUND else BrokerRefused
        return kind(status, reason)

    def _foreign(self, what: str) -> ForeignAnswer:
        return ForeignAnswer(f"{self.address} {what}: is the HTTP API of RabbitMQ there?")

    def _object(self, found: Any, path: Iterable[str]) -> dict[str, Any]:
        if not isinstance(found, dict):
            raise ForeignAnswer(f"{self.address}: /{'/'.join(path)} is not an object")
        return found


def _context(trust_path: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if trust_path:
        try:
            context.load_verify_locations(trust_path)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(f"{trust_path} cannot be used: {error}") from None
    return context


def _text(reason: object) -> str:
    """Return what a broker says: a text that may be spelt as in HTML, or Erlang's terms.

    Lists of numbers are texts there.
    """
    if not isinstance(reason, list):
        return unescape(str(reason))
    if reason and all(isinstance(one, int) and 32 <= one < 127 for one in reason):
        return bytes(reason).decode()
    return " ".join(_text(one) for one in reason)


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
