"""Which brokers to avoid for a while, because they were slow or failed.

A broker that answers late is *unavailable* for a time that follows from how late; one that could
not be reached is *unreachable* until it answers again. Messages that may go to any queue prefer
brokers that are available, then those that can be reached, then whatever there is. Messages with a
key never look: to avoid a broker would break their order.

Source: `MQFaultStrategy` and `LatencyFaultToleranceImpl`, 5.3.3.
"""

import asyncio

from msgspec import Struct

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.network import Connections, Routes
from sprocket.rocketmq.client.settings import ProducerSettings
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.headers import TopicQueue

_AVOID_S = ((15.0, 30.0), (5.0, 10.0), (3.0, 6.0), (1.8, 5.0), (0.55, 2.0))
"""From which latency on a broker is avoided, and for how long; below 0.55 s not at all."""
_ISOLATED_S = 10.0
"""The latency that a failure counts as."""
_ROUND_S = 3.0
"""How often `probe` looks for brokers that are due."""

_log = log.get_logger(__name__)


class _Broker(Struct):
    available_at: float = 0.0
    is_reachable: bool = True
    probe_at: float = 0.0


class BrokerFaults:
    """What a producer has seen of its brokers, by name.

    Threads: event loop only.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._brokers: dict[str, _Broker] = {}

    def note(self, name: str, latency_s: float, *, is_failed: bool, is_reachable: bool) -> None:
        """Take in how a send to a broker went; one that failed counts as answered after 10 s."""
        broker = self._brokers.setdefault(name, _Broker())
        avoid_s = _avoid_s(_ISOLATED_S if is_failed else latency_s)
        if avoid_s:
            # a quick answer later does not call an avoidance off
            broker.available_at = max(broker.available_at, self._clock.monotonic() + avoid_s)
        broker.is_reachable = is_reachable

    def is_available(self, name: str) -> bool:
        """Whether nothing speaks against a broker."""
        broker = self._brokers.get(name)
        return broker is None or self._clock.monotonic() >= broker.available_at

    def is_reachable(self, name: str) -> bool:
        """Whether a broker could be talked to when last tried."""
        broker = self._brokers.get(name)
        return broker is None or broker.is_reachable

    def due(self, every_s: float) -> list[str]:
        """Return the unreachable brokers that were not probed within `every_s`, and note it."""
        now = self._clock.monotonic()
        names = [
            name
            for name, broker in self._brokers.items()
            if not broker.is_reachable and broker.probe_at <= now
        ]
        for name in names:
            self._brokers[name].probe_at = now + every_s
        return names

    def answered(self, name: str) -> None:
        """Note that a broker answered a probe."""
        self._brokers[name].is_reachable = True

    def forget(self, name: str) -> None:
        """Drop a broker that no route names any more."""
        self._brokers.pop(name, None)


async def probe(
    faults: BrokerFaults, connections: Connections, routes: Routes, settings: ProducerSettings
) -> None:
    """Ask unreachable brokers something small until they answer; goes on until cancelled."""
    while True:
        await asyncio.sleep(_ROUND_S)
        for name in faults.due(settings.probe_ms / 1000):
            topic = routes.topic_of(name)
            address = routes.master_address(name)
            if topic is None or address is None:
                faults.forget(name)
                continue
            try:
                await connections.request(
                    address,
                    RequestCode.GET_MAX_OFFSET,
                    TopicQueue(topic=topic, queue_id=0),
                    timeout_ms=settings.probe_timeout_ms,
                )
                faults.answered(name)
            except ClientError as error:
                _log.info("broker still not reachable", broker=name, error=str(error))


def _avoid_s(latency_s: float) -> float:
    return next((avoid_s for from_s, avoid_s in _AVOID_S if latency_s >= from_s), 0.0)
