"""What brokers count, over spans of time; members are named as RocketMQ's JSON does."""

from msgspec import Struct, field


class Rate(Struct, frozen=True, kw_only=True):
    """What was counted over a span of time.

    Attributes:
        sum: Everything counted in the span.
        tps: That for each second of it.
        average: That for each time of counting: the size of a message, or messages of an answer.
    """

    sum: int = 0
    tps: float = 0.0
    average: float = field(name="avgpt", default=0.0)


class StatsData(Struct, frozen=True, kw_only=True):
    """One statistic over the last minute, hour and day."""

    minute: Rate = field(name="statsMinute")
    hour: Rate = field(name="statsHour")
    day: Rate = field(name="statsDay")
