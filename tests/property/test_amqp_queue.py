"""A queue against a list: whatever is published, taken, given back, dropped and lost in a crash."""

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.rabbit_queues import TINY, Collector, SlowStorage, Yard, message

from sprocket.rabbitmq.broker.queues import QueueConsumer, QueueEntry
from sprocket.rabbitmq.model.queue_options import Overflow, QueueOptions

DEAD = "dead"


@dataclass
class Known:
    """A message as the model knows it."""

    order: tuple[int, int]
    """Priority, negative, and when it came: the smallest is the first."""
    body: str
    is_persistent: bool
    expires_at_ms: int | None
    is_delivered: bool = False


@dataclass
class ListQueue:
    """What a queue does, the plain way: with a list that is sorted."""

    options: QueueOptions
    now_ms: int
    ready: list[Known] = field(default_factory=list)
    had: dict[str, Known] = field(default_factory=dict)
    given: list[tuple[str, bool]] = field(default_factory=list)
    """What the consumer was given."""
    dead: list[str] = field(default_factory=list)
    prefetch: int = 0
    """Of its only consumer; 0 for none."""
    consumed: list[str] = field(default_factory=list)
    """What that has."""

    def publish(self, known: Known) -> None:
        """Take a message, or not."""
        is_drop = self.options.overflow is Overflow.DROP_HEAD
        if not is_drop and self.is_over([*self.ready, known]):
            if self.options.overflow is Overflow.REJECT_PUBLISH_DLX:
                self.dead.append(known.body)
            return
        has_room = not self.ready and len(self.consumed) < self.prefetch
        if known.expires_at_ms == self.now_ms and has_room:
            self.give(known)
            return
        self.ready.append(known)
        self.look()

    def look(self) -> None:
        """Expire, deliver, and drop what is too much."""
        self.ready.sort(key=lambda one: one.order)
        while self.ready:
            first = self.ready[0]
            if first.expires_at_ms is not None and first.expires_at_ms <= self.now_ms:
                self.dead.append(self.ready.pop(0).body)
            elif len(self.consumed) < self.prefetch:
                self.give(self.ready.pop(0))
            elif self.options.overflow is Overflow.DROP_HEAD and self.is_over(self.ready):
                self.dead.append(self.ready.pop(0).body)
            else:
                return

    def give(self, known: Known) -> None:
        """Deliver to the consumer."""
        self.given.append((known.body, known.is_delivered))
        self.had[known.body] = known
        self.consumed.append(known.body)

    def is_over(self, ready: list[Known]) -> bool:
        """Whether that is too much."""
        count, size = self.options.max_length, self.options.max_length_bytes
        return (count is not None and len(ready) > count) or (
            size is not None and sum(len(one.body) for one in ready) > size
        )

    def requeue(self, bodies: list[str]) -> None:
        """Take back; what is too much then is dropped before anybody gets it, as in RabbitMQ."""
        for body in bodies:
            known = self.had.pop(body)
            known.is_delivered = True
            self.ready.append(known)
            if body in self.consumed:
                self.consumed.remove(body)
        self.ready.sort(key=lambda one: one.order)
        while self.options.overflow is Overflow.DROP_HEAD and self.is_over(self.ready):
            self.dead.append(self.ready.pop(0).body)
        self.look()


LIMITS = st.sampled_from(
    [
        *[QueueOptions()] * 3,  # the only one that takes several together
        QueueOptions(max_priority=2),
        QueueOptions(message_ttl_ms=50),
        QueueOptions(max_length=7),
        QueueOptions(max_length_bytes=30, max_priority=2),
        QueueOptions(max_length=5, overflow=Overflow.REJECT_PUBLISH),
        QueueOptions(max_length_bytes=20, overflow=Overflow.REJECT_PUBLISH_DLX),
        QueueOptions(max_length=20, message_ttl_ms=100, max_priority=1),
    ]
)


