"""What tools show of a broker: 28, every key that `mqadmin clusterList` reads."""

from collections.abc import Callable

from sprocket.base.clock import Clock
from sprocket.rocketmq.broker.hold import PullHold
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.codec import bodies, record
from sprocket.rocketmq.codec.codes import VERSION, RequestCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.server.dispatch import Answer, Handler
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.driver import Peer

VERSION_TEXT = "V5_3_3"
"""The release whose protocol we speak, as RocketMQ's enum names it."""


class StatusHandlers:
    """The broker's figures."""

    def __init__(
        self,
        store: Store,
        stats: Stats,
        hold: PullHold,
        clock: Clock,
        disk_used_ratio: Callable[[], float],
    ) -> None:
        self._store = store
        self._stats = stats
        self._hold = hold
        self._clock = clock
        self._disk_used_ratio = disk_used_ratio

    def table(self) -> dict[int, Handler]:
        """Return the handler of each code."""
        return {RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime}

    def runtime(self, _: Peer, _request: Command) -> Answer:
        """Answer the figures as texts by name."""
        stats = self._stats
        now_ms = self._clock.now_ms()
        table = {
            "brokerActive": "true",
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": VERSION_TEXT,
            "bootTimestamp": str(stats.started_at_ms),
            "runtime": f"[ {(now_ms - stats.started_at_ms) // 1000} seconds ]",
            "putTps": _rates(stats.put_rates()),
            "getTransferredTps": _rates(stats.got_rates()),
            "getFoundTps": _rates(stats.got_rates()),
            "getTotalTps": _rates(stats.got_rates()),
            "msgPutTotalTodayNow": str(stats.put),
            "msgGetTotalTodayNow": str(stats.got),
            "pullThreadPoolQueueSize": str(self._hold.count),
            "earliestMessageTimeStamp": str(self._earliest_ms()),
            "commitLogDiskRatio": f"{self._disk_used_ratio():.4f}",
            "commitLogMaxOffset": str(self._store.end),
            "remainHowManyDataToFlush": f"{self._store.end - self._store.synced} B",
        }
        for name in _ZEROS:
            table[name] = "0"
        return Answer(body=(bodies.encode_key_values(table),))

    def _earliest_ms(self) -> int:
        """Return when the oldest message was stored, −1 when there is none."""
        for _, stored in self._store.records():
            return record.entry(stored, 0).stored_at_ms
        return -1


_ZEROS = (
    "sendThreadPoolQueueSize",
    "ackThreadPoolQueueSize",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "ackThreadPoolQueueHeadWaitTimeMills",
    "pageCacheLockTimeMills",
    "timerReadBehind",
    "timerOffsetBehind",
    "timerCongestNum",
    "timerEnqueueTps",
    "timerDequeueTps",
    "msgPutTotalYesterdayMorning",
    "msgPutTotalTodayMorning",
    "msgGetTotalYesterdayMorning",
    "msgGetTotalTodayMorning",
    "dispatchBehindBytes",
)
"""Queues between threads, timers and daily counts: what Sprocket has not got is empty."""


def _rates(rates: list[float]) -> str:
    return " ".join(f"{rate:.2f}" for rate in rates)
