"""What a slave has beside the log, asked of its master: topics, groups, offsets, pops, users.

Once a minute the master is asked for all of it, in a set as soon as it says that something has
changed (`TellingTables`). The tables here are made alike: what differs is
written by them as any other change, so that it survives a kill and makes no difference for whoever
goes on with the folder. Offsets only go where the master has them; what it does not know of stays.

How far delayed messages were delivered is true of the master's log. Here it counts when this log
has all that the master's had when it said so, or a message would be passed over whose copy is not
here yet. So it is with a topic that the master does not have any more: its queues are deleted here
once all its messages are here. One that was deleted and made again the store finds out by itself.
And so it is with what is in flight of pops, which names messages of the log: with it a new master
gives nothing again that was acknowledged, and what was not when it is due.

Source: RocketMQ `SlaveSynchronize`, which does not take users and policies. Its pops are in the log
(`broker.pop.revive_log`).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec import Struct, structs

from sprocket.base import log
from sprocket.base.errors import BrokerRefused, ClientError, NotConnected, StoreError, WireError
from sprocket.rocketmq.broker.broker import Broker
from sprocket.rocketmq.broker.groups import READ_FORBIDDEN
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import DelayOffsets, GroupTable, KeyValueTable, OffsetTable
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.config import DataVersion, tables
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.codec.headers import (
    AclFilters,
    GetAllOffsets,
    NoFields,
    OffsetAnswer,
    TopicQueue,
    UserFilter,
)
from sprocket.rocketmq.errors import Refused
from sprocket.rocketmq.model.internal import LIGHT_PREFIX
from sprocket.rocketmq.remoting import Channel
from sprocket.rocketmq.replication import Slaves, TableVersions
from sprocket.rocketmq.server.master.places import MasterPlaces
from sprocket.runtime.tasks import Tasks, is_set_within
from sprocket.runtime.timers import Timer, Timers

ROUND_SECONDS = 60.0
"""How often everything is asked for, RocketMQ's interval."""
RETRY_SECONDS = 0.2
"""After how long again, if it has said that there is something new."""
FIRST_SECONDS = 3.0
"""After how long the first time; and again, while the master does not answer."""
LOOK_SECONDS = 0.2
PAUSE_SECONDS, PAUSE_PART = 0.1, 10
"""So long the master is left alone after it has answered, at least; and so many times as long as
that took, but no longer than a round, as it may have many tables, and commits go on."""
TELL_SECONDS = 0.1
"""How often it is looked whether tables have changed."""
ANSWER_MS = 10_000
POPS_SECONDS = 5.0
"""So long a round waits for the log if pops are all that counts from there on; a slave that is
further behind takes them in a later one."""
GONE_MAX = 100
"""Topics of which it is asked in one round whether they were deleted."""

_END = "commitLogMaxOffset"
_log = log.get_logger(__name__)

T = TypeVar("T", bound=Struct)


