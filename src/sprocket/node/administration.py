"""Requests of tools to a broker: makes the parts that they need, and a handler for each code."""

from collections.abc import Callable

from sprocket.base.clock import Clock
from sprocket.base.disk import Disk
from sprocket.rocketmq.broker.admin import BrokerConfig, Room, RuntimeInfo, WaitingRequests
from sprocket.rocketmq.broker.broker import Broker
from sprocket.rocketmq.broker.groups import Progress
from sprocket.rocketmq.broker.messages import longest_ms
from sprocket.rocketmq.codec.bodies import DelayOffsets
from sprocket.rocketmq.codec.record import SCHEDULE_TOPIC
from sprocket.rocketmq.remoting import Handler
from sprocket.rocketmq.server.handlers.admin import ConfigHandlers, StatusHandlers, TopicHandlers
from sprocket.rocketmq.server.handlers.groups import GroupHandlers, ProgressHandlers
from sprocket.rocketmq.server.slicing import slicing
from sprocket.rocketmq.settings import Settings
from sprocket.runtime.slices import Slices

Told = Callable[[Callable[[], None]], None]
"""Calls back when the NameServers know of all changes."""


def handlers(
    broker: Broker,
    settings: Settings,
    address: str,
    when_told: Told,
    clock: Clock,
    disk: Disk,
    folder: str,
    slices: Slices,
) -> dict[int, Handler]:
    """Return the handlers of every code that administrators use.

    Args:
        broker: The broker.
        settings: All groups.
        address: Where clients reach the broker.
        when_told: See `broker.registration`.
        clock: For everything that has a time.
        disk: Where the store lies.
        folder: The store's folder.
        slices: Does what is long, in slices.
    """
    store, name = broker.store, settings.broker.name
    progress = Progress(
        store, broker.topics, broker.groups, broker.members, broker.offsets, broker.stats, name
    )
    delays, when_durable = broker.delay_progress, broker.snapshots.when_durable

    def delay_offsets() -> DelayOffsets:
        return DelayOffsets(version=delays.version, levels=delays.all())

    def delay_ranges() -> dict[int, tuple[int, int]]:
        return {
            level: (offset, store.queue_range(SCHEDULE_TOPIC, level - 1).max)
            for level, offset in delays.all().items()
        }

    def room() -> Room:
        used, free = disk.used_ratio(folder), disk.free_bytes(folder)
        return Room(used, round(free / (1 - used)) if used < 1 else 0, free)

    def waiting() -> WaitingRequests:
        durable = broker.durable
        return WaitingRequests(
            durable.waiting_count,
            broker.thread.waiting_count,
            broker.hold.count,
            longest_ms(durable.unanswered, clock.now_ms()),
        )

    info = RuntimeInfo(
        store,
        broker.stats,
        clock,
        folder,
        room,
        waiting,
        delay_ranges,
    )
    topics = TopicHandlers(
        store, broker.topics, broker.removal, broker.stats, name, when_told, when_durable
    )
    groups = GroupHandlers(broker.groups, broker.members, broker.removal, clock, when_durable)
    progresses = ProgressHandlers(
        progress, broker.topics, broker.members, broker.offsets, delay_offsets, address, clock
    )
    sliced = {
        code: handler
        for one in (topics, groups, progresses)
        for code, handler in one.sliced_table().items()
    }
    return {
        **topics.table(),
        **groups.table(),
        **progresses.table(),
        **slicing(sliced, slices),
        **StatusHandlers(
            store, info, broker.stats, broker.upkeep, broker.removal, settings.broker.cluster
        ).table(),
        **ConfigHandlers(BrokerConfig(settings, folder, clock, broker.settings_users())).table(),
    }
