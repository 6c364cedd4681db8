"""One process: a broker, and perhaps a NameServer, in one event loop.

They meet over TCP like any other two: the broker registers with its own NameServer through a
connection of its own.
"""

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass

from sprocket.base.clock import Clock, SystemClock
from sprocket.base.disk import Disk, NonblockingDisk, RealDisk
from sprocket.base.errors import ForeignStore
from sprocket.base.units import GIB
from sprocket.node import administration
from sprocket.node.encryption import client_context
from sprocket.node.listening import Listening, address, advertised_host, own_host, stored_ip
from sprocket.node.names import NameServerNode
from sprocket.node.opening import OpeningWatch, Say, open_store
from sprocket.rocketmq.broker.broker import Broker
from sprocket.rocketmq.broker.registration import Identity, Registration, split_address
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.record import ids
from sprocket.rocketmq.remoting import Dispatcher, Row
from sprocket.rocketmq.server.calls import ClientCalls
from sprocket.rocketmq.server.handlers.groups import (
    AssignmentHandlers,
    ClientHandlers,
    OffsetHandlers,
    RelayHandlers,
    ResetHandlers,
    notify_ids_changed,
)
from sprocket.rocketmq.server.handlers.messages import (
    PullHandlers,
    QueryHandlers,
    ReplyHandlers,
    RetryHandlers,
    SendHandlers,
)
from sprocket.rocketmq.server.route_lookup import RouteLookup
from sprocket.rocketmq.settings import Geometry, Settings
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.cold_reads import ColdReads
from sprocket.runtime.pressure import Pressure
from sprocket.runtime.slices import Slices

NOT_ON_VIP = frozenset(
    {
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.POP_MESSAGE,
        RequestCode.PEEK_MESSAGE,
        RequestCode.NOTIFICATION,
        RequestCode.POLLING_INFO,
    }
)
"""What a broker does not answer on its second port, so that pulls never crowd out sends there."""
VIP_DISTANCE = 2
"""How far below a broker's port its second one is; clients work it out by themselves."""
ASYNC_MEMORY_PART = 16
"""This part of the machine's memory may wait for the disk under async flush. Linux makes writers
stand still, and with them the event loop, when 15 % of what is free does."""
NAMESERVER_FOLDER = "namesrv"
"""What the NameServer of this process keeps, in the store's folder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Addresses:
    """Where a node can be reached, `host:port` each."""

    nameserver: str
    """Empty if there is none in this process."""
    broker: str


class Node:
    """A broker that runs, perhaps with a NameServer of its own; made by `start`.

    Threads: event loop only.
    """

    def __init__(
        self,
        addresses: Addresses,
        broker: Broker,
        broker_name: str,
        calls: ClientCalls,
        pressure: Pressure,
        parts: AsyncExitStack,
    ) -> None:
        self.addresses = addresses
        self.broker = broker
        self.broker_name = broker_name
        self.calls = calls
        """What the broker asks of its clients."""
        self.pressure = pressure
        """How much waits for the disk."""
        self.report = broker.store.report
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
        has_nameserver: bool = True,
        say: Say | None = None,
    ) -> "Node":
        """Take the ports, open the store, listen, register.

        Nobody is let in before the store is open. If this is cancelled meanwhile the opening ends
        at its next step, and the next start goes on.

        Args:
            settings: All groups.
            folder: The store's folder; made if it is not there.
            disk: Where it lies; the machine's by default.
            clock: The machine's by default.
            geometry: Of the store's files, if the caller insists on one; None takes an existing
                store's own, and the default for a new one.
            has_nameserver: Whether to run a NameServer too; its port then counts.
            say: Takes lines that tell people how far a long opening is.

        Raises:
            StoreError: The folder is another's, locked or damaged.
            SettingsError: A port is in use, or an address none of this machine.
        """
        disk = disk or RealDisk()
        clock = clock or SystemClock()
        host, stored_host = advertised_host(settings.server), await stored_ip(settings.server)
        async with AsyncExitStack() as parts:
            # The broker's port goes into every record, so it is known before there is a broker.
            server = settings.server
            listening = Listening.of(settings, disk, clock)
            names_port = None
            if has_nameserver:
                names_port = await listening.bind(server.nameserver_port)
                parts.callback(names_port.close)
            port = await listening.bind(server.broker_port)
            parts.callback(port.close)
            vip_port = None
            if server.vip_port and server.broker_port > VIP_DISTANCE:
                vip_port = await listening.bind(port.port - VIP_DISTANCE)
                parts.callback(vip_port.close)
            _refuse_foreign(disk, folder)
            warm = NonblockingDisk(disk)
            store = await open_store(
                OpeningWatch(say, clock),
                lambda step: Store.open(warm, folder, settings.store, clock, geometry, step=step),
            )
            parts.callback(store.close)
            names = None
            if names_port is not None:
                names = await NameServerNode.start(
                    settings,
                    f"{folder}/{NAMESERVER_FOLDER}",
                    disk=disk,
                    clock=clock,
                    bound=names_port,
                )
                parts.push_async_callback(names.stop)
            calls = ClientCalls(asyncio.get_running_loop())
            pressure = _pressure(settings)
            store_host = ids.host_bytes(stored_host, port.port)
            reads = ColdReads(warm, settings.limits.cold_reads_max)
            broker = Broker(
                disk,
                folder,
                store,
                reads,
                clock,
                settings,
                store_host,
                notify_ids_changed,
                pressure,
            )
            addresses = Addresses(
                nameserver="" if names is None else names.address,
                broker=address(host, port.port),
            )
            nameservers = _nameservers(settings, names)
            registration = _registration(settings, broker, addresses.broker, nameservers)
            slices = Slices(reads, asyncio.get_running_loop().call_soon, clock)
            routes = RouteLookup(
                [split_address(one) for one in nameservers],
                calls,
                clock,
                client_context(settings.tls),
            )
            parts.push_async_callback(routes.stop)
            rows = _rows(broker, calls, routes, settings.broker.name, clock)
            rows += administration.rows(broker, registration, settings, clock, disk, folder, slices)
            dispatcher = Dispatcher(rows, calls.answered)
            broker.start()
            parts.push_async_callback(broker.stop)
            parts.callback(slices.stop)
            remoting = await listening.open(dispatcher, port, pressure)
            parts.push_async_callback(remoting.close)
            if vip_port is not None:
                allowed = Dispatcher(
                    [row for row in rows if row.code not in NOT_ON_VIP], calls.answered
                )
                vip = await listening.open(allowed, vip_port, pressure)
                parts.push_async_callback(vip.close)
            parts.push_async_callback(broker.settle)
            parts.push_async_callback(registration.stop)
            await registration.start()
            name = settings.broker.name
            return cls(addresses, broker, name, calls, pressure, parts.pop_all())
        raise AssertionError("unreachable")

    async def stop(self) -> None:
        """Take leave, answer what waits, close everything; what was answered is on the disk."""
        await self._parts.aclose()


def _pressure(settings: Settings) -> Pressure:
    """Return what says how much may wait for the disk."""
    limits = settings.limits
    if settings.store.flush == "sync":
        return Pressure(limits.unsynced_bytes_max, limits.connection_unsynced_bytes_max)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    unsynced = limits.async_unsynced_bytes_max or min(memory // ASYNC_MEMORY_PART, GIB)
    return Pressure(unsynced, limits.connection_unsynced_bytes_max)


def _nameservers(settings: Settings, own: NameServerNode | None) -> list[str]:
    """Return every NameServer to register with, this process's own first."""
    mine = [] if own is None else [address(own_host(settings.server.host), own.port)]
    return [*mine, *settings.broker.nameservers]


