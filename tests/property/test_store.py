"""Under random append, write, read, roll, stop and kill, a store equals a list for each queue."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.stores import batch_of, maintain, new, open_store

from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.store.read import GetStatus
from sprocket.rocketmq.store.store import Store
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

topics = st.sampled_from(["one", "two", "%RETRY%three"])
queue_ids = st.integers(0, 1)
bodies = st.one_of(
    st.binary(max_size=40),
    st.integers(0, 2048).map(bytes),
    st.sampled_from([1900, 1980, 2047, 2048]).map(bytes),
)


class StoreEqualsLists(RuleBasedStateMachine):
    """The lists hold what was written; what waits for a write is a list of its own."""

    store: Store

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.clock = FakeClock()
        self.stored: dict[tuple[str, int], list[bytes]] = {}
        self.turn: list[tuple[tuple[str, int], bytes]] = []

    @initialize(flush=st.sampled_from(["sync", "async"]), tail=st.booleans())
    def open(self, flush: str, tail: bool) -> None:
        """Make the store."""
        self.options = {"flush": flush, "crc_tail": tail}
        self.store = open_store(self.disk, clock=self.clock, **self.options)

    def _expected_offset(self, key: tuple[str, int]) -> int:
        return len(self.stored.get(key, [])) + sum(k == key for k, _ in self.turn)

    @rule(topic=topics, queue_id=queue_ids, body=bodies)
    def append(self, topic: str, queue_id: int, body: bytes) -> None:
        """One message gets the next offset of its queue."""
        key = topic, queue_id
        appended = self.store.append(new(topic, queue_id, body))
        assert appended.queue_offset == self._expected_offset(key)
        self.turn.append((key, body))

    @rule(
        topic=topics,
        queue_id=queue_ids,
        batch=st.lists(st.binary(max_size=300), min_size=1, max_size=4),
    )
    def append_batch(self, topic: str, queue_id: int, batch: list[bytes]) -> None:
        """Several get consecutive offsets and lie in one file."""
        key = topic, queue_id
        entries = self.store.append_batch(batch_of([new(topic, queue_id, body) for body in batch]))
        first = self._expected_offset(key)
        assert [e.queue_offset for e in entries] == list(range(first, first + len(batch)))
        if entries:
            assert entries[0].physical_offset // 4096 == entries[-1].physical_offset // 4096
        self.turn += [(key, body) for body in batch]

    @rule()
    def write_and_sync(self) -> None:
        """The turn is stored."""
        self.store.write()
        self.store.sync()
        for key, body in self.turn:
            self.stored.setdefault(key, []).append(body)
        self.turn = []

    @rule()
    def maintain(self) -> None:
        """What happens every second changes nothing that can be seen."""
        self.clock.advance(1000)
        maintain(self.store)

    @rule()
    def reopen(self) -> None:
        """A clean stop stores the turn as well."""
        self.store.close()
        for key, body in self.turn:
            self.stored.setdefault(key, []).append(body)
        self.turn = []
        self.store = open_store(self.disk, clock=self.clock, **self.options)
        assert self.store.report.clean

    @rule()
    def kill(self) -> None:
        """A kill loses what was not written."""
        self.turn = []
        self.disk = self.disk.kill()
        self.store = open_store(self.disk, clock=self.clock, **self.options)
        assert self.store.report.damage == []

    @invariant()
    def every_queue_equals_its_list(self) -> None:
        """Message for message, by offset."""
        if not hasattr(self, "store"):
            return
        ranges = {(topic, queue_id): found for topic, queue_id, found in self.store.queues()}
        assert {key: (0, len(bodies)) for key, bodies in self.stored.items() if bodies} == {
            key: tuple(found) for key, found in ranges.items()
        }
        for (topic, queue_id), wanted in self.stored.items():
            found: list[bytes] = []
            while len(found) < len(wanted):
                got = self.store.get_messages(topic, queue_id, len(found))
                assert got.status is GetStatus.FOUND
                found += [record.decode(data, check_tail=True).stored_body for data in got.records]
            assert wanted == found


StoreEqualsLists.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, derandomize=True
)
TestStoreEqualsLists = pytest.mark.slow(StoreEqualsLists.TestCase)