@dataclass(slots=True, eq=False)
class MasterTables:
    """Keeps the tables of a slave like its master's.

    Threads: event loop only.
    """

    _broker: Broker
    _places: MasterPlaces
    _versions: TableVersions
    _own_users: frozenset[str] = frozenset()
    """Users whom the settings name, who stay whatever the master has."""
    round_seconds: float = ROUND_SECONDS
    """How often everything is asked for."""
    why: str | None = "the master was not asked yet"
    """Why they are not like them; None if they were at the last round."""
    _topics_were: tuple[str, DataVersion, DataVersion] | None = field(default=None, init=False)
    """Whose topics were taken, their version there, and here after that."""
    _tasks: Tasks = field(default_factory=lambda: Tasks("master tables"), init=False)

    def start(self) -> None:
        """Begin to ask."""
        self._tasks.spawn(self._keep(), "follow")

    async def stop(self) -> None:
        """Ask no more."""
        await self._tasks.close()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            first = min(FIRST_SECONDS, self.round_seconds)
            wait = first if self.why is not None else self.round_seconds
            if self.why is not None and self._versions.is_behind:
                wait = RETRY_SECONDS  # it is there, and waits for this slave if it hands over
            await is_set_within(wait, self._versions.changed)
            begun, asked = loop.time(), self._versions.begin_round()
            try:
                await self.follow()
            except (ClientError, Refused, StoreError, WireError) as error:
                if str(error) != self.why:
                    _log.warning("tables of the master are not here", why=str(error))
                self.why = str(error)
            else:
                self.why = None
                self._versions.finish_round(asked)
                pause = max(PAUSE_SECONDS, (loop.time() - begun) * PAUSE_PART)
                await asyncio.sleep(min(pause, self.round_seconds))

    async def follow(self) -> None:
        """Ask the master for everything, and make the tables here alike.

        Raises:
            ClientError, WireError: It does not answer, or not as a broker does.
            StoreError: A table could not be written; the others may be.
        """
        master = self._places.registration.master
        if master is None:
            raise NotConnected("no NameServer knows the master")
        channel = await self._places.open(master.broker)
        try:
            topics = await self._topics(channel)
            self._take_topics(master.broker, topics)
            code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
            self._take_groups(await _ask(channel, code, GroupTable))
            self._forget_deleted()
            offsets = await _ask(
                channel,
                RequestCode.GET_ALL_CONSUMER_OFFSET,
                OffsetTable,
                GetAllOffsets(with_pops=True),
            )
            self._take_offsets(offsets)
            code = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
            self._take_modes(await _ask(channel, code, tables.RequestModeTable))
            await self._take_rights(channel)
            delays = await _ask(channel, RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsets)
            end = await _end(channel)
            gone = await self._gone(channel, topics)
            if gone and (await self._topics(channel)).version != topics.version:
                gone = []  # one of them may be there again, and have messages before the end
        finally:
            channel.close()
        if gone or not self._has(delays) or self._has_pops(offsets):
            await self._take_at(end, delays, offsets, gone)

    async def _topics(self, channel: Channel) -> tables.TopicTable:
        """Ask for the topics. Raises as `_ask`."""
        found = await _ask(channel, RequestCode.GET_ALL_TOPIC_CONFIG, tables.TopicTable)
        if not found.topics:
            raise WireError("the master tells no topics, though each broker has some of its own")
        return found

    def _take_topics(self, master: str, table: tables.TopicTable) -> None:
        topics = self._broker.topics
        if (master, table.version, topics.table.version) == self._topics_were:
            return
        wanted = {topic.name for topic in table.topics}
        topics.put_all(table.topics)
        for name in [topic.name for topic in topics.all() if topic.name not in wanted]:
            topics.remove(name)
        self._broker.take_kinds()
        self._topics_were = master, table.version, topics.table.version

    def _take_groups(self, table: GroupTable) -> None:
        groups = self._broker.groups
        if not table.groups:
            raise WireError("the master tells no groups, though each broker has some of its own")
        groups.put([structs.replace(group, attributes={}) for group in table.groups])
        wanted = {group.name for group in table.groups}
        for name in [group.name for group in groups.all() if group.name not in wanted]:
            groups.remove(name)
        for group in {*groups.forbidden, *table.forbidden}:
            bits = table.forbidden.get(group, {})
            for topic in {*groups.forbidden.get(group, ()), *bits}:
                is_readable = not bits.get(topic, 0) & READ_FORBIDDEN
                groups.forbid(group, topic, is_readable=is_readable)

    def _forget_deleted(self) -> None:
        """Forget the offsets in topics that the master has deleted, and perhaps made again.

        What the master is asked for after this is of those made again.
        """
        deletions = self._broker.store.deletions
        for topic in deletions.pending:
            self._broker.offsets.forget_topic(topic)
            self._broker.stats.forget_topic(topic)
            deletions.finish(topic)

    def _take_offsets(self, table: OffsetTable) -> None:
        offsets = self._broker.offsets
        for key, queues in table.offsets.items():
            topic, _, group = key.partition("@")
            known = offsets.of(group, topic)
            for queue_id, offset in queues.items():
                if known.get(queue_id) != offset:
                    offsets.commit_aside(group, topic, queue_id, offset)

    def _take_modes(self, table: tables.RequestModeTable) -> None:
        modes = self._broker.request_modes
        for topic, groups in table.modes.items():
            for group, mode in groups.items():
                if modes.all().get(topic, {}).get(group) != mode:
                    modes.put(mode)

    async def _take_rights(self, channel: Channel) -> None:
        """Take users and their policies, where requests are checked by such. Raises as `_ask`."""
        rights = self._broker.rights
        if rights is None:
            return
        listed = await channel.ask(RequestCode.AUTH_LIST_USER, UserFilter(), timeout_ms=ANSWER_MS)
        policies = await channel.ask(RequestCode.AUTH_LIST_ACL, AclFilters(), timeout_ms=ANSWER_MS)
        for answer in (listed, policies):
            if answer.code != ResponseCode.SUCCESS:
                raise BrokerRefused(answer.code, answer.remark or "")
        users = bodies.decode_users(listed.body or b"[]")
        if not users or not all(user.password for user in users):
            raise WireError("the master tells no users, or not their passwords")
        rights.take(users, bodies.decode_acls(policies.body or b"[]"), self._own_users)

    async def _gone(self, channel: Channel, table: tables.TopicTable) -> list[str]:
        """Return topics that have messages here, and that the master has deleted.

        One that is only lost from the master's table has its queues there. Raises as `_ask`.
        """
        wanted = {topic.name for topic in table.topics}
        found: dict[str, int] = {}
        for topic, queue_id, span in self._broker.store.queues():
            is_kept = topic in wanted or topic.startswith(LIGHT_PREFIX)
            if span.max and not is_kept and not self._broker.topics.is_system(topic):
                found[topic] = queue_id
        gone = []
        for topic, queue_id in [*found.items()][:GONE_MAX]:
            header = TopicQueue(topic=topic, queue_id=queue_id)
            answer = await channel.ask(RequestCode.GET_MAX_OFFSET, header, timeout_ms=ANSWER_MS)
            if answer.code == ResponseCode.SUCCESS and answer.header(OffsetAnswer).offset == 0:
                gone.append(topic)
        return gone

    def _has(self, delays: DelayOffsets) -> bool:
        """Say whether it is known how far delayed messages were delivered."""
        progress = self._broker.delay_progress
        return all(progress.get(level) == offset for level, offset in delays.levels.items())

    def _has_pops(self, offsets: OffsetTable) -> bool:
        """Say whether the master has told of pops, and there are any, there or here."""
        pops, ordered = offsets.pops, offsets.ordered_pops
        if pops is None or ordered is None:
            return False
        return bool(pops or ordered or len(self._broker.in_flight) or len(self._broker.orders))

    async def _take_at(
        self, end: int, delays: DelayOffsets, offsets: OffsetTable, gone: Sequence[str]
    ) -> None:
        """Take what was true of the master's log at a place, once all before it is here.

        Args:
            end: The place.
            delays: How far delayed messages were delivered.
            offsets: What was in flight.
            gone: Topics that were deleted.
        """
        store, progress = self._broker.store, self._broker.delay_progress
        seconds = POPS_SECONDS if self._has(delays) and not gone else ROUND_SECONDS
        for _ in range(int(seconds / LOOK_SECONDS)):
            if store.written >= end:
                break
            await asyncio.sleep(LOOK_SECONDS)
        else:
            return
        for level, offset in delays.levels.items():
            if progress.get(level) != offset:
                progress.note(level, offset)
        if offsets.pops is not None and offsets.ordered_pops is not None:
            self._broker.in_flight.follow(offsets.pops)
            self._broker.orders.follow(offsets.ordered_pops)
        for topic in gone:
            store.delete_ended_topic(topic, end)
        self._forget_deleted()


