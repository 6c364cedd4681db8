"""The node: overview, health, and what clients of the API ask first."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime

from sprocket.base.errors import WireError
from sprocket.rabbitmq.broker.cluster_name import PARAMETER
from sprocket.rabbitmq.broker.node_folder import LIKE_VERSION
from sprocket.rabbitmq.model.exchange import DELAYED, DIRECT, FANOUT, HEADERS, TOPIC
from sprocket.rabbitmq.model.policy import GlobalParameter
from sprocket.rabbitmq.server.management import measures
from sprocket.rabbitmq.server.management.figures import figures_row, node_figures
from sprocket.rabbitmq.server.management.requests import (
    ApiRoute,
    Call,
    Json,
    Level,
    answers,
    chosen,
    get,
    made_of_each,
    put,
    query_columns,
    shown,
)
from sprocket.rabbitmq.server.management.samples import KEEP_SECONDS, SAMPLE_SECONDS
from sprocket.rabbitmq.server.management.services import NodeServices
from sprocket.rabbitmq.server.management.tallies import counted, tallied, together
from sprocket.runtime.certificates import CertificateFile, validities
from sprocket.runtime.http import HttpResponse

_EXCHANGE_TYPES = [
    {
        "name": name,
        "description": f"AMQP {name} exchange, as per the AMQP specification",
        "enabled": True,
    }
    for name in (DIRECT, FANOUT, HEADERS, TOPIC)
]
_EXCHANGE_TYPES.append(
    {
        "name": DELAYED,
        "description": "Delays messages by their header x-delay",
        "enabled": True,
    }
)
_PROTOCOLS = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqp": "amqp", "http": "http"}
_DAY_SECONDS = 86_400
_COUNT_DIGITS_MAX = 9
_UNITS = {
    "days": _DAY_SECONDS,
    "weeks": 7 * _DAY_SECONDS,
    "months": 365 * _DAY_SECONDS // 12,
    "years": 365 * _DAY_SECONDS,
}


class NodeRoutes:
    """See the head of the module."""

    def __init__(self, services: NodeServices) -> None:
        self._services = services
        self._facts = services.facts

    def routes(self) -> Sequence[ApiRoute]:
        """Return the routes."""
        user, check = Level.USER, "health/checks"
        return [
            get("overview", user, self.overview),
            get("nodes", Level.MONITOR, self.list_nodes),
            get("nodes/{node}", Level.MONITOR, self.get_node),
            get("cluster-name", user, self.get_cluster_name),
            put("cluster-name", Level.ADMINISTRATOR, self.put_cluster_name, "put cluster name"),
            get("extensions", Level.ANYBODY, self.extensions),
            get("auth", Level.ANYBODY, self.auth),
            get("feature-flags", Level.ADMINISTRATOR, self.nothing),
            get("healthchecks/node", user, self.health),
            get("healthchecks/node/{node}", user, self.health),
            get(f"{check}/alarms", user, self.check_alarms),
            get(f"{check}/local-alarms", user, self.check_alarms),
            get(f"{check}/virtual-hosts", user, self.check_vhosts),
            get(f"{check}/node-is-mirror-sync-critical", user, self.alone),
            get(f"{check}/node-is-quorum-critical", user, self.alone),
            get(f"{check}/port-listener/{{port}}", user, self.check_port),
            get(f"{check}/protocol-listener/{{protocol}}", user, self.check_protocol),
            get(f"{check}/certificate-expiration/{{count}}/{{unit}}", user, self.certificates),
        ]

    async def overview(self, call: Call) -> HttpResponse:
        """Return what the node does at the moment."""
        services, facts, caller = self._services, self._facts, call.caller
        vhosts = services.seen(caller)
        connections = services.connections(caller)
        tally = together(list((await tallied(services, vhosts)).values()))
        if caller.is_monitor:
            published, deliveries = await counted(services)
        else:
            published, deliveries = tally.published, tally.deliveries
        counts = measures.channel_row(published, deliveries)
        rates = services.samples.rates(call.query)
        whose: Sequence[object] = [services] if caller.is_monitor else vhosts
        churn = measures.churn(services.authenticator.churn, services.counts.queues)
        totals: dict[str, int] = {
            "channels": sum(
                await made_of_each(connections, lambda one: one.channel_count, services.slicer)
            ),
            "connections": len(connections),
            "exchanges": sum(one.topology.exchange_count for one in vhosts),
            "queues": tally.queues,
        }
        view: dict[str, object] = {
            "management_version": LIKE_VERSION,
            "product_name": "RabbitMQ",
            "product_version": LIKE_VERSION,
            "rabbitmq_version": LIKE_VERSION,
            "cluster_name": str(facts.cluster),
            "rates_mode": "basic",
            "exchange_types": _EXCHANGE_TYPES,
            "disable_stats": False,
            "enable_queue_totals": False,
            "release_series_support_status": "supported",
            "sample_retention_policies": {
                one: [KEEP_SECONDS - round(SAMPLE_SECONDS)]
                for one in ("global", "basic", "detailed")
            },
            "statistics_db_event_queue": 0,
            "queue_totals": rates.counters(
                measures.SUM_LENGTHS, measures.lengths(tally.ready, tally.unacked), *whose
            ),
            "message_stats": rates.counters(measures.SUM_STATS, counts, *whose)
            if any(counts)
            else {},
            "object_totals": totals,
            "churn_rates": rates.counters(measures.NODE_CHURN, churn, services),
        }
        if caller.is_monitor:
            totals["consumers"] = tally.consumers
            view |= {"node": facts.name, "listeners": self._listeners(), "contexts": []}
        return shown(view, call.query)

    async def list_nodes(self, call: Call) -> HttpResponse:
        """Return the one node."""
        return answers.json_response([chosen(self._node(call), query_columns(call.query))])

    async def get_node(self, call: Call) -> HttpResponse:
        """Return the node, by its name."""
        self._check_node(call)
        return shown(self._node(call), call.query)

    async def get_cluster_name(self, _: Call) -> HttpResponse:
        """Return what the cluster is called."""
        return answers.json_response({"name": str(self._facts.cluster)})

    async def put_cluster_name(self, call: Call) -> HttpResponse:
        """Change what the cluster is called."""
        name = call.body("name")["name"]
        change = self._services.administration
        await change.put_global_parameter(GlobalParameter(name=PARAMETER, value=name))
        return answers.done()

    async def extensions(self, _: Call) -> HttpResponse:
        """Return which plugins have pages: none."""
        return answers.json_response([])

    async def auth(self, _: Call) -> HttpResponse:
        """Return how one logs in: not by OAuth."""
        return answers.json_response({"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""})

    async def nothing(self, _: Call) -> HttpResponse:
        """Return an empty list."""
        return answers.json_response([])

    # Health.

    async def health(self, call: Call) -> HttpResponse:
        """Say whether the node is well: nothing is low."""
        if "node" in call.names:
            self._check_node(call)
        low, refusals = self._services.alarms.low, self._services.refusals
        reasons = [f"low on {', '.join(sorted(low))}"] if low else []
        reasons += [
            f"virtual host '{name}' stores nothing: {why}" for name, why in refusals.items()
        ]
        if reasons:
            return answers.json_response({"status": "failed", "reason": "; ".join(reasons)})
        return answers.json_response({"status": "ok"})

    async def check_vhosts(self, _: Call) -> HttpResponse:
        """Say which virtual hosts store nothing."""
        refusals = self._services.refusals
        if not refusals:
            return answers.json_response({"status": "ok"})
        failed = {
            "status": "failed",
            "reason": "Some virtual hosts are down",
            "virtual-hosts": [*refusals],
        }
        return answers.json_response(failed, 503)

    async def alone(self, _: Call) -> HttpResponse:
        """Say that no other node depends on this one."""
        return answers.json_response({"status": "ok", "reason": "single node cluster"})

    async def check_alarms(self, _: Call) -> HttpResponse:
        """Say whether anything is low."""
        low = sorted(self._services.low)
        if not low:
            return answers.json_response({"status": "ok"})
        alarms = [{"node": self._facts.name, "resource": one} for one in low]
        failed = {"status": "failed", "reason": "Resource alarm(s) in effect", "alarms": alarms}
        return answers.json_response(failed, 503)

    async def check_port(self, call: Call) -> HttpResponse:
        """Say whether a port is listened on."""
        given = call.name("port")
        if not given.isdecimal() or len(given) > 5:
            raise answers.bad_request("Invalid port")
        ports = [one.port for one in self._facts.listeners]
        if int(given) in ports:
            return answers.json_response({"status": "ok", "port": int(given)})
        return _missing(int(given), {"ports": ports})

    async def check_protocol(self, call: Call) -> HttpResponse:
        """Say whether a protocol is served."""
        given = call.name("protocol")
        protocols = [one.protocol for one in self._facts.listeners]
        wanted = _PROTOCOLS.get(given.lower().replace("-", ""), given)
        if wanted in protocols:
            return answers.json_response({"status": "ok", "protocol": wanted})
        return _missing(given, {"protocols": protocols})

    async def certificates(self, call: Call) -> HttpResponse:
        """Say which certificates are not valid for as long as that, counted from now."""
        seconds = _UNITS.get(call.name("unit").lower())
        if seconds is None:
            raise answers.bad_request(
                "Time unit not recognised. Supported units: days, weeks, months, years."
            )
        count = call.name("count")
        if not count.isdecimal() or len(count) > _COUNT_DIGITS_MAX:
            raise answers.bad_request("Invalid expiration value.")
        now = self._services.clock.now_ms() // 1000
        until = now + int(count) * seconds
        files = self._facts.certificates()
        own, authorities = [_expiring(one, now, until) for one in files] + [[]] * (2 - len(files))
        if not own and not authorities:
            return answers.json_response({"status": "ok"})
        paths = [one.path for one in files] + [""] * (2 - len(files))
        told = {
            "certfile": paths[0],
            "certfile_expires_on": own,
            "cacertfile": paths[1],
            "cacertfile_expires_on": authorities,
        }
        expired = [
            {
                "node": self._facts.name,
                "protocol": one.protocol,
                "interface": one.host,
                "port": one.port,
                **told,
            }
            for one in self._facts.listeners
        ]
        failed = {"status": "failed", "reason": "Certificates expiring", "expired": expired}
        return answers.json_response(failed, 503)

    def _check_node(self, call: Call) -> None:
        if call.name("node") != self._facts.name:
            raise answers.not_found()

    def _listeners(self) -> list[Json]:
        return [
            {
                "node": self._facts.name,
                "protocol": one.protocol,
                "ip_address": one.host,
                "port": one.port,
                "socket_opts": {},
            }
            for one in self._facts.listeners
        ]

    def _node(self, call: Call) -> Json:
        rates = self._services.samples.rates(call.query)
        services, facts, place = self._services, self._facts, self._services.place
        figures = node_figures(services)
        mechanisms = [
            {"name": one, "description": f"SASL {one} authentication mechanism", "enabled": True}
            for one in facts.mechanisms
        ]
        return {
            "name": facts.name,
            "type": "disc",
            "running": True,
            "partitions": [],
            "os_pid": str(os.getpid()),
            "fd_total": figures.max_fds,
            "sockets_total": figures.max_fds,
            "mem_limit": facts.memory_bytes_max,
            "mem_alarm": figures.is_memory_low,
            "disk_free_alarm": figures.is_disk_low,
            "disk_free_limit": facts.disk_free_bytes_min,
            "rates_mode": "basic",
            "uptime": round(figures.uptime_seconds * 1000),
            "processors": os.cpu_count() or 1,
            "exchange_types": _EXCHANGE_TYPES,
            "auth_mechanisms": mechanisms,
            "applications": [
                {"name": "rabbit", "description": "RabbitMQ", "version": LIKE_VERSION}
            ],
            "contexts": [],
            "log_files": [],
            "config_files": [],
            "db_dir": place.folder,
            "enabled_plugins": ["rabbitmq_management", "rabbitmq_prometheus"],
            "mem_calculation_strategy": "rss",
            "cluster_links": [],
            "io_sync_avg_time": 1000 * services.syncs.seconds / max(services.syncs.count, 1),
            **rates.counters(measures.NODE_FIGURES, figures_row(figures), services),
        }


def _missing(what: object, there: Json) -> HttpResponse:
    failed = {"status": "failed", "reason": "No active listener", "missing": what, **there}
    return answers.json_response(failed, 503)


def _expiring(file: CertificateFile, now: int, until: int) -> list[str]:
    """Return when certificates of a file end that are not valid now and until then."""
    try:
        found = validities(file.pem)
    except WireError as error:
        return [str(error)]
    told = [f"not valid before {_time_text(one.start)}" for one in found if one.start > now]
    return told + [_time_text(one.end) for one in found if one.end < until]


def _time_text(seconds: int) -> str:
    at = datetime.fromtimestamp(seconds, UTC)
    return f"{at:%Y-%m-%d} {at.hour}:{at:%M:%S}"
