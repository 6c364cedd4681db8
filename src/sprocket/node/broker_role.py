"""A RocketMQ broker in one role: its store, open, and then everything that serves clients.

    open_role: the folder ── who may do what ──► _Opened
    serve:     Broker ── Registration, what follows a master ── rows ── ports ──► RunningBroker

`node/rocketmq` has it opened once; in a set `node/broker_set` has it opened anew for each role.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from ssl import SSLContext
from typing import TYPE_CHECKING

from sprocket.base import memory
from sprocket.base.disk import NonblockingDisk
from sprocket.base.errors import ForeignStore
from sprocket.base.place import Place
from sprocket.base.units import GIB
from sprocket.node.broker_set import Joined, Seat, join
from sprocket.node.host import Running, Site
from sprocket.node.listening import advertised_host, own_host, reachable_host, stored_ip
from sprocket.node.replicas import (
    check_role,
    choice_of,
    link_to_master,
    only_from,
    replica_rows,
    slaves_of,
)
from sprocket.rocketmq.broker.broker import Broker, Callbacks, OpenFolder
from sprocket.rocketmq.broker.rights import RuleReader, check_settings, open_rules, open_tables
from sprocket.rocketmq.codec import command, switch_frames
from sprocket.rocketmq.codec.record import ids
from sprocket.rocketmq.codec.replication import ReportReader
from sprocket.rocketmq.codec.signed_request import SignedRequests
from sprocket.rocketmq.failover import LogState, Needed
from sprocket.rocketmq.geometry import GEOMETRY_GROUPS
from sprocket.rocketmq.model.rights import SessionCredentials
from sprocket.rocketmq.remoting import Channels, Connection, MakeRequest
from sprocket.rocketmq.replication import RETRY_SECONDS, MasterLink, Slaves, TableVersions
from sprocket.rocketmq.server import broker_rows
from sprocket.rocketmq.server.client_links import ask_either, notify_either
from sprocket.rocketmq.server.dispatch import Dispatcher, Row
from sprocket.rocketmq.server.handlers.groups import notify_ids_changed
from sprocket.rocketmq.server.handlers.messages import ask_producer
from sprocket.rocketmq.server.master import (
    ROUND_SECONDS,
    MasterPlaces,
    MasterTables,
    TellingTables,
    of_master,
    of_slave,
)
from sprocket.rocketmq.server.nameservers import (
    BrokerNameServers,
    Identity,
    Registration,
    RouteLookup,
)
from sprocket.rocketmq.server.rights import Guard
from sprocket.rocketmq.server.set_roles import SetAcks, refusing_sends
from sprocket.rocketmq.settings import (
    NAMESERVER_FOLDER,
    ReplicationSettings,
    RightsSettings,
    Settings,
    TlsSettings,
)
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.queue import GroupFilter
from sprocket.rocketmq.store.recovery import RecoveryReport
from sprocket.rocketmq.store.retention import SpaceLimits
from sprocket.rocketmq.store.rights_tables import RightsTables
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.cold_reads import ColdReads
from sprocket.runtime.driver import PortPolicy, address
from sprocket.runtime.pressure import Pressure
from sprocket.runtime.slices import SLICE_WORK, Slices
from sprocket.runtime.tls_files import context_towards_servers
from sprocket.runtime.turns import Turns

if TYPE_CHECKING:
    from sprocket.rocketmq.server.grpc import GrpcService  # needs packages that may be missing

ASYNC_MEMORY_PART = 16
"""This part of the machine's memory may wait for the disk under async flush. Linux makes writers
stand still, and with them the event loop, when 15 % of what is free does."""
SET_RETRY_SECONDS = 0.5
"""How often a slave of a set tries to reach its master, at most: senders wait for it."""
SET_ROUND_SECONDS = 2.0
"""How often a slave that may become master asks for topics, groups and offsets."""

_MEANING = {
    "sync": "on the disk (one fdatasync covers everybody who waits)",
    "async": "handed to the operating system; a power cut may lose the last half second",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningBroker(Running):
    """A broker that lets clients in."""

    name: str
    broker: Broker
    channels: Channels
    """What the broker asks of its clients."""
    pressure: Pressure
    """How much waits for the disk."""
    joined: Joined | None = None
    """What a broker in a set has beside others."""
    grpc: "GrpcService | None" = None
    """What serves SDKs of RocketMQ 5."""

    def state(self) -> LogState:
        """Return what the log of a broker in a set is like."""
        assert self.joined is not None, "asked of a broker in a set"
        store, slaves, epochs = self.broker.store, self.broker.slaves, self.joined.epochs
        return LogState(
            epoch=max(epochs.epochs.last, 0),
            promised=max(epochs.promised, 0),
            end=store.written,
            confirmed=0 if slaves is None else slaves.confirmed,
            tables=self.broker.tables_version,
        )

    def require(self, needed: Needed) -> None:
        """Acknowledge nothing from now on that one of some members has not."""
        if self.broker.slaves is not None and self.joined is not None:
            may = self.joined.seat.may_acknowledge
            self.broker.slaves.require(SetAcks(needed, may))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Opened:
    """A store in its role, before anybody is served.

    Attributes:
        site: Where it is served.
        settings: All groups, with the role.
        seat: In a set; None alone.
        joined: What a set adds to the store.
        host: What clients are told.
        stored_host: What records hold.
        disk: Of the store; does not wait for it where reads say so.
        store: Open.
        subscriptions: What the store tries messages on; the broker fills it.
        rights: Who may do what; None if everybody may do everything.
    """

    site: Site
    settings: Settings
    seat: Seat | None
    joined: Joined | None
    host: str
    stored_host: str
    disk: NonblockingDisk
    store: Store
    subscriptions: dict[str, Sequence[GroupFilter]]
    rights: RightsTables | RuleReader | None


async def open_role(
    site: Site, settings: Settings, seat: Seat | None = None
) -> Callable[[], Awaitable[RunningBroker]]:
    """Open the store, in the role that the settings say; in a set, that of `seat`."""
    place = site.place
    # The broker's address goes into every record, so it is known before there is a broker.
    host, stored_host = advertised_host(settings.server), await stored_ip(settings.server)
    check_role(settings)
    _refuse_foreign(place, site.other_folders)
    is_given = any(name.startswith(GEOMETRY_GROUPS) for name in site.given.origins)
    disk = NonblockingDisk(place.disk)
    subscriptions: dict[str, Sequence[GroupFilter]] = {}
    if settings.rights.is_guarded:
        check_settings(settings.rights)
    store = await site.open(
        lambda step: Store.open(
            disk,
            place.folder,
            settings.store,
            place.clock,
            settings.geometry if is_given else None,
            subscriptions,
            step=step,
            # A master that pads damage would have another log than its epochs say.
            follows=settings.replication.is_slave or seat is not None,
        )
    )
    joined = None if seat is None else await join(seat, place, store)
    opened = _Opened(
        site=site,
        settings=settings,
        seat=seat,
        joined=joined,
        host=host,
        stored_host=stored_host,
        disk=disk,
        store=store,
        subscriptions=subscriptions,
        rights=await _open_rights(site, settings),
    )
    return lambda: _serve(opened)


async def _open_rights(site: Site, settings: Settings) -> RightsTables | RuleReader | None:
    """Return who may do what; opened after the store, whose lock says that the folder is ours."""
    disk, folder, own = site.place.disk, site.place.folder, settings.rights
    if own.authentication:
        return await site.open(lambda _: open_tables(disk, folder, own))
    if own.rules_path:  # a file of a few lines, before anybody is served
        return open_rules(disk, own, settings.broker.cluster)
    return None


async def _serve(opened: _Opened) -> RunningBroker:
    """Let clients in, and begin to register, to follow or to be followed."""
    site, settings, seat = opened.site, opened.settings, opened.seat
    loop, parts, clock = asyncio.get_running_loop(), site.parts, site.place.clock
    channels, pressure = Channels(clock, loop), _pressure(settings)
    nameservers = BrokerNameServers(_nameservers(settings, site))
    broker = _broker(opened, pressure, nameservers)
    registration = _registration(opened, broker, nameservers)
    following = _following(opened, broker, registration)
    link = None if following is None else following.link
    choice = choice_of(settings.replication, broker.slaves, link)
    slices = Slices(broker.reads, Turns(loop, SLICE_WORK), clock)
    routes = RouteLookup(nameservers.channels, clock)
    parts.push_async_callback(routes.stop)
    rows = [
        *broker_rows.of_clients(broker, channels, routes, settings.broker.name, choice),
        *broker_rows.of_administrators(broker, registration, settings, slices, link),
    ]
    rows, unknown = _in_role(opened, rows, broker.slaves), None
    if broker.known_rights is not None:
        guard = Guard(broker.known_rights, settings.rights, settings.broker.cluster)
        rows, unknown = guard.guarded(rows), guard.unknown
    broker.start()
    parts.push_async_callback(broker.stop)
    parts.callback(slices.stop)
    codec = partial(Connection, frame_bytes_max=settings.server.frame_bytes_max)
    policy = PortPolicy(pressure=pressure)
    await site.listen("broker", codec, Dispatcher(rows, channels.answered, unknown), policy)
    if "vip" in site.ports:
        allowed = [row for row in rows if row.code not in broker_rows.NOT_ON_VIP]
        await site.listen("vip", codec, Dispatcher(allowed, channels.answered, unknown), policy)
    grpc = None
    if "grpc" in site.ports and not settings.replication.is_slave:
        grpc = await _serve_grpc(opened, broker, policy)
    parts.push_async_callback(broker.quiesce)
    parts.push_async_callback(registration.stop)
    if broker.slaves is not None:
        await _let_slaves_in(opened, broker.slaves)
        if seat is not None:
            telling = TellingTables(loop, broker.slaves, broker)
            parts.callback(telling.stop)
            telling.start()
    await registration.start()
    if following is not None:
        following.link.start()
        parts.push_async_callback(following.link.stop)
        following.tables.start()
        parts.push_async_callback(following.tables.stop)
    told_grpc = "" if grpc is None else address(reachable_host(settings.server), site.ports["grpc"])
    name = settings.broker.name
    return RunningBroker(
        ready={
            "broker": registration.identity.address,
            **({"grpc": told_grpc} if told_grpc else {}),
            "data": site.place.folder,
        },
        rows=_told(opened, registration.identity, told_grpc),
        refusals=lambda: {} if broker.refusal is None else {f"broker {name}": broker.refusal},
        name=name,
        broker=broker,
        channels=channels,
        pressure=pressure,
        joined=opened.joined,
        grpc=grpc,
    )


def _broker(opened: _Opened, pressure: Pressure, nameservers: BrokerNameServers) -> Broker:
    """Return what does what clients ask."""
    site, settings, store = opened.site, opened.settings, opened.store
    place, loop = site.place, asyncio.get_running_loop()
    reads = ColdReads(opened.disk, settings.limits.cold_reads_max)
    slaves = None
    if settings.lets_slaves_in:
        slaves = slaves_of(store, reads, loop, place.clock, settings.replication, opened.joined)
    return Broker(
        OpenFolder(place, store, reads, opened.subscriptions, opened.rights),
        settings,
        ids.host_bytes(opened.stored_host, site.ports["broker"]),
        Callbacks(
            notify=notify_either(notify_ids_changed),
            ask=ask_either(ask_producer),
            topics_changed=nameservers.note,
        ),
        pressure,
        slaves,
    )


def _registration(opened: _Opened, broker: Broker, nameservers: BrokerNameServers) -> Registration:
    """Return what tells NameServers of this broker."""
    site, settings, seat = opened.site, opened.settings, opened.seat
    own = settings.broker
    identity = Identity(
        name=own.name,
        cluster=own.cluster,
        address=address(opened.host, site.ports["broker"]),
        broker_id=settings.replication.broker_id,
        slaves_address=(
            "" if broker.slaves is None else address(opened.host, site.ports["slaves"])
        ),
    )
    return Registration(
        identity,
        broker.topics,
        nameservers,
        own.register_seconds,
        site.place.clock,
        tls=nameserver_tls(settings.tls),
        make_request=signed_requests(settings.rights),
        epoch=0 if seat is None else seat.role.epoch,
        known_master=None if seat is None else seat.master,
    )


@dataclass(frozen=True, slots=True)
class _Following:
    """What a slave has of its master: the log, and the tables."""

    link: MasterLink
    tables: MasterTables


def _following(opened: _Opened, broker: Broker, registration: Registration) -> _Following | None:
    """Return what follows a master, in a slave."""
    settings, is_in_set = opened.settings, opened.seat is not None
    own, clock = settings.replication, opened.site.place.clock
    if not own.is_slave:
        return None
    signed = signed_requests(settings.rights)
    tls = brokers_tls(settings.tls)
    master = MasterPlaces(own.master_address, registration, clock, signed, tls)
    versions = TableVersions()
    retry_seconds = SET_RETRY_SECONDS if is_in_set else RETRY_SECONDS
    link = link_to_master(broker, own, opened.joined, versions, master, retry_seconds)
    versions.when_had(link.report_soon)
    own_users = frozenset({settings.rights.initial_user, settings.rights.inner_user})
    memory.keep_freed()
    round_seconds = SET_ROUND_SECONDS if is_in_set else ROUND_SECONDS
    return _Following(link, MasterTables(broker, master, versions, own_users, round_seconds))


def _in_role(opened: _Opened, rows: list[Row], slaves: Slaves | None) -> list[Row]:
    """Return rows that refuse what the role does not allow, and those of a set."""
    seat, own = opened.seat, opened.settings.replication
    if own.is_slave:
        rows = of_slave(rows, is_read=own.slave_reads)
    if seat is not None:
        takes_sends = seat.takes_sends
        if slaves is not None:
            rows = refusing_sends(rows, lambda: not takes_sends())
        return [*rows, *seat.rows(), *_epoch_rows(opened)]
    if slaves is not None and _waits_for_few(own):
        return of_master(rows, slaves)
    return rows


def _epoch_rows(opened: _Opened) -> list[Row]:
    """Return the rows that tell of the epochs of a log."""
    from sprocket.rocketmq.server.handlers.admin import EpochHandlers

    own, joined = opened.settings, opened.joined
    assert joined is not None
    number = own.ha.member_id
    return EpochHandlers(
        own.broker.cluster, own.broker.name, number, joined.epochs, opened.store
    ).rows()


def _waits_for_few(own: ReplicationSettings) -> bool:
    """Tell whether a master outside a set stores nothing while too few slaves are in sync."""
    return own.role == "sync_master" and own.in_sync_count_min > 1


async def _let_slaves_in(opened: _Opened, slaves: Slaves) -> None:
    """Serve the log to those that come for it."""
    on_frame = only_from(opened.settings.replication.networks, slaves.on_frame)
    codec = ReportReader if opened.seat is None else switch_frames.slave_frames
    await opened.site.listen("slaves", codec, on_frame, PortPolicy(reads_on_when_slow=True))


async def _serve_grpc(opened: _Opened, broker: Broker, policy: PortPolicy) -> "GrpcService":
    """Let SDKs of RocketMQ 5 in."""
    from sprocket.rocketmq.server.grpc import GrpcPlace, GrpcService

    site, settings = opened.site, opened.settings
    refusal = _refusal(opened, broker.slaves)
    told = GrpcPlace(settings.server.advertised_host, site.ports["grpc"], refusal)
    service = GrpcService(broker, settings, told)
    service.start()
    await site.listen("grpc", service.connection, service.dispatcher, service.policy(policy))
    site.parts.push_async_callback(service.stop)
    return service


def _refusal(opened: _Opened, slaves: Slaves | None) -> Callable[[], str] | None:
    """Return what says why messages may not be stored now; None if they always may."""
    if opened.seat is not None:
        takes_sends = opened.seat.takes_sends
        return lambda: "" if takes_sends() else "this broker may not be the master any more"
    if slaves is not None and _waits_for_few(opened.settings.replication):
        return lambda: "in-sync replicas not enough" if slaves.are_too_few else ""
    return None


def _pressure(settings: Settings) -> Pressure:
    """Return what says how much may wait for the disk."""
    limits = settings.limits
    if settings.store.flush == "sync":
        return Pressure(limits.unsynced_bytes_max, limits.connection_unsynced_bytes_max)
    whole = memory.whole_bytes()
    unsynced = limits.async_unsynced_bytes_max or min(whole // ASYNC_MEMORY_PART, GIB)
    return Pressure(unsynced, limits.connection_unsynced_bytes_max)


def _nameservers(settings: Settings, site: Site) -> list[str]:
    """Return every NameServer to register with, this process's own first."""
    own = site.ports.get("nameserver")
    mine = [] if own is None else [address(own_host(settings.server.host), own)]
    return [*mine, *settings.broker.nameservers]


