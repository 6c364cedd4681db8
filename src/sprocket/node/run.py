"""One process: a NameServer and a broker in one event loop.

They meet over TCP like any other two: the broker registers with its own NameServer through a
connection of its own.
"""

import asyncio
import ipaddress
from contextlib import AsyncExitStack
from dataclasses import dataclass

from sprocket.base.clock import Clock, SystemClock
from sprocket.base.disk import Disk, RealDisk
from sprocket.base.errors import ForeignStore, SettingsError
from sprocket.rocketmq.broker.broker import Broker
from sprocket.rocketmq.broker.registration import Identity, Registration
from sprocket.rocketmq.codec import ids
from sprocket.rocketmq.codec.connection import Connection
from sprocket.rocketmq.nameserver.nameserver import NameServer
from sprocket.rocketmq.server.dispatch import Dispatcher
from sprocket.rocketmq.server.handlers.clients import ClientHandlers, notify_ids_changed
from sprocket.rocketmq.server.handlers.names import NameHandlers
from sprocket.rocketmq.server.handlers.offsets import OffsetHandlers
from sprocket.rocketmq.server.handlers.pull import PullHandlers
from sprocket.rocketmq.server.handlers.queries import QueryHandlers
from sprocket.rocketmq.server.handlers.send import SendHandlers
from sprocket.rocketmq.server.handlers.status import StatusHandlers
from sprocket.rocketmq.server.handlers.topics import TopicHandlers
from sprocket.rocketmq.server.watch import Watch
from sprocket.rocketmq.settings import Geometry, ServerSettings, Settings
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.recovery import RecoveryReport
from sprocket.rocketmq.store.store import Store
from sprocket.runtime import driver
from sprocket.runtime.driver import ConnectionSettings, Server


@dataclass(frozen=True, kw_only=True, slots=True)
class Addresses:
    """Where a node can be reached, `host:port` each."""

    nameserver: str
    broker: str


class Node:
    """A NameServer and a broker that run; made by `start`.

    Threads: event loop only.
    """

    def __init__(self, addresses: Addresses, report: RecoveryReport, parts: AsyncExitStack) -> None:
        self.addresses = addresses
        self.report = report
        """What recovery did when the store was opened."""
        self._parts = parts

    @classmethod
    async def start(
        cls,
        settings: Settings,
        folder: str,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        geometry: Geometry | None = None,
    ) -> "Node":
        """Open the store, listen, register.

        Args:
            settings: All groups.
            folder: The store's folder; made if it is not there.
            disk: Where it lies; the machine's by default.
            clock: The machine's by default.
            geometry: Of the store's files, if the caller insists on one; None takes an existing
                store's own, and the default for a new one.

        Raises:
            StoreError: The folder is another's, locked or damaged.
            SettingsError: A port is in use, or an address none of this machine.
        """
        disk = disk or RealDisk()
        clock = clock or SystemClock()
        host = _advertised_host(settings.server)
        async with AsyncExitStack() as parts:
            names = await _start_nameserver(settings, clock, parts)
            # Its port goes into every record, so it listens before there is a broker.
            dispatcher = Dispatcher({})
            remoting = await _listen(dispatcher, settings.server, settings.server.broker_port)
            parts.push_async_callback(remoting.close)
            _refuse_foreign(disk, folder)
            store = Store.open(disk, folder, settings.store, clock, geometry)
            parts.callback(store.close)
            store_host = ids.host_bytes(host, remoting.port)
            broker = Broker(disk, folder, store, clock, settings, store_host, notify_ids_changed)
            addresses = Addresses(
                nameserver=_address(_told_host(settings.server), names.port),
                broker=_address(host, remoting.port),
            )
            own = _address(_own_host(settings.server.host), names.port)
            registration = _registration(settings, broker, addresses.broker, own)
            _serve(dispatcher, broker, registration, settings, clock, disk, folder)
            broker.start()
            parts.push_async_callback(broker.stop)
            parts.push_async_callback(remoting.close)
            parts.push_async_callback(broker.settle)
            parts.push_async_callback(registration.stop)
            await registration.start()
            return cls(addresses, store.report, parts.pop_all())
        raise AssertionError("unreachable")

    async def stop(self) -> None:
        """Take leave, answer what waits, close everything; what was answered is on the disk."""
        await self._parts.aclose()


