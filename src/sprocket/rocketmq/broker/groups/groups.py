"""Consumer groups and their settings, in `config/subscriptionGroup.json`.

An unknown group is made with default settings when it is first used, unless `auto_create` is off.
Each change is a line of the journal `sprocket.groups`, which survives a kill; `runtime.snapshots`
makes it durable.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import structs

from sprocket.base import log
from sprocket.base.place import Place
from sprocket.rocketmq.codec.config import JsonObject, declared, fastjson, tables, values
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.model.internal import LIGHT_PREFIX, NAME, SYSTEM_GROUPS
from sprocket.rocketmq.settings import GroupSettings
from sprocket.rocketmq.store import config_table
from sprocket.rocketmq.store.config_table import ConfigTable, Snapshot

_log = log.get_logger(__name__)

GROUP_CHARACTERS_MAX = 255

READ_FORBIDDEN = 1
"""The bit of RocketMQ's forbidden table that closes a topic to the reads of a group."""


class Groups:
    """The table of consumer groups.

    Args:
        place: Where the store lies; its clock is part of the version.
        settings: How new groups come about.
        adds_system_groups: Whether those of every broker are made.
        with_offsets: Groups that have committed an offset. They come back, with default settings,
            where the table's file is lost.
        light_queues: Whether groups whose names begin as a light queue's are there by themselves.

    Attributes:
        table: File, journal and version; says how durable a change is.

    Threads: event loop only.
    """

    def __init__(
        self,
        place: Place,
        settings: GroupSettings,
        *,
        adds_system_groups: bool = True,
        with_offsets: Iterable[str] = (),
        light_queues: bool = False,
    ) -> None:
        self._has_light = light_queues
        self._settings = settings
        self._groups: dict[str, SubscriptionGroup] = {}
        self._forbidden: dict[str, dict[str, int]] = {}
        self.table = ConfigTable(config_table.GROUPS, place, self._snapshot)
        lines = self.table.load(fastjson.Members, self._read)
        for _, counter, timestamp, groups, forbidden in lines:
            self.table.noted(counter, timestamp)
            tables.GROUPS.apply(self._groups, groups)
            for name, topics in forbidden.items():
                self._close(name, topics)
        wanted = [*SYSTEM_GROUPS] if adds_system_groups else []
        if self.table.is_lost:
            lost = sorted(set(with_offsets).difference(SYSTEM_GROUPS, self._groups))
            wanted += lost
            if lost:
                _log.warning(
                    "the table of groups is lost; those that have committed offsets are back with "
                    "default settings",
                    groups=lost,
                )
        missing = [name for name in wanted if name not in self._groups]
        if self.table.is_void or missing:
            self._groups.update({name: SubscriptionGroup(name=name) for name in missing})
            self.table.journal.is_behind = True
            self.table.flush()  # from now on the journal counts

    def use(self, settings: GroupSettings) -> None:
        """Change how new groups come about."""
        self._settings = settings

    def get(self, name: str) -> SubscriptionGroup | None:
        """Return the group, None when there is none; nothing is made."""
        return self._groups.get(name)

    def existing(self, name: str, remark: str) -> SubscriptionGroup:
        """Return the group. Raises Refused: NO_GROUP, with a remark that names it."""
        group = self._groups.get(name) if name.strip() else None
        if group is None and self._is_light(name):
            group = SubscriptionGroup(name=name)
        if group is None:
            raise Refused(Refusal.NO_GROUP, remark.format(name))
        return group

    def all(self) -> Iterable[SubscriptionGroup]:
        """Return every group, in no particular order."""
        return self._groups.values()

    def find(self, name: str) -> SubscriptionGroup:
        """Return the group, made with default settings if it is new.

        Raises:
            Refused: NO_GROUP; the name is illegal, or groups are not made automatically.
        """
        group = self._groups.get(name)
        if group is not None:
            return group
        if len(name) > GROUP_CHARACTERS_MAX or (name and not NAME.fullmatch(name)):
            raise Refused(
                Refusal.NO_GROUP,
                f"subscription group [{name[:GROUP_CHARACTERS_MAX]}] does not exist, and its name "
                "is not a legal one",
            )
        if self._is_light(name):
            return SubscriptionGroup(name=name)  # in no table: there may be ten thousand
        if not self._settings.auto_create:
            raise Refused(
                Refusal.NO_GROUP,
                f"subscription group [{name}] does not exist, and automatic creation is off",
            )
        group = SubscriptionGroup(name=name)
        self.put([group])
        return group

    def settings_of(self, name: str) -> SubscriptionGroup:
        """Return the group as `find` does, or one as a new one would be if there may be none."""
        try:
            return self.find(name)
        except Refused:
            return SubscriptionGroup(name=name)

    def _is_light(self, name: str) -> bool:
        return self._has_light and name.startswith(LIGHT_PREFIX)

    def put(self, groups: Iterable[SubscriptionGroup]) -> None:
        """Add or replace groups, all of them or none; attributes that a group has stay.

        Raises:
            Refused: OTHER; attributes are to be changed. RocketMQ 5.3.3 knows none of groups, and
                refuses each.
            DiskFull, DiskFailed: The journal could not be written; the table is as before.
        """
        changed: dict[str, SubscriptionGroup] = {}
        for group in groups:
            if group.attributes:
                names = ", ".join(group.attributes)
                raise Refused(
                    Refusal.OTHER,
                    f"group {group.name}: attributes {names} are not supported, a group has none",
                )
            old = self._groups.get(group.name)
            new = group if old is None else structs.replace(group, attributes=old.attributes)
            if new != old:
                changed[group.name] = new
        if changed:
            self.table.note({name: declared.plain(group) for name, group in changed.items()}, {})
            self._groups.update(changed)

    def remove(self, name: str) -> None:
        """Take a group out of the table, if it is there.

        Raises:
            DiskFull, DiskFailed: As `put`.
        """
        if name in self._groups:
            self.table.note({name: None}, {})
            del self._groups[name]

    @property
    def forbidden(self) -> Mapping[str, Mapping[str, int]]:
        """Bits by group and topic: bit 0 says that the group may not read the topic."""
        return self._forbidden

    def notifies_members(self, name: str) -> bool:
        """Say whether the members of a group are told when others come and go."""
        group = self._groups.get(name)
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
            self.table.note({}, {group: new})
            self._close(group, new)

    def _close(self, group: str, topics: dict[str, int]) -> None:
        """Note which topics are closed to a group; one without any is not in the table."""
        if topics:
            self._forbidden[group] = topics
        else:
            self._forbidden.pop(group, None)

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            members={
                "forbiddenTable": self._forbidden_entries(),
                tables.GROUPS.member: tables.entries(self._groups),
            }
        )

    def _forbidden_entries(self) -> Iterator[str]:
        for group, topics in list(self._forbidden.items()):
            yield fastjson.entry(str(group), topics)

    def _read(self, content: JsonObject) -> None:
        """Take in what the file says."""
        groups = tables.GROUPS.read(content)
        forbidden = values.mapping(content.get("forbiddenTable"), "forbiddenTable")
        for group, topics in forbidden.items():
            for bits in values.mapping(topics, f"what group {group} may not read").values():
                values.integer(bits, "a set of bits")
        self._groups, self._forbidden = groups, forbidden
