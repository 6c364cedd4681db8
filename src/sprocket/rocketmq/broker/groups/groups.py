"""Consumer groups and their settings, in `config/subscriptionGroup.json`.

An unknown group is made with default settings when it is first used, unless `auto_create` is off.
Each change is a line of the journal `sprocket.groups`, which survives a kill; `runtime.snapshots`
makes it durable.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import msgspec
from msgspec import structs

from sprocket.base.clock import Clock
from sprocket.base.disk import Disk, Steps, steps
from sprocket.base.errors import RequestRefused
from sprocket.base.tables import Journal
from sprocket.rocketmq.broker.topics import NAME
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.codec.config import (
    DataVersion,
    GroupLine,
    JsonObject,
    declared,
    fastjson,
    tables,
    values,
)
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.internal import SYSTEM_GROUPS
from sprocket.rocketmq.settings import GroupSettings
from sprocket.rocketmq.store import config_rdb
from sprocket.rocketmq.store.config_file import ConfigFile
from sprocket.rocketmq.store.layout import StoreLayout

GROUP_CHARACTERS_MAX = 255

READ_FORBIDDEN = 1
"""The bit of RocketMQ's forbidden table that closes a topic to the reads of a group."""


_decode: Callable[[bytes], GroupLine] = msgspec.json.Decoder(GroupLine).decode


