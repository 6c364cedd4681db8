"""The answer to GET_BROKER_RUNTIME_INFO 28: figures as texts, under RocketMQ's names.

RocketMQ has a pool of threads with a queue for each kind of request, and tools show the lengths of
these queues. Sprocket handles a request when it arrives. Only requests that need the disk wait, so
these are shown: sends that wait for their sync, pulls that wait for pages of old messages. There
are no limits for single pools.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from sprocket.base.place import Place
from sprocket.rocketmq.broker.stats import Stats
from sprocket.rocketmq.broker.timers import TimerFigures
from sprocket.rocketmq.codec.codes import VERSION
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.store.store import Store

VERSION_TEXT = "V5_3_3"
"""The release whose protocol we speak, as RocketMQ's enum names it."""

NO_LIMIT = str((1 << 31) - 1)
"""What RocketMQ says where there is none."""

POOLS = ("send", "pull", "litePull", "query", "ack")
"""Whose queues RocketMQ tells of."""

PUT_MS = (0.0, 10.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 3e3, 4e3, 5e3, 10e3)
PUT_NAMES = (
    *("<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s"),
    *("1~2s", "2~3s", "3~4s", "4~5s", "5~10s", "10s~"),
)
"""RocketMQ's histogram of how long puts took: upper bounds, and names."""


HELD_PULLS = "sprocketHeldPulls"
"""Our own figure: pulls that wait for messages, which in RocketMQ none tells."""
REFUSAL = "sprocketRefusal"
"""Our own: why nothing is stored now, empty if it is. RocketMQ's tools see only `brokerActive`."""


class WaitingRequests(NamedTuple):
    """How many requests wait: sends for their sync, reads for the disk, pulls for messages."""

    sends: int
    reads: int
    pulls: int
    longest_send_ms: int
    """How long the oldest of the sends has waited."""


