"""Requests about the broker: 25, 26, 28, 315, 907, 2002, 2003; to clean up: 306, 316, 329."""

from collections.abc import Callable
from dataclasses import dataclass

from sprocket.rocketmq.broker.admin import Removal, Upkeep
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import ColdReadTable, KeyValueTable, ReplicaStatus
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.config import java_properties
from sprocket.rocketmq.codec.headers import BrokerConfigAnswer, NoFields, ViewStats
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.live_settings import LiveSettings
from sprocket.rocketmq.server.dispatch import Answer, Request, Row, row
from sprocket.rocketmq.server.handlers.admin.runtime_info import RuntimeInfo
from sprocket.runtime.cold_reads import ColdReads


@dataclass(frozen=True, slots=True)
class StatusHandlers:
    """The broker's settings, its figures and its upkeep."""

    _info: RuntimeInfo
    _stats: Stats
    _upkeep: Upkeep
    _removal: Removal
    _cluster: str
    _settings: LiveSettings
    _replicas: Callable[[], ReplicaStatus]

    def rows(self, reads: ColdReads) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.UPDATE_BROKER_CONFIG, NoFields, self.update),
            row(RequestCode.GET_BROKER_CONFIG, NoFields, self.config),
            row(RequestCode.GET_BROKER_RUNTIME_INFO, NoFields, self.runtime, reads),
            row(RequestCode.VIEW_BROKER_STATS_DATA, ViewStats, self.view),
            row(RequestCode.GET_BROKER_HA_STATUS, NoFields, self.replicas),
            row(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, NoFields, self.clean),
            row(RequestCode.DELETE_EXPIRED_COMMITLOG, NoFields, self.clean),
            row(RequestCode.CLEAN_UNUSED_TOPIC, NoFields, self.clean_unused),
            row(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO, NoFields, self.slowed),
            row(RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, NoFields, self.unslow),
        ]

    def update(self, request: Request, _header: NoFields) -> Answer:
        """Change settings; no body is a success, as in RocketMQ."""
        self._settings.update(java_properties.read(request.body))
        return Answer()

    def config(self, _: Request, _header: NoFields) -> Answer:
        """Answer all settings, in RocketMQ's words."""
        version = bodies.encode(self._settings.version).decode()
        return Answer(
            header=BrokerConfigAnswer(version=version),
            body=(java_properties.write(self._settings.texts()),),
        )

    def runtime(self, _: Request, _header: NoFields) -> Answer:
        """Answer the figures as texts by name."""
        return Answer(body=(bodies.encode(KeyValueTable(self._info.table())),))

    def view(self, _: Request, header: ViewStats) -> Answer:
        """Answer one statistic."""
        found = self._stats.view(header.stats_name, header.stats_key, self._cluster)
        if found is None:
            raise Refused(
                Refusal.OTHER, f"The stats <{header.stats_name}> <{header.stats_key}> not exist"
            )
        return Answer(body=(bodies.encode(found),))

    def replicas(self, _: Request, _header: NoFields) -> Answer:
        """Answer how slaves keep up, or how this one follows its master."""
        return Answer(body=(bodies.encode(self._replicas()),))

    def slowed(self, _: Request, _header: NoFields) -> Answer:
        """Answer which groups are slowed down as they read old messages: none ever is."""
        return Answer(body=(bodies.encode(ColdReadTable()),))

    def unslow(self, _: Request, _header: NoFields) -> Answer:
        """Slow a group down no more: none is."""
        return Answer()

    def clean(self, request: Request, _header: NoFields) -> None:
        """Delete old log files that have expired, with the units and keys of their messages.

        A queue that has no message left keeps its place: consumers go on where they were.
        """
        self._upkeep.clean(request.done)

    def clean_unused(self, request: Request, _header: NoFields) -> None:
        """Delete queues whose topic is not there any more."""
        self._removal.delete_unused(request.done)
