"""Consumer groups and their settings, in `config/subscriptionGroup.json`.

A group that nobody made is made, with default settings, when it is first used, unless
`auto_create` is off.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from sprocket.base.clock import Clock
from sprocket.base.disk import Disk
from sprocket.base.errors import RequestRefused, StoreError
from sprocket.rocketmq.broker.config_file import ConfigFile
from sprocket.rocketmq.broker.topics import NAME
from sprocket.rocketmq.codec import tables, values
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.codec.tables import DataVersion
from sprocket.rocketmq.model.group import SubscriptionGroup
from sprocket.rocketmq.settings import GroupSettings
from sprocket.rocketmq.store import config_rdb
from sprocket.rocketmq.store.layout import StoreLayout

GROUP_CHARACTERS_MAX = 255

SYSTEM_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)
"""Groups that are there from the start."""


READ_FORBIDDEN = 1
"""The bit of RocketMQ's forbidden table that closes a topic to the reads of a group."""


class Groups:
    """The table of consumer groups.

    Threads: event loop only.
    """

    def __init__(self, disk: Disk, folder: str, clock: Clock, settings: GroupSettings) -> None:
        layout = StoreLayout(folder)
        rocksdb = partial(config_rdb.groups_json, disk, layout)
        self._file = ConfigFile(disk, layout.subscription_groups, rocksdb)
        self._clock = clock
        self._settings = settings
        self.version = DataVersion.new(clock.now_ms())
        self._table: dict[str, SubscriptionGroup] = {}
        self._forbidden: dict[Any, Any] = {}
        self._file.load(self._interpret)
        missing = [name for name in SYSTEM_GROUPS if name not in self._table]
        if missing:
            self._table.update({name: SubscriptionGroup(name=name) for name in missing})
            self._save()

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
        self._table[name] = group
        try:
            self._save()
        except StoreError:
            del self._table[name]
            raise
        return group

    def put(self, groups: Iterable[SubscriptionGroup]) -> None:
        """Add or replace groups, all of them or none; attributes that a group has stay.

        Raises:
            RequestRefused: SYSTEM_ERROR; attributes are to be changed. RocketMQ 5.3.3 knows none
                of groups, and refuses each.
            StoreError: The file could not be written; the table is as before.
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
            changed[group.name] = (
                group if old is None else replace(group, attributes=old.attributes)
            )
        self._change(self._table | changed)

    def remove(self, name: str) -> None:
        """Take a group out of the table, if it is there.

        Raises:
            StoreError: As `put`.
        """
        self._change({other: group for other, group in self._table.items() if other != name})

    @property
    def forbidden(self) -> Mapping[str, Mapping[str, int]]:
        """Bits by group and topic: bit 0 says that the group may not read the topic."""
        return self._forbidden

    def _change(self, table: dict[str, SubscriptionGroup]) -> None:
        old = self._table
        if table == old:
            return
        self._table = table
        try:
            self._save()
        except StoreError:
            self._table = old
            raise

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
            StoreError: The file could not be written; the table is as before.
        """
        old = dict(self._forbidden.get(group, {}))
        bits = int(old.get(topic, 0))
        wanted = bits & ~READ_FORBIDDEN if is_readable else bits | READ_FORBIDDEN
        if wanted == bits:
            return
        self._forbidden[group] = {**old, topic: wanted}
        try:
            self._save()
        except StoreError:
            self._forbidden[group] = old
            raise

    def _interpret(self, content: dict[str, Any]) -> None:
        """Take in what the file says."""
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

    def _save(self) -> None:
        self.version = self.version.next(self._clock.now_ms())
        self._file.replace(
            self._file.encode(
                {
                    "dataVersion": self.version.to_json(),
                    "forbiddenTable": self._forbidden,
                    "subscriptionGroupTable": {
                        name: tables.group_to_json(group) for name, group in self._table.items()
                    },
                }
            )
        )
