"""Tells every NameServer which broker this is and which topics it has, over the wire.

One task for each NameServer keeps one connection: it registers everything at the start, after each
reconnect and every `register_seconds`, and single topics as they change. A NameServer that refuses
a single topic (it was restarted and does not know us) gets everything at once. When the broker
stops it unregisters.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sprocket.base import log
from sprocket.base.errors import ClientError, NotConnected, RequestTimeout, SettingsError, WireError
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec import command
from sprocket.rocketmq.codec.bodies import broker_bodies
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.config import RegisterBrokerBody, tables
from sprocket.rocketmq.codec.headers import (
    Header,
    QueryDataVersion,
    QueryDataVersionAnswer,
    RegisterBroker,
    UnregisterBroker,
)
from sprocket.rocketmq.model.topic import READ, WRITE, TopicConfig
from sprocket.rocketmq.remoting import Connection
from sprocket.runtime import driver
from sprocket.runtime.driver import Peer
from sprocket.runtime.tasks import Tasks, is_set_within
from sprocket.runtime.timers import Timers

_log = log.get_logger(__name__)

ANSWER_SECONDS = 3.0
"""How long a NameServer may take to answer."""

START_SECONDS = 1.0
"""How long the start waits for NameServers: one that is gone must not delay the others' clients."""

RETRY_SECONDS = 1.0
"""How long to wait before another try to reach a NameServer."""

TOLD_SECONDS = 1.0
"""How long a topic change waits for the NameServers before it is answered anyway."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Who registers."""

    name: str
    cluster: str
    address: str
    """`host:port` that clients reach the broker at."""
    broker_id: int = 0


