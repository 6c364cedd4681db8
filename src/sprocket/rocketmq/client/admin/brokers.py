"""Brokers: what they do, how they are set up, and what they may tidy away."""

from collections.abc import Mapping

from msgspec import Struct

from sprocket.rocketmq.client.admin.reach import Reach
from sprocket.rocketmq.client.network import granted
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import (
    BrokerConsumeStats,
    KeyValueTable,
    ProducerInfo,
    ProducerTable,
    QueueUnits,
    ReplicaStatus,
)
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.config import java_properties
from sprocket.rocketmq.codec.headers import (
    GetBrokerConsumeStats,
    QueryConsumeQueue,
    ViewMessage,
    ViewStats,
)
from sprocket.rocketmq.errors import NoRoute
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.rocketmq.model.stats import StatsData


class BrokerStatus(Struct, frozen=True, kw_only=True):
    """What a broker tells of itself; figures that it does not tell are 0.

    Attributes:
        version: Such as `V5_3_3`.
        boot_at_ms: When it was started, wall time.
        put_tps: Messages stored a second, over the last 10 s, 60 s and 600 s.
        get_tps: Messages given to consumers a second, likewise.
        put_today: Messages stored since midnight.
        put_yesterday: Messages stored on the day before.
        get_today: Messages given to consumers since midnight.
        get_yesterday: Messages given to consumers on the day before.
        disk_used_ratio: Of the disk with the log, 0 to 1.
        log_min_offset: Where the log begins, in bytes.
        log_max_offset: Where it ends.
        earliest_at_ms: When the oldest message was stored, wall time.
        refusal: Why it stores nothing now, empty if it does. RocketMQ's brokers do not tell.
        values: All that the broker tells, as it tells it.
    """

    version: str
    boot_at_ms: int
    put_tps: tuple[float, float, float]
    get_tps: tuple[float, float, float]
    put_today: int
    put_yesterday: int
    get_today: int
    get_yesterday: int
    disk_used_ratio: float
    log_min_offset: int
    log_max_offset: int
    earliest_at_ms: int
    refusal: str
    values: Mapping[str, str]


