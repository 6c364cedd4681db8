"""The queues that a consumer holds: taking them, giving them up, keeping their locks."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime

from sprocket.base import log
from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.consumer.plan import ConsumerPlan
from sprocket.rocketmq.client.consumer.queues.consume_counts import ConsumeCounts
from sprocket.rocketmq.client.consumer.queues.offsets import Offsets
from sprocket.rocketmq.client.consumer.queues.process_queue import NEVER, ProcessQueue
from sprocket.rocketmq.client.consumer.queues.queue_puller import QueuePuller
from sprocket.rocketmq.client.network import BrokerCalls, Lease
from sprocket.rocketmq.model.internal import RETRY_PREFIX
from sprocket.rocketmq.model.offsets import QueueOffset
from sprocket.rocketmq.model.route import MessageQueue

_log = log.get_logger(__name__)


class Locks:
    """The locks by which an orderly consumer keeps others of its group from its queues.

    A broker lets a lock expire 60 s after its last renewal. So none may be renewed once it was
    released, nor forgotten that may be ours: one request waits for another, and each queue that was
    asked for counts as locked until its broker says otherwise.
    """

    def __init__(self, group: str, client_id: str, brokers: BrokerCalls) -> None:
        self._group = group
        self._client_id = client_id
        self._brokers = brokers
        self._asking = asyncio.Lock()
        self._asked: set[MessageQueue] = set()

    async def acquire(
        self, queues: Callable[[], Iterable[MessageQueue]]
    ) -> dict[MessageQueue, bool]:
        """Lock queues, or renew their locks; return which of them are locked for us now.

        Queues of a broker that gave no answer are not in the result: who had them, has them.

        Args:
            queues: Gives them when it is their turn.
        """
        locked: dict[MessageQueue, bool] = {}
        async with self._asking:
            for broker_name, some in _by_broker(queues()).items():
                self._asked.update(some)
                try:
                    ours = await self._brokers.lock(self._group, self._client_id, broker_name, some)
                except ClientError as error:
                    _log.warning("queues not locked", broker=broker_name, error=str(error))
                    continue
                self._asked.difference_update(set(some).difference(ours))
                locked |= {queue: queue in ours for queue in some}
        return locked

    async def release(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Let others have queues, by default all; if that fails they wait until locks expire."""
        async with self._asking:
            given = self._asked if queues is None else self._asked.intersection(queues)
            for broker_name, some in _by_broker(given).items():
                self._asked.difference_update(some)
                try:
                    await self._brokers.unlock(self._group, self._client_id, broker_name, some)
                except ClientError as error:
                    _log.warning("queues not unlocked", broker=broker_name, error=str(error))


