"""What every client has: an identity, connections, routes, and heartbeats."""

import asyncio
import ipaddress
import itertools
import os
import socket
from collections.abc import Callable, Sequence

from sprocket.base import log
from sprocket.base.clock import Clock, SystemClock
from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.brokers import Brokers
from sprocket.rocketmq.client.connections import Connect, Connections, split_address
from sprocket.rocketmq.client.routes import NameServers, Routes, split_addresses
from sprocket.rocketmq.client.settings import ClientSettings
from sprocket.rocketmq.codec import client_bodies
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command, response
from sprocket.rocketmq.codec.headers import UnregisterClient
from sprocket.runtime import driver
from sprocket.runtime.driver import Peer
from sprocket.runtime.tasks import Tasks

_log = log.get_logger(__name__)
_numbers = itertools.count()


class Instance:
    """The part that producers, consumers, admins and pullers share.

    Args:
        nameservers: `host:port`, several joined by `;`, or a sequence of them.
        settings: Timeouts and intervals.
        clock: For deadlines and ids.
        connect: The driver's `connect`, or a double of it.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str],
        settings: ClientSettings | None,
        *,
        clock: Clock | None = None,
        connect: Connect = driver.connect,
        topic_queues: int = 4,
    ) -> None:
        text = nameservers if isinstance(nameservers, str) else ";".join(nameservers)
        addresses = split_addresses(text)
        self.settings = settings or ClientSettings()
        self.clock = clock or SystemClock()
        self.ip = local_ip(split_address(addresses[0])[0])
        nanos = int(self.clock.monotonic() * 1e9) + next(_numbers)
        self.client_id = f"{self.ip}@{os.getpid()}#{nanos}"
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
        self.routes = Routes(self.names, topic_queues=topic_queues)
        self.brokers = Brokers(self.connections, self.routes)
        self.on_ids_changed: Callable[[], None] | None = None
        """Called when a broker says that the members of a group have changed."""
        self.on_broker_open: list[Callable[[], None]] = []
        """Called after a new connection to a broker was told who we are."""
        self._producer_groups: list[str] = []
        self._consumer: Callable[[], client_bodies.ConsumerData] | None = None

    def join_as_producer(self, group: str) -> None:
        """Name a producer group in heartbeats, from now on."""
        self._producer_groups.append(group)
        self._keep_fresh()

    def join_as_consumer(self, consumer: Callable[[], client_bodies.ConsumerData]) -> None:
        """Name a consumer group with its subscriptions in heartbeats, from now on."""
        self._consumer = consumer
        self._keep_fresh()

    def _keep_fresh(self) -> None:
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
        addresses = self.routes.broker_addresses(masters_only=self._consumer is None)
        async with asyncio.TaskGroup() as group:
            for address in addresses:
                group.create_task(self.heartbeat(address))

    async def heartbeat(self, address: str) -> None:
        """Tell one broker who we are."""
        body = client_bodies.encode_heartbeat(
            client_bodies.HeartbeatData(
                client_id=self.client_id,
                producers=self._producer_groups,
                consumers=[self._consumer()] if self._consumer else [],
            )
        )
        try:
            await self.connections.call(address, RequestCode.HEART_BEAT, None, body)
        except ClientError as error:
            _log.warning("heartbeat failed", broker=address, error=str(error))

    def _opened(self, address: str) -> None:
        """Introduce ourselves on a new connection to a broker before anything else is asked."""
        is_known = bool(self._producer_groups) or self._consumer is not None
        if is_known and address in self.routes.broker_addresses(masters_only=False):
            self.tasks.spawn(self._introduce(address), f"introduce to {address}")

    async def _introduce(self, address: str) -> None:
        await self.heartbeat(address)
        for told in self.on_broker_open:
            told()

    def _requested(self, peer: Peer, command: Command) -> None:
        """Take what a broker asks by itself; what this client does not offer is refused."""
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            if self.on_ids_changed is not None:
                self.on_ids_changed()
        elif not command.is_oneway:
            remark = f" request type {command.code} not supported"
            peer.send(response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, None, remark))

    async def close(self) -> None:
        """Take leave of the brokers that can be reached, and close everything."""
        addresses = [
            address
            for address in self.routes.broker_addresses(masters_only=False)
            if self.connections.open_channel(address) is not None
        ]
        async with asyncio.TaskGroup() as group:
            for address in addresses:
                group.create_task(self._leave(address))
        self.connections.close()
        await self.tasks.close()

    async def _leave(self, address: str) -> None:
        consumer = self._consumer().group if self._consumer is not None else None
        leaving: list[tuple[str | None, str | None]] = [
            (group, None) for group in self._producer_groups
        ]
        if consumer is not None:
            leaving.append((None, consumer))
        for producer_group, consumer_group in leaving:
            header = UnregisterClient(
                client_id=self.client_id,
                producer_group=producer_group,
                consumer_group=consumer_group,
            )
            try:
                await self.connections.call(address, RequestCode.UNREGISTER_CLIENT, header)
            except ClientError as error:
                _log.info("broker not told that we leave", broker=address, error=str(error))


def local_ip(towards: str) -> str:
    """Return this machine's address on the way to `towards`, an IP address; nothing is sent.

    It only makes ids readable and unlikely to repeat, so any failure gives 127.0.0.1.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((str(ipaddress.IPv4Address(towards)), 9))
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return "127.0.0.1"
