"""The topics that this broker serves, in `config/topics.json`, and how new ones are made.

A topic is made by `UPDATE_AND_CREATE_TOPIC`, or by the first send to it with the settings of the
template that the sender names, normally `TBW102`. Every change raises the data version and is a
line of the journal `sprocket.topics`, which survives a kill and which `runtime.snapshots` makes
durable. Whoever registers topics with the NameServers is told of it.
"""

from collections.abc import Callable, Iterable

from sprocket.base import log
from sprocket.base.place import Place
from sprocket.rocketmq.codec.config import JsonObject, declared, fastjson, tables
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.internal import (
    LIGHT_PREFIX,
    NAME,
    SCHEDULE_TOPIC,
    SYSTEM_PREFIX,
    SYSTEM_TOPICS,
    TEMPLATE_TOPIC,
    TOPIC_CHARACTERS_MAX,
    reply_topic,
)
from sprocket.rocketmq.model.topic import INHERIT, READ, WRITE, TopicConfig
from sprocket.rocketmq.settings import BrokerSettings, TopicSettings
from sprocket.rocketmq.store import config_table
from sprocket.rocketmq.store.config_table import ConfigTable, Snapshot

_log = log.get_logger(__name__)

SCHEDULE_QUEUES = 18
"""Queues of the topic of delayed messages, whatever the levels are: RocketMQ's number of them."""


def check_name(topic: str) -> None:
    """Refuse a topic name that is blank, too long or has a character that names may not have.

    Raises:
        Refused: INVALID_ARGUMENT, saying which rule is broken.
    """
    if not topic.strip():
        raise Refused(Refusal.INVALID_ARGUMENT, "the topic name is blank")
    if not NAME.fullmatch(topic):
        raise Refused(
            Refusal.INVALID_ARGUMENT,
            f"topic {topic[:200]!r}: only %, |, letters, digits, _ and - are allowed",
        )
    if len(topic) > TOPIC_CHARACTERS_MAX:
        raise Refused(
            Refusal.INVALID_ARGUMENT,
            f"the topic name has {len(topic)} characters, {TOPIC_CHARACTERS_MAX} are allowed",
        )


