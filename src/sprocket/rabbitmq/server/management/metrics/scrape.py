"""Answers a scrape: sums, series, or some groups of series, as text.

Everything is computed when it is asked for, some objects at a time. A series of a queue costs half
a microsecond, so `/metrics/per-object` of 10,000 queues takes a tenth of a second of the loop,
between whose parts others are served; `/metrics/detailed` takes what its groups cost.
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
)
from sprocket.rabbitmq.server.management.metrics.groups import (
    GAUGE,
    Logins,
    Scope,
    Told,
    labelled,
    line,
)
from sprocket.rabbitmq.server.management.requests import Callers
from sprocket.rabbitmq.server.management.served import Served
from sprocket.runtime.http import HttpResponse

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
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
        served: The broker whose metrics these are.
        callers: Knows the logins of the API.

    Threads: event loop only.
    """

    def __init__(self, served: Served, callers: Callers) -> None:
        self._served = served
        self._callers = callers
        self._started_at = served.clock.now_ms() / 1000

    async def response(self, scrape: Scrape) -> HttpResponse:
        """Return what is asked for, as text; 404 if there is nothing of that name."""
        text = _Text(self._scope(scrape))
        match scrape.what:
            case _What.NOTHING:
                return HttpResponse(status=404, body=[b"Unknown Registry"])
            case _What.SUMS:
                await text.add_sums((*_once(GROUPS), *SUMMED, *ALARMS))
                text.add(_one(_START, "When it has started, in s since 1970", self._started_at))
            case _What.PER_OBJECT:
                await text.add_series(_once(GROUPS), PREFIX)
                await text.add_sums(SUMMED)
            case _What.DETAILED:
                groups = [one for one in GROUPS if one.name in scrape.families]
                await text.add_series(_once(groups), DETAILED_PREFIX)
                cluster = [one for one in CLUSTER if one.name in scrape.families]
                await text.add_series(cluster, CLUSTER_PREFIX)
        self._identify(text)
        return HttpResponse(status=200, headers={"content-type": CONTENT_TYPE}, body=text.pieces)

    def _scope(self, scrape: Scrape) -> Scope:
        vhosts = self._served.vhosts
        wanted = scrape.vhosts if scrape.what is _What.DETAILED else None
        some = [one for name, one in vhosts.items() if wanted is None or name in wanted]
        return Scope(self._served, node_figures(self._served), self._logins(), some)

    def _identify(self, text: "_Text") -> None:
        facts = self._served.facts
        names = {"rabbitmq_node": facts.name, "rabbitmq_cluster": str(facts.cluster)}
        version = {"rabbitmq_version": LIKE_VERSION, "product_name": "RabbitMQ"}
        for name, help_text, labels in (
            ("build_info", "Which version of RabbitMQ this answers like", version),
            ("identity_info", "What node and cluster are called", names),
        ):
            text.add(_one(f"{PREFIX}{name}", help_text, 1, **labels))

    def _logins(self) -> Sequence[Logins]:
        logins, callers = self._served.entrance.logins, self._callers
        return [
            Logins("amqp091", logins[True], logins[False]),
            Logins("http", callers.succeeded_count, callers.failed_count),
        ]


class _Text:
    """What was written so far.

    Args:
        scope: What is scraped.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.pieces: list[bytes] = []

    def add(self, told: Told) -> None:
        """Add one family; one without a line is left out."""
        lines = "".join(told.lines)
        if lines:
            head = f"# TYPE {told.name} {told.kind}\n# HELP {told.name} {told.help}\n"
            self.pieces.append((head + lines).encode("utf-8", "replace"))

    async def add_sums(self, groups: Iterable[AnyGroup]) -> None:
        """Add sums over the objects of some groups."""
        for group in groups:
            for told in await group.summed(self._scope, PREFIX):
                self.add(told)

    async def add_series(self, groups: Iterable[AnyGroup], prefix: str) -> None:
        """Add a series for each object of some groups."""
        for group in groups:
            for told in await group.series(self._scope, prefix):
                self.add(told)


def _one(name: str, help_text: str, value: float, **labels: str) -> Told:
    return Told(name, GAUGE, help_text, [line(name, labelled(**labels), value)])


def _once(groups: Sequence[AnyGroup]) -> list[AnyGroup]:
    """Return groups of which none has families of another."""
    names = {one.name for one in groups}
    return [one for one in groups if one.part_of not in names]
