"""Tells every NameServer which broker this is and which topics it has, over the wire.

One task for each NameServer keeps one connection: it registers everything at the start, after each
reconnect and every `register_seconds`, and single topics as they change. A NameServer that refuses
a single topic (it was restarted and does not know us) gets everything at once. When the broker
stops it unregisters.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeVar

from msgspec import structs

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.errors import ClientError, NotConnected, SettingsError, WireError
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.codec import bodies, registration_body
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command, request
from sprocket.rocketmq.codec.config import DataVersion
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.codec.headers import (
    NoFields,
    QueryDataVersion,
    QueryDataVersionAnswer,
    RegisterBroker,
    RegisterBrokerAnswer,
    UnregisterBroker,
)
from sprocket.rocketmq.codec.registration_body import RegisterBrokerBody
from sprocket.rocketmq.model.route import ClusterInfo
from sprocket.rocketmq.model.topic import READ, WRITE, TopicConfig
from sprocket.rocketmq.remoting import Channel, MakeRequest, open_channel, split_address
from sprocket.runtime.driver import Peer
from sprocket.runtime.tasks import Tasks, is_set_within

_log = log.get_logger(__name__)

N = TypeVar("N", RegisterBroker, UnregisterBroker, QueryDataVersion)

ANSWER_MS = 3_000
"""How long a NameServer may take to answer; a change of a topic is answered after that, too."""

START_SECONDS = 1.0
"""How long the start waits for NameServers: one that is gone must not delay the others' clients."""

RETRY_SECONDS = 1.0
"""How long to wait before another try to reach a NameServer."""

PORT_MAX = 65535


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Who registers."""

    name: str
    cluster: str
    address: str
    """`host:port` that clients reach the broker at."""
    broker_id: int = 0
    slaves_address: str = ""
    """`host:port` that slaves reach it at; empty if it takes none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MasterAddresses:
    """Where a NameServer says that the master of this slave is, `host:port` each."""

    broker: str
    slaves: str
    """Where it waits for slaves; empty if it takes none."""