def _registration(
    settings: Settings, broker: Broker, told: str, nameservers: list[str]
) -> Registration:
    identity = Identity(name=settings.broker.name, cluster=settings.broker.cluster, address=told)
    return Registration(
        identity,
        broker.topics,
        nameservers,
        settings.broker.register_seconds,
        asyncio.get_running_loop(),
        tls=client_context(settings.tls),
    )


def _rows(
    broker: Broker, calls: ClientCalls, routes: RouteLookup, name: str, clock: Clock
) -> list[Row]:
    """Return what clients may ask of a broker, each handler with the parts that it needs."""
    store, topics, groups = broker.store, broker.topics, broker.groups
    members, reads, host = broker.members, broker.reads, broker.store_host
    return [
        *SendHandlers(broker.sender, broker.durable, host).rows(),
        *RetryHandlers(broker.send_back, broker.durable, broker.stats, topics).rows(reads),
        *PullHandlers(
            broker.puller,
            broker.hold,
            reads,
            broker.stats,
            lambda peer: peer.when_closed(broker.left),
        ).rows(),
        *OffsetHandlers(store, topics, groups, broker.offsets).rows(reads),
        *ClientHandlers(members, groups, topics, broker.locks, broker.left).rows(),
        *QueryHandlers(broker.queries, members).rows(reads),
        *ReplyHandlers(broker.sender, broker.durable, members, calls, host, clock.now_ms).rows(),
        *RelayHandlers(members, topics, groups, store, calls, name).rows(reads),
        *ResetHandlers(store, topics, groups, members, broker.offsets, broker.hold, name).rows(
            reads
        ),
        *AssignmentHandlers(members, topics, broker.request_modes, routes, name).rows(),
    ]


def _refuse_foreign(disk: Disk, folder: str) -> None:
    """Leave a folder alone that holds something and is no store.

    Raises:
        ForeignStore: There are files, and none of a store's.
    """
    names = [name for name in disk.list(folder) if name != NAMESERVER_FOLDER]
    layout = StoreLayout(folder)
    marks = (layout.commitlog, layout.config, layout.lock)
    if names and not any(disk.exists(mark) for mark in marks):
        raise ForeignStore(
            f"{folder} is no store: it holds {names[0]!r} and neither commitlog nor config"
        )
