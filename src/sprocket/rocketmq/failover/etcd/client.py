"""Asks some member of etcd, another one after one that fails, as a user if there is one.

A request is sent to one member. Only what was surely not carried out is sent again: to the next one
if there was no connection, or with a new token if the one before is not taken any more.

Invariants

1. No time limit is exceeded, however many members fail.
2. Neither password nor token is in a log line or an error.
"""

import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.errors import (
    ClientError,
    NotConnected,
    RequestTimeout,
    SettingsError,
    WireError,
)
from sprocket.base.units import MIB
from sprocket.rocketmq.failover.etcd import messages
from sprocket.runtime.http import HttpClient

DEFAULT_PORT: Final = 2379
_SCHEME: Final = "etcd://"
_OK: Final = 200
_LINE_BYTES_MAX: Final = 4 * MIB
_TOKEN_LOST: Final = ("invalid auth token", "user name is empty", "auth: revision in header is old")
"""What etcd says if it does not know whose request this is: its tokens end."""

_log = log.get_logger(__name__)

T = TypeVar("T", bound=Struct)


class EtcdCredentials(Struct, frozen=True):
    """A user of etcd."""

    user: str
    password: str

    def __repr__(self) -> str:
        """Return a text without the password."""
        return f"EtcdCredentials({self.user!r})"


