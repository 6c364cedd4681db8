"""RocketMQ's two servers, a NameServer and a broker, each alone or both in one process.

They meet over TCP like any other two: the broker registers with its own NameServer through a
connection of its own. What they are made of is imported when they are opened, so that whoever only
asks for their settings does not pay for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sprocket.base import memory
from sprocket.base.clock import Clock
from sprocket.base.disk import Disk
from sprocket.base.errors import ForeignStore, SettingsError
from sprocket.base.place import Place
from sprocket.base.settings import Loaded
from sprocket.base.units import GIB
from sprocket.node.host import Host, Product, Running, Serve, Site
from sprocket.rocketmq.aliases import read_broker_conf, read_nameserver_conf
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.settings import (
    ReplicationSettings,
    RightsSettings,
    ServerSettings,
    Settings,
    TlsSettings,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from ssl import SSLContext

    from sprocket.node.broker_set import Joined, Seat
    from sprocket.rocketmq.broker.broker import Broker
    from sprocket.rocketmq.broker.delivery import ReplicaChoice
    from sprocket.rocketmq.broker.rights import RuleReader
    from sprocket.rocketmq.codec.config import JsonValue
    from sprocket.rocketmq.failover import LogState, Needed
    from sprocket.rocketmq.remoting import Channels, MakeRequest
    from sprocket.rocketmq.replication import (
        FollowingLog,
        MasterLink,
        SlaveFrame,
        Slaves,
        TableVersions,
    )
    from sprocket.rocketmq.server.grpc import GrpcService
    from sprocket.rocketmq.server.master import MasterPlaces
    from sprocket.rocketmq.store.queue import GroupFilter
    from sprocket.rocketmq.store.recovery import RecoveryReport
    from sprocket.rocketmq.store.rights_tables import RightsTables
    from sprocket.rocketmq.store.store import Store
    from sprocket.runtime.cold_reads import Reads
    from sprocket.runtime.driver import Peer, PortPolicy
    from sprocket.runtime.pressure import Pressure
    from sprocket.runtime.timers import Timers

VIP_DISTANCE = 2
"""How far below a broker's port its second one is; clients compute it."""
GRPC_PORT = 8081
"""Where SDKs of RocketMQ 5 look for a proxy."""
GRPC_PACKAGES = ("google.protobuf", "hpack")
ASYNC_MEMORY_PART = 16
"""This part of the machine's memory may wait for the disk under async flush. Linux makes writers
stand still, and with them the event loop, when 15 % of what is free does."""
SET_RETRY_SECONDS = 0.5
"""How often a slave of a set tries to reach its master, at most: senders wait for it."""
SET_ROUND_SECONDS = 2.0
"""How often a slave that may become master asks for topics, groups and offsets."""
NAMESERVER_FOLDER = "namesrv"
"""What the NameServer keeps, in a store's folder."""
GEOMETRY_GROUPS = ("log.", "queue.", "index.", "compaction_files.")