async def _start_nameserver(settings: Settings, clock: Clock, parts: AsyncExitStack) -> Server:
    nameserver = NameServer(clock, settings.nameserver)
    nameserver.start()
    parts.push_async_callback(nameserver.stop)
    dispatcher = Dispatcher(NameHandlers(nameserver.routes).table())
    server = await _listen(dispatcher, settings.server, settings.server.nameserver_port)
    parts.push_async_callback(server.close)
    return server


def _registration(
    settings: Settings, broker: Broker, address: str, own_nameserver: str
) -> Registration:
    identity = Identity(name=settings.broker.name, cluster=settings.broker.cluster, address=address)
    return Registration(
        identity,
        broker.topics,
        [own_nameserver, *settings.broker.nameservers],
        settings.broker.register_seconds,
        asyncio.get_running_loop(),
    )


def _serve(
    dispatcher: Dispatcher,
    broker: Broker,
    registration: Registration,
    settings: Settings,
    clock: Clock,
    disk: Disk,
    folder: str,
) -> None:
    """Give every code of the broker its handler, each handler the parts that it needs."""
    store = broker.store
    watch = Watch(broker.left)
    for handlers in (
        SendHandlers(broker.sender, broker.durable, broker.store_host),
        PullHandlers(broker.puller, broker.hold, broker.thread, broker.stats, watch),
        OffsetHandlers(store, broker.topics, broker.groups, broker.offsets),
        ClientHandlers(broker.members, broker.groups, broker.topics, broker.locks, watch),
        TopicHandlers(store, broker.topics, settings.broker.name, registration.when_told),
        QueryHandlers(broker.queries),
        StatusHandlers(store, broker.stats, broker.hold, clock, lambda: disk.used_ratio(folder)),
    ):
        dispatcher.add(handlers.table())


def _refuse_foreign(disk: Disk, folder: str) -> None:
    """Leave a folder alone that holds something and is no store.

    Raises:
        ForeignStore: There are files, and none of a store's.
    """
    names = disk.list(folder)
    layout = StoreLayout(folder)
    marks = (layout.commitlog, layout.config, layout.lock)
    if names and not any(disk.exists(mark) for mark in marks):
        raise ForeignStore(
            f"{folder} is no store: it holds {names[0]!r} and neither commitlog nor config"
        )


async def _listen(dispatcher: Dispatcher, settings: ServerSettings, port: int) -> Server:
    """Listen on one port. Raises SettingsError if that cannot be."""
    try:
        return await driver.serve(
            lambda: Connection(frame_bytes_max=settings.frame_bytes_max),
            dispatcher,
            settings.host,
            port,
            settings=ConnectionSettings(idle_seconds_max=settings.idle_close_seconds),
        )
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {settings.host}:{port}: {error.strerror or error}"
        ) from error


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _own_host(host: str) -> str:
    """Return where this process reaches itself when it listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "localhost": "127.0.0.1"}.get(host, host)  # noqa: S104


def _told_host(settings: ServerSettings) -> str:
    """Return where clients reach the NameServer."""
    own = _own_host(settings.host)
    return own if own == settings.host else settings.advertised_host or own


def _advertised_host(settings: ServerSettings) -> str:
    """Return the address that clients are told, which ids of messages hold too.

    Raises:
        SettingsError: It is no address, or one that no client can reach.
    """
    host = settings.advertised_host or settings.host
    if host == "localhost":
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(host)
    except ValueError as error:
        raise SettingsError(
            f"server.advertised_host: {host!r} is no IP address, and clients must be told one"
        ) from error
    if address.is_unspecified:
        raise SettingsError(
            f"server.advertised_host is needed when listening on {host}: the address that clients "
            "are told to reach the broker at"
        )
    return str(address)
