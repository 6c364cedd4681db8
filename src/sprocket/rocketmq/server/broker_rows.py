"""Every request that a broker answers: makes the handlers with the parts that each needs."""

from sprocket.rocketmq import live_settings
from sprocket.rocketmq.broker.broker import Broker
from sprocket.rocketmq.broker.delivery import OffsetService, ReplicaChoice
from sprocket.rocketmq.broker.groups import Assignments, Progress
from sprocket.rocketmq.broker.messages import longest_ms
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.model.internal import SCHEDULE_TOPIC
from sprocket.rocketmq.remoting import Channels
from sprocket.rocketmq.replication import MasterLink
from sprocket.rocketmq.server.dispatch import Row
from sprocket.rocketmq.server.handlers.admin import (
    RightsHandlers,
    RuntimeInfo,
    StatusHandlers,
    TimerHandlers,
    TopicHandlers,
    WaitingRequests,
    replica_status,
)
from sprocket.rocketmq.server.handlers.groups import (
    AssignmentHandlers,
    ClientHandlers,
    GroupHandlers,
    OffsetHandlers,
    ProgressHandlers,
    RelayHandlers,
)
from sprocket.rocketmq.server.handlers.messages import (
    PopHandlers,
    PullHandlers,
    QueryHandlers,
    RecallHandlers,
    ReplyHandlers,
    RetryHandlers,
    SendHandlers,
    TransactionHandlers,
)
from sprocket.rocketmq.server.nameservers import Registration, RouteLookup
from sprocket.rocketmq.settings import Settings
from sprocket.runtime.slices import Slices

NOT_ON_VIP = frozenset(
    {
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.POP_MESSAGE,
        RequestCode.PEEK_MESSAGE,
        RequestCode.NOTIFICATION,
        RequestCode.POLLING_INFO,
    }
)
"""What a broker does not answer on its second port, so that pulls never crowd out sends there."""


def of_clients(
    broker: Broker,
    channels: Channels,
    routes: RouteLookup,
    name: str,
    choice: ReplicaChoice | None = None,
) -> list[Row]:
    """Return the rows of the codes that clients use.

    Args:
        broker: Does what is asked.
        channels: To its clients.
        routes: Of other brokers.
        name: Of this one.
        choice: Where consumers read on; None where nobody else has the log.
    """
    store, topics, groups = broker.store, broker.topics, broker.groups
    members, reads, host = broker.members, broker.reads, broker.store_host
    offsets = OffsetService(store, topics, groups, members, broker.offsets, broker.hold)
    return [
        *SendHandlers(broker.sender, broker.durable, broker.recent_halves, host, name).rows(),
        *RetryHandlers(broker.send_back, broker.durable, broker.stats, topics).rows(reads),
        *RecallHandlers(broker.recalls, broker.durable).rows(),
        *TransactionHandlers(broker.transactions, broker.durable, reads).rows(),
        *PullHandlers(
            broker.puller,
            broker.hold,
            reads,
            broker.stats,
            lambda peer: peer.when_closed(broker.left),
            broker.filter_turns,
            choice,
        ).rows(),
        *PopHandlers(
            broker.pops,
            broker.pop_hold,
            reads,
            broker.filter_turns,
            broker.keep_pops,
            broker.place.clock.now_ms,
            lambda peer: peer.when_closed(broker.left),
            name,
        ).rows(),
        *OffsetHandlers(store, offsets, name).rows(reads),
        *ClientHandlers(
            members,
            groups,
            topics,
            broker.locks,
            broker.puller,
            broker.filter_turns,
            broker.left,
        ).rows(),
        *QueryHandlers(
            broker.queries,
            members,
            broker.filter_rules,
            broker.puller,
            broker.filter_turns,
            reads,
        ).rows(),
        *ReplyHandlers(
            broker.sender, broker.durable, members, channels, host, broker.place.clock.now_ms
        ).rows(),
        *RelayHandlers(members, topics, groups, store, channels, name).rows(reads),
        *AssignmentHandlers(
            Assignments(members, topics, name), topics, broker.request_modes, routes
        ).rows(),
    ]


def of_administrators(
    broker: Broker,
    registration: Registration,
    settings: Settings,
    slices: Slices,
    link: MasterLink | None = None,
) -> list[Row]:
    """Return the rows of the codes that administrators use."""
    store, name, place, stats = broker.store, settings.broker.name, broker.place, broker.stats
    topics, groups, members, offsets = broker.topics, broker.groups, broker.members, broker.offsets
    delays, snapshots, removal = broker.delay_progress, broker.snapshots, broker.removal
    reads, clock, address = broker.reads, place.clock, registration.identity.address

    def delay_ranges() -> dict[int, tuple[int, int]]:
        return {
            level: (offset, store.queue_range(SCHEDULE_TOPIC, level - 1).max)
            for level, offset in delays.all().items()
        }

    def waiting() -> WaitingRequests:
        commits = broker.commits
        return WaitingRequests(
            commits.waiting_count,
            broker.thread.waiting_count,
            broker.hold.count,
            longest_ms(commits.unanswered, clock.now_ms()),
        )

    info = RuntimeInfo(
        store, stats, place, waiting, delay_ranges, broker.timed.figures, lambda: broker.refusal
    )
    progress = Progress(
        store, topics, groups, members, offsets, stats, clock, name, broker.popped_to
    )
    live = live_settings.of_broker(settings, place.folder, clock, broker.settings_users())
    return [
        *TopicHandlers(store, topics, removal, stats, name, registration, snapshots).rows(
            reads, slices
        ),
        *GroupHandlers(groups, members, removal, clock, snapshots).rows(slices),
        *ProgressHandlers(
            progress, topics, members, offsets, delays, broker.in_flight, broker.orders, address
        ).rows(reads, slices),
        *TimerHandlers(broker.timed).rows(),
        *StatusHandlers(
            info,
            stats,
            broker.upkeep,
            removal,
            settings.broker.cluster,
            live,
            lambda: replica_status(store, broker.slaves, link),
        ).rows(reads),
        *([] if broker.rights is None else RightsHandlers(broker.rights).rows()),
    ]