class BrokerAdmin:
    """What can be done with brokers, by name; `admin.broker`."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def status(self, broker: str) -> BrokerStatus:
        """Return what a broker is doing. Raises NoRoute if there is none of that name."""
        code = RequestCode.GET_BROKER_RUNTIME_INFO
        return broker_status((await self._reach.ask_broker(broker, code, KeyValueTable)).table)

    async def config(self, broker: str) -> dict[str, str]:
        """Return a broker's settings, under RocketMQ's names."""
        address, code = await self._reach.master(broker), RequestCode.GET_BROKER_CONFIG
        found = java_properties.read((await self._reach.call(address, code)).body)
        return dict(sorted(found.items()))

    async def update_config(self, broker: str, settings: Mapping[str, str]) -> None:
        """Change settings of a broker while it runs, those that can be.

        Args:
            broker: Its name.
            settings: Under RocketMQ's names. Unknown ones are ignored by RocketMQ.

        Raises:
            BrokerRefused: One of them may not be changed.
        """
        address = await self._reach.master(broker)
        body = java_properties.write(settings)
        await self._reach.call(address, RequestCode.UPDATE_BROKER_CONFIG, None, body)

    async def stats(self, broker: str, name: str, key: str) -> StatsData:
        """Return how often something happened in the last minute, hour and day.

        Args:
            broker: Its name.
            name: Such as `TOPIC_PUT_NUMS` or `GROUP_GET_NUMS`.
            key: A topic, or `topic@group` for what concerns a group.

        Raises:
            BrokerRefused: It has not counted that.
        """
        code, header = RequestCode.VIEW_BROKER_STATS_DATA, ViewStats(stats_name=name, stats_key=key)
        return await self._reach.ask_broker(broker, code, StatsData, header)

    async def replicas(self, broker: str) -> dict[int, ReplicaStatus]:
        """Return what master and slaves of a broker say of each other, by their numbers.

        Raises:
            NoRoute: No broker has that name.
            ClientError: None of them answers; those that do not are left out.
        """
        data = (await self._reach.cluster()).brokers.get(broker)
        if data is None:
            raise NoRoute(f"no NameServer knows a broker {broker!r}")
        addresses = {address: broker_id for broker_id, address in data.addresses.items()}
        code, decode = RequestCode.GET_BROKER_HA_STATUS, bodies.decoder(ReplicaStatus)
        found = await self._reach.ask_each(addresses, code, None, decode)
        return {addresses[address]: status for address, status in found.items()}

    async def record(self, broker: str, offset: int) -> bytes | None:
        """Return the record at a place in the log of a broker's master; None if none begins there.

        Args:
            broker: Its name.
            offset: The place, bytes into the log.
        """
        address, code = await self._reach.master(broker), RequestCode.VIEW_MESSAGE_BY_ID
        header = ViewMessage(offset=offset)
        command = await self._reach.instance.connections.request(address, code, header)
        if not granted(address, code, command, (ResponseCode.SYSTEM_ERROR,)):
            return None
        return bytes(command.body)

    async def consume_stats(self, broker: str, *, is_order: bool = False) -> BrokerConsumeStats:
        """Return how far every group is in the queues of a broker.

        Args:
            broker: Its name.
            is_order: Only in topics whose order is global.
        """
        address, code = await self._reach.master(broker), RequestCode.GET_BROKER_CONSUME_STATS
        header = GetBrokerConsumeStats(is_order=is_order)
        return await self._reach.ask(address, code, BrokerConsumeStats, header, timeout_ms=50_000)

    async def producers(self, broker: str) -> dict[str, list[ProducerInfo]]:
        """Return the producers that are connected to a broker, by group."""
        code = RequestCode.GET_ALL_PRODUCER_INFO
        return (await self._reach.ask_broker(broker, code, ProducerTable)).groups

    async def queue_units(
        self, queue: MessageQueue, first: int, count: int = 32, *, group: str | None = None
    ) -> QueueUnits:
        """Return what a queue says of its messages: places, sizes, codes of tags.

        Args:
            queue: Of which broker and topic.
            first: Offset of the first one.
            count: At most so many.
            group: Say of each whether this group's filter lets it pass.
        """
        header = QueryConsumeQueue(
            topic=queue.topic,
            queue_id=queue.queue_id,
            index=first,
            count=count,
            consumer_group=group,
        )
        code = RequestCode.QUERY_CONSUME_QUEUE
        return await self._reach.ask_broker(queue.broker_name, code, QueueUnits, header)

    async def clean_expired_queues(self, broker: str) -> None:
        """Have a broker delete the parts of queues whose messages are gone."""
        await self._tidy(broker, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)

    async def clean_unused_topics(self, broker: str) -> None:
        """Have a broker delete the queues of topics that do not exist any more."""
        await self._tidy(broker, RequestCode.CLEAN_UNUSED_TOPIC)

    async def delete_expired_log(self, broker: str) -> None:
        """Have a broker delete the files of its log that are past their time, now."""
        await self._tidy(broker, RequestCode.DELETE_EXPIRED_COMMITLOG)

    async def _tidy(self, broker: str, code: RequestCode) -> None:
        await self._reach.call(await self._reach.master(broker), code)


def broker_status(table: Mapping[str, str]) -> BrokerStatus:
    """Read what brokers tell under the names that mqadmin knows."""
    put_now = _integer(table, "msgPutTotalTodayNow")
    put_morning = _integer(table, "msgPutTotalTodayMorning")
    get_now = _integer(table, "msgGetTotalTodayNow")
    get_morning = _integer(table, "msgGetTotalTodayMorning")
    return BrokerStatus(
        version=table.get("brokerVersionDesc", ""),
        boot_at_ms=_integer(table, "bootTimestamp"),
        put_tps=_rates(table, "putTps"),
        get_tps=_rates(table, "getTransferredTps"),
        put_today=put_now - put_morning,
        put_yesterday=put_morning - _integer(table, "msgPutTotalYesterdayMorning"),
        get_today=get_now - get_morning,
        get_yesterday=get_morning - _integer(table, "msgGetTotalYesterdayMorning"),
        disk_used_ratio=_number(table.get("commitLogDiskRatio", "")),
        log_min_offset=_integer(table, "commitLogMinOffset"),
        log_max_offset=_integer(table, "commitLogMaxOffset"),
        earliest_at_ms=_integer(table, "earliestMessageTimeStamp"),
        refusal=table.get("sprocketRefusal", ""),
        values=table,
    )


def _integer(table: Mapping[str, str], name: str) -> int:
    return int(_number(table.get(name, "")))


def _rates(table: Mapping[str, str], name: str) -> tuple[float, float, float]:
    """Return three numbers; a young broker has fewer, as it has not looked that often yet."""
    found = [_number(part) for part in table.get(name, "").split()]
    ten, sixty, six_hundred, *_ = [*found, 0.0, 0.0, 0.0]
    return ten, sixty, six_hundred


def _number(text: str) -> float:
    """Return a number; 0 for what is not one, as a broker may leave any of them out."""
    try:
        return float(text)
    except ValueError:
        return 0.0