class Groups:
    """The table of consumer groups.

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
        settings: GroupSettings,
        *,
        adds_system_groups: bool = True,
    ) -> None:
        layout = StoreLayout(folder)
        rocksdb = partial(config_rdb.groups_json, disk, layout)
        self._file = ConfigFile(disk, layout.subscription_groups, rocksdb)
        self._clock = clock
        self._settings = settings
        self.version = DataVersion.new(clock.now_ms())
        self._table: dict[str, SubscriptionGroup] = {}
        self._forbidden: dict[str, dict[str, int]] = {}
        covered = self._file.load(self._interpret)
        self.journal = Journal(disk, layout.group_journal, _decode)
        lines = self.journal.replay(covered)
        for _, counter, timestamp, groups, forbidden in lines:
            self.version = DataVersion(counter, timestamp, self.version.state_version)
            self._take(groups)
            for name, topics in forbidden.items():
                self._close(name, topics)
        wanted = SYSTEM_GROUPS if adds_system_groups else ()
        missing = [name for name in wanted if name not in self._table]
        if covered is None or missing:
            self._table.update({name: SubscriptionGroup(name=name) for name in missing})
            self.journal.is_behind = True
            self.flush()  # from now on the journal counts

    def use(self, settings: GroupSettings) -> None:
        """Change how new groups come about."""
        self._settings = settings

    def get(self, name: str) -> SubscriptionGroup | None:
        """Return the group, None when there is none; nothing is made."""
        return self._table.get(name)

    def all(self) -> Iterable[SubscriptionGroup]:
        """Return every group, in no particular order."""
        return self._table.values()

    def find(self, name: str) -> SubscriptionGroup:
        """Return the group, made with default settings if it is new.

        Raises:
            RequestRefused: SUBSCRIPTION_GROUP_NOT_EXIST; the name is illegal, or groups are not
                made automatically.
        """
        group = self._table.get(name)
        if group is not None:
            return group
        if len(name) > GROUP_CHARACTERS_MAX or (name and not NAME.fullmatch(name)):
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name[:GROUP_CHARACTERS_MAX]}] does not exist, and its name "
                "is no legal one",
            )
        if not self._settings.auto_create:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{name}] does not exist, and automatic creation is off",
            )
        group = SubscriptionGroup(name=name)
        self.put([group])
        return group

    def put(self, groups: Iterable[SubscriptionGroup]) -> None:
        """Add or replace groups, all of them or none; attributes that a group has stay.

        Raises:
            RequestRefused: SYSTEM_ERROR; attributes are to be changed. RocketMQ 5.3.3 knows none
                of groups, and refuses each.
            DiskFull, DiskFailed: The journal could not be written; the table is as before.
        """
        changed: dict[str, SubscriptionGroup] = {}
        for group in groups:
            if group.attributes:
                names = ", ".join(group.attributes)
                raise RequestRefused(
                    ResponseCode.SYSTEM_ERROR,
                    f"group {group.name}: attributes {names} are not supported, a group has none",
                )
            old = self._table.get(group.name)
            new = group if old is None else structs.replace(group, attributes=old.attributes)
            if new != old:
                changed[group.name] = new
        if changed:
            self._note({name: declared.plain(group) for name, group in changed.items()}, {})
            self._table.update(changed)

    def remove(self, name: str) -> None:
        """Take a group out of the table, if it is there.

        Raises:
            DiskFull, DiskFailed: As `put`.
        """
        if name in self._table:
            self._note({name: None}, {})
            del self._table[name]

    @property
    def forbidden(self) -> Mapping[str, Mapping[str, int]]:
        """Bits by group and topic: bit 0 says that the group may not read the topic."""
        return self._forbidden

    def tells_members(self, name: str) -> bool:
        """Say whether the members of a group are told when others come and go."""
        group = self._table.get(name)
        return group is None or group.notify_ids_changed_enable

    def is_forbidden(self, group: str, topic: str) -> bool:
        """Tell whether the group may not read the topic: RocketMQ's forbidden table says so."""
        return bool(int(self._forbidden.get(group, {}).get(topic, 0)) & READ_FORBIDDEN)

    def forbid(self, group: str, topic: str, *, is_readable: bool) -> None:
        """Open or close a topic to a group, whether or not there is either of them yet.

        Raises:
            DiskFull, DiskFailed: As `put`.
        """
        old = self._forbidden.get(group, {})
        bits = int(old.get(topic, 0))
        wanted = bits & ~READ_FORBIDDEN if is_readable else bits | READ_FORBIDDEN
        if wanted != bits:
            new = {other: there for other, there in old.items() if other != topic}
            if wanted:
                new[topic] = wanted
            self._note({}, {group: new})
            self._close(group, new)

    def _close(self, group: str, topics: dict[str, int]) -> None:
        """Note which topics are closed to a group; one without any is not in the table."""
        if topics:
            self._forbidden[group] = topics
        else:
            self._forbidden.pop(group, None)

    def flush_steps(self) -> Steps:
        """Write a new snapshot, if anything has changed since the last one.

        Raises:
            DiskFull, DiskFailed: The old one and the journal are there.
        """
        return self.journal.snapshot_steps(
            lambda covered: self._file.replace_steps(
                {
                    "dataVersion": declared.plain(self.version),
                    "forbiddenTable": self._forbidden_entries(),
                    "subscriptionGroupTable": self._entries(),
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
        for name, group in list(self._table.items()):
            yield fastjson.entry(name, declared.plain(group))

    def _forbidden_entries(self) -> Iterator[str]:
        for group, topics in list(self._forbidden.items()):
            yield fastjson.entry(str(group), topics)

    def _note(
        self, groups: "dict[str, JsonObject | None]", forbidden: dict[str, dict[str, int]]
    ) -> None:
        """Write a line, before the table is changed."""
        version = self.version.next(self._clock.now_ms())
        self.journal.append(version.counter, version.timestamp, groups, forbidden)
        self.version = version
        self.journal.is_behind = True

    def _take(self, groups: "dict[str, JsonObject | None]") -> None:
        for name, members in groups.items():
            if members is None:
                self._table.pop(name, None)
            else:
                self._table[name] = tables.group_from_json(name, members)

    def _interpret(self, content: JsonObject) -> int | None:
        """Take in what the file says; return up to where it covers the journal."""
        version = DataVersion.from_json(content.get("dataVersion"), self._clock.now_ms())
        found = values.mapping(content.get("subscriptionGroupTable"), "subscriptionGroupTable")
        forbidden = values.mapping(content.get("forbiddenTable"), "forbiddenTable")
        for group, topics in forbidden.items():
            for bits in values.mapping(topics, f"what group {group} may not read").values():
                values.integer(bits, "a set of bits")
        self._table = {
            str(name): tables.group_from_json(str(name), value) for name, value in found.items()
        }
        self._forbidden = forbidden
        self.version = version
        return tables.covered_by(content)