@dataclass(slots=True, eq=False)
class _NameServer:
    address: str
    channel: Channel | None = None
    changed: dict[str, TopicConfig] = field(default_factory=dict)
    """Topics it was not told of yet."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    is_up: bool = False
    has_failed: bool = False


@dataclass(slots=True)
class _Waiter:
    """Somebody who waits until the NameServers know what has changed."""

    missing: set[_NameServer]
    done: Callable[[], None]


class BrokerNameServers:
    """The NameServers of a broker, and which topics each was not told of yet.

    Args:
        addresses: `host:port` of each.

    Raises:
        SettingsError: One is something else.
    """

    def __init__(self, addresses: Iterable[str]) -> None:
        self.all = [_NameServer(one.strip()) for one in addresses]
        for one in self.all:
            try:
                _, port = split_address(one.address)
            except NotConnected as error:
                raise SettingsError(f"no NameServer: {error}") from error
            if port > PORT_MAX:
                raise SettingsError(f"no NameServer: {one.address} has no port up to {PORT_MAX}")

    def note(self, topics: Iterable[TopicConfig]) -> None:
        """Have all of them told of topics that are new or differ."""
        changed = {topic.name: topic for topic in topics}
        for one in self.all:
            one.changed.update(changed)
            one.wake.set()

    def channels(self) -> list[Channel]:
        """Return the connections to those that are there."""
        return [one.channel for one in self.all if one.channel is not None and one.channel.is_open]


@dataclass(slots=True, eq=False)
class Registration:
    """Keeps the NameServers up to date."""

    identity: Identity
    _topics: Topics
    nameservers: BrokerNameServers
    _register_seconds: float
    """How often to register again."""
    _clock: Clock
    _: KW_ONLY
    tls: ssl.SSLContext | None = None
    make_request: MakeRequest = request
    """Makes the frames of what NameServers are asked; signs them if the broker has a user."""
    epoch: int = 0
    """Of the master of a set: NameServers do not take one of an earlier epoch in its place
    (stateVersion)."""
    known_master: "Callable[[], MasterAddresses | None] | None" = None
    """Says who is master, if somebody else than the NameServers knows."""
    _told_master: MasterAddresses | None = field(default=None, init=False)
    _waiters: list[_Waiter] = field(default_factory=list, init=False)
    _tasks: Tasks = field(default_factory=lambda: Tasks("registration"), init=False)

    @property
    def master(self) -> MasterAddresses | None:
        """Where the master is; None for a master, and while nobody knows one."""
        return self._told_master if self.known_master is None else self.known_master()

    async def start(self) -> None:
        """Register with every NameServer; return when each has been tried, or after a second.

        One that cannot be reached is tried again for as long as the broker runs.
        """
        tried = []
        for nameserver in self.nameservers.all:
            first = asyncio.Event()
            tried.append(first)
            self._tasks.spawn(self._keep(nameserver, first), f"nameserver {nameserver.address}")
        try:
            async with asyncio.timeout(START_SECONDS):
                for first in tried:
                    await first.wait()
        except TimeoutError:
            _log.warning("not every NameServer has answered yet", after_seconds=START_SECONDS)

    async def stop(self) -> None:
        """Take leave of every NameServer that can be reached, of all at once."""
        leaving = [
            self._tasks.spawn(self._leave(nameserver), f"leave {nameserver.address}")
            for nameserver in self.nameservers.all
            if nameserver.is_up
        ]
        if leaving:
            await asyncio.wait(leaving)
        await self._tasks.close()
        for nameserver in self.nameservers.all:
            nameserver.is_up = False
            self._registered(nameserver)

    def when_registered(self, done: Callable[[], None]) -> None:
        """Call `done` once every NameServer that answers knows of all changes.

        One that does not answer within `ANSWER_MS` counts as lost, and is not waited for.
        """
        missing = {one for one in self.nameservers.all if one.is_up and one.changed}
        if missing:
            self._waiters.append(_Waiter(missing, done))
        else:
            done()

    async def _leave(self, nameserver: _NameServer) -> None:
        header = self._header(UnregisterBroker)
        try:
            link = await self._connected(nameserver.address, lambda: None)
            try:
                await _call(link, RequestCode.UNREGISTER_BROKER, header)
            finally:
                link.close()
        except ClientError as error:
            _log.info("could not take leave of a NameServer", why=str(error))

    async def _connected(self, address: str, closed: Callable[[], None]) -> Channel:
        """Connect; `closed` is called when the connection is lost. Raises NotConnected."""
        channel = await open_channel(
            address, self._clock, tls=self.tls, make_request=self.make_request
        )

        def lost(_: Peer) -> None:
            closed()
            channel.lost(NotConnected("the NameServer closed the connection"))

        channel.peer.when_closed(lost)
        return channel

    async def _keep(self, nameserver: _NameServer, first: asyncio.Event) -> None:
        """Stay connected with one NameServer and tell it everything, for ever."""
        while True:
            link: Channel | None = None
            nameserver.wake.clear()  # it is told everything
            try:
                # Once it is lost, nobody goes on waiting to use it.
                link = await self._connected(nameserver.address, nameserver.wake.set)
                nameserver.channel = link
                await self._register_all(nameserver, link)
                first.set()
                while True:
                    await is_set_within(self._register_seconds, nameserver.wake)
                    nameserver.wake.clear()
                    if nameserver.changed:
                        await self._register_changed(nameserver, link)
                    elif await self._must_register(link):
                        await self._register_all(nameserver, link)
            except (ClientError, WireError) as error:
                nameserver.is_up = False
                self._registered(nameserver)
                if not nameserver.has_failed:
                    nameserver.has_failed = True
                    where = nameserver.address
                    _log.warning("a NameServer does not take us", nameserver=where, why=str(error))
            finally:
                first.set()
                if link is not None:
                    link.close()
            await asyncio.sleep(RETRY_SECONDS)

    async def _must_register(self, link: Channel) -> bool:
        """Ask whether the NameServer lacks anything; one that does not counts this as a heartbeat.

        With 10,000 topics a registration costs either side some 70 ms. Source: RocketMQ
        `RouteInfoManager.isBrokerTopicConfigChanged`.
        """
        if self.identity.broker_id:
            return True  # only an answer to that says where the master is now
        header = self._header(QueryDataVersion)
        version = bodies.encode(self._version)
        try:
            answer = await _call(link, RequestCode.QUERY_DATA_VERSION, header, version)
            if answer.header(QueryDataVersionAnswer).changed:
                return True
            # RocketMQ's knows by the address alone whether something has changed. Another process
            # of our name may have taken our place in the routes, and left.
            answer = await _call(link, RequestCode.GET_BROKER_CLUSTER_INFO, NoFields())
        except RegistrationRefused:
            return True
        broker = bodies.decode(ClusterInfo, answer.body).brokers.get(self.identity.name)
        addresses = {} if broker is None else broker.addresses
        return addresses.get(self.identity.broker_id) != self.identity.address

    async def _register_all(self, nameserver: _NameServer, link: Channel) -> None:
        nameserver.changed.clear()
        await self._register(link, list(self._topics.all()))
        nameserver.is_up = True
        if nameserver.has_failed:
            _log.info("a NameServer takes us again", nameserver=nameserver.address)
            nameserver.has_failed = False
        if not nameserver.changed:
            self._registered(nameserver)

    async def _register_changed(self, nameserver: _NameServer, link: Channel) -> None:
        topics = list(nameserver.changed.values())
        nameserver.changed.clear()
        try:
            await self._register(link, topics)
        except RegistrationRefused:
            await self._register_all(nameserver, link)
        if not nameserver.changed:
            self._registered(nameserver)

    async def _register(self, link: Channel, topics: list[TopicConfig]) -> None:
        """Tell of topics, none of which is open to more than the whole broker."""
        permission = self._topics.permission
        if permission != READ | WRITE:
            topics = [structs.replace(topic, perm=topic.perm & permission) for topic in topics]
        body = RegisterBrokerBody(version=self._version, topics=topics)
        encoded = registration_body.encode(body)
        header = self._header(RegisterBroker)
        if self.identity.slaves_address:
            header = structs.replace(header, ha_server_addr=self.identity.slaves_address)
        answer = await _call(link, RequestCode.REGISTER_BROKER, header, encoded)
        if self.identity.broker_id:
            found = answer.header(RegisterBrokerAnswer)
            if found.master_addr:
                self._told_master = MasterAddresses(
                    broker=found.master_addr, slaves=found.ha_server_addr or ""
                )

    @property
    def _version(self) -> DataVersion:
        """The version of the topics, in this broker's epoch."""
        version = self._topics.table.version
        return structs.replace(version, state_version=self.epoch) if self.epoch else version

    def _header(self, kind: type[N]) -> N:
        """Return the header of a request that says who sends it."""
        identity = self.identity
        return kind(
            broker_name=identity.name,
            broker_addr=identity.address,
            cluster_name=identity.cluster,
            broker_id=identity.broker_id,
        )

    def _registered(self, nameserver: _NameServer) -> None:
        for waiter in list(self._waiters):
            waiter.missing.discard(nameserver)
            if not waiter.missing:
                self._waiters.remove(waiter)
                waiter.done()


class RegistrationRefused(ClientError):
    """The NameServer answered with an error."""


async def _call(link: Channel, code: RequestCode, header: Header, body: bytes = b"") -> Command:
    """Ask a NameServer something and return its answer.

    Raises:
        RegistrationRefused: The answer's code is an error.
        NotConnected, RequestTimeout: There is no answer.
    """
    answer = await link.ask(code, header, body, timeout_ms=ANSWER_MS)
    if answer.code != ResponseCode.SUCCESS:
        raise RegistrationRefused(f"code {answer.code}: {answer.remark or ''}")
    return answer