_MEANING = {
    "sync": "on the disk (one fdatasync covers everybody who waits)",
    "async": "handed to the operating system; a power cut may lose the last half second",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningBroker(Running):
    """A broker that lets clients in."""

    name: str
    broker: "Broker"
    channels: "Channels"
    """What the broker asks of its clients."""
    pressure: "Pressure"
    """How much waits for the disk."""
    joined: "Joined | None" = None
    """What a broker in a set has beside others."""
    grpc: "GrpcService | None" = None
    """What serves SDKs of RocketMQ 5."""

    def state(self) -> "LogState":
        """Return what the log of a broker in a set is like."""
        from sprocket.rocketmq.failover import LogState

        assert self.joined is not None, "asked of a broker in a set"
        store, slaves, epochs = self.broker.store, self.broker.slaves, self.joined.epochs
        return LogState(
            epoch=max(epochs.epochs.last, 0),
            promised=max(epochs.promised, 0),
            end=store.written,
            confirmed=0 if slaves is None else slaves.confirmed,
            tables=self.broker.tables_version,
        )

    def require(self, needed: "Needed") -> None:
        """Acknowledge nothing from now on that one of some members has not."""
        from sprocket.rocketmq.server.set_roles import SetAcks

        if self.broker.slaves is not None and self.joined is not None:
            may = self.joined.seat.may_acknowledge
            self.broker.slaves.require(SetAcks(needed, may))


def _nameserver_ports(given: Loaded[object]) -> Mapping[str, int]:
    return {"nameserver": given.of(Settings).server.nameserver_port}


async def _open_nameserver(site: Site) -> Serve:
    """Read what tools have given it; routes come from the brokers."""
    from sprocket.node.listening import reachable_host
    from sprocket.rocketmq.codec.config import fastjson
    from sprocket.rocketmq.nameserver import KeyValues, NameServer, key_values
    from sprocket.rocketmq.remoting import Connection
    from sprocket.rocketmq.server.dispatch import Dispatcher
    from sprocket.rocketmq.server.handlers.nameserver import NameServerHandlers
    from sprocket.rocketmq.store.config_file import ConfigFile
    from sprocket.runtime.driver import address

    settings, place = site.given.of(Settings), site.place
    file = ConfigFile(place.disk, f"{place.folder}/kvConfig.json")

    def keep(content: "Mapping[str, JsonValue]") -> None:
        place.disk.make_folder(place.folder)
        file.replace(content)

    kept = KeyValues(file.load(fastjson.Members, key_values.from_json), keep)

    async def serve() -> Running:
        nameserver = NameServer(place.clock, settings, kept)
        handlers = NameServerHandlers(
            nameserver.routes, nameserver.lookup, kept, nameserver.settings
        )
        nameserver.start()
        site.parts.push_async_callback(nameserver.stop)
        codec = partial(Connection, frame_bytes_max=settings.server.frame_bytes_max)
        await site.listen("nameserver", codec, Dispatcher(handlers.rows()))
        told = address(reachable_host(settings.server), site.ports["nameserver"])
        return Running(ready={"nameserver": told}, rows=[("NameServer", told)])

    return serve


def _broker_ports(given: Loaded[object]) -> Mapping[str, int]:
    server = given.of(Settings).server
    ports = {"broker": server.broker_port}
    if server.vip_port and server.broker_port > VIP_DISTANCE:
        ports["vip"] = server.broker_port - VIP_DISTANCE
    grpc = _grpc_port(given.of(Settings))
    if grpc is not None:
        ports["grpc"] = grpc
    replication = given.of(Settings).replication
    if _takes_slaves(given.of(Settings)) or given.of(Settings).ha.decider:
        ports["slaves"] = replication.port or (server.broker_port and server.broker_port + 1)
    return ports


def _grpc_port(settings: Settings) -> int | None:
    """Return where SDKs of RocketMQ 5 are served, None for nowhere.

    Raises:
        SettingsError: They are to be, and cannot.
    """
    port = settings.grpc.port
    if port == "off":
        return None
    is_usual = settings.server.broker_port == ServerSettings().broker_port
    if port == "auto":
        return GRPC_PORT if is_usual and has_grpc() else None
    if not has_grpc():
        raise SettingsError(
            "grpc.port: gRPC needs packages that are not installed: pip install 'sprocketmq[grpc]'"
        )
    return port


def has_grpc() -> bool:
    """Tell whether the packages of the extra `grpc` are installed."""
    try:
        return all(find_spec(name) is not None for name in GRPC_PACKAGES)
    except ModuleNotFoundError:  # not even the package that is around one
        return False


async def _open_broker(site: Site) -> Serve:
    """Open the store; in a set it is opened when clients are let in, in the role that it has."""
    settings = site.given.of(Settings)
    if not settings.ha.decider:
        return await _open_role(site, settings)
    from sprocket.node.broker_set import (
        OPERATOR,
        BrokerSet,
        check_settings,
        decider_of,
        operator_of,
    )

    check_settings(settings)
    if settings.ha.decider == OPERATOR:
        from sprocket.rocketmq.failover.operator import encode_notice

        said = operator_of(settings, site, _signed_requests(settings.rights))
        members = BrokerSet(
            site, settings, _open_role, said, lambda: encode_notice(said.notice).decode()
        )
    else:
        members = BrokerSet(site, settings, _open_role, decider_of(settings, site))

    async def serve() -> Running:
        member = await members.start()
        me, told = member.mastership.me, members.addresses.broker
        return Running(
            ready={"broker": told, "data": site.place.folder, "member": str(me)},
            rows=[
                ("broker", f"{told} ({settings.broker.name})"),
                ("set", f"member {me.id}; {settings.ha.decider} decides who is master"),
                ("data", site.place.folder),
            ],
            refusals=members.refusals,
        )

    return serve


async def _open_role(
    site: Site, settings: Settings, seat: "Seat | None" = None
) -> "Callable[[], Awaitable[RunningBroker]]":
    """Open the store, in the role that the settings say; in a set, that of `seat`."""
    from sprocket.base.disk import NonblockingDisk
    from sprocket.node.listening import advertised_host, stored_ip
    from sprocket.rocketmq.store.store import Store

    place = site.place
    # The broker's address goes into every record, so it is known before there is a broker.
    host, stored_host = advertised_host(settings.server), await stored_ip(settings.server)
    _check_role(settings)
    _refuse_foreign(place, site.other_folders)
    is_given = any(name.startswith(GEOMETRY_GROUPS) for name in site.given.origins)
    geometry = settings.geometry if is_given else None
    warm = NonblockingDisk(place.disk)
    subscriptions: dict[str, Sequence[GroupFilter]] = {}
    rights: RightsTables | RuleReader | None = None
    if _is_guarded(settings.rights):
        from sprocket.rocketmq.broker.rights import check_settings, open_rules, open_tables

        check_settings(settings.rights)
    store = await site.open(
        lambda step: Store.open(
            warm,
            place.folder,
            settings.store,
            place.clock,
            geometry,
            subscriptions,
            step=step,
            # A master that pads damage would have another log than its epochs say.
            follows=settings.replication.is_slave or seat is not None,
        )
    )
    joined = None
    if seat is not None:
        from sprocket.node.broker_set import join

        joined = await join(seat, place, store)

    if settings.rights.authentication:
        # After the store, whose lock says that nobody else has the folder open.
        rights = await site.open(lambda _: open_tables(place.disk, place.folder, settings.rights))
    elif settings.rights.rules_path:
        # A file of a few lines, before anybody is served.
        rights = open_rules(place.disk, settings.rights, settings.broker.cluster)

    async def serve() -> RunningBroker:
        import asyncio

        from sprocket.node.listening import reachable_host
        from sprocket.rocketmq.broker.broker import Broker
        from sprocket.rocketmq.codec import switch_frames
        from sprocket.rocketmq.codec.record import ids
        from sprocket.rocketmq.codec.replication import ReportReader
        from sprocket.rocketmq.remoting import Channels, Connection
        from sprocket.rocketmq.replication import RETRY_SECONDS, TableVersions
        from sprocket.rocketmq.server import broker_rows
        from sprocket.rocketmq.server.client_links import ask_either, notify_either
        from sprocket.rocketmq.server.dispatch import Dispatcher
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
        from sprocket.rocketmq.server.set_roles import refusing_sends
        from sprocket.rocketmq.store.retention import SpaceLimits
        from sprocket.runtime.cold_reads import ColdReads
        from sprocket.runtime.driver import PortPolicy, address
        from sprocket.runtime.slices import SLICE_WORK, Slices
        from sprocket.runtime.turns import Turns

        loop, parts, port = asyncio.get_running_loop(), site.parts, site.ports["broker"]
        channels, pressure = Channels(place.clock, loop), _pressure(settings)
        nameservers = BrokerNameServers(_nameservers(settings, site))
        reads = ColdReads(warm, settings.limits.cold_reads_max)
        store_host = ids.host_bytes(stored_host, port)
        slaves = None
        if _takes_slaves(settings):
            slaves = _slaves(store, reads, loop, place.clock, settings.replication, joined)
        broker = Broker(
            place,
            store,
            reads,
            settings,
            store_host,
            notify_either(notify_ids_changed),
            ask_either(ask_producer),
            pressure,
            nameservers.note,
            subscriptions,
            rights,
            slaves,
        )
        own, signed = settings.broker, _signed_requests(settings.rights)
        identity = Identity(
            name=own.name,
            cluster=own.cluster,
            address=address(host, port),
            broker_id=settings.replication.broker_id,
            slaves_address=address(host, site.ports["slaves"]) if slaves is not None else "",
        )
        registration = Registration(
            identity,
            broker.topics,
            nameservers,
            own.register_seconds,
            place.clock,
            tls=nameserver_tls(settings.tls),
            make_request=signed,
            epoch=0 if seat is None else seat.role.epoch,
            known_master=None if seat is None else seat.master,
        )
        link = tables = None
        if settings.replication.is_slave:
            master = MasterPlaces(
                settings.replication.master_address, registration, place.clock, signed
            )
            versions = TableVersions()
            replica = _replica(broker, settings.replication, joined, versions)
            retry_seconds = RETRY_SECONDS if seat is None else SET_RETRY_SECONDS
            link = _link(replica, settings.replication, master, place.clock, retry_seconds)
            versions.when_had(link.report_soon)
            own_users = {settings.rights.initial_user, settings.rights.inner_user}
            round_seconds = ROUND_SECONDS if seat is None else SET_ROUND_SECONDS
            tables = MasterTables(broker, master, versions, frozenset(own_users), round_seconds)
        choice = None
        if settings.replication.slave_reads and (link is not None or slaves is not None):
            choice = _choice(slaves, link)
        slices = Slices(reads, Turns(loop, SLICE_WORK), place.clock)
        routes = RouteLookup(nameservers.channels, place.clock)
        parts.push_async_callback(routes.stop)
        rows = [
            *broker_rows.of_clients(broker, channels, routes, own.name, choice),
            *broker_rows.of_administrators(broker, registration, settings, slices, link),
        ]
        if settings.replication.is_slave:
            rows = of_slave(rows, is_read=settings.replication.slave_reads)
        replication = settings.replication
        if (
            slaves is not None
            and seat is None
            and replication.role == "sync_master"
            and replication.in_sync_count_min > 1
        ):
            rows = of_master(rows, slaves)
        if seat is not None:
            takes_sends = seat.takes_sends
            if slaves is not None:
                rows = refusing_sends(rows, lambda: not takes_sends())
            rows += seat.rows()
        unknown = None
        if broker.known_rights is not None:
            from sprocket.rocketmq.server.rights import Guard

            guard = Guard(broker.known_rights, settings.rights, own.cluster)
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
        service, told_grpc = None, ""
        if "grpc" in site.ports and not settings.replication.is_slave:
            service = await _serve_grpc(
                site, settings, broker, policy, _refusal(slaves, seat, settings)
            )
            told_grpc = address(reachable_host(settings.server), site.ports["grpc"])
        parts.push_async_callback(broker.quiesce)
        parts.push_async_callback(registration.stop)
        if slaves is not None:
            taken = _only_from(settings.replication.networks, slaves.on_frame)
            port_policy = PortPolicy(reads_on_when_slow=True)
            if seat is None:
                await site.listen("slaves", ReportReader, taken, port_policy)
            else:
                await site.listen("slaves", switch_frames.slave_frames, taken, port_policy)
        if slaves is not None and seat is not None:
            telling = TellingTables(loop, slaves, broker)
            parts.callback(telling.stop)
            telling.start()
        await registration.start()
        if link is not None and tables is not None:
            link.start()
            parts.push_async_callback(link.stop)
            tables.start()
            parts.push_async_callback(tables.stop)
        limits = SpaceLimits.of(settings.retention)
        names = ", ".join(own.nameservers) or "none: only clients that know the address find it"
        return RunningBroker(
            ready={
                "broker": identity.address,
                **({"grpc": told_grpc} if told_grpc else {}),
                "data": place.folder,
            },
            rows=[
                ("broker", f"{identity.address} ({own.name})"),
                *([("gRPC", f"{told_grpc} (SDKs of RocketMQ 5)")] if told_grpc else []),
                *([] if "nameserver" in site.ports else [("NameServers", names)]),
                ("data", place.folder),
                ("acknowledged means", _MEANING[settings.store.flush]),
                *_replica_rows(settings, identity.slaves_address),
                ("recovery", _recovery_text(store.report)),
                *(("note", text) for text in limits.told(settings.retention)),
            ],
            refusals=lambda: (
                {} if broker.refusal is None else {f"broker {own.name}": broker.refusal}
            ),
            name=own.name,
            broker=broker,
            channels=channels,
            pressure=pressure,
            joined=joined,
            grpc=service,
        )

    return serve


async def _serve_grpc(
    site: Site,
    settings: Settings,
    broker: "Broker",
    policy: "PortPolicy",
    refusal: "Callable[[], str] | None",
) -> "GrpcService":
    """Let SDKs of RocketMQ 5 in."""
    from sprocket.rocketmq.server.grpc import GrpcPlace, GrpcService

    port = site.ports["grpc"]
    service = GrpcService(
        broker, settings, GrpcPlace(settings.server.advertised_host, port, refusal)
    )
    service.start()
    await site.listen("grpc", service.connection, service.dispatcher, policy)
    site.parts.push_async_callback(service.stop)
    return service


def _refusal(
    slaves: "Slaves | None", seat: "Seat | None", settings: Settings
) -> "Callable[[], str] | None":
    """Return what says why messages may not be stored now; None if they always may."""
    if seat is not None:
        takes_sends = seat.takes_sends
        return lambda: "" if takes_sends() else "this broker may not be the master any more"
    own = settings.replication
    if slaves is not None and own.role == "sync_master" and own.in_sync_count_min > 1:
        return lambda: "in-sync replicas not enough" if slaves.are_too_few else ""
    return None


def _replica_rows(settings: Settings, address: str) -> "Sequence[tuple[str, str]]":
    """Return what people are told of other machines with the same log."""
    own = settings.replication
    if own.is_slave:
        where = own.master_address or "where the NameServers say that the master is"
        return [("slave", f"number {own.broker_id}, of {where}")]
    if not address:
        none = "none may come: with rights on, replication.networks says from where"
        return [("slaves", none)] if own.takes_slaves else []
    waits = f"{own.acks_needed} of them must have a message" if own.acks_needed else ""
    return [("slaves", f"may come to {address}{waits and '; '}{waits}")]


def _takes_slaves(settings: Settings) -> bool:
    """Tell whether slaves may come; not from anywhere where all others must sign."""
    own = settings.replication
    return own.takes_slaves and (bool(own.networks) or not _is_guarded(settings.rights))


def _check_role(settings: Settings) -> None:
    """Refuse a number that does not fit the role, or a pair that cannot be.

    Raises:
        SettingsError: It says which setting to change.
    """
    from sprocket.node.listening import inside

    own = settings.replication
    inside(own.networks, "replication.networks")
    if own.is_slave and not own.broker_id:
        raise SettingsError("replication.broker_id: 0 is the number of the master, not of a slave")
    if own.broker_id and not own.is_slave:
        raise SettingsError(
            f"replication.broker_id: {own.broker_id}: a master has 0 (replication.role)"
        )
    if own.acks_needed and not _takes_slaves(settings):
        raise SettingsError(
            "replication.networks: where slaves may come from; without it none may come to a "
            "broker that has rights, as whoever is let in gets every message"
        )


def _only_from(
    networks: "Sequence[str]", on_frame: "Callable[[Peer, SlaveFrame], None]"
) -> "Callable[[Peer, SlaveFrame], None]":
    """Return what takes reports of slaves that come from some networks, or from anywhere."""
    from sprocket.node.listening import inside

    if not networks:
        return on_frame
    is_inside = inside(networks, "replication.networks")

    def on_frame_from(peer: "Peer", frame: "SlaveFrame") -> None:
        if is_inside(peer.host):
            on_frame(peer, frame)
        else:
            peer.abort("a slave may not come from there, see replication.networks")

    return on_frame_from


def _slaves(
    store: "Store",
    reads: "Reads",
    timers: "Timers",
    clock: Clock,
    settings: ReplicationSettings,
    joined: "Joined | None",
) -> "Slaves":
    """Return what sends slaves the log; in a set it says and hears epochs."""
    from sprocket.rocketmq.replication import AcksByNumber, ClassicSpeech, EpochSpeech, Slaves
    from sprocket.rocketmq.server.set_roles import HeardSpeech, SetAcks

    if joined is None:
        counted = AcksByNumber(store, settings)
        return Slaves(store, reads, timers, clock, settings, ClassicSpeech(store), counted)
    seat = joined.seat
    spoken = EpochSpeech(store, joined.epochs.epochs, lambda: slaves.confirmed, seat.outrun)
    named = SetAcks(seat.needed(), seat.may_acknowledge)
    speech = HeardSpeech(spoken, seat.heard)
    slaves = Slaves(store, reads, timers, clock, settings, speech, named)
    if seat.needed().members:
        slaves.distrust()
    return slaves


def _replica(
    broker: "Broker",
    settings: ReplicationSettings,
    joined: "Joined | None",
    versions: "TableVersions",
) -> "FollowingLog":
    """Return the log of a slave, as it takes its master's; in a set it agrees by epochs."""
    from sprocket.rocketmq.replication import MemberLog, ReplicaLog
    from sprocket.rocketmq.server.set_roles import replica_id

    store, append = broker.store, broker.durable.append_stored
    if joined is None:
        return ReplicaLog(store, append, to_disk=settings.ack == "disk")
    seat = joined.seat
    return MemberLog(
        store,
        append,
        joined.epochs,
        replica_id(seat.me()),
        to_disk=True,
        goes_on=lambda wanted: seat.must_cut(wanted.at),
        tables=versions,
    )


def _link(
    replica: "FollowingLog",
    settings: ReplicationSettings,
    master: "MasterPlaces",
    clock: Clock,
    retry_seconds: float,
) -> "MasterLink":
    """Return what brings the log of the master."""
    from sprocket.rocketmq.replication import MasterLink

    return MasterLink(
        replica,
        master.find,
        clock,
        heartbeat_seconds=settings.heartbeat_seconds,
        silence_seconds=settings.silence_seconds,
        retry_seconds=retry_seconds,
    )


def _choice(slaves: "Slaves | None", link: "MasterLink | None") -> "ReplicaChoice":
    """Return what says where consumers read on."""
    from sprocket.rocketmq.broker.delivery import ReplicaChoice

    if link is not None:
        return ReplicaChoice(is_slave=True, other_is_there=lambda: link.why is None)
    return ReplicaChoice(
        is_slave=False, other_is_there=lambda: slaves is not None and slaves.count > 0
    )


def _pressure(settings: Settings) -> "Pressure":
    """Return what says how much may wait for the disk."""
    from sprocket.runtime.pressure import Pressure

    limits = settings.limits
    if settings.store.flush == "sync":
        return Pressure(limits.unsynced_bytes_max, limits.connection_unsynced_bytes_max)
    whole = memory.whole_bytes()
    unsynced = limits.async_unsynced_bytes_max or min(whole // ASYNC_MEMORY_PART, GIB)
    return Pressure(unsynced, limits.connection_unsynced_bytes_max)


def _nameservers(settings: Settings, site: Site) -> list[str]:
    """Return every NameServer to register with, this process's own first."""
    from sprocket.node.listening import own_host
    from sprocket.runtime.driver import address

    own = site.ports.get("nameserver")
    mine = [] if own is None else [address(own_host(settings.server.host), own)]
    return [*mine, *settings.broker.nameservers]


def _is_guarded(settings: RightsSettings) -> bool:
    """Tell whether requests are checked."""
    return settings.authentication or settings.authorization or bool(settings.rules_path)


def _signed_requests(settings: RightsSettings) -> "MakeRequest":
    """Return what makes the broker's own requests: signed by the inner user, if there is one."""
    from sprocket.rocketmq.codec import command
    from sprocket.rocketmq.codec.signed_request import SignedRequests
    from sprocket.rocketmq.model.rights import SessionCredentials

    if not (settings.authentication and settings.inner_user):
        return command.request
    return SignedRequests(SessionCredentials(settings.inner_user, settings.inner_password))


def nameserver_tls(settings: TlsSettings) -> "SSLContext | None":
    """Return what the broker's connections to NameServers use, None if they are plain."""
    from sprocket.runtime.tls_files import context_towards_servers

    is_wanted = settings.to_nameservers or settings.mode == "enforcing"
    return context_towards_servers(settings) if is_wanted else None


def _refuse_foreign(place: Place, other_folders: frozenset[str]) -> None:
    """Refuse a folder that holds something and is not a store.

    Raises:
        ForeignStore: It has files, but not those of a store.
    """
    from sprocket.rocketmq.store.layout import StoreLayout

    disk, folder = place.disk, place.folder
    names = [name for name in disk.list(folder) if name not in {NAMESERVER_FOLDER, *other_folders}]
    layout = StoreLayout(folder)
    marks = (layout.commitlog, layout.config, layout.lock)
    if names and not any(disk.exists(mark) for mark in marks):
        raise ForeignStore(
            f"{folder} is not a store: it holds {names[0]!r} and neither commitlog nor config"
        )


def _recovery_text(report: "RecoveryReport") -> str:
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


def _crash_text(report: "RecoveryReport") -> str:
    """Return what recovery did after a crash."""
    text = (
        f"after a crash: looked at {report.records:,} messages in {report.bytes_scanned:,} bytes, "
        f"cut {report.bytes_cut:,} bytes ({report.why}), rebuilt {report.units_rebuilt:,} queue "
        f"units and {report.index_entries_rebuilt:,} index entries, {report.seconds:.2f} s"
    )
    if report.damage:
        text += f"; stepped over damage in {len(report.damage)} places"
    return text


NAMESERVER = Product(
    name="nameserver",
    settings=Settings,
    ports=_nameserver_ports,
    open=_open_nameserver,
    folder=NAMESERVER_FOLDER,
    port_hint="NameServer: server.nameserver_port is another",
    foreign=read_nameserver_conf,
)
BROKER = Product(
    name="broker",
    settings=Settings,
    ports=_broker_ports,
    open=_open_broker,
    port_hint="RocketMQ's broker: server.broker_port and grpc.port are others",
    foreign=read_broker_conf,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Addresses:
    """Where a node can be reached, `host:port` each."""

    nameserver: str
    """Empty if there is none in this process."""
    broker: str
    grpc: str = ""
    """Empty if SDKs of RocketMQ 5 are not served."""


class Node:
    """A broker that runs, perhaps with a NameServer of its own, for a program that has it at hand.

    Threads: event loop only.
    """

    def __init__(self, host: Host) -> None:
        found = host.running["broker"]
        assert isinstance(found, RunningBroker)
        ready = {name: at for one in host.running.values() for name, at in one.ready.items()}
        self.addresses = Addresses(
            nameserver=ready.get("nameserver", ""),
            broker=ready["broker"],
            grpc=ready.get("grpc", ""),
        )
        self.broker = found.broker
        self.broker_name = found.name
        self.channels = found.channels
        """What the broker asks of its clients."""
        self.grpc = found.grpc
        """What serves SDKs of RocketMQ 5, None if nothing does."""
        self.pressure = found.pressure
        """How much waits for the disk."""
        self.report: RecoveryReport = found.broker.store.report
        """What recovery did when the store was opened."""
        self.stop = host.stop

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
    ) -> "Node":
        """See `Host.start`.

        Args:
            settings: All groups.
            folder: The store's; made if it is not there.
            disk: As there.
            clock: As there.
            geometry: Of the store's files, if the caller insists on one; None takes an existing
                store's own, and the default for a new one.
            has_nameserver: Whether to run a NameServer too; its port then counts.
        """
        origins = {}
        if geometry is not None:
            settings = replace(
                settings, log=geometry.log, queue=geometry.queue, index=geometry.index
            )
            origins = dict.fromkeys(GEOMETRY_GROUPS, "the caller")
        given = Loaded(root=settings, origins=origins)
        products = [NAMESERVER, BROKER] if has_nameserver else [BROKER]
        return cls(await Host.start(products, given, folder, disk=disk, clock=clock))
