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

from sprocket.base.clock import Clock
from sprocket.base.disk import Disk
from sprocket.base.errors import SettingsError
from sprocket.base.settings import Loaded
from sprocket.node.host import Host, Product, Running, Serve, Site
from sprocket.rocketmq.aliases import read_broker_conf, read_nameserver_conf
from sprocket.rocketmq.geometry import GEOMETRY_GROUPS, Geometry
from sprocket.rocketmq.settings import NAMESERVER_FOLDER, ServerSettings, Settings

if TYPE_CHECKING:
    from sprocket.rocketmq.codec.config import JsonValue
    from sprocket.rocketmq.store.recovery import RecoveryReport

VIP_DISTANCE = 2
"""How far below a broker's port its second one is; clients compute it."""
GRPC_PORT = 8081
"""Where SDKs of RocketMQ 5 look for a proxy."""
GRPC_PACKAGES = ("google.protobuf", "hpack")


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
    if given.of(Settings).lets_slaves_in or given.of(Settings).ha.decider:
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
    from sprocket.node.broker_role import brokers_tls, open_role, signed_requests

    settings = site.given.of(Settings)
    if not settings.ha.decider:
        return await open_role(site, settings)
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

        said = operator_of(
            settings, site, signed_requests(settings.rights), brokers_tls(settings.tls)
        )
        members = BrokerSet(
            site, settings, open_role, said, lambda: encode_notice(said.notice).decode()
        )
    else:
        members = BrokerSet(site, settings, open_role, decider_of(settings, site))

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
        from sprocket.node.broker_role import RunningBroker

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
