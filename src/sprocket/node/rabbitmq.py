"""A node that speaks AMQP 0-9-1 as RabbitMQ does.

What it is made of is imported when it is opened, so that whoever only asks for its settings does
not pay for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sprocket.base.clock import Clock
from sprocket.base.disk import Disk
from sprocket.base.settings import Loaded
from sprocket.node.host import Host, Product, Running, Serve, Site, metrics_port
from sprocket.rabbitmq.settings import AmqpNodeSettings, AmqpSettings

if TYPE_CHECKING:
    from sprocket.rabbitmq.broker.broker import AmqpBroker
    from sprocket.rabbitmq.broker.node_folder import NodeFolder
    from sprocket.rabbitmq.server.amqp_server import AmqpServer
    from sprocket.rabbitmq.server.vhost_connection import UserAuthenticator
    from sprocket.rabbitmq.store.recovery import VhostReport
    from sprocket.runtime.http import HttpServer

FOLDER = "rabbitmq"
"""What the node keeps, in a folder that it shares with others."""
OVERDUE_SECONDS = 60.0
"""How often it is checked how long messages are unacknowledged; RabbitMQ's interval."""

_MEANING = {
    "sync": "on the disk (one fdatasync covers everybody who waits)",
    "async": "handed to the operating system; a power cut may lose the last half second",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningAmqp(Running):
    """A node that lets clients in."""

    broker: "AmqpBroker"
    server: "AmqpServer"
    reports: "Mapping[str, VhostReport]"
    """What was found in the folder of each virtual host."""


HTTP = "amqp-http"
METRICS = metrics_port("amqp")
_USUAL = {HTTP: 15672, METRICS: 15692}
"""RabbitMQ's ports."""


def _ports(given: Loaded[object]) -> Mapping[str, int]:
    settings = given.of(AmqpNodeSettings)
    found = {"amqp": settings.amqp.port}
    http = settings.amqp_http
    for name, port in ((HTTP, http.port), (METRICS, http.metrics_port)):
        if port == "auto":
            found[name] = _USUAL[name] if settings.amqp.port == AmqpSettings().port else 0
        elif port != "off":
            found[name] = port
    return found


async def _open(site: Site) -> Serve:
    """Open the node's folder."""
    from sprocket.rabbitmq.broker.node_folder import NodeFolder

    settings, place = site.given.of(AmqpNodeSettings), site.place
    found = await site.open(lambda step: NodeFolder.open(place.disk, place.folder, settings, step))

    async def serve() -> RunningAmqp:
        import asyncio

        from sprocket.node.listening import reachable_host
        from sprocket.rabbitmq.broker.broker import AmqpBroker
        from sprocket.rabbitmq.server.amqp_server import AmqpServer
        from sprocket.rabbitmq.server.connection import WireLimits
        from sprocket.rabbitmq.server.greeting import Greeting
        from sprocket.rabbitmq.server.login import AMQPLAIN, CERTIFIED, EXTERNAL, PLAIN
        from sprocket.rabbitmq.server.vhost_connection import UserAuthenticator
        from sprocket.runtime.driver import address
        from sprocket.runtime.pressure import Pressure

        own, durability = settings.amqp, settings.amqp_durability
        reports = {name: store.report for name, store in found.stores.items()}
        pressure = Pressure(
            durability.unconfirmed_bytes_max, durability.connection_unconfirmed_bytes_max
        )
        broker = AmqpBroker(place, found, settings, pressure)
        mechanisms: tuple[str, ...] = (PLAIN, AMQPLAIN)
        if own.external_login and settings.tls.client_auth != "none":
            mechanisms += (EXTERNAL,)
        authenticator = UserAuthenticator(broker, place.clock, CERTIFIED[own.external_login_from])
        server = AmqpServer(
            authenticator,
            Greeting(found.cluster, mechanisms),
            WireLimits(
                channel_max=own.channel_count_max,
                frame_bytes_max=own.client_frame_bytes_max,
                heartbeat_seconds=own.heartbeat_seconds,
                message_bytes_max=own.body_bytes_max,
            ),
            place.clock,
            asyncio.get_running_loop(),
            broker.turns,
        )

        def check_overdue() -> None:
            authenticator.check_overdue(own.ack_timeout_seconds)
            broker.timers.call_later(OVERDUE_SECONDS, check_overdue)

        async def finish() -> None:
            server.stop()
            await server.settle()
            await broker.settle()

        broker.start(server.alarms.set)
        broker.timers.call_later(OVERDUE_SECONDS, check_overdue)
        site.parts.push_async_callback(broker.stop)
        await site.listen("amqp", server.connection, server.on_event, server.policy(pressure))
        site.parts.push_async_callback(finish)
        metrics = await _serve_management(site, found, broker, authenticator, server, mechanisms)
        told = {
            name: address(reachable_host(settings.server), site.ports[name])
            for name in ("amqp", HTTP, METRICS)
            if name in site.ports
        }
        return RunningAmqp(
            ready=told,
            rows=[
                ("AMQP", told["amqp"]),
                *([("its HTTP API", told[HTTP])] if HTTP in told else []),
                *([("its metrics", f"{told[METRICS]}/metrics")] if METRICS in told else []),
                ("confirmed means", _MEANING[durability.confirm]),
                *((f"recovery of {name}", _text(one)) for name, one in reports.items()),
            ],
            refusals=lambda: broker.refusals,
            metrics=metrics,
            broker=broker,
            server=server,
            reports=reports,
        )

    return serve


async def _serve_management(
    site: Site,
    found: "NodeFolder",
    broker: "AmqpBroker",
    authenticator: "UserAuthenticator",
    server: "AmqpServer",
    mechanisms: Sequence[str],
) -> "HttpServer | None":
    """Serve RabbitMQ's HTTP API if it has a port, and return what serves metrics if they do."""
    import platform

    from sprocket.base import memory
    from sprocket.rabbitmq.broker.administration import Administration
    from sprocket.rabbitmq.server.management import (
        Listener,
        ManagementApi,
        NodeFacts,
        NodeServices,
        sample_for_ever,
    )
    from sprocket.runtime.http import HttpServer
    from sprocket.runtime.slices import Slicer
    from sprocket.runtime.tasks import Tasks

    settings, place = site.given.of(AmqpNodeSettings), site.place
    if HTTP not in site.ports and METRICS not in site.ports:
        return None
    words = {"amqp": "amqp", HTTP: "http", METRICS: "http/prometheus"}
    facts = NodeFacts(
        name=f"sprocket@{platform.node() or 'localhost'}",
        cluster=found.cluster,
        listeners=[
            Listener(word, settings.server.host, site.ports[name])
            for name, word in words.items()
            if name in site.ports
        ],
        disk_free_bytes_min=settings.amqp.disk_free_bytes_min,
        memory_bytes_max=broker.memory_bytes_max or memory.whole_bytes(),
        mechanisms=mechanisms,
        certificates=site.certificates,
        started_at=place.clock.monotonic(),
    )
    administration = Administration(
        found.table,
        found.users,
        found.policies,
        found.definitions,
        broker.vhosts,
        broker.changes,
        server,
        Slicer(broker.turns, place.clock),
    )
    services = NodeServices(broker, administration, authenticator, server.alarms, facts, place)
    api, statistics = ManagementApi(services), Tasks("amqp statistics")
    statistics.spawn(sample_for_ever(services), "samples")
    site.parts.push_async_callback(statistics.close)
    if HTTP in site.ports:
        http = HttpServer(api.handle, api.body_limit, api.is_known, place.clock)
        await site.serve_http(HTTP, http)
    if METRICS not in site.ports:
        return None
    return HttpServer(api.handle_scraper, api.body_limit, api.is_known, place.clock)


def _text(report: "VhostReport") -> str:
    """Return what was found in a virtual host's folder, in one line."""
    have = f"{report.messages:,} messages in {report.queues:,} queues"
    if report.delayed:
        have += f", {report.delayed:,} that wait until they are due"
    if report.clean_stop:
        return f"nothing to do after a clean stop; {have}"
    text = f"looked at everything: {have}, cut {report.cut_bytes:,} bytes"
    if report.lost:
        text += f", {report.lost:,} messages are missing"
    if report.damage:
        text += f"; damage in {len(report.damage)} places"
    return text


AMQP = Product(
    name="amqp",
    settings=AmqpNodeSettings,
    ports=_ports,
    open=_open,
    folder=FOLDER,
    keeps_folder=True,
    port_hint=(
        "AMQP: --amqp-port takes another, --amqp-http-port one for its HTTP API, "
        "--no-amqp serves RocketMQ alone"
    ),
)


class AmqpNode:
    """A node that runs, for a program that has it at hand.

    Threads: event loop only.
    """

    def __init__(self, host: Host) -> None:
        found = host.running["amqp"]
        assert isinstance(found, RunningAmqp)
        self.address = found.ready["amqp"]
        self.broker = found.broker
        self.server = found.server
        self.http_address = found.ready.get(HTTP, "")
        """Of the HTTP API; empty if it is not served."""
        self.reports = found.reports
        """What was found in the folder of each virtual host."""
        self.stop = host.stop

    @classmethod
    async def start(
        cls,
        settings: AmqpNodeSettings,
        folder: str,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
    ) -> "AmqpNode":
        """See `Host.start`."""
        given: Loaded[object] = Loaded(root=settings, origins={})
        return cls(await Host.start([AMQP], given, folder, disk=disk, clock=clock))
