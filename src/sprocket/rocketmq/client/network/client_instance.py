"""What every client has: an identity, connections, routes, and heartbeats.

Invariant: a client has at most one consumer and one producer of each group. Brokers know a member
by its client id. So a second consumer of one group would get the same queues as the first, and a
broker that asks a producer of a group would reach either.
"""

import asyncio
import itertools
import os
from collections.abc import Callable, Sequence

from msgspec import Struct

from sprocket.base import log
from sprocket.base.clock import Clock, SystemClock
from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.network.broker_calls import BrokerCalls
from sprocket.rocketmq.client.network.connections import Connections
from sprocket.rocketmq.client.network.routes import NameServers, Routes, split_addresses
from sprocket.rocketmq.client.settings import ClientSettings
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import ConsumerData, HeartbeatData
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command, response
from sprocket.rocketmq.codec.headers import UnregisterClient
from sprocket.rocketmq.remoting import Connect, split_address
from sprocket.runtime import driver
from sprocket.runtime.driver import Peer
from sprocket.runtime.tasks import Tasks

_log = log.get_logger(__name__)
_numbers = itertools.count()
_TWICE = (
    "this client has a {} of group {!r} already; give the second one a group or a Client of its own"
)


class JoinedGroup(Struct, frozen=True):
    """What an instance must know of a consumer group that has joined.

    Attributes:
        heartbeat: Returns what brokers are told of it.
        on_request: Takes what a broker asks of the group by itself: news of its members, resets,
            questions about its state. False says that it does not know this code.
    """

    heartbeat: Callable[[], ConsumerData]
    on_request: Callable[[Peer, Command], bool]


