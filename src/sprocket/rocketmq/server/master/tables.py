"""What a slave has beside the log: topics, groups, offsets and modes, asked of its master.

Once a minute the master is asked for all of it, and the tables here are made alike: what differs is
written by them as any other change, so that it survives a kill and makes no difference for whoever
goes on with the folder. Offsets only go where the master has them; what it does not know of stays.

How far delayed messages were delivered is true of the master's log. Here it counts when this log
has all that the master's had when it said so, or a message would be passed over whose copy is not
here yet.

Source: RocketMQ `SlaveSynchronize`.
"""

import asyncio
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec import Struct

from sprocket.base import log
from sprocket.base.errors import BrokerRefused, ClientError, NotConnected, StoreError, WireError
from sprocket.rocketmq.broker.broker import Broker
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import DelayOffsets, GroupTable, KeyValueTable, OffsetTable
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.config import DataVersion, tables
from sprocket.rocketmq.codec.headers import NoFields
from sprocket.rocketmq.remoting import Channel
from sprocket.rocketmq.server.master.places import MasterPlaces
from sprocket.runtime.tasks import Tasks

ROUND_SECONDS = 60.0
"""How often everything is asked for, RocketMQ's interval."""
FIRST_SECONDS = 3.0
"""After how long the first time; and again, while the master does not answer."""
LOOK_SECONDS = 0.2
ANSWER_MS = 10_000

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
    why: str | None = "the master was not asked yet"
    """Why they are not like them; None if they were at the last round."""
    _topics_version: DataVersion | None = field(default=None, init=False)
    _tasks: Tasks = field(default_factory=lambda: Tasks("master tables"), init=False)

    def start(self) -> None:
        """Begin to ask."""
        self._tasks.spawn(self._keep(), "follow")

    async def stop(self) -> None:
        """Ask no more."""
        await self._tasks.close()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(FIRST_SECONDS if self.why is not None else ROUND_SECONDS)
            try:
                await self.follow()
            except (ClientError, StoreError, WireError) as error:
                if str(error) != self.why:
                    _log.warning("tables of the master are not here", why=str(error))
                self.why = str(error)
            else:
                self.why = None

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
            self._take_topics(
                await _ask(channel, RequestCode.GET_ALL_TOPIC_CONFIG, tables.TopicTable)
            )
            code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
            self._take_groups(await _ask(channel, code, GroupTable))
            self._take_offsets(
                await _ask(channel, RequestCode.GET_ALL_CONSUMER_OFFSET, OffsetTable)
            )
            code = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
            self._take_modes(await _ask(channel, code, tables.RequestModeTable))
            delays = await _ask(channel, RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsets)
            info = await _ask(channel, RequestCode.GET_BROKER_RUNTIME_INFO, KeyValueTable)
        finally:
            channel.close()
        await self._take_delays(delays, int(info.table.get(_END, "0")))

    def _take_topics(self, table: tables.TopicTable) -> None:
        topics = self._broker.topics
        if table.version == self._topics_version:
            return
        wanted = {topic.name for topic in table.topics}
        topics.put_all(table.topics)
        for name in [topic.name for topic in topics.all() if topic.name not in wanted]:
            topics.remove(name)
        self._broker.take_kinds()
        self._topics_version = table.version

    def _take_groups(self, table: GroupTable) -> None:
        groups = self._broker.groups
        groups.put(table.groups)
        wanted = {group.name for group in table.groups}
        for name in [group.name for group in groups.all() if group.name not in wanted]:
            groups.remove(name)

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

    async def _take_delays(self, delays: DelayOffsets, end: int) -> None:
        """Take how far delayed messages were delivered, once all before `end` is here."""
        store, progress = self._broker.store, self._broker.delay_progress
        if all(progress.get(level) == offset for level, offset in delays.levels.items()):
            return
        for _ in range(int(ROUND_SECONDS / LOOK_SECONDS)):
            if store.written >= end:
                for level, offset in delays.levels.items():
                    if progress.get(level) != offset:
                        progress.note(level, offset)
                return
            await asyncio.sleep(LOOK_SECONDS)


async def _ask(channel: Channel, code: RequestCode, shape: type[T]) -> T:
    """Ask the master for a table.

    Raises:
        BrokerRefused: It does not give it.
        ClientError, WireError: It does not answer, or with something else.
    """
    answer = await channel.ask(code, NoFields(), timeout_ms=ANSWER_MS)
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerRefused(answer.code, answer.remark or "")
    return bodies.decode(shape, answer.body)
