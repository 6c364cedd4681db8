"""Requests of tools to a broker: makes the parts that they need, and a row for each code."""

from sprocket.base.clock import Clock
from sprocket.base.disk import Disk
from sprocket.rocketmq.broker.admin import BrokerConfig, Room, RuntimeInfo, WaitingRequests
from sprocket.rocketmq.broker.broker import Broker
from sprocket.rocketmq.broker.groups import Progress
from sprocket.rocketmq.broker.messages import longest_ms
from sprocket.rocketmq.broker.registration import Registration
from sprocket.rocketmq.codec.bodies import DelayOffsets
from sprocket.rocketmq.codec.record import SCHEDULE_TOPIC
from sprocket.rocketmq.remoting import Row
from sprocket.rocketmq.server.handlers.admin import StatusHandlers, TopicHandlers
from sprocket.rocketmq.server.handlers.groups import GroupHandlers, ProgressHandlers
from sprocket.rocketmq.settings import Settings
from sprocket.runtime.slices import Slices


def rows(
    broker: Broker,
    registration: Registration,
    settings: Settings,
    clock: Clock,
    disk: Disk,
    folder: str,
    slices: Slices,
) -> list[Row]:
    """Return the rows of every code that administrators use.

    Args:
        broker: The broker.
        registration: Tells NameServers of new topics.
        settings: All groups.
        clock: For everything that has a time.
        disk: Where the store lies.
        folder: The store's folder.
        slices: Does what is long, in slices.
    """
    store, name = broker.store, settings.broker.name
    progress = Progress(
        store, broker.topics, broker.groups, broker.members, broker.offsets, broker.stats, name
    )
    delays, snapshots, reads = broker.delay_progress, broker.snapshots, broker.reads

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
        store, broker.topics, broker.removal, broker.stats, name, registration, snapshots
    )
    groups = GroupHandlers(broker.groups, broker.members, broker.removal, clock, snapshots)
    progresses = ProgressHandlers(
        progress,
        broker.topics,
        broker.members,
        broker.offsets,
        delay_offsets,
        registration.identity.address,
        clock,
    )
    config = BrokerConfig(settings, folder, clock, broker.settings_users())
    status = StatusHandlers(
        store, info, broker.stats, broker.upkeep, broker.removal, settings.broker.cluster, config
    )
    return [
        *topics.rows(reads, slices),
        *groups.rows(slices),
        *progresses.rows(reads, slices),
        *status.rows(reads),
    ]
