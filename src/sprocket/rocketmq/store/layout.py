"""Every path inside a store folder; the only place that spells one out.

Source: RocketMQ `StorePathConfigHelper`; see docs/formats/store-folder.md.
"""

from dataclasses import dataclass

from sprocket.base.errors import CorruptRecord


@dataclass(frozen=True, slots=True)
class StoreLayout:
    """The paths of the store in the folder `root`."""

    root: str

    @property
    def commitlog(self) -> str:
        """The folder of the log's files."""
        return f"{self.root}/commitlog"

    @property
    def consumequeue(self) -> str:
        """The folder of all queues: `<topic>/<queue id>/<20 digits>`."""
        return f"{self.root}/consumequeue"

    @property
    def extension(self) -> str:
        """The folder of all extended units, in the same order."""
        return f"{self.root}/consumequeue_ext"

    @property
    def batch_queues(self) -> str:
        """The folder of all batch queues, in the same order."""
        return f"{self.root}/batchconsumequeue"

    @property
    def new_consumequeue(self) -> str:
        """Where a conversion builds a database of queues (Sprocket's own folder)."""
        return f"{self.root}/consumequeue.new"

    @property
    def index(self) -> str:
        """The folder of the key index's files."""
        return f"{self.root}/index"

    @property
    def config(self) -> str:
        """The folder of the tables that are not messages."""
        return f"{self.root}/config"

    @property
    def checkpoint(self) -> str:
        """The file that says up to when everything was flushed."""
        return f"{self.root}/checkpoint"

    @property
    def abort(self) -> str:
        """The file that is there while the store is open; left behind by a crash."""
        return f"{self.root}/abort"

    @property
    def lock(self) -> str:
        """The file whose first byte is locked while the store is open."""
        return f"{self.root}/lock"

    @property
    def geometry(self) -> str:
        """The sizes that this store was made with (Sprocket's own file)."""
        return f"{self.config}/sprocket.json"

    @property
    def recovery(self) -> str:
        """The report of the last recovery (Sprocket's own file)."""
        return f"{self.config}/recovery.json"

    @property
    def clean(self) -> str:
        """What a clean stop left: ends of log and index (Sprocket's own file)."""
        return f"{self.config}/clean.json"

    @property
    def queue_table(self) -> str:
        """Which queues there are (Sprocket's own file)."""
        return f"{self.config}/queues.json"

    @property
    def queue_ends(self) -> str:
        """Where the queues in files ended at a clean stop (Sprocket's own file)."""
        return f"{self.config}/queueEnds.json"

    @property
    def deleted_topics(self) -> str:
        """Which topics were deleted, and where in the log (Sprocket's own file)."""
        return f"{self.config}/deletedTopics.json"

    @property
    def config_database(self) -> str:
        """Where RocketMQ may keep topics, groups and offsets instead of in the files below."""
        return f"{self.config}/rdb"

    @property
    def notes(self) -> frozenset[str]:
        """What Sprocket keeps for itself beside RocketMQ's tables; a new store makes its own."""
        return frozenset(
            (self.geometry, self.recovery, self.clean, self.queue_table, self.queue_ends)
        )

    @property
    def topics(self) -> str:
        """The table of topics."""
        return f"{self.config}/topics.json"

    @property
    def topic_journal(self) -> str:
        """What changed in it since its file was written (Sprocket's own files)."""
        return f"{self.config}/sprocket.topics"

    @property
    def group_journal(self) -> str:
        """The same of consumer groups (Sprocket's own files)."""
        return f"{self.config}/sprocket.groups"

    @property
    def subscription_groups(self) -> str:
        """The table of consumer groups."""
        return f"{self.config}/subscriptionGroup.json"

    @property
    def consumer_offsets(self) -> str:
        """How far consumer groups are, as of the last flush."""
        return f"{self.config}/consumerOffset.json"

    @property
    def offset_journal(self) -> str:
        """The commits since that flush (Sprocket's own files)."""
        return f"{self.config}/sprocket.offsets"

    @property
    def delay_offsets(self) -> str:
        """How far the delivery of each delay level is, as of the last flush."""
        return f"{self.config}/delayOffset.json"

    @property
    def request_modes(self) -> str:
        """How consumer groups get the messages of topics."""
        return f"{self.config}/messageRequestMode.json"

    @property
    def delay_journal(self) -> str:
        """How far it is now (Sprocket's own files)."""
        return f"{self.config}/sprocket.delays"

    def queue(self, topic: str, queue_id: int) -> str:
        """Return the folder of one queue; see `check_topic`."""
        return f"{self.consumequeue}/{check_topic(topic)}/{queue_id}"


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