class QueueMachine(RuleBasedStateMachine):
    """Does the same to both, and compares them after each step."""

    @initialize(options=LIMITS, is_durable=st.booleans())
    def declare(self, options: QueueOptions, is_durable: bool) -> None:
        """Begin with an empty queue."""
        self.options = replace_dlx(options)
        count = 1 + (options.max_priority or 0) if is_durable else 0
        self.storages = [SlowStorage() for _ in range(count)]
        self.number = 0
        self.now_ms = 0
        self.dead: list[str] = []
        self.model = ListQueue(self.options, 0)
        self.open()

    def open(self) -> None:
        """Open the queue on what storages have."""
        self.yard = Yard(TINY)
        self.yard.clock.advance(self.now_ms)
        self.graveyard = self.yard.queue(DEAD)
        self.queue = self.yard.queue(options=self.options, storages=self.storages)
        self.held: dict[str, tuple[QueueConsumer, QueueEntry]] = {}
        self.client = Collector()
        self.looked_at = 0
        self.consumer: QueueConsumer | None = None

    def settle(self) -> None:
        """Let both do what is due."""
        self.yard.settle()
        for consumer, entry, _ in self.client.given[self.looked_at :]:
            self.held[entry.message.body.decode()] = (consumer, entry)
        self.looked_at = len(self.client.given)

    @rule(
        count=st.integers(1, 12),
        priority=st.integers(0, 3),
        ttl_ms=st.sampled_from([None, None, None, 0, 10, 60]),
        is_persistent=st.booleans(),
        is_together=st.booleans(),
    )
    def publish(
        self, count: int, priority: int, ttl_ms: int | None, is_persistent: bool, is_together: bool
    ) -> None:
        """Publish some that are alike, one by one or, to a queue that takes that, together."""
        together = []
        for _ in range(count):
            body = f"{self.number}" + "x" * (self.number % 7)
            ttls = [one for one in (ttl_ms, self.options.message_ttl_ms) if one is not None]
            level = min(priority, self.options.max_priority or 0)
            expires_at_ms = self.now_ms + min(ttls) if ttls else None
            known = Known((-level, self.number), body, is_persistent, expires_at_ms)
            self.model.publish(known)
            one = message(body, is_persistent=is_persistent)
            if is_together and self.queue.takes_all and ttl_ms is None:
                together.append(one)
            else:
                self.queue.publish(one, priority=priority, expiration_ms=ttl_ms)
            self.number += 1
        if together:
            self.queue.publish_all(together)
        self.settle()

    @rule()
    def get(self) -> None:
        """Get one."""
        self.model.look()
        entry = self.yard.get(self.queue)
        if not self.model.ready:
            assert entry is None
            return
        known = self.model.ready.pop(0)
        self.model.look()
        assert entry is not None
        assert (entry.message.body.decode(), entry.is_delivered) == (known.body, known.is_delivered)
        self.model.had[known.body] = known
        self.held[known.body] = (QueueConsumer("", self.client), entry)
        self.settle()

    @precondition(lambda self: self.consumer is None)
    @rule(prefetch=st.integers(1, 5))
    def consume(self, prefetch: int) -> None:
        """Have somebody consume."""
        self.consumer = QueueConsumer("c", self.client, prefetch=prefetch)
        self.queue.add_consumer(self.consumer)
        self.model.prefetch = prefetch
        self.model.consumed = []
        self.model.look()
        self.settle()

    @precondition(lambda self: self.consumer is not None)
    @rule()
    def cancel(self) -> None:
        """Consume no more; what the consumer has stays there."""
        assert self.consumer is not None
        self.queue.remove_consumer(self.consumer)
        self.consumer = None
        self.model.prefetch = 0
        self.settle()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), how=st.sampled_from(["ack", "reject", "requeue"]))
    def answer(self, data: st.DataObject, how: str) -> None:
        """Acknowledge, reject or give back some of what clients have, in any order."""
        bodies = data.draw(st.lists(st.sampled_from(sorted(self.held)), unique=True, min_size=1))
        for body in bodies:
            consumer, entry = self.held.pop(body)
            assert consumer.unacked_count > 0 or not consumer.tag
            consumer.unacked_count += not consumer.tag
            getattr(self.queue, how)(consumer, [entry])
            if how == "requeue":
                self.model.requeue([body])
            else:
                del self.model.had[body]
                if how == "reject":
                    self.model.dead.append(body)
                if body in self.model.consumed:
                    self.model.consumed.remove(body)
                self.model.look()
            self.settle()

    @rule(ms=st.sampled_from([1, 10, 49, 50, 200]))
    def wait(self, ms: int) -> None:
        """Let time pass."""
        for _ in range(ms):
            self.now_ms += 1
            self.model.now_ms += 1
            self.model.look()
        self.yard.advance(ms)
        self.settle()

    @rule()
    def purge(self) -> None:
        """Drop what is ready."""
        self.model.look()
        counts: list[int] = []
        self.queue.purge(counts.append, lambda _: counts.append(-1))
        self.settle()
        assert counts == [len(self.model.ready)]
        self.model.ready.clear()

    @rule()
    def crash(self) -> None:
        """Open it again on what storages have; transient messages are gone."""
        self.collect_dead()
        kept = [one for one in self.model.ready if one.is_persistent and self.storages]
        for one in self.model.had.values():
            if one.is_persistent and self.storages:
                kept.append(replace(one, is_delivered=True))
        self.model = replace(
            self.model, ready=kept, had={}, consumed=[], prefetch=0, given=[], dead=[]
        )
        self.open()
        self.model.look()
        self.settle()

    def collect_dead(self) -> None:
        """Take what was passed on."""
        self.dead += self.yard.drain(self.graveyard)
        assert self.dead == self.model.dead
        self.dead, self.model.dead = [], []

    @invariant()
    def are_equal(self) -> None:
        """Both have the same, and gave the same."""
        assert self.queue.depth().ready == len(self.model.ready)
        self.settle()
        told = [(entry.message.body.decode(), is_again) for _, entry, is_again in self.client.given]
        assert told == self.model.given
        assert self.queue.unacked_count == len(self.model.had)
        self.collect_dead()
        known = sum(len(one.body) for one in self.model.ready)
        if self.options.max_length_bytes is not None:
            assert self.queue.depth().ready_bytes == known
        assert self.yard.windows.held_bytes >= 0
        self.client.room_count = 1000

    def teardown(self) -> None:
        """All that is left comes out in order, and storages have nothing then."""
        if not hasattr(self, "queue"):
            return
        if self.consumer is not None:
            self.queue.remove_consumer(self.consumer)
        for consumer, entry in self.held.values():
            consumer.unacked_count += not consumer.tag
            self.queue.ack(consumer, [entry])
        self.settle()
        self.model.prefetch, left = 0, []
        while self.model.ready:
            left.append(self.model.ready.pop(0).body)
            self.model.look()
        assert self.yard.drain(self.queue) == left
        assert sum(one.unacked_count() for one in self.storages) == 0
        assert self.yard.windows.held_bytes == 0


def replace_dlx(options: QueueOptions) -> QueueOptions:
    """Have dead letters go to a queue where they are counted."""
    values = {name: getattr(options, name) for name in options.__struct_fields__}
    return QueueOptions(**{**values, "dead_letter_exchange": "", "dead_letter_routing_key": DEAD})


QueueMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestQueueAgainstAList = QueueMachine.TestCase
