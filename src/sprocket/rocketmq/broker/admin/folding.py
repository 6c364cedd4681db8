"""Writes what is in our journals into RocketMQ's files, while no broker runs.

After a kill `topics.json`, `subscriptionGroup.json`, `consumerOffset.json` and `delayOffset.json`
may be a few seconds behind their journals. Our broker reads both; RocketMQ's brokers, and people,
read only the files.
"""

from sprocket.base.clock import Clock
from sprocket.base.disk import Disk
from sprocket.base.tables import journal
from sprocket.rocketmq.broker.delay import DelayProgress
from sprocket.rocketmq.broker.groups import ConsumerOffsets, Groups
from sprocket.rocketmq.broker.topics import Topics
from sprocket.rocketmq.settings import BrokerSettings, GroupSettings, TopicSettings
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.rocketmq.store.store import Store


def fold(disk: Disk, folder: str, clock: Clock, store: Store) -> list[str]:
    """Write what the journals have into RocketMQ's files.

    Args:
        disk: Where the store lies.
        folder: The store's folder.
        clock: For versions of tables.
        store: The open store, just recovered.

    Returns:
        The files that have a journal, and are up to date now.

    Raises:
        ForeignStore: A table is damaged, and so is its backup.
        DiskFull, DiskFailed: Files and journals are as they were.
    """
    layout = StoreLayout(folder)
    folded = []
    if journal.segment_paths(disk, layout.topic_journal):
        topics = Topics(
            disk, folder, clock, BrokerSettings(), TopicSettings(), adds_system_topics=False
        )
        topics.close()
        folded.append(layout.topics)
    if journal.segment_paths(disk, layout.group_journal):
        Groups(disk, folder, clock, GroupSettings(), adds_system_groups=False).close()
        folded.append(layout.subscription_groups)
    if journal.segment_paths(disk, layout.offset_journal):
        ConsumerOffsets(disk, folder, clock).close()
        folded.append(layout.consumer_offsets)
    if journal.segment_paths(disk, layout.delay_journal):
        is_whole = not store.report.damage
        DelayProgress(disk, folder, clock, store, is_whole=is_whole).close()
        folded.append(layout.delay_offsets)
    return folded