def signed_requests(settings: RightsSettings) -> MakeRequest:
    """Return what makes the broker's own requests: signed by the inner user, if there is one."""
    if not (settings.authentication and settings.inner_user):
        return command.request
    return SignedRequests(SessionCredentials(settings.inner_user, settings.inner_password))


def nameserver_tls(settings: TlsSettings) -> SSLContext | None:
    """Return what the broker's connections to NameServers use, None if they are plain."""
    is_wanted = settings.to_nameservers or settings.mode == "enforcing"
    return context_towards_servers(settings) if is_wanted else None


def brokers_tls(settings: TlsSettings) -> SSLContext | None:
    """Return what connections to brokers with the same log use, None if they are plain.

    They have the same settings: one that takes no plain connections asks none.
    """
    return context_towards_servers(settings) if settings.mode == "enforcing" else None


def _refuse_foreign(place: Place, other_folders: frozenset[str]) -> None:
    """Refuse a folder that holds something and is not a store.

    Raises:
        ForeignStore: It has files, but not those of a store.
    """
    disk, folder = place.disk, place.folder
    names = [name for name in disk.list(folder) if name not in {NAMESERVER_FOLDER, *other_folders}]
    layout = StoreLayout(folder)
    marks = (layout.commitlog, layout.config, layout.lock)
    if names and not any(disk.exists(mark) for mark in marks):
        raise ForeignStore(
            f"{folder} is not a store: it holds {names[0]!r} and neither commitlog nor config"
        )