class ClientInstance:
    """The part that producers, consumers, admins and pullers share; arguments as for `Client`."""

    def __init__(
        self,
        nameservers: str | Sequence[str],
        settings: ClientSettings | None,
        *,
        clock: Clock | None = None,
        connect: Connect = driver.connect,
    ) -> None:
        text = nameservers if isinstance(nameservers, str) else ";".join(nameservers)
        addresses = split_addresses(text)
        self.settings = settings or ClientSettings()
        self.clock = clock or SystemClock()
        self.ip = driver.local_ip(split_address(addresses[0])[0])
        nanos = int(self.clock.monotonic() * 1e9) + next(_numbers)
        unit = f"@{self.settings.unit_name}" if self.settings.unit_name else ""
        self.client_id = f"{self.ip}@{os.getpid()}#{nanos}{unit}"
        self.tasks = Tasks(f"client {self.client_id}")
        self.connections = Connections(
            self.settings,
            self.clock,
            self.tasks,
            on_request=self._requested,
            on_open=self._opened,
            connect=connect,
        )
        self.names = NameServers(addresses, self.connections)
        self.routes = Routes(self.names)
        self.brokers = BrokerCalls(self.connections, self.routes)
        self.on_broker_open: list[Callable[[], None]] = []
        """Called after a new connection to a broker was told who we are."""
        self.on_reply: list[Callable[[Peer, Command], bool]] = []
        """Take replies to requests; the first that says True had been waiting for this one."""
        self.on_check: list[Callable[[Peer, Command], bool]] = []
        """Take questions how a transaction ended; the first that says True has its group."""
        self._producers: set[str] = set()
        self._consumers: dict[str, JoinedGroup] = {}
        self._told: dict[str, frozenset[str]] = {}
        """Producer groups that a broker was told of, on the connection that is open, by address."""
        self._is_kept_fresh = False

    def join_as_producer(self, group: str) -> None:
        """Name a producer group in heartbeats, from now on.

        Raises:
            ClientError: This instance has a producer of that group.
        """
        if group in self._producers:
            raise ClientError(_TWICE.format("producer", group))
        self._producers.add(group)
        self._keep_fresh()

    def join_as_consumer(self, group: str, consumer: JoinedGroup) -> None:
        """Name a consumer group with its subscriptions in heartbeats, from now on.

        Raises:
            ClientError: This instance has a consumer of that group.
        """
        if group in self._consumers:
            raise ClientError(_TWICE.format("consumer", group))
        self._consumers[group] = consumer
        self._keep_fresh()

    async def leave(self, *, producer: str = "", consumer: str = "") -> None:
        """Take a group out that has joined, and tell the brokers that can be reached."""
        self._producers.discard(producer)
        self._consumers.pop(consumer, None)
        header = UnregisterClient(
            client_id=self.client_id,
            producer_group=producer or None,
            consumer_group=consumer or None,
        )
        async with asyncio.TaskGroup() as group:
            for address in self.routes.broker_addresses(masters_only=False):
                if self.connections.open_channel(address) is not None:
                    group.create_task(self._leave(address, header))

    async def _leave(self, address: str, header: UnregisterClient) -> None:
        try:
            await self.connections.call(address, RequestCode.UNREGISTER_CLIENT, header)
        except ClientError as error:
            _log.info("broker not told that we leave", broker=address, error=str(error))

    def _keep_fresh(self) -> None:
        if not self._is_kept_fresh:
            self._is_kept_fresh = True
            self.tasks.spawn(self._refresh_routes(), "refresh routes")
            self.tasks.spawn(self._heartbeats(), "heartbeats")

    async def _refresh_routes(self) -> None:
        while True:
            await asyncio.sleep(self.settings.route_refresh_ms / 1000)
            await self.routes.refresh_all()

    async def _heartbeats(self) -> None:
        while True:
            await asyncio.sleep(self.settings.heartbeat_ms / 1000)
            await self.heartbeat_all()

    async def heartbeat_all(self) -> None:
        """Tell every broker of the routes in use who we are; failures are logged."""
        addresses = self.routes.broker_addresses(masters_only=not self._consumers)
        async with asyncio.TaskGroup() as group:
            for address in addresses:
                group.create_task(self.heartbeat(address))

    async def heartbeat(self, address: str) -> None:
        """Tell one broker who we are."""
        producers = sorted(self._producers)
        body = bodies.encode(
            HeartbeatData(
                client_id=self.client_id,
                producers=producers,
                consumers=[one.heartbeat() for one in self._consumers.values()],
            )
        )
        try:
            await self.connections.call(address, RequestCode.HEART_BEAT, None, body)
        except ClientError as error:
            _log.warning("heartbeat failed", broker=address, error=str(error))
        else:
            self._told[address] = frozenset(producers)

    async def be_known_as_producer(self, group: str, address: str) -> None:
        """Make sure that a broker knows a producer group of ours, so that it can push to it."""
        if group not in self._told.get(address, ()):
            await self.heartbeat(address)

    def _opened(self, address: str) -> None:
        """Introduce ourselves on a new connection to a broker before anything else is asked."""
        self._told.pop(address, None)
        is_known = bool(self._producers or self._consumers)
        if is_known and address in self.routes.broker_addresses(masters_only=False):
            self.tasks.spawn(self._introduce(address), f"introduce to {address}")

    async def _introduce(self, address: str) -> None:
        await self.heartbeat(address)
        for told in list(self.on_broker_open):
            told()

    def _requested(self, peer: Peer, command: Command) -> None:
        """Take what a broker asks by itself; what nobody here knows is refused."""
        if command.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
            is_taken = any(take(peer, command) for take in self.on_reply)
            if not is_taken:  # too late: there is nothing that the broker could do about it
                peer.send(response(command, ResponseCode.SUCCESS))
                return
        elif command.code == RequestCode.CHECK_TRANSACTION_STATE:
            is_taken = any(take(peer, command) for take in self.on_check)
        else:
            fields = command.ext_map()
            consumer = self._consumers.get(fields.get("consumerGroup") or fields.get("group", ""))
            is_taken = consumer is not None and consumer.on_request(peer, command)
        if not is_taken and not command.is_oneway:
            remark = f" request type {command.code} not supported"
            peer.send(response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, None, remark))

    async def close(self) -> None:
        """Take leave of the brokers that can be reached, and close everything."""
        for group in list(self._producers):
            await self.leave(producer=group)
        for group in list(self._consumers):
            await self.leave(consumer=group)
        self.connections.close()
        await self.tasks.close()
