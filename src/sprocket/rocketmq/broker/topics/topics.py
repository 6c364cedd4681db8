"""The topics that this broker serves, in `config/topics.json`, and how new ones are made.

A topic is made by `UPDATE_AND_CREATE_TOPIC`, or by the first send to it with the settings of the
template that the sender names, normally `TBW102`. Every change raises the data version and is a
line of the journal `sprocket.topics`, which survives a kill and which `runtime.snapshots` makes
durable. Whoever registers topics with the NameServers is told of it.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import msgspec

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.disk import Disk, Steps, steps
from sprocket.base.errors import RequestRefused
from sprocket.base.tables import Journal
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.codec.config import (
    DataVersion,
    JsonObject,
    TopicLine,
    declared,
    fastjson,
    tables,
)
from sprocket.rocketmq.model.internal import (
    NAME,
    SCHEDULE_TOPIC,
    SYSTEM_PREFIX,
    SYSTEM_TOPICS,
    TEMPLATE_TOPIC,
    TOPIC_CHARACTERS_MAX,
)
from sprocket.rocketmq.model.topic import INHERIT, READ, WRITE, TopicConfig
from sprocket.rocketmq.settings import BrokerSettings, TopicSettings
from sprocket.rocketmq.store import config_rdb
from sprocket.rocketmq.store.config_file import ConfigFile
from sprocket.rocketmq.store.layout import StoreLayout

_log = log.get_logger(__name__)

SCHEDULE_QUEUES = 18
"""Queues of the topic of delayed messages, whatever the levels are: RocketMQ's number of them."""


def check_name(topic: str) -> None:
    """Refuse a topic name that is blank, too long or has a character that names may not have.

    Raises:
        RequestRefused: INVALID_PARAMETER, saying which rule is broken.
    """
    if not topic.strip():
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, "the topic name is blank")
    if not NAME.fullmatch(topic):
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"topic {topic[:200]!r}: only %, |, letters, digits, _ and - are allowed",
        )
    if len(topic) > TOPIC_CHARACTERS_MAX:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"the topic name has {len(topic)} characters, {TOPIC_CHARACTERS_MAX} are allowed",
        )


def reply_topic(cluster: str) -> str:
    """Return the topic to which consumers send what they reply to requests."""
    return f"{cluster}_REPLY_TOPIC"


_decode: Callable[[bytes], TopicLine] = msgspec.json.Decoder(TopicLine).decode


