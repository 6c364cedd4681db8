"""A virtual host's store under random operations and crashes, beside a model of what must be true.

A life opens the store, checks what it finds, does something, and ends: by a clean stop, or because
the power went, or the process was killed. Work in steps goes on between other operations.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from sprocket.base.disk import Call, StepsTo, steps
from sprocket.base.errors import StoreError, StoreFailed
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.names import QueueName
from sprocket.rabbitmq.settings import VhostGeometry, VhostStoreSettings
from sprocket.rabbitmq.store.reading import VhostReader, vhost_folders
from sprocket.rabbitmq.store.repair import check_vhost
from sprocket.rabbitmq.store.stored_queue import StoredEntry, StoredQueue
from sprocket.rabbitmq.store.vhost import VhostPlace, VhostStore
from sprocket.testing.disk import SimulatedDisk

ROOT = "/vhosts/628WB79CIFDYO9LJI6DKMI09L"
VHOST = "/"
NAMES = (QueueName(VHOST, "a"), QueueName(VHOST, "b"), QueueName(VHOST, "p", 3))


class BrokenPromise(AssertionError):
    """Something that was promised is not so."""


@dataclass
class QueueModel:
    """What was done to one queue.

    Attributes:
        published: Each message that was ever there since it was made, with its expiry.
        durable: Those that must be there unless an ack was at least asked for.
        acking: Those for which one was.
        acked: Those that must be gone.
        purging: Those that may be gone, all or none.
        next_id: The next sequence id.
        delivered_end: Those below may have been delivered.
    """

    published: dict[int, tuple[BasicMessage, int | None]] = field(default_factory=dict)
    durable: set[int] = field(default_factory=set)
    acking: set[int] = field(default_factory=set)
    acked: set[int] = field(default_factory=set)
    purging: set[int] = field(default_factory=set)
    next_id: int = 0
    delivered_end: int = 0

    @property
    def left(self) -> list[int]:
        """Those that it has."""
        return sorted(self.published.keys() - self.acking - self.purging)

    def commit(self) -> None:
        """Note that all is durable."""
        self.durable = set(self.published)
        self.acking |= self.purging
        self.acked = set(self.acking)
        self.purging = set()

    def check(self, found: Sequence[StoredEntry]) -> None:
        """Compare what is there after an end with what must be, and what may be."""
        ids = [one.seq_id for one in found]
        if ids != sorted(set(ids)):
            raise BrokenPromise(f"out of order: {ids}")
        for one in found:
            expected = self.published.get(one.seq_id)
            if expected != (one.message, one.expires_at_us):
                raise BrokenPromise(f"message {one.seq_id} is not what was published")
        if back := self.acked & set(ids):
            raise BrokenPromise(f"acknowledged, and there again: {sorted(back)}")
        missing = self.durable - self.acking - set(ids)
        if missing - self.purging:
            raise BrokenPromise(f"lost: {sorted(missing - self.purging)}; found {ids}")
        purged = self.durable & self.purging - self.acking
        if missing & purged and purged & set(ids):
            raise BrokenPromise(f"a purge is half done: {ids}")

    def settle(self, found: Sequence[StoredEntry]) -> None:
        """Go on from what is there."""
        self.published = {one.seq_id: (one.message, one.expires_at_us) for one in found}
        self.acking, self.purging = set(), set()
        self.commit()


class VhostLife:
    """One process's life with a virtual host, from opening to its end.

    Args:
        disk: Where it lies.
        models: Of all queues; changed along.
        is_clean: The last end was a clean stop; None if an opening came after it and was cut short.
        numbers: Counts messages over all lives.
    """

    def __init__(
        self,
        disk: SimulatedDisk,
        models: dict[QueueName, QueueModel],
        numbers: list[int],
        *,
        is_clean: bool | None,
    ) -> None:
        self.disk = disk
        self.models = models
        self.now = 0.0
        self._numbers = numbers
        self._work: StepsTo[object] | None = None
        self._call: Call | None = None
        seen = self._seen() if vhost_folders(disk, ROOT) else {}
        self.store = VhostStore.open(
            VhostPlace(disk, ROOT, VHOST), VhostStoreSettings.small(), VhostGeometry.small()
        )
        self.queues: dict[QueueName, StoredQueue] = {}
        report = self.store.report
        never_synced = ".rdq at", "batches before it are lost"
        damage = [one for one in report.damage if not any(text in one for text in never_synced)]
        if damage or report.void_log:
            raise BrokenPromise(f"{report}")
        if is_clean and not report.clean_stop:
            raise BrokenPromise("a clean stop was not believed")
        found = {name: self._open(name, is_clean=is_clean) for name in NAMES}
        if seen and seen != {name: [one.seq_id for one in some] for name, some in found.items()}:
            raise BrokenPromise(f"a reader saw {seen}, there are {found}")
        if report.messages != sum(map(len, found.values())):
            raise BrokenPromise(f"{report.messages} messages reported")
        for name, some in found.items():
            models[name].settle(some)

    def _seen(self) -> dict[QueueName, list[int]]:
        """Return what one who only reads the folder sees."""
        reader = VhostReader(self.disk, ROOT)
        found: dict[QueueName, list[int]] = {name: [] for name in NAMES}
        for queue in reader.queues():
            if queue.name not in {name.name for name in NAMES}:
                raise BrokenPromise(f"a reader met a queue {queue.name!r}")
            for one in reader.messages(queue):
                if "has no message" in one.fault:  # the log got further than the store: no sync
                    continue
                if one.fault:
                    raise BrokenPromise(f"a reader met {one.fault}")
                found[one.queue].append(one.seq_id)
        reader.close()
        return found

    def _open(self, name: QueueName, *, is_clean: bool | None) -> list[StoredEntry]:
        """Look at one queue."""
        mine = self.queues[name] = self.store.queue(name)
        model = self.models[name]
        found = steps.run(mine.read(0, mine.next_seq_id))
        model.check(found)
        if mine.unacked_count() != len(found) or mine.unreadable:
            raise BrokenPromise(f"{mine.unacked_count()} messages of {len(found)}")
        for one in found:
            is_due = is_clean is False or one.seq_id < model.delivered_end
            if is_due and not one.is_delivered:
                raise BrokenPromise(f"message {one.seq_id} is not redelivered")
            if is_clean and one.is_delivered and one.seq_id >= model.delivered_end:
                raise BrokenPromise(f"message {one.seq_id} was never delivered")
        if is_clean and mine.next_seq_id < model.next_id:
            raise BrokenPromise(f"numbers begin anew at {mine.next_seq_id}")
        model.next_id = mine.next_seq_id
        model.delivered_end = mine.delivered_end
        return found

    def commit(self) -> None:
        """Make durable what was done."""
        self.store.log.commit()
        for model in self.models.values():
            model.commit()

    def step(self, random: Random) -> None:
        """Do something."""
        name = random.choice(NAMES)
        mine, model = self.queues[name], self.models[name]
        match random.choices(
            ("publish", "ack", "commit", "upkeep", "go on", "read", "purge", "remove", "deliver"),
            (9, 9, 6, 3, 18, 1, 0.4, 0.2, 1),
        )[0]:
            case "publish":
                self.publish(random)
            case "ack":
                some = random.sample(model.left, min(len(model.left), random.choice([1, 2, 9])))
                model.acking |= set(some)
                mine.ack(some)
            case "commit":
                self.commit()
            case "upkeep":
                self.now += random.choice([0.1, 2])
                if self._work is None:
                    self._work = (
                        self.store.flush_steps(self.store.flush_due(self.now))
                        if random.random() < 0.7
                        else self.store.collect_steps()
                    )
            case "go on":
                self.go_on()
            case "read":
                self.read(name, random)
            case "purge":
                model.purging |= set(model.left)
                mine.purge()
            case "remove":
                model.purging |= set(model.left)
                steps.run(mine.remove())
                for other in self.models.values():
                    other.commit()
                self.queues[name] = self.store.queue(name)
                model.next_id = self.queues[name].next_seq_id
            case "deliver" if model.left:
                seq_id = random.choice(model.left)
                mine.deliver([seq_id])
                model.delivered_end = max(model.delivered_end, seq_id + 1)

    def publish(self, random: Random) -> None:
        """Publish one message to some queues."""
        number = self._numbers[0] = self._numbers[0] + 1
        body = b"%d " % number * random.choice([1, 5, 120])
        message = BasicMessage(
            b"%016d" % number, VHOST, "", ("k",), b"\x10\0\2", (body,), is_persistent=True
        )
        for name in random.sample(NAMES, random.choice([1, 1, 2, 3])):
            model = self.models[name]
            seq_id = model.next_id + random.choice([0, 0, 0, 5])
            expires_at_us = random.choice([None, number])
            model.next_id = seq_id + 1
            model.published[seq_id] = message, expires_at_us
            self.queues[name].publish(
                seq_id, [message], expires_at_us=expires_at_us, is_delivered=False
            )

    def read(self, name: QueueName, random: Random) -> None:
        """Read a window."""
        model = self.models[name]
        start = random.randint(0, model.next_id + 1)
        end = start + random.choice([1, 3, 50])
        found = steps.run(self.queues[name].read(start, end))
        expected = [seq for seq in model.left if start <= seq < end]
        if [one.seq_id for one in found] != expected:
            raise BrokenPromise(f"read {found}, expected {expected}")
        for one in found:
            if model.published[one.seq_id] != (one.message, one.expires_at_us):
                raise BrokenPromise(f"message {one.seq_id} is not what was published")
        if self.queues[name].unacked_count() != len(model.left):
            raise BrokenPromise("another count")

    def go_on(self) -> None:
        """Do one step of the work that is under way."""
        if self._work is None:
            return
        try:
            result = self._call() if self._call is not None else None
            self._call = self._work.send(result)
        except StopIteration:
            self._work = self._call = None
        except StoreError as error:
            self._call = None
            try:
                self._call = self._work.throw(error)
            except (StoreError, StopIteration):
                self._work = None

    def close(self) -> None:
        """Stop cleanly."""
        while self._work is not None:
            self.go_on()
        steps.run(self.store.close_steps())
        for model in self.models.values():
            model.commit()
        broken = [
            one
            for one in check_vhost(self.disk, ROOT)
            if not one.path.endswith(".rdq")  # has garbage that was never synced
        ]
        if broken:
            raise BrokenPromise(f"after a clean stop: {broken}")


__all__ = ["NAMES", "ROOT", "VHOST", "BrokenPromise", "QueueModel", "StoreFailed", "VhostLife"]