class Topics:
    """The table of topics.

    Args:
        place: Where the store lies; its clock is part of the version.
        broker: Name and cluster, which are topics too.
        settings: What topics may be made by themselves, and how.
        changed: Told of topics that are new or differ, with none if one was removed.
        adds_system_topics: Whether those of every broker are made.
        in_store: Gives the topics that the store has messages of, whose queues are known. They come
            back where the table's file is lost, or has no topics but the system's.
        light_queues: Whether each light queue is a topic, which is in no table.

    Attributes:
        table: File, journal and version; says how durable a change is.

    Threads: event loop only.
    """

    def __init__(
        self,
        place: Place,
        broker: BrokerSettings,
        settings: TopicSettings,
        changed: Callable[[list[TopicConfig]], None] = lambda _: None,
        *,
        adds_system_topics: bool = True,
        in_store: Callable[[], Iterable[TopicConfig]] = tuple,
        light_queues: bool = False,
    ) -> None:
        self._has_light = light_queues
        self._name = broker.name
        self.permission: int
        """What NameServers are told no topic is open to more than, as bits of `model.topic`."""
        self.is_readable: bool
        self.is_writable: bool
        self._take(settings)
        self._system = SYSTEM_TOPICS | {broker.name, broker.cluster, reply_topic(broker.cluster)}
        self._changed = changed
        self._topics: dict[str, TopicConfig] = {}
        self._unknown: JsonObject = {}
        self.table = ConfigTable(config_table.TOPICS, place, self._snapshot)
        for _, counter, timestamp, topics in self.table.load(fastjson.Members, self._read):
            self.table.noted(counter, timestamp)
            tables.TOPICS.apply(self._topics, topics)
        self.knows: Callable[[str], bool] = self._topics.__contains__  # each send asks
        """Whether there is a topic of that name."""
        is_new = self._bring_back(in_store)
        if adds_system_topics:
            is_new = self._add_system_topics(broker) or is_new
        if is_new or self.table.is_void:
            self.table.flush()  # from now on the journal counts

    def use(self, settings: TopicSettings) -> None:
        """Change how new topics come about, and what all are open to; NameServers are told."""
        old = self.permission
        self._take(settings)
        if self.permission != old:
            self.table.raise_version()
            self._changed([])

    def check_writable(self) -> None:
        """Refuse what would be stored while the whole broker is closed to it.

        Raises:
            Refused: NO_PERMISSION.
        """
        if not self.is_writable:
            raise Refused(
                Refusal.NO_PERMISSION, f"the broker[{self._name}] sending message is forbidden"
            )

    def get(self, name: str) -> TopicConfig | None:
        """Return the topic, None when there is none of that name."""
        return self._topics.get(name)

    def existing(self, name: str, remark: str = "topic[{}] not exist") -> TopicConfig:
        """Return the topic. Raises Refused: NO_TOPIC, with a remark that names it."""
        topic = self.find(name)
        if topic is None:
            raise Refused(Refusal.NO_TOPIC, remark.format(name))
        return topic

    def find(self, name: str) -> TopicConfig | None:
        """Return the topic, or that of a light queue: one queue, whether or not it has messages."""
        topic = self._topics.get(name)
        if topic is None and self._has_light and name.startswith(LIGHT_PREFIX):
            return TopicConfig(name=name, read_queues=1, write_queues=1)
        return topic

    def all(self) -> Iterable[TopicConfig]:
        """Return every topic, in no particular order."""
        return self._topics.values()

    def reserve_hours(self) -> dict[str, int]:
        """Return for how many hours messages of topics are kept that say so themselves."""
        return {
            topic.name: topic.reserve_hours
            for topic in self._topics.values()
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
        changed = {topic.name: topic for topic in topics if self._topics.get(topic.name) != topic}
        if not changed:
            return False
        self.table.note({name: declared.plain(topic) for name, topic in changed.items()})
        self._topics.update(changed)
        self._changed(list(changed.values()))
        return True

    def remove(self, name: str) -> None:
        """Take a topic out of the table, if it is there; the NameServers are told.

        Raises:
            DiskFull, DiskFailed: As `put`.
        """
        if name in self._topics:
            self.table.note({name: None})
            del self._topics[name]
            self._changed([])

    def system(self) -> list[str]:
        """Return the topics that belong to the system, whether or not they are there."""
        found = {name for name in self._topics if name.startswith(SYSTEM_PREFIX)}
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
            Refused: NO_TOPIC, when there is no such template, it may not be
                inherited from, or automatic creation is off.
        """
        topic = self.find(name)
        if topic is not None:
            return topic
        template = self._topics.get(template_name)
        is_off = template_name == TEMPLATE_TOPIC and not self._settings.auto_create
        if template is None or is_off or not template.perm & INHERIT:
            why = "automatic creation is off" if is_off else f"no template {template_name!r} for it"
            raise Refused(Refusal.NO_TOPIC, f"topic[{name}] does not exist, and {why}")
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
        topic = self._topics.get(name)
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

    def _bring_back(self, in_store: Callable[[], Iterable[TopicConfig]]) -> bool:
        """Add the topics of messages that are there, if the table is lost; say whether it was."""
        has_some = not all(self.is_system(name) for name in self._topics)
        if has_some and not self.table.is_lost:
            return False
        known = self._system.union(self._topics)
        found = [topic for topic in in_store() if topic.name not in known]
        if found:
            _log.warning(
                "the table of topics is lost; those that have messages are back as their queues "
                "say, other topics and settings are not",
                topics=sorted(topic.name for topic in found),
            )
        return self.put_all(found)

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
            if name not in self._topics
        ]
        return self.put_all(missing)

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            members={tables.TOPICS.member: tables.entries(self._topics), **self._unknown}
        )

    def _read(self, content: JsonObject) -> None:
        """Take in what the file says; members that we do not know are kept for writing."""
        self._topics = tables.TOPICS.read(content)
        self._unknown = {name: value for name, value in content.items() if name not in _OWN_MEMBERS}


_OWN_MEMBERS = ("dataVersion", tables.TOPICS.member, tables.SEQUENCE)