class Topics:
    """The table of topics.

    Args:
        disk: Where it lies.
        folder: The store's folder.
        clock: Part of the version.
        broker: Name and cluster, which are topics too.
        settings: What topics may be made by themselves, and how.
        changed: Told of topics that are new or differ, with none if one was removed.
        adds_system_topics: Whether those of every broker are made.

    Attributes:
        journal: What changed since the last snapshot was begun.
        version: Rises with each change.

    Threads: event loop only, except for the calls of steps.
    Durability: what a method has done is with the operating system when it returns, and on the
        disk after the next sync of the journal or snapshot.
    """

    def __init__(
        self,
        disk: Disk,
        folder: str,
        clock: Clock,
        broker: BrokerSettings,
        settings: TopicSettings,
        changed: Callable[[list[TopicConfig]], None] = lambda _: None,
        *,
        adds_system_topics: bool = True,
    ) -> None:
        layout = StoreLayout(folder)
        rocksdb = partial(config_rdb.topics_json, disk, layout)
        self._file = ConfigFile(disk, layout.topics, rocksdb)
        self._clock = clock
        self._name = broker.name
        self.permission: int
        """What NameServers are told no topic is open to more than, as bits of `model.topic`."""
        self.is_readable: bool
        self.is_writable: bool
        self._take(settings)
        self._system = SYSTEM_TOPICS | {broker.name, broker.cluster, reply_topic(broker.cluster)}
        self._changed = changed
        self.version = DataVersion.new(clock.now_ms())
        self._table: dict[str, TopicConfig] = {}
        self._unknown: JsonObject = {}
        covered = self._file.load(self._interpret)
        self.journal = Journal(disk, layout.topic_journal, _decode)
        lines = self.journal.replay(covered)
        for _, counter, timestamp, topics in lines:
            self.version = DataVersion(counter, timestamp, self.version.state_version)
            tables.apply_topics(self._table, topics)
        is_new = adds_system_topics and self._add_system_topics(broker)
        if is_new or covered is None:
            self.flush()  # from now on the journal counts

    def use(self, settings: TopicSettings) -> None:
        """Change how new topics come about, and what all are open to; NameServers are told."""
        old = self.permission
        self._take(settings)
        if self.permission != old:
            self.version = self.version.next(self._clock.now_ms())
            self._changed([])

    def check_writable(self) -> None:
        """Refuse what would be stored while the whole broker is closed to it.

        Raises:
            RequestRefused: NO_PERMISSION.
        """
        if not self.is_writable:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION, f"the broker[{self._name}] sending message is forbidden"
            )

    def get(self, name: str) -> TopicConfig | None:
        """Return the topic, None when there is none of that name."""
        return self._table.get(name)

    def knows(self, name: str) -> bool:
        """Whether there is a topic of that name."""
        return name in self._table

    def all(self) -> Iterable[TopicConfig]:
        """Return every topic, in no particular order."""
        return self._table.values()

    def reserve_hours(self) -> dict[str, int]:
        """Return for how many hours messages of topics are kept that say so themselves."""
        return {
            topic.name: topic.reserve_hours
            for topic in self._table.values()
            if topic.attributes and topic.reserve_hours
        }

    def is_system(self, name: str) -> bool:
        """Tell whether the name belongs to the system."""
        return name in self._system or name.startswith(SYSTEM_PREFIX)

    def put(self, topic: TopicConfig) -> bool:
        """Add or replace a topic.

        Returns:
            False when it was there in exactly this form, and nothing was done.

        Raises:
            DiskFull, DiskFailed: The journal could not be written; the table is as before.
        """
        return self.put_all([topic])

    def put_all(self, topics: Iterable[TopicConfig]) -> bool:
        """Add or replace topics, all of them or none; as `put`."""
        changed = {topic.name: topic for topic in topics if self._table.get(topic.name) != topic}
        if not changed:
            return False
        self._note({name: declared.plain(topic) for name, topic in changed.items()})
        self._table.update(changed)
        self._changed(list(changed.values()))
        return True

    def remove(self, name: str) -> None:
        """Take a topic out of the table, if it is there; the NameServers are told.

        Raises:
            DiskFull, DiskFailed: As `put`.
        """
        if name in self._table:
            self._note({name: None})
            del self._table[name]
            self._changed([])

    def system(self) -> list[str]:
        """Return the topics that belong to the system, whether or not they are there."""
        found = {name for name in self._table if name.startswith(SYSTEM_PREFIX)}
        return sorted(self._system | found)

    def make_for_send(
        self, name: str, template_name: str, queues: int, sys_flag: int
    ) -> TopicConfig:
        """Return the topic, made after its template if it is new.

        Args:
            name: The topic a message is sent to; it was checked.
            template_name: What the sender names as the template, normally `TBW102`.
            queues: How many queues the sender wants; the template's number is the limit.
            sys_flag: Of the new topic: unit bits.

        Raises:
            RequestRefused: TOPIC_NOT_EXIST, when there is no such template, it may not be
                inherited from, or automatic creation is off.
        """
        topic = self._table.get(name)
        if topic is not None:
            return topic
        template = self._table.get(template_name)
        is_off = template_name == TEMPLATE_TOPIC and not self._settings.auto_create
        if template is None or is_off or not template.perm & INHERIT:
            why = "automatic creation is off" if is_off else f"no template {template_name!r} for it"
            raise RequestRefused(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] does not exist, and {why}"
            )
        count = max(0, min(queues, template.write_queues))
        topic = TopicConfig(
            name=name,
            read_queues=count,
            write_queues=count,
            perm=template.perm & ~INHERIT,
            filter_type=template.filter_type,
            sys_flag=sys_flag,
        )
        self.put(topic)
        _log.info("a send made a topic", topic=name, queues=count)
        return topic

    def make_internal(
        self, name: str, queues: int, *, order: bool = False, sys_flag: int = 0
    ) -> TopicConfig:
        """Return a topic that the broker itself needs, a group's retry or dead-letter topic."""
        topic = self._table.get(name)
        if topic is None:
            topic = TopicConfig(
                name=name,
                read_queues=queues,
                write_queues=queues,
                perm=READ | WRITE,
                order=order,
                sys_flag=sys_flag,
            )
            self.put(topic)
        return topic

    def _take(self, settings: TopicSettings) -> None:
        self._settings = settings
        self.permission = settings.permission
        self.is_readable = bool(self.permission & READ)
        self.is_writable = bool(self.permission & WRITE)

    def _add_system_topics(self, broker: BrokerSettings) -> bool:
        """Add those that are missing, and say whether any was."""
        everything = READ | WRITE | INHERIT
        wanted = [
            ("SELF_TEST_TOPIC", 1, READ | WRITE),
            ("BenchmarkTest", 1024, READ | WRITE),
            (broker.cluster, 16, everything),
            (broker.name, 1, everything),
            ("OFFSET_MOVED_EVENT", 1, READ | WRITE),
            (SCHEDULE_TOPIC, SCHEDULE_QUEUES, READ | WRITE),
            (reply_topic(broker.cluster), 1, READ | WRITE),
            ("RMQ_SYS_TRANS_HALF_TOPIC", 1, READ | WRITE),
            ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1, READ | WRITE),
            (f"rmq_sys_REVIVE_LOG_{broker.cluster}", 8, READ | WRITE),
            (f"rmq_sys_SYNC_BROKER_MEMBER_{broker.name}", 1, INHERIT),
            ("rmq_sys_wheel_timer", 1, READ | WRITE),
        ]
        if self._settings.auto_create:
            wanted.append((TEMPLATE_TOPIC, self._settings.auto_create_queues, everything))
        missing = [
            TopicConfig(name=name, read_queues=queues, write_queues=queues, perm=perm)
            for name, queues, perm in wanted
            if name not in self._table
        ]
        return self.put_all(missing)

    def flush_steps(self) -> Steps:
        """Write a new snapshot, if anything has changed since the last one.

        Raises:
            DiskFull, DiskFailed: The old one and the journal are there.
        """
        return self.journal.snapshot_steps(
            lambda covered: self._file.replace_steps(
                {
                    "dataVersion": declared.plain(self.version),
                    "topicConfigTable": self._entries(),
                    **self._unknown,
                    tables.SEQUENCE: covered,
                }
            )
        )

    def flush(self) -> None:
        """Write what changed, here and now: used when starting, when stopping and by tests."""
        steps.run(self.flush_steps())

    def close(self) -> None:
        """Flush and give the journal up."""
        try:
            self.flush()
        finally:
            self.journal.close()

    def _entries(self) -> Iterator[str]:
        for name, topic in list(self._table.items()):
            yield fastjson.entry(name, declared.plain(topic))

    def _note(self, topics: "dict[str, JsonObject | None]") -> None:
        """Write a line, before the table is changed."""
        version = self.version.next(self._clock.now_ms())
        self.journal.append(version.counter, version.timestamp, topics)
        self.version = version
        self.journal.is_behind = True

    def _interpret(self, content: JsonObject) -> int | None:
        """Take in what the file says; members that we do not know are kept for writing.

        Returns:
            Up to where it covers the journal.
        """
        version = DataVersion.from_json(content.get("dataVersion"), self._clock.now_ms())
        self._table = tables.topics_from_json(content)
        self.version = version
        self._unknown = {name: value for name, value in content.items() if name not in _OWN_MEMBERS}
        return tables.covered_by(content)


_OWN_MEMBERS = ("dataVersion", "topicConfigTable", tables.SEQUENCE)
