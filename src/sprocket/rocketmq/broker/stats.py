"""How much goes through the broker: counters, their rates, and what each topic and group has.

Puts are counted when messages arrive in their queues, once for each topic and round; gets are
counted once for each answer. The counts are lost when the process ends, as in RocketMQ. By topic
and group there is what was counted in the last minute, hour and day (`base.meters`).

Source: RocketMQ `StatsItem`, whose samples are of 10 s, 10 min and 1 h.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import NamedTuple, TypeVar

from sprocket.base.clock import Clock
from sprocket.base.durations import DurationHistogram
from sprocket.base.meters import ROLL_SECONDS, Count, Meter, MeterWindow
from sprocket.rocketmq.model.stats import Rate, StatsData
from sprocket.rocketmq.store.reput import Put

WINDOWS_SECONDS = (10, 60, 600)
"""The spans that RocketMQ's tools show."""

SAMPLE_SECONDS = 5
"""How often the counters are noted; rates are as exact as that."""

Group = tuple[str, str]
"""Topic and group."""

K = TypeVar("K")


class Flow(NamedTuple):
    """What goes through: counted since the start, or per second.

    Attributes:
        put: Messages written to the log.
        got: Messages handed out.
        found: Pulls that gave some.
        missed: Pulls that gave none.
    """

    put: float
    got: float
    found: float
    missed: float


class _Sample(NamedTuple):
    at: float
    counted: Flow


@dataclass(frozen=True, slots=True)
class Totals:
    """Messages since the start of the broker, as of the last two midnights and now."""

    yesterday: int
    today: int
    now: int