def _told(opened: _Opened, identity: Identity, grpc: str) -> Sequence[tuple[str, str]]:
    """Return what people are told when clients are let in.

    Args:
        opened: What is served.
        identity: The broker's.
        grpc: Where SDKs of RocketMQ 5 are served; empty if they are not.
    """
    site, settings = opened.site, opened.settings
    limits = SpaceLimits.of(settings.retention)
    names = ", ".join(settings.broker.nameservers)
    return [
        ("broker", f"{identity.address} ({identity.name})"),
        *([("gRPC", f"{grpc} (SDKs of RocketMQ 5)")] if grpc else []),
        *(
            []
            if "nameserver" in site.ports
            else [("NameServers", names or "none: only clients that know the address find it")]
        ),
        ("data", site.place.folder),
        ("acknowledged means", _MEANING[settings.store.flush]),
        *replica_rows(settings, identity.slaves_address),
        ("recovery", _recovery_text(opened.store.report)),
        *(("note", text) for text in limits.told(settings.retention)),
    ]


def _recovery_text(report: RecoveryReport) -> str:
    """Return what recovery did, in one line."""
    if report.end == 0:
        text = "nothing to do, the store is new"
    elif report.clean:
        text = f"nothing to do after a clean stop; {report.end:,} bytes of log"
    else:
        text = _crash_text(report)
    if report.offsets_set_back:
        groups = {key.partition("@")[2] for key in report.offsets_set_back}
        text += f"; set offsets back to the ends of their queues for {', '.join(sorted(groups))}"
    return text


def _crash_text(report: RecoveryReport) -> str:
    """Return what recovery did after a crash."""
    text = (
        f"after a crash: looked at {report.records:,} messages in {report.bytes_scanned:,} bytes, "
        f"cut {report.bytes_cut:,} bytes ({report.why}), rebuilt {report.units_rebuilt:,} queue "
        f"units and {report.index_entries_rebuilt:,} index entries, {report.seconds:.2f} s"
    )
    if report.damage:
        text += f"; stepped over damage in {len(report.damage)} places"
    return text
