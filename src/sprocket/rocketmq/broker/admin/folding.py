"""Writes what is in our journals into RocketMQ's files, while no broker runs.

After a kill `topics.json`, `subscriptionGroup.json`, `consumerOffset.json`, `delayOffset.json` and
`consumerOrderInfo.json` may be a few seconds behind their journals. Our broker reads both;
RocketMQ's brokers, and people, read only the files.
"""

from collections.abc import Callable, Sequence

from sprocket.base.place import Place
from sprocket.base.tables import journal
from sprocket.rocketmq.broker.delay import DelayProgress
from sprocket.rocketmq.broker.groups import ConsumerOffsets, Groups
from sprocket.rocketmq.broker.pop import Orders
from sprocket.rocketmq.broker.topics import Topics, topics_in
from sprocket.rocketmq.settings import BrokerSettings, GroupSettings, TopicSettings
from sprocket.rocketmq.store.committed_offsets import beyond_ends, read_sound
from sprocket.rocketmq.store.config_table import ConfigTable
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.light_offsets import LightOffsets
from sprocket.rocketmq.store.store import Store


def fold(place: Place, store: Store) -> list[str]:
    """Write what the journals have into RocketMQ's files, and topics whose table is lost.

    Args:
        place: Where the store lies; its clock is for versions of tables.
        store: The open store, just recovered.

    Returns:
        The files that had a journal, or offsets behind the ends of queues, or were missing beside
            queues with messages, and are right now.

    Raises:
        ForeignStore: A table is damaged, and so is its backup.
        DiskFull, DiskFailed: Files and journals are as they were.
    """
    layout = StoreLayout(place.folder)
    offsets = read_sound(place.disk, layout)
    wrong = [layout.consumer_offsets for _ in beyond_ends(offsets, store.queue_end)][:1]
    if not any(place.disk.exists(f"{layout.topics}{end}") for end in ("", ".bak")):
        wrong += [layout.topics for _ in topics_in(store)][:1]
    is_whole = not store.report.damage
    tables: Sequence[tuple[str, str, Callable[[], ConfigTable[tuple[object, ...]]]]] = (
        (
            layout.topic_journal,
            layout.topics,
            lambda: _topics(place, store),
        ),
        (
            layout.group_journal,
            layout.subscription_groups,
            lambda: Groups(place, GroupSettings(), adds_system_groups=False).table,
        ),
        (
            layout.offset_journal,
            layout.consumer_offsets,
            lambda: _offsets(place, store),
        ),
        (
            layout.delay_journal,
            layout.delay_offsets,
            lambda: DelayProgress(place, store, is_whole=is_whole).table,
        ),
        (
            layout.order_journal,
            layout.ordered_pops,
            lambda: Orders(place, ConsumerOffsets(place), store.log_clock).table,
        ),
    )
    folded = []
    for path, file, open_table in tables:
        if journal.segment_paths(place.disk, path) or file in wrong:
            open_table().close()
            folded.append(file)
    return folded


def _topics(place: Place, store: Store) -> ConfigTable[tuple[object, ...]]:
    """Return the table of topics, if it is lost with those that have messages."""
    topics = Topics(
        place,
        BrokerSettings(),
        TopicSettings(),
        adds_system_topics=False,
        in_store=lambda: topics_in(store),
    )
    return topics.table


def _offsets(place: Place, store: Store) -> ConfigTable[tuple[object, ...]]:
    """Return the table of offsets, none behind the end of its queue."""
    light = LightOffsets(place.disk, StoreLayout(place.folder))
    offsets = ConsumerOffsets(place, light_queues=light.is_ours())
    offsets.set_back(store)
    return offsets.table
