"""Requests about the broker itself: 28, 315, 907; and to clean up: 306, 316, 329."""

from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.broker.admin import Removal, RuntimeInfo, Upkeep
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.codec.bodies import ReplicaStatus, broker_bodies, stats_bodies
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.headers import ViewStats
from sprocket.rocketmq.remoting import Answer, Handler, answering
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.driver import Peer


class StatusHandlers:
    """The broker's figures and its upkeep."""

    def __init__(
        self,
        store: Store,
        info: RuntimeInfo,
        stats: Stats,
        upkeep: Upkeep,
        removal: Removal,
        cluster: str,
    ) -> None:
        self._store = store
        self._info = info
        self._stats = stats
        self._upkeep = upkeep
        self._removal = removal
        self._cluster = cluster

    def table(self) -> dict[int, Handler]:
        """Return the handler of each code."""
        return {
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime,
            RequestCode.VIEW_BROKER_STATS_DATA: self.view,
            RequestCode.GET_BROKER_HA_STATUS: self.replicas,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self.clean,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self.clean,
            RequestCode.CLEAN_UNUSED_TOPIC: self.clean_unused,
        }

    def runtime(self, _: Peer, _request: Command) -> Answer:
        """Answer the figures as texts by name."""
        return Answer(body=(broker_bodies.encode_key_values(self._info.table()),))

    def view(self, _: Peer, request: Command) -> Answer:
        """Answer one statistic."""
        header = request.header(ViewStats)
        found = self._stats.view(header.stats_name, header.stats_key, self._cluster)
        if found is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"The stats <{header.stats_name}> <{header.stats_key}> not exist",
            )
        return Answer(body=(stats_bodies.encode_stats(found),))

    def replicas(self, _: Peer, _request: Command) -> Answer:
        """Answer how slaves keep up: this master has none."""
        status = ReplicaStatus(log_end=self._store.end)
        return Answer(body=(stats_bodies.encode_replica_status(status),))

    def clean(self, peer: Peer, request: Command) -> None:
        """Delete old log files that have expired, with the units and keys of their messages.

        A queue that has no message left keeps its place: consumers go on where they were.
        """
        self._upkeep.clean(answering(peer, request))

    def clean_unused(self, peer: Peer, request: Command) -> None:
        """Delete queues whose topic is not there any more."""
        self._removal.delete_unused(answering(peer, request))