class Assignment:
    """What this consumer reads.

    A queue that is given up is marked first, so that nothing more of it is handed out or noted.
    Its offset is stored, and its lock released, after the listener has returned what it has of it;
    only then may this consumer take it again.
    """

    def __init__(
        self, plan: ConsumerPlan, lease: Lease, offsets: Offsets, pulling: QueuePuller
    ) -> None:
        instance = lease.instance
        self._plan = plan
        self._offsets = offsets
        self._brokers = instance.brokers
        self._locks: Locks | None = None
        if plan.needs_locks:
            self._locks = Locks(plan.group, instance.client_id, self._brokers)
        self._pulling = pulling
        self._tasks = lease.tasks
        self._clock = instance.clock
        self.counts = ConsumeCounts(self._clock)
        """How the consumer does with each topic."""
        self._is_suspended = False
        self._held: dict[MessageQueue, ProcessQueue] = {}
        self._leaving: dict[MessageQueue, ProcessQueue] = {}
        self._seen: dict[str, set[MessageQueue]] = {}
        self._changing = asyncio.Lock()

    def queues(self, topic: str | None = None) -> list[MessageQueue]:
        """Return the queues held, of one topic or of all."""
        return sorted(queue for queue in self._held if topic is None or queue.topic == topic)

    def held(self, queue: MessageQueue) -> ProcessQueue | None:
        """Return a queue that is held, or None."""
        return self._held.get(queue)

    def all_held(self) -> list[ProcessQueue]:
        """Return every queue that is held, in order."""
        return [self._held[queue] for queue in self.queues()]

    def suspend(self) -> None:
        """Pull nothing, of these queues and of those still to come, until `resume`."""
        self._is_suspended = True
        for held in self._held.values():
            held.pause()

    def resume(self) -> None:
        """Pull again."""
        self._is_suspended = False
        for held in self._held.values():
            held.resume()

    def expect(self, topic: str) -> None:
        """Note that a topic does not exist yet, so that each of its queues will be new."""
        self._seen.setdefault(topic, set())

    async def change(
        self, topic: str, wanted: Sequence[MessageQueue], existing: Collection[MessageQueue]
    ) -> bool:
        """Hold exactly the wanted queues of a topic.

        One call waits for another, so that none takes what the other takes or gives up. `existing`
        are all queues of the topic, of which those not seen before are read from their beginning.

        Returns:
            Whether that is so now; if not, call again soon.
        """
        async with self._changing:
            return await self._change(topic, wanted, existing)

    async def _change(
        self, topic: str, wanted: Sequence[MessageQueue], existing: Collection[MessageQueue]
    ) -> bool:
        seen = self._seen.setdefault(topic, set(existing))
        for queue in self.queues(topic):
            if queue not in wanted:
                self.give_up(queue)
        missing = [queue for queue in wanted if queue not in self._held]
        takable = [queue for queue in missing if queue not in self._leaving]
        if self._locks is not None and takable:
            asked = list(takable)
            locked = await self._locks.acquire(lambda: asked)
            takable = [queue for queue in takable if locked.get(queue)]
        locked_at = NEVER if self._locks is None else self._clock.monotonic()
        async with asyncio.TaskGroup() as group:
            for queue in takable:
                group.create_task(self._take(queue, queue not in seen, locked_at))
        if self._locks is not None:  # others may be able to take what we were not
            await self._locks.release([queue for queue in takable if queue not in self._held])
        seen |= set(existing)
        return all(queue in self._held for queue in wanted)

    async def _take(self, queue: MessageQueue, is_new: bool, locked_at: float) -> None:
        """Begin to read a queue, unless its broker does not say where."""
        try:
            start = await self._start_of(queue, is_new)
        except ClientError as error:
            _log.warning("queue not taken yet", queue=str(queue), error=str(error))
        else:
            self._begin(queue, start, locked_at)

    async def _start_of(self, queue: MessageQueue, is_new: bool) -> QueueOffset:
        """Return the offset to begin with: the one committed, else where `start` says.

        Source: `RebalancePushImpl.computePullFromWhereWithException`. Unlike it, "last" means what
        it says on a young queue too; and a queue that comes into being while we consume is read
        from its beginning, whatever `start` says, as its messages are all newer than the
        subscription.

        Raises:
            ClientError: The broker could not be asked.
        """
        committed = await self._offsets.read(queue)
        if committed is not None:
            return committed
        start = self._plan.start
        if queue.topic.startswith(RETRY_PREFIX) or is_new or start == "first":
            return await self._brokers.min_offset(queue)
        if start == "last":
            return await self._brokers.max_offset(queue)
        assert not isinstance(start, str), start
        at_ms = int(start.timestamp() * 1000) if isinstance(start, datetime) else start
        return await self._brokers.offset_by_time(queue, at_ms)

    def _begin(self, queue: MessageQueue, start: QueueOffset, locked_at: float) -> None:
        settings = self._plan.settings
        held = ProcessQueue(
            queue,
            start,
            messages_max=settings.cached_messages_max,
            bytes_max=settings.cached_bytes_max,
            span_max=settings.span_messages_max if self._locks is None else 1 << 62,
            counts=self.counts.of(queue.topic),
        )
        held.locked_at = locked_at
        if self._is_suspended:
            held.pause()
        self._held[queue] = held
        self._share_limits()
        _log.debug("queue taken", queue=str(queue), offset=start)
        held.pull_task = self._tasks.spawn(
            self._pulling.run(held, self._began_anew), f"pull {queue}"
        )

    def _share_limits(self) -> None:
        """Give each queue its part of what all may have together."""
        settings, count = self._plan.settings, len(self._held)
        messages_max, bytes_max = settings.cached_messages_max, settings.cached_bytes_max
        if settings.all_cached_messages_max is not None:
            share = max(1, settings.all_cached_messages_max // max(count, 1))
            messages_max = min(messages_max, share)
        if settings.all_cached_bytes_max is not None:
            bytes_max = min(bytes_max, max(1, settings.all_cached_bytes_max // max(count, 1)))
        for held in self._held.values():
            held.limit(messages_max, bytes_max)

    async def move(self, queue: MessageQueue, offset: QueueOffset) -> bool:
        """Read a queue from another offset on, once the listener has returned what it has of it.

        Of several calls for one queue the last decides. False if it is not held, or not any more.
        """
        while (held := self._held.get(queue)) is not None:
            if await self._began_anew(held, offset):
                return True
        return False

    async def _began_anew(self, held: ProcessQueue, offset: QueueOffset) -> bool:
        """Begin a queue anew at another offset, once the listener has returned.

        Returns:
            False if the queue was given up meanwhile, or has begun again already.
        """
        held.is_dropped = True
        held.stop_pulling()
        await held.idle()
        held.stop_handing_out()
        if self._held.get(held.queue) is not held:
            return False
        self._offsets.moved(held.queue)
        if (
            not self._plan.is_polled
        ):  # where the user says how far the group is, a move says nothing
            self._offsets.overwrite(held.queue, offset)
        is_paused = held.is_paused
        self._begin(held.queue, offset, held.locked_at)
        if is_paused:
            self._held[held.queue].pause()
        return True

    def give_up(self, queue: MessageQueue) -> None:
        """Stop reading a queue."""
        held = self._held.pop(queue)
        if self._plan.is_polled and self._plan.is_auto_commit:
            self._note_position(held)
        held.is_dropped = True
        self._leaving[queue] = held
        self._share_limits()
        _log.debug("queue given up", queue=str(queue))
        self._tasks.spawn(self._leave(held), f"leave {queue}")

    async def _leave(self, held: ProcessQueue) -> None:
        try:
            if self._locks is not None:
                await held.idle()
            held.stop_pulling()
            held.stop_handing_out()
            await self._offsets.store(held.queue)
            self._offsets.forget(held.queue)
            if self._locks is not None:
                await self._locks.release([held.queue])
        finally:
            del self._leaving[held.queue]

    def note_positions(self) -> None:
        """Take as the group's offsets what is done of each queue."""
        for held in self._held.values():
            self._note_position(held)

    def _note_position(self, held: ProcessQueue) -> None:
        self._offsets.overwrite(held.queue, held.commit_offset)

    async def renew_locks(self) -> bool:
        """Renew the locks of all queues held; say whether all are locked now.

        A queue whose lock is lost stops until it is won again.
        """
        assert self._locks is not None, "only an orderly consumer locks"
        asked_at = self._clock.monotonic()
        for queue, is_ours in (await self._locks.acquire(lambda: list(self._held))).items():
            held = self._held.get(queue)
            if held is None:
                continue
            if is_ours:
                held.locked_at = asked_at
            elif held.is_locked(asked_at):
                _log.warning("lock lost", queue=str(queue))
                held.locked_at = NEVER
        now = self._clock.monotonic()
        return all(held.is_locked(now) for held in self._held.values())

    async def stop(self) -> None:
        """Pull and hand out nothing more; return when the listener has returned."""
        for held in self._held.values():
            held.is_stopping = True
            held.stop_pulling()
        for held in [*self._held.values(), *self._leaving.values()]:
            await held.idle()

    async def leave_all(self) -> None:
        """Store all offsets and release all locks, of queues that are being left or taken, too."""
        for held in self._held.values():
            held.is_dropped = True
        await self._offsets.store()
        if self._locks is not None:
            await self._locks.release()
        self._held.clear()


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        found[queue.broker_name].append(queue)
    return found