class RuntimeInfo:
    """Collects the figures.

    Args:
        store: Its log.
        stats: What went through.
        place: The store's, for the time since the start and what room its disk has.
        waiting: Gives what waits.
        delays: Gives by delay level the offsets of what comes next and of the queue's end.
        timers: Gives the figures of messages that wait for their time.
        refusal: Says why nothing is stored now.
    """

    def __init__(
        self,
        store: Store,
        stats: Stats,
        place: Place,
        waiting: Callable[[], WaitingRequests],
        delays: Callable[[], Mapping[int, tuple[int, int]]],
        timers: Callable[[], TimerFigures],
        refusal: Callable[[], str | None],
    ) -> None:
        self._store = store
        self._stats = stats
        self._place = place
        self._waiting = waiting
        self._delays = delays
        self._figures = timers
        self._refusal = refusal
        self._start_end = store.end

    def table(self) -> dict[str, str]:
        """Return every figure by its name."""
        now_ms, refusal = self._place.clock.now_ms(), self._refusal()
        return {
            "brokerActive": "true" if refusal is None else "false",
            REFUSAL: refusal or "",
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": VERSION_TEXT,
            "bootTimestamp": str(self._stats.started_at_ms),
            "runtime": lasting((now_ms - self._stats.started_at_ms) // 1000),
            "startAcceptSendRequestTimeStamp": "0",
            **self._puts(),
            **self._gets(),
            **self._log(),
            **self._pools(),
            **self._timers(),
        }

    def _puts(self) -> dict[str, str]:
        stats, size = self._stats, self._store.end - self._start_end
        totals, counts = stats.put_totals, stats.syncs.up_to(PUT_MS)
        return {
            "putTps": _rates(one.put for one in stats.rates()),
            "putMessageTimesTotal": str(stats.put),
            "putMessageFailedTimes": str(stats.refused),
            "putMessageSizeTotal": str(size),
            "putMessageAverageSize": str(size / stats.put if stats.put else 0.0),
            "putMessageEntireTimeMax": str(round(stats.syncs.ms_max)),
            "putMessageDistributeTime": "".join(
                f"[{name}]:{count} " for name, count in zip(PUT_NAMES, counts, strict=True)
            ),
            "putLatency99": f"{stats.syncs.ms(0.99):.2f}",
            "putLatency999": f"{stats.syncs.ms(0.999):.2f}",
            "msgPutTotalYesterdayMorning": str(totals.yesterday),
            "msgPutTotalTodayMorning": str(totals.today),
            "msgPutTotalTodayNow": str(totals.now),
        }

    def _gets(self) -> dict[str, str]:
        stats, totals = self._stats, self._stats.got_totals
        rates = stats.rates()
        return {
            "getFoundTps": _rates(one.found for one in rates),
            "getMissTps": _rates(one.missed for one in rates),
            "getTotalTps": _rates(one.found + one.missed for one in rates),
            "getTransferredTps": _rates(one.got for one in rates),
            "getMessageEntireTimeMax": str(round(stats.pull_ms_max)),
            "msgGetTotalYesterdayMorning": str(totals.yesterday),
            "msgGetTotalTodayMorning": str(totals.today),
            "msgGetTotalTodayNow": str(totals.now),
        }

    def _log(self) -> dict[str, str]:
        store, disk, folder = self._store, self._place.disk, self._place.folder
        used, free = disk.used_ratio(folder), disk.free_bytes(folder)
        total = round(free / (1 - used)) if used < 1 else 0
        ratio = f"{used:.2f}"
        capacity = f"Total : {size_text(total)}, Free : {size_text(free)}."
        return {
            "commitLogMinOffset": str(store.first),
            "commitLogMaxOffset": str(store.end),
            "earliestMessageTimeStamp": str(self._earliest_at_ms()),
            "dispatchBehindBytes": str(max(0, store.end - store.dispatched)),
            "dispatchMaxBuffer": "0",
            "pageCacheLockTimeMills": "0",
            "remainHowManyDataToFlush": size_text(max(0, store.end - store.synced)),
            "remainTransientStoreBufferNumbs": NO_LIMIT,
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{folder}/commitlog": ratio,
            "consumeQueueDiskRatio": ratio,
            "commitLogDirCapacity": capacity,
        }

    def _pools(self) -> dict[str, str]:
        waiting = self._waiting()
        sizes = {"send": waiting.sends, "pull": waiting.reads}
        texts = {"EndTransactionQueueSize": "0", "EndTransactionThreadPoolQueueCapacity": NO_LIMIT}
        texts[HELD_PULLS] = str(waiting.pulls)
        for name in POOLS:
            texts[f"{name}ThreadPoolQueueSize"] = str(sizes.get(name, 0))
            texts[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = "0"
            texts[f"{name}ThreadPoolQueueCapacity"] = NO_LIMIT
        texts["sendThreadPoolQueueHeadWaitTimeMills"] = str(waiting.longest_send_ms)
        return texts

    def _timers(self) -> dict[str, str]:
        """Tell of messages that wait for their time, and of delay levels."""
        timers = self._figures()
        texts = {
            "timerReadBehind": str(timers.late_ms // 1000),
            "timerOffsetBehind": str(timers.behind),
            "timerCongestNum": str(timers.waiting),
            "timerEnqueueTps": str(timers.come),
            "timerDequeueTps": str(timers.gone),
        }
        for level, (offset, end) in sorted(self._delays().items()):
            texts[f"scheduleMessageOffset_{level}"] = f"{offset},{end}"
        return texts

    def _earliest_at_ms(self) -> int:
        """Return when the oldest message was stored, −1 when there is none."""
        for _, stored in self._store.records():
            return record.entry(stored, 0).stored_at_ms
        return -1


def _rates(rates: Iterable[float]) -> str:
    return " ".join(map(str, rates))


def lasting(seconds: int) -> str:
    """Return a span as RocketMQ tells it."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    return f"[ {days} days, {hours % 24} hours, {minutes % 60} minutes, {seconds % 60} seconds ]"


def size_text(size: int) -> str:
    """Return bytes as RocketMQ tells them."""
    if size < 1024:
        return f"{size} B"
    unit = min((size.bit_length() - 1) // 10, 6)
    return f"{size / (1 << 10 * unit):.1f} {'KMGTPE'[unit - 1]}iB"
