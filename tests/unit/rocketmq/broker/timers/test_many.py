"""Very many messages that wait: none comes early, none is lost, and they take no memory."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from tests import repetition
from tests.timed import HERE, Timing

from sprocket.base.disk import RealDisk
from sprocket.base.errors import StoreError
from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.broker.messages import Release
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.geometry import Geometry, LogGeometry
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.store.log import AppendedBatch
from sprocket.rocketmq.store.timer.timer_log import FILE_BYTES

SPAN_MS_OF_THOUSAND = 3600
"""A million in an hour."""
LATE_MS_OF_99_PERCENT = 50
MEMORY_BYTES_MAX = 20 * MIB
SENT_TOGETHER = 250
WARM_UP = 500


def own_memory() -> int:
    """Return the bytes that this process has for itself: nothing of any file."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * KIB
    raise AssertionError("the system does not say")


class Load:
    """A store in a folder, and messages with numbers."""

    def __init__(self, folder: Path) -> None:
        self.timing = Timing(
            cast("Any", RealDisk()),
            folder=str(folder),
            flush="async",
            geometry=Geometry(log=LogGeometry(segment_bytes=64 * MIB)),
            log_bytes=FILE_BYTES,
        ).start()
        self.random = Random(1)
        self.sent = 0

    def send(self, count: int, span_ms: int) -> None:
        """Send messages that are due at any times within a span."""
        timing = self.timing
        for _ in range(count // SENT_TOGETHER):
            made = []
            for number in range(self.sent, self.sent + SENT_TOGETHER):
                delay_ms = self.random.randrange(2000, span_ms)
                pairs = {"UNIQ_KEY": str(number), "TIMER_DELAY_MS": str(delay_ms)}
                where = timing.waits.divert("T", number % 4, pairs)
                made.append(NewRecord(*where, b"body", properties.encode(pairs), HERE, HERE))
            self.sent += SENT_TOGETHER
            timing.durable.append(made, _answered, made)
            timing.advance(10)

    def lateness(self) -> Iterator[tuple[int, int, int]]:
        """Give the number of each message that came, and by how much it was late, in ms.

        That is by the time of its delivery, then by its store time: what is written together has
        that of its first record, which may be a step of the clock before.
        """
        for _, stored in self.timing.store.records():
            message = record.decode(stored)
            if message.topic == "T":
                found = message.properties
                due_ms = int(found["TIMER_OUT_MS"])
                delivered_ms = int(found["TIMER_DEQUEUE_MS"])
                yield int(found["UNIQ_KEY"]), delivered_ms - due_ms, message.stored_at_ms - due_ms


def _answered(
    _: Sequence[NewRecord], stored: AppendedBatch | None, error: StoreError | None
) -> Release | None:
    assert stored is not None
    assert error is None
    return None


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="tells memory on Linux only")
@pytest.mark.parametrize(
    "count", repetition.times("TIMED_MESSAGES", by_day=10_000, by_night=1_000_000)
)
def test_a_million_messages_in_an_hour(count: int, tmp_path: Path) -> None:
    """By day as many a second, for a shorter time."""
    load = Load(tmp_path)
    load.send(WARM_UP, 3000)
    load.timing.advance(5000)
    idle, most = own_memory(), 0
    span_ms = max(4000, count * SPAN_MS_OF_THOUSAND // 1000)
    load.send(count, span_ms)
    for _ in range(span_ms // 1000 + 3):
        load.timing.advance(1000)
        most = max(most, own_memory())
    assert most - idle <= MEMORY_BYTES_MAX
    came, late, soonest = bytearray(load.sent), [], 0
    for number, delivered_late_ms, late_ms in load.lateness():
        came[number] += 1
        late.append(late_ms)
        soonest = min(soonest, delivered_late_ms)
    assert set(came) == {1}
    assert soonest == 0
    assert sorted(late)[len(late) * 99 // 100] <= LATE_MS_OF_99_PERCENT
    load.timing.stop()