class Stats:
    """Counters since the start.

    Attributes:
        put: Messages written to the log.
        refused: Writes that failed.
        got: Messages handed out.
        found: Pulls that gave some.
        missed: Pulls that gave none.
        puts: What arrived, by topic.
        gets: What was handed out, by topic and group.
        send_backs: What consumers sent back, by topic and group.
        syncs: How long syncs of the log took, which sends waited for.
        pull_ms_max: How long a pull waited for the disk at most.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.monotonic = clock.monotonic
        self.put = 0
        self.refused = 0
        self.got = 0
        self.found = 0
        self.missed = 0
        self.puts: Meter[str] = Meter()
        self.gets: Meter[Group] = Meter()
        self.send_backs: Meter[Group] = Meter()
        self.syncs = DurationHistogram()
        self.pull_ms_max = 0.0
        self._pull_offsets: dict[tuple[str, str, int], int] = {}
        self.started_at_ms = clock.now_ms()
        now = clock.monotonic()
        self._samples: deque[_Sample] = deque(
            [_Sample(now, Flow(0, 0, 0, 0))], maxlen=WINDOWS_SECONDS[-1] // SAMPLE_SECONDS + 1
        )
        self._rolled = now
        self._day = self._today()
        self._put_mornings = self._got_mornings = (0, 0)

    # Counting.

    def arrived(self, put: Put) -> None:
        """Count what has come into the queues of a topic."""
        self.puts.add(put.topic, put.messages, put.bytes)

    def pulled(
        self, topic: str, group: str, queue_id: int, next_offset: int, messages: int, size: int
    ) -> None:
        """Count the answer to a pull, and note where the group goes on pulling."""
        if messages:
            self.got += messages
            self.found += 1
            self.gets.add((topic, group), messages, size)
            self._pull_offsets[topic, group, queue_id] = next_offset
        else:
            self.missed += 1

    def waited(self, started: float) -> None:
        """Count a pull that has waited for the disk since a time of the monotonic clock."""
        self.pull_ms_max = max(self.pull_ms_max, 1000 * (self._clock.monotonic() - started))

    def sent_back(self, topic: str, group: str) -> None:
        """Count a message that a consumer could not use."""
        self.send_backs.add((topic, group), 1, 0)

    def forget_topic(self, topic: str) -> None:
        """Forget a topic that was deleted."""
        self.puts.forget(lambda key: key == topic)
        for meter in (self.gets, self.send_backs):
            meter.forget(lambda key: key[0] == topic)
        self._keep_pull_offsets(lambda key: key[0] != topic)

    def forget_group(self, group: str) -> None:
        """Forget a group that was deleted."""
        for meter in (self.gets, self.send_backs):
            meter.forget(lambda key: key[1] == group)
        self._keep_pull_offsets(lambda key: key[1] != group)

    def _keep_pull_offsets(self, is_kept: Callable[[tuple[str, str, int]], bool]) -> None:
        self._pull_offsets = {k: to for k, to in self._pull_offsets.items() if is_kept(k)}

    def sample(self) -> None:
        """Note the counters; called about every second, kept every five."""
        now = self._clock.monotonic()
        if now - self._samples[-1].at >= SAMPLE_SECONDS:
            self._samples.append(self._sampled(now))
        if now - self._rolled >= ROLL_SECONDS:
            for meter in (self.puts, self.gets, self.send_backs):
                meter.roll(now - self._rolled)
            self._rolled = now
        today = self._today()
        if today != self._day:
            self._day = today
            self._put_mornings = (self._put_mornings[1], self.put)
            self._got_mornings = (self._got_mornings[1], self.got)

    # Reading.

    def rates(self) -> list[Flow]:
        """Return what went through per second over each window."""
        now = self._sampled(self._clock.monotonic())
        return [self._rate(now, seconds) for seconds in WINDOWS_SECONDS]

    @property
    def put_totals(self) -> Totals:
        """What was stored, day by day."""
        return Totals(*self._put_mornings, self.put)

    @property
    def got_totals(self) -> Totals:
        """What was handed out, day by day."""
        return Totals(*self._got_mornings, self.got)

    def pull_offset(self, topic: str, group: str, queue_id: int) -> int:
        """Return where the last pull of a group that found something has ended; 0 without one."""
        return self._pull_offsets.get((topic, group, queue_id), 0)

    def topic_put_tps(self, topic: str) -> float:
        """Return messages a second that came into a topic in the last minute."""
        return _per_second(self.puts.minute, topic)

    def group_get_tps(self, topic: str, group: str) -> float:
        """Return messages a second that a group took from a topic in the last minute."""
        return _per_second(self.gets.minute, (topic, group))

    def view(self, name: str, key: str, cluster: str) -> StatsData | None:
        """Return what RocketMQ calls a statistic; None if nothing was counted for a day.

        Args:
            name: Such as TOPIC_PUT_NUMS.
            key: A topic, `topic@group`, or the cluster for those of the whole broker.
            cluster: The name of this broker's.
        """
        topic, _, group = key.partition("@")
        match name:
            case "TOPIC_PUT_NUMS":
                return _of_key(self.puts, key, _messages)
            case "TOPIC_PUT_SIZE":
                return _of_key(self.puts, key, _message_bytes)
            case "GROUP_GET_NUMS":
                return _of_key(self.gets, (topic, group), _by_answer)
            case "GROUP_GET_SIZE":
                return _of_key(self.gets, (topic, group), _answer_bytes)
            case "SNDBCK_PUT_NUMS":
                return _of_key(self.send_backs, (topic, group), _messages)
            case "BROKER_PUT_NUMS" if key == cluster:
                return _of_all(self.puts, _messages)
            case "BROKER_GET_NUMS" if key == cluster:
                return _of_all(self.gets, _by_answer)
        return None

    def _sampled(self, now: float) -> _Sample:
        return _Sample(now, Flow(self.put, self.got, self.found, self.missed))

    def _rate(self, now: _Sample, seconds: int) -> Flow:
        start = self._samples[0]
        for sample in reversed(self._samples):
            start = sample
            if now.at - sample.at >= seconds:
                break
        passed = now.at - start.at
        counts = zip(now.counted, start.counted, strict=True)
        return Flow(*((end - begin) / passed if passed > 0 else 0.0 for end, begin in counts))

    def _today(self) -> date:
        """Return the day, in the zone of the broker."""
        return datetime.fromtimestamp(self._clock.now_ms() / 1000).date()  # noqa: DTZ006


_Read = Callable[[Count], tuple[int, int]]
"""Gives the sum of a count, and by how many its average goes."""


def _messages(count: Count) -> tuple[int, int]:
    return count.messages, count.messages


def _message_bytes(count: Count) -> tuple[int, int]:
    return count.size, count.messages


def _by_answer(count: Count) -> tuple[int, int]:
    return count.messages, count.times


def _answer_bytes(count: Count) -> tuple[int, int]:
    return count.size, count.times


def _of_key(meter: Meter[K], key: K, read: _Read) -> StatsData | None:
    if not meter.knows(key):
        return None
    return _data(meter, lambda window: window.find(key) or Count(), read)


def _of_all(meter: Meter[K], read: _Read) -> StatsData:
    return _data(meter, lambda window: window.total(), read)


def _data(meter: Meter[K], counted: Callable[[MeterWindow[K]], Count], read: _Read) -> StatsData:
    windows = (meter.minute, meter.hour, meter.day)
    minute, hour, day = (_rate(counted(one), one.seconds, read) for one in windows)
    return StatsData(minute=minute, hour=hour, day=day)


def _rate(count: Count, seconds: float, read: _Read) -> Rate:
    total, number = read(count)
    return Rate(
        sum=total,
        tps=total / seconds if seconds > 0 else 0.0,
        average=total / number if number else 0.0,
    )


def _per_second(window: MeterWindow[K], key: K) -> float:
    count, seconds = window.find(key), window.seconds
    return 0.0 if count is None or seconds <= 0 else count.messages / seconds
