"""Every path inside a store folder; the only place that spells one out.

Source: RocketMQ `StorePathConfigHelper`; see docs/formats/store-folder.md.
"""

from sprocket.base.disk import Disk
from sprocket.base.errors import CorruptRecord, ForeignStore

OPENED_FROM = "0.2.0"
"""The lowest release that may open a store which this one has had open; see `base.release`.

It rises with each change of what recovery has to know."""

COMPACTING = "compacting"
"""The folder in that of a compacted queue where a round writes; RocketMQ's name."""
SWAP = "sprocket.swap"
"""In that folder, beside records: which files a round is to replace."""


class StoreLayout:
    """The paths of the store in the folder `root`."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.commitlog = f"{root}/commitlog"
        """The folder of the log's files."""
        self.consumequeue = f"{root}/consumequeue"
        """The folder of all queues: `<topic>/<queue id>/<20 digits>`."""
        self.extension = f"{root}/consumequeue_ext"
        """The folder of all extended units, in the same order."""
        self.batch_queues = f"{root}/batchconsumequeue"
        """The folder of all batch queues, in the same order."""
        self.new_consumequeue = f"{root}/consumequeue.new"
        """Where a conversion builds a database of queues (Sprocket's own folder)."""
        self.rebuilt = f"{root}/rebuilt"
        """Where jobs make queues or index again (Sprocket's own folder)."""
        self.index = f"{root}/index"
        """The folder of the key index's files."""
        self.config = f"{root}/config"
        """The folder of the tables that are not messages."""
        self.checkpoint = f"{root}/checkpoint"
        """The file that says up to when everything was flushed."""
        self.abort = f"{root}/abort"
        """The file that is there while the store is open; left behind by a crash."""
        self.lock = f"{root}/lock"
        """The file whose first byte is locked while the store is open."""
        self.room = f"{root}/sprocket.room"
        """The file that is written to find out whether there is room again (Sprocket's own)."""
        self.epochs = f"{root}/epochFileCheckpoint"
        """Which master wrote which part of the log, in a set with failover."""
        self.promised_epoch = f"{self.config}/sprocket.epoch"
        """The highest epoch that this member has promised to follow (Sprocket's own file)."""
        self.cuts = f"{root}/cut"
        """What was cut off the log, a folder for each cut (Sprocket's own folders)."""
        self.cut_note = f"{self.config}/sprocket.cut"
        """Where the log is being cut, until that is done (Sprocket's own file)."""
        self.geometry = f"{self.config}/sprocket.json"
        """The sizes that this store was made with (Sprocket's own file)."""
        self.recovery = f"{self.config}/recovery.json"
        """The report of the last recovery (Sprocket's own file)."""
        self.repaired = f"{self.config}/mended.json"
        """What a recovery changed and has not reported yet (Sprocket's own file)."""
        self.clean = f"{self.config}/clean.json"
        """What a clean stop left: ends of log and index (Sprocket's own file)."""
        self.queue_table = f"{self.config}/queues.json"
        """Which queues there are (Sprocket's own file)."""
        self.queue_ends = f"{self.config}/queueEnds.json"
        """Where the queues in files ended at a clean stop (Sprocket's own file)."""
        self.incarnation = f"{self.config}/incarnation"
        """Who this store is among the members of a set (Sprocket's own file)."""
        self.set_word = f"{self.config}/sprocket.word"
        """What is known of a set that an operator decides about (Sprocket's own file)."""
        self.deleted_topics = f"{self.config}/deletedTopics.json"
        """Which topics were deleted, and where in the log (Sprocket's own file)."""
        self.config_database = f"{self.config}/rdb"
        """Where RocketMQ may keep topics, groups and offsets instead of in the files below."""
        self.topics = f"{self.config}/topics.json"
        """The table of topics."""
        self.topic_journal = f"{self.config}/sprocket.topics"
        """What changed in it since its file was written (Sprocket's own files)."""
        self.group_journal = f"{self.config}/sprocket.groups"
        """The same of consumer groups (Sprocket's own files)."""
        self.subscription_groups = f"{self.config}/subscriptionGroup.json"
        """The table of consumer groups."""
        self.consumer_offsets = f"{self.config}/consumerOffset.json"
        self.light_offsets = f"{self.config}/lmqConsumerOffset.json"
        """How far consumer groups are, as of the last flush."""
        self.offset_journal = f"{self.config}/sprocket.offsets"
        """The commits since that flush (Sprocket's own files)."""
        self.delay_offsets = f"{self.config}/delayOffset.json"
        """How far the delivery of each delay level is, as of the last flush."""
        self.compaction = f"{root}/compaction"
        """The folder of what is kept of compaction topics: the last value of each key."""
        self.compaction_log = f"{self.compaction}/compactionLog"
        """The folder of their records: `<topic>/<queue id>/<20 digits>`."""
        self.compaction_units = f"{self.compaction}/compactionCq"
        """The folder of their units, in the same order."""
        self.compaction_positions = f"{self.compaction}/position-checkpoint"
        """Up to which queue offset each queue was compacted."""
        self.timer_log = f"{root}/timerlog"
        """The folder of the timer log's files."""
        self.timer_wheel = f"{root}/timerwheel"
        """The file of the slots of time."""
        self.timer_checkpoint = f"{self.config}/timercheck"
        """How far timer log and wheel are, durably."""
        self.timer_counts = f"{self.config}/timermetrics"
        """How many messages wait in them, by topic."""
        self.request_modes = f"{self.config}/messageRequestMode.json"
        """How consumer groups get the messages of topics."""
        self.consumer_filters = f"{self.config}/consumerFilter.json"
        """The conditions by which groups choose messages."""
        self.users = f"{self.config}/users"
        """The database of users."""
        self.acls = f"{self.config}/acls"
        """The database of what they may do."""
        self.rights_note = f"{self.config}/sprocket.rights"
        """What both must at least hold (Sprocket's own file)."""
        self.delay_journal = f"{self.config}/sprocket.delays"
        self.pop_checkpoints = f"{self.config}/sprocketPops.json"
        """What was popped and is not settled, as of the last flush; ours, as `pop_journal`."""
        self.pop_journal = f"{self.config}/sprocket.pops"
        """How far it is now (Sprocket's own files)."""
        self.ordered_pops = f"{self.config}/consumerOrderInfo.json"
        """What groups have of queues that they consume in order, as of the last flush."""
        self.order_journal = f"{self.config}/sprocket.orders"
        """What changed in it since its file was written (Sprocket's own files)."""
        self.erased = f"{self.config}/erased.json"
        """How many messages a job has erased, if any; their units are left (Sprocket's own)."""
        self.notes = frozenset(
            (
                *(self.geometry, self.recovery, self.repaired),
                *(self.clean, self.queue_table, self.queue_ends),
            )
        )
        """What Sprocket keeps for itself beside RocketMQ's tables; a new store makes its own."""

    def queue(self, topic: str, queue_id: int) -> str:
        """Return the folder of one queue; see `check_topic`."""
        return f"{self.consumequeue}/{check_topic(topic)}/{queue_id}"


def require_store(disk: Disk, folder: str) -> StoreLayout:
    """Return the paths of a store that is there.

    Raises:
        ForeignStore: The folder holds none.
    """
    layout = StoreLayout(folder)
    if not disk.is_folder(layout.commitlog):
        raise ForeignStore(f"{folder}: there is no store, {layout.commitlog} is missing")
    return layout


def trash(folder: str) -> str:
    """Return where the files of deleted queues wait for their removal (Sprocket's own folder)."""
    return f"{folder}.deleted"


def check_topic(topic: str) -> str:
    """Return `topic` if it can be a folder's name.

    Raises:
        CorruptRecord: It would lie elsewhere; such a topic never passes a broker's checks.
    """
    if not topic or "/" in topic or "\0" in topic or topic in (".", ".."):
        raise CorruptRecord(f"topic {topic!r} cannot be a folder's name")
    return topic