class EtcdRefused(ClientError):
    """Etcd has answered with an error, and has done nothing."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(f"etcd refuses: {why}")
        self.code = code


class EtcdClient:
    """See the head of the module.

    Args:
        addresses: Host and port of each member.
        clock: For time limits.
        seconds: How long one request may take, whatever happens.
        tls: What connections are encrypted with, None if they are not.
        credentials: The user; None where etcd asks for none.

    Threads: event loop only.
    """

    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        clock: Clock,
        *,
        seconds: float,
        tls: ssl.SSLContext | None = None,
        credentials: EtcdCredentials | None = None,
    ) -> None:
        assert addresses, "nobody can be asked"
        self.seconds = seconds
        self._members = [HttpClient(host, port, tls) for host, port in addresses]
        self._current = 0
        self._clock = clock
        self._credentials = credentials
        self._token = ""
        self._failed: set[str] = set()

    @property
    def address(self) -> str:
        """The member that is asked next."""
        return self._members[self._current].address

    async def ask(self, path: str, body: Mapping[str, object], shape: type[T]) -> T:
        """Send a request, and return the answer.

        Raises:
            NotConnected: There was no connection to any member: it was not carried out.
            EtcdRefused: It was not carried out either.
            RequestTimeout: It may have been carried out.
            WireError: The same; the answer is not one of etcd.
        """
        until = self._clock.monotonic() + self.seconds
        if self._credentials is not None and not self._token:
            await self._sign_in(until)
        try:
            return await self._sent(path, body, shape, until)
        except EtcdRefused as error:
            if self._credentials is None or not any(one in str(error) for one in _TOKEN_LOST):
                raise
        await self._sign_in(until)
        return await self._sent(path, body, shape, until)

    async def stream(
        self, path: str, body: Mapping[str, object], shape: type[T], quiet_seconds: float
    ) -> AsyncGenerator[T | None, None]:
        """Send a request, and give the messages of the answer as they come, until it ends.

        None is given whenever nothing has come for so many seconds.

        Raises:
            NotConnected: It was cut off; another member is asked next.
            EtcdRefused, WireError: It is not answered so.
        """
        if self._credentials is not None and not self._token:
            await self._sign_in(self._clock.monotonic() + self.seconds)
        member, waiting = self._members[self._current], bytearray()
        try:
            encoded = msgspec.json.encode(body)
            stream = member.stream(path, self._headers(), encoded, quiet_seconds)
            async with aclosing(stream) as pieces:
                async for piece in pieces:
                    if not piece:
                        yield None
                    waiting += piece
                    *lines, rest = waiting.split(b"\n")
                    waiting = bytearray(rest)
                    for line in lines:
                        yield _decoded(bytes(line), shape)
                    if len(waiting) > _LINE_BYTES_MAX:
                        raise WireError(f"{member.address}: a message of more than 4 MiB")
        except (NotConnected, WireError) as error:
            self._token = ""
            self._pass_over(member, error)
            raise

    def next_member(self, why: str) -> None:
        """Ask another member from now on."""
        self._pass_over(self._members[self._current], NotConnected(why))

    def close(self) -> None:
        """Close all connections."""
        for member in self._members:
            member.close()

    async def _sent(self, path: str, body: Mapping[str, object], shape: type[T], until: float) -> T:
        """Send a request to the members in turn, until one has a connection."""
        encoded = msgspec.json.encode(body)
        for is_last in [False] * (len(self._members) - 1) + [True]:
            member = self._members[self._current]
            left = until - self._clock.monotonic()
            if left <= 0:
                raise NotConnected("no member of etcd could be reached in time")
            try:
                answer = await member.ask(path, self._headers(), encoded, left)
            except NotConnected as error:
                self._pass_over(member, error)
                if is_last:
                    raise
                continue
            except (RequestTimeout, WireError) as error:
                self._pass_over(member, error)
                raise
            if answer.status != _OK:
                raise self._problem(member, answer.status, answer.body)
            self._is_well(member)
            return _decoded(answer.body, shape)
        raise AssertionError("unreachable")

    def _problem(self, member: HttpClient, status: int, body: bytes) -> ClientError:
        """Return what an answer means that is an error."""
        try:
            found = msgspec.json.decode(body, type=messages.Problem)
        except msgspec.MsgspecError:
            found = messages.Problem(message=f"status {status}")
        why = found.message or found.error
        if found.code in messages.REFUSED or any(one in why for one in _TOKEN_LOST):
            return EtcdRefused(found.code, why)
        error = RequestTimeout(f"{member.address}: {why}")
        self._pass_over(member, error)
        return error

    async def _sign_in(self, until: float) -> None:
        assert self._credentials is not None, "nobody to sign in"
        self._token = ""
        body = {"name": self._credentials.user, "password": self._credentials.password}
        found = await self._sent("/v3/auth/authenticate", body, messages.TokenAnswer, until)
        self._token = found.token

    def _headers(self) -> Mapping[str, str]:
        return {"authorization": self._token} if self._token else {}

    def _pass_over(self, member: HttpClient, error: Exception) -> None:
        """Ask the next member from now on, if this one was to be asked."""
        if member is self._members[self._current]:
            self._current = (self._current + 1) % len(self._members)
        if member.address not in self._failed:
            self._failed.add(member.address)
            _log.warning("a member of etcd fails", etcd=member.address, why=str(error))

    def _is_well(self, member: HttpClient) -> None:
        if member.address in self._failed:
            self._failed.discard(member.address)
            _log.info("a member of etcd answers again", etcd=member.address)


def _decoded(line: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(line, type=shape)
    except msgspec.MsgspecError as error:
        raise WireError(f"this is not an answer of etcd: {error}") from error


def addresses_in(url: str) -> Sequence[tuple[str, int]]:
    """Return hosts and ports of `etcd://host:port,host:port`; the port may be left out.

    Raises:
        SettingsError: It is something else.
    """
    found: list[tuple[str, int]] = []
    rest = url.removeprefix(_SCHEME)
    for part in rest.split(","):
        try:
            one = urlsplit(f"//{part.strip()}")
            host, port = one.hostname, one.port
        except ValueError:
            host, port = None, None
        if not host or rest == url or one.path or "@" in part:
            raise SettingsError(
                f"ha.decider: {url!r}: expected etcd:// and addresses, host:port, with commas"
            )
        found.append((host, port or DEFAULT_PORT))
    return found
