"""Answers a scrape: sums, series, or some groups of series, as text.

A series of a queue costs half a microsecond, so `/metrics/per-object` of 10,000 queues takes a
tenth of a second of the loop, between whose parts others are served; `/metrics/detailed` takes what
its groups cost.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from sprocket.rabbitmq.broker.node_folder import LIKE_VERSION
from sprocket.rabbitmq.server.management.figures import node_figures
from sprocket.rabbitmq.server.management.metrics.families import (
    ALARMS,
    CLUSTER,
    GROUPS,
    SUMMED,
    AnyGroup,
    Logins,
    Scope,
)
from sprocket.rabbitmq.server.management.requests import Callers
from sprocket.rabbitmq.server.management.services import NodeServices
from sprocket.runtime.http import HttpResponse, MetricsText

PREFIX: Final = "rabbitmq_"
DETAILED_PREFIX: Final = "rabbitmq_detailed_"
CLUSTER_PREFIX: Final = "rabbitmq_cluster_"
_PATH = "/metrics"
_START = "process_start_time_seconds"


class Scrape(NamedTuple):
    """What a request for metrics asks for."""

    what: "_What"
    families: frozenset[str]
    vhosts: frozenset[str] | None
    """None for all."""

    @property
    def names_objects(self) -> bool:
        """Whether the answer names queues, virtual hosts and clients."""
        return self.what in (_What.PER_OBJECT, _What.DETAILED)

    @staticmethod
    def of(target: str) -> "Scrape | None":
        """Return what the target of a request asks for; None if that is not about metrics."""
        path, _, query = target.partition("?")
        if path != _PATH and not path.startswith(f"{_PATH}/"):
            return None
        asked = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
        vhosts = [value for name, value in asked if name == "vhost"]
        return Scrape(
            _PAGES.get(path.removeprefix(_PATH).strip("/"), _What.NOTHING),
            frozenset(value for name, value in asked if name == "family"),
            frozenset(vhosts) if vhosts else None,
        )


class _What(Enum):
    SUMS = "sums over all objects"
    PER_OBJECT = "a series for each object"
    DETAILED = "some groups, a series for each object"
    NOTHING = "nothing that there is"


_PAGES = {
    "": _What.SUMS,
    "default": _What.SUMS,
    "per-object": _What.PER_OBJECT,
    "detailed": _What.DETAILED,
}
"""What is shown by what stands after the path."""


class Metrics:
    """See the head of the module.

    Args:
        services: Of the node whose metrics these are.
        callers: Knows the logins of the API.

    Threads: event loop only.
    """

    def __init__(self, services: NodeServices, callers: Callers) -> None:
        self._services = services
        self._callers = callers
        self._started_at = services.clock.now_ms() / 1000

    async def response(self, scrape: Scrape) -> HttpResponse:
        """Return what is asked for, as text; 404 if there is nothing of that name."""
        text = MetricsText(self._scope(scrape), self._services.slicer)
        sums: Iterable[AnyGroup] = ()
        series: Sequence[tuple[AnyGroup, str]] = ()
        match scrape.what:
            case _What.NOTHING:
                return HttpResponse(status=404, body=[b"Unknown Registry"])
            case _What.SUMS:
                sums = (*_once(GROUPS), *SUMMED, *ALARMS)
            case _What.PER_OBJECT:
                sums, series = SUMMED, [(one, PREFIX) for one in _once(GROUPS)]
            case _What.DETAILED:
                groups, of_cluster = (
                    [one for one in some if one.name in scrape.families]
                    for some in (GROUPS, CLUSTER)
                )
                series = [(one, DETAILED_PREFIX) for one in _once(groups)]
                series += [(one, CLUSTER_PREFIX) for one in of_cluster]
        for group, prefix in series:
            await group.write_series(text, prefix)
        for group in sums:
            await group.write_sums(text, PREFIX)
        if scrape.what is _What.SUMS:
            text.add_one(_START, "When it has started, in s since 1970", self._started_at)
        self._identify(text)
        return text.response()

    def _scope(self, scrape: Scrape) -> Scope:
        vhosts = self._services.vhosts
        wanted = scrape.vhosts if scrape.what is _What.DETAILED else None
        some = [one for name, one in vhosts.items() if wanted is None or name in wanted]
        return Scope(self._services, node_figures(self._services), self._logins(), some)

    def _identify(self, text: MetricsText[Scope]) -> None:
        facts = self._services.facts
        names = {"rabbitmq_node": facts.name, "rabbitmq_cluster": str(facts.cluster)}
        version = {"rabbitmq_version": LIKE_VERSION, "product_name": "RabbitMQ"}
        for name, help_text, labels in (
            ("build_info", "Which version of RabbitMQ this answers like", version),
            ("identity_info", "What node and cluster are called", names),
        ):
            text.add_one(f"{PREFIX}{name}", help_text, 1, **labels)

    def _logins(self) -> Sequence[Logins]:
        logins, callers = self._services.authenticator.logins, self._callers
        return [
            Logins("amqp091", logins[True], logins[False]),
            Logins("http", callers.succeeded_count, callers.failed_count),
        ]


def _once(groups: Sequence[AnyGroup]) -> list[AnyGroup]:
    """Return groups of which none has families of another."""
    names = {one.name for one in groups}
    return [one for one in groups if one.part_of not in names]