class TellingTables:
    """Tells slaves of a set when tables have changed.

    Args:
        timers: The event loop's.
        slaves: Who is told.
        broker: Whose tables.

    Threads: event loop only.
    """

    def __init__(self, timers: Timers, slaves: Slaves, broker: Broker) -> None:
        self._timers = timers
        self._slaves = slaves
        self._broker = broker
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin."""
        self._slaves.tell_tables(self._broker.tables_version)
        self._timer = self._timers.call_later(TELL_SECONDS, self.start)

    def stop(self) -> None:
        """Tell no more."""
        if self._timer is not None:
            self._timer.cancel()


async def _end(channel: Channel) -> int:
    """Ask where the master's log ends. Raises as `_ask`."""
    info = await _ask(channel, RequestCode.GET_BROKER_RUNTIME_INFO, KeyValueTable)
    try:
        return int(info.table[_END])
    except (KeyError, ValueError):
        raise WireError("the master does not tell where its log ends") from None


async def _ask(
    channel: Channel,
    code: RequestCode,
    shape: type[T],
    header: Header = NoFields(),  # noqa: B008 - it is frozen
) -> T:
    """Ask the master for a table.

    Raises:
        BrokerRefused: It does not give it.
        ClientError, WireError: It does not answer, or with something else.
    """
    answer = await channel.ask(code, header, timeout_ms=ANSWER_MS)
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerRefused(answer.code, answer.remark or "")
    return bodies.decode(shape, answer.body)