@dataclass(slots=True)
class _NameServer:
    host: str
    port: int
    changed: dict[str, TopicConfig] = field(default_factory=dict)
    """Topics it was not told of yet."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    is_up: bool = False
    has_failed: bool = False


@dataclass(slots=True)
class _Waiter:
    """Somebody who waits until the NameServers know what has changed."""

    missing: set[int]
    done: Callable[[], None]


class Registration:
    """Keeps the NameServers up to date.

    Args:
        identity: What they are told of the broker.
        topics: Its topics; their changes are followed from `start` on.
        nameservers: `host:port` of each.
        register_seconds: How often to register again.
        timers: For the limit on waiting.
        tls: Encrypts the connections; None: none.
    """

    def __init__(
        self,
        identity: Identity,
        topics: Topics,
        nameservers: list[str],
        register_seconds: float,
        timers: Timers,
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.identity = identity
        self._tls = tls
        self._topics = topics
        self._register_seconds = register_seconds
        self._timers = timers
        self._nameservers = [_NameServer(*split_address(address)) for address in nameservers]
        self._waiters: list[_Waiter] = []
        self._tasks = Tasks("registration")

    async def start(self) -> None:
        """Register with every NameServer; return when each has been tried, or after a second.

        One that cannot be reached is tried again for as long as the broker runs.
        """
        self._topics.changed = self._on_change
        tried = []
        for number, nameserver in enumerate(self._nameservers):
            first = asyncio.Event()
            tried.append(first)
            self._tasks.spawn(
                self._keep(number, nameserver, first), f"nameserver {nameserver.host}"
            )
        try:
            async with asyncio.timeout(START_SECONDS):
                for first in tried:
                    await first.wait()
        except TimeoutError:
            _log.warning("not every NameServer has answered yet", after_seconds=START_SECONDS)

    async def stop(self) -> None:
        """Take leave of every NameServer that can be reached, of all at once."""
        self._topics.changed = lambda _: None
        leaving = [
            self._tasks.spawn(self._leave(nameserver), f"leave {nameserver.host}")
            for nameserver in self._nameservers
            if nameserver.is_up
        ]
        if leaving:
            await asyncio.wait(leaving)
        await self._tasks.close()

    def when_told(self, done: Callable[[], None]) -> None:
        """Call `done` once every reachable NameServer knows of all changes, or after a second."""
        missing = {
            number for number, one in enumerate(self._nameservers) if one.is_up and one.changed
        }
        if not missing:
            done()
            return
        waiter = _Waiter(missing, done)
        self._waiters.append(waiter)

        def late() -> None:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
                done()

        self._timers.call_later(TOLD_SECONDS, late)

    async def _leave(self, nameserver: _NameServer) -> None:
        header = UnregisterBroker(
            broker_name=self.identity.name,
            broker_addr=self.identity.address,
            cluster_name=self.identity.cluster,
            broker_id=self.identity.broker_id,
        )
        try:
            link = await _Link.open(nameserver.host, nameserver.port, self._tls)
            try:
                await link.call(RequestCode.UNREGISTER_BROKER, header)
            finally:
                link.close()
        except ClientError as error:
            _log.info("could not take leave of a NameServer", why=str(error))

    def _on_change(self, topics: list[TopicConfig]) -> None:
        for nameserver in self._nameservers:
            nameserver.changed.update({topic.name: topic for topic in topics})
            nameserver.wake.set()

    async def _keep(self, number: int, nameserver: _NameServer, first: asyncio.Event) -> None:
        """Stay connected with one NameServer and tell it everything, for ever."""
        while True:
            link: _Link | None = None
            try:
                link = await _Link.open(nameserver.host, nameserver.port, self._tls)
                link.on_close = nameserver.wake.set
                await self._register_all(number, nameserver, link)
                first.set()
                while True:
                    await is_set_within(self._register_seconds, nameserver.wake)
                    nameserver.wake.clear()
                    if nameserver.changed:
                        await self._register_changed(number, nameserver, link)
                    elif await self._must_register(link):
                        await self._register_all(number, nameserver, link)
            except (ClientError, WireError) as error:
                nameserver.is_up = False
                self._told(number)
                if not nameserver.has_failed:
                    nameserver.has_failed = True
                    where = f"{nameserver.host}:{nameserver.port}"
                    _log.warning("a NameServer does not take us", nameserver=where, why=str(error))
            finally:
                first.set()
                if link is not None:
                    link.close()
            await asyncio.sleep(RETRY_SECONDS)

    async def _must_register(self, link: "_Link") -> bool:
        """Ask whether the NameServer lacks anything; one that does not counts this as a heartbeat.

        With 10,000 topics a registration costs either side some 70 ms. Source: RocketMQ
        `RouteInfoManager.isBrokerTopicConfigChanged`.
        """
        header = QueryDataVersion(
            broker_name=self.identity.name,
            broker_addr=self.identity.address,
            cluster_name=self.identity.cluster,
            broker_id=self.identity.broker_id,
        )
        version = broker_bodies.encode_version(self._topics.version)
        try:
            answer = await link.call(RequestCode.QUERY_DATA_VERSION, header, version)
        except RegistrationRefused:
            return True
        return answer.header(QueryDataVersionAnswer).changed

    async def _register_all(self, number: int, nameserver: _NameServer, link: "_Link") -> None:
        nameserver.changed.clear()
        await self._register(link, list(self._topics.all()))
        nameserver.is_up = True
        if nameserver.has_failed:
            _log.info("a NameServer takes us again", nameserver=nameserver.host)
            nameserver.has_failed = False
        if not nameserver.changed:
            self._told(number)

    async def _register_changed(self, number: int, nameserver: _NameServer, link: "_Link") -> None:
        topics = list(nameserver.changed.values())
        nameserver.changed.clear()
        try:
            await self._register(link, topics)
        except RegistrationRefused:
            await self._register_all(number, nameserver, link)
        if not nameserver.changed:
            self._told(number)

    async def _register(self, link: "_Link", topics: list[TopicConfig]) -> None:
        """Tell of topics, none of which is open to more than the whole broker."""
        identity, permission = self.identity, self._topics.permission
        if permission != READ | WRITE:
            topics = [replace(topic, perm=topic.perm & permission) for topic in topics]
        header = RegisterBroker(
            broker_name=identity.name,
            broker_addr=identity.address,
            cluster_name=identity.cluster,
            ha_server_addr="",
            broker_id=identity.broker_id,
        )
        body = RegisterBrokerBody(version=self._topics.version, topics=topics)
        await link.call(RequestCode.REGISTER_BROKER, header, tables.encode_register_broker(body))

    def _told(self, number: int) -> None:
        for waiter in list(self._waiters):
            waiter.missing.discard(number)
            if not waiter.missing:
                self._waiters.remove(waiter)
                waiter.done()


class RegistrationRefused(ClientError):
    """The NameServer answered with an error."""


class _Link:
    """One connection to a NameServer, one call at a time."""

    def __init__(self) -> None:
        self._peer: Peer | None = None
        self._answer: asyncio.Future[Command] | None = None
        self.on_close: Callable[[], object] = lambda: None
        """Called when the connection is lost, so that nobody goes on waiting to use it."""

    @classmethod
    async def open(cls, host: str, port: int, tls: ssl.SSLContext | None) -> "_Link":
        """Connect. Raises NotConnected."""
        link = cls()
        link._peer = await driver.connect(Connection, link._on_command, host, port, tls=tls)
        link._peer.on_close.append(link._on_close)
        return link

    async def call(self, code: int, header: Header, body: bytes = b"") -> Command:
        """Send one request and return its answer.

        Raises:
            RegistrationRefused: The answer's code is an error.
            NotConnected, RequestTimeout: There is no answer.
        """
        peer = self._peer
        if peer is None or not peer.is_open:
            raise NotConnected("the NameServer closed the connection")
        self._answer = asyncio.get_running_loop().create_future()
        assert isinstance(peer.connection, Connection)
        opaque = peer.connection.next_opaque()
        peer.send(command.request(code, opaque, header, body))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._answer
        except TimeoutError as error:
            raise RequestTimeout(f"no answer within {ANSWER_SECONDS:g} s") from error
        if answer.code != ResponseCode.SUCCESS:
            raise RegistrationRefused(f"code {answer.code}: {answer.remark or ''}")
        return answer

    def close(self) -> None:
        """Close the connection."""
        if self._peer is not None:
            self._peer.close()

    def _on_command(self, _: Peer, answer: Command) -> None:
        if answer.is_response and self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _on_close(self, _: Peer) -> None:
        self.on_close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(NotConnected("the NameServer closed the connection"))


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `host:port`.

    Raises:
        SettingsError: It is something else.
    """
    host, _, port = address.strip().rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise SettingsError(f"{address!r} is no NameServer address, expected host:port")
    return host.strip("[]"), int(port)
