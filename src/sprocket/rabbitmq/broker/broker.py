"""The node as a whole: constructs its parts, and runs what must happen now and then.

No part gets this object to reach the other parts; `server` is given those that it needs.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from sprocket.base import log, memory
from sprocket.base.durations import DurationHistogram
from sprocket.base.errors import StoreError
from sprocket.base.place import Place
from sprocket.base.units import MIB
from sprocket.rabbitmq.broker.access import Admissions
from sprocket.rabbitmq.broker.message_ids import MessageIds
from sprocket.rabbitmq.broker.node_folder import NodeFolder
from sprocket.rabbitmq.broker.queues import WindowLimits
from sprocket.rabbitmq.broker.vhost_broker import VhostBroker, VhostFloor
from sprocket.rabbitmq.broker.vhost_changes import VhostChanges
from sprocket.rabbitmq.model.counts import NodeCounts
from sprocket.rabbitmq.settings import AmqpNodeSettings
from sprocket.runtime.group_commit import FlushMode
from sprocket.runtime.offload import DiskThread
from sprocket.runtime.pressure import Pressure
from sprocket.runtime.snapshots import Snapshots
from sprocket.runtime.tasks import Tasks
from sprocket.runtime.timers import EndingTimers
from sprocket.runtime.turns import Turns

GIVE_BACK_SECONDS = 5.0
"""How often it is checked whether memory can be given back."""
UPKEEP_SECONDS = 1.0
"""How often queues that are due are flushed, and disk and memory are checked."""
RESERVE_SECONDS = 60.0
"""How often it is checked whether there is room again for the reserve of a start."""
SNAPSHOT_SECONDS = 60.0
"""How often the journal of what was declared is made short."""
ARRIVALS_PART = 8
"""Memory is checked before an eighth of what is left below the alarm was read: a message may take
several times its bytes."""
ARRIVALS_BYTES_MIN = MIB
"""But not more often: a check takes some 20 µs."""
FLUSH_SECONDS = 0.5
"""Under async flush, how often what was written is synced."""

_log = log.get_logger(__name__)


class AmqpBroker:
    """Everything that a node is made of.

    Args:
        place: Where its folder lies, and the clock for everything that has a time.
        found: The open folder; this stops its stores, its owner closes it.
        settings: All groups; each part gets its own.
        pressure: Told how much waits for the disk.

    Threads: event loop only.
    """

    def __init__(
        self, place: Place, found: NodeFolder, settings: AmqpNodeSettings, pressure: Pressure
    ) -> None:
        loop = asyncio.get_running_loop()
        self.users = found.users
        self.topologies = found.vhosts
        self.definitions = found.definitions
        self.admissions = Admissions()
        """The clients that are logged in."""
        self.is_disk_low = self.is_memory_low = False
        self.timers = EndingTimers(loop)
        self.turns = Turns(self.timers)
        """Of all virtual hosts: they share what a turn of the loop can do."""
        self.counts = NodeCounts()
        """What was counted by what is gone."""
        self.memory_bytes_max = int(settings.amqp.memory_used_ratio_max * memory.whole_bytes())
        """What the process may take before publishers are held; 0 if that is never."""
        self.syncs = DurationHistogram()
        """How long syncs took, which confirms waited for."""
        self._place = place
        self._found = found
        self._disk_free_bytes_min = settings.amqp.disk_free_bytes_min
        self._pressure = pressure
        self._thread = DiskThread()
        # A sync waits for no other work of the disk, and none of that for a sync that stalls.
        self._sync_thread = DiskThread("sprocket-sync")
        self._declarations = Snapshots(
            self._thread, self._sync_thread, {"metadata": found.table}, durable=[found.table]
        )
        durability = settings.amqp_durability
        floor = VhostFloor(
            clock=place.clock,
            timers=self.timers,
            thread=self._thread,
            sync_thread=self._sync_thread,
            declarations=self._declarations,
            mode=FlushMode(
                is_sync=durability.confirm == "sync",
                wait_seconds_max=durability.confirm_wait_ms_max / 1000,
                timeout_seconds=durability.confirm_timeout_ms / 1000,
                look_seconds=FLUSH_SECONDS,
            ),
            pressure=pressure,
            windows=WindowLimits(all_bytes=durability.held_bytes_max),
            ids=MessageIds(),
            turns=self.turns,
            counts=self.counts,
            syncs=self.syncs,
        )
        self.vhosts = {
            topology.vhost.name: VhostBroker(topology, found.stores[topology.vhost.name], floor)
            for topology in found.vhosts
        }
        """Those that run; `changes` makes and removes some."""
        self.changes = VhostChanges(found, self.vhosts, floor)
        self._tasks = Tasks("amqp broker")
        self._freed = memory.FreedMemory()

    def start(self, now_low: Callable[[Sequence[str]], None]) -> None:
        """Begin what happens now and then.

        Args:
            now_low: Told what is low, `memory` or `disk` or both, when that changes.
        """

        def check() -> None:
            self.check_resources(now_low)

        check()
        for vhost in self.vhosts.values():
            vhost.commits.start()
        for seconds, work, name in (
            (UPKEEP_SECONDS, self.upkeep, "upkeep"),
            (UPKEEP_SECONDS, check, "resources"),
            (SNAPSHOT_SECONDS, self._declarations.begin, "snapshots"),
            (GIVE_BACK_SECONDS, self._give_back, "memory"),
            (RESERVE_SECONDS, self._keep_reserve, "reserve"),
        ):
            self._tasks.repeat(seconds, work, name)

    def _give_back(self) -> None:
        """Give memory back that is not used any more; a few times a minute."""

        def work() -> None:
            if self._freed.is_due():
                self._freed.give_back()

        def done(_: object, error: BaseException | None) -> None:
            if error is not None:
                raise error

        self._thread.submit(work, done)

    def _keep_reserve(self) -> None:
        """Keep room back for the next start, if what was there has been used."""

        def done(_: object, error: BaseException | None) -> None:
            if error is not None:
                raise error

        self._thread.submit(self._found.keep_reserve, done)

    def upkeep(self) -> None:
        """Flush queues that are due; every second."""
        for vhost in self.vhosts.values():
            vhost.upkeep()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way that will end by itself."""
        return all(vhost.is_quiet for vhost in self.vhosts.values()) and not (
            self._thread.waiting_count
            or self._sync_thread.waiting_count
            or not self.changes.is_idle
            or not self.turns.is_idle
        )

    @property
    def refusals(self) -> dict[str, str]:
        """Why nothing is stored now, by what does not store; empty if all do."""
        found = {
            f"virtual host {name!r}": why
            for name, one in sorted(self.vhosts.items())
            if (why := one.refusal) is not None
        }
        if self.is_disk_low:
            least = self._disk_free_bytes_min
            found["AMQP"] = f"less than {least:,} bytes are free: who publishes is blocked"
        return found

    async def settle(self) -> None:
        """Wait until everybody who waits has an answer."""
        for vhost in list(self.vhosts.values()):
            await vhost.settle()

    async def stop(self) -> None:
        """End everything and stop the stores cleanly: all that was answered is on the disk."""
        await self.changes.settle()
        await self._tasks.close()
        self.timers.end()
        for vhost in self.vhosts.values():
            vhost.stop()
        await self._sync_thread.stop()
        await self._thread.stop()
        closing = DiskThread("sprocket-closing")
        with ExitStack() as last:
            for name in list(self.vhosts):
                last.callback(self._found.stores.pop(name).close)
            for name, vhost in self.vhosts.items():
                await _driven(closing, vhost, name)
        await closing.stop()

    def check_resources(self, now_low: Callable[[Sequence[str]], None]) -> None:
        """Check memory and disk; every second. `now_low` is that of `start`."""
        free = self._place.disk.free_bytes(self._place.folder)
        self._note_low(free < self._disk_free_bytes_min, now_low, free_bytes=free)

    def _note_low(
        self, is_disk_low: bool, now_low: Callable[[Sequence[str]], None], **known: int
    ) -> None:
        """Check memory, now and each time that a part of what is left was read."""
        before = self.is_memory_low, self.is_disk_low
        used = memory.used_bytes() if self.memory_bytes_max else 0
        self.is_disk_low = is_disk_low
        self.is_memory_low = used > self.memory_bytes_max
        if self.memory_bytes_max:
            room = max((self.memory_bytes_max - used) // ARRIVALS_PART, ARRIVALS_BYTES_MIN)
            self._pressure.allow(room, lambda: self._note_low(self.is_disk_low, now_low))
        if before == (self.is_memory_low, self.is_disk_low):
            return
        low = ["memory"] if self.is_memory_low else []
        low += ["disk"] if self.is_disk_low else []
        _log.warning("memory and disk", low=low, used_bytes=used, **known)
        now_low(low)


async def _driven(thread: DiskThread, vhost: VhostBroker, name: str) -> None:
    """Stop a store cleanly; if it cannot be, the next start looks at everything."""
    ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    thread.drive(vhost.store.close_steps(), ended.set_result)
    error = await ended
    if isinstance(error, StoreError):
        _log.error("a virtual host is not stopped cleanly", vhost=name, why=str(error))
    elif error is not None:
        raise error
