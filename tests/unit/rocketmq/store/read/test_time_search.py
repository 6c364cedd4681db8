"""The offset that belongs to a time: LOWER and UPPER, and what cannot be read."""

from tests.unit.rocketmq.store.logs import Log, batches, filled

from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.store.read import Boundary, time_search


def times(log: Log, at_ms: int) -> tuple[int, int]:
    """Return the offsets that belong to a time, LOWER and UPPER."""
    lower, upper = (time_search.offset_by_time(log.queue, log, at_ms, b) for b in Boundary)
    return lower, upper


def test_offsets_by_time() -> None:
    """Between messages, at one, before the first, after the last."""
    log = filled(5)
    expected = {-5: (0, 0), 0: (0, 0), 5: (1, 0), 10: (1, 1), 39: (4, 3), 40: (4, 4), 99: (5, 4)}
    assert expected == {at_ms: times(log, at_ms) for at_ms in expected}


def test_of_equal_times_lower_takes_the_first_and_upper_the_last() -> None:
    """Over the borders of files, too."""
    log = Log(units_per_file=3)
    for at_ms in [1, 2, 2, 2, 2, 2, 3]:
        log.add(at_ms=at_ms)
    assert times(log, 2) == (1, 5)


def test_offsets_by_time_stay_inside_the_queue() -> None:
    """The first messages are gone; the queue is empty; there is none."""
    log = filled(10)
    log.first = log.queue.unit(6)[0]
    log.queue.correct_min(PhysicalOffset(log.first))
    assert times(log, 0) == (6, 6)
    assert times(log, 75) == (8, 7)
    log.queue.correct_min(log.end)
    assert times(log, 0) == (10, 10)
    assert time_search.offset_by_time(None, log, 5, Boundary.LOWER) == 0


def test_messages_that_cannot_be_read_have_no_time() -> None:
    """A filler in between does not lead the search astray."""
    log = Log()
    for at_ms in (0, 10):
        log.add(at_ms=at_ms)
    log.queues.fill_to("T", 0, 6)
    log.add(at_ms=20)
    assert times(log, 20) == (2, 6)
    assert times(log, 10) == (1, 1)
    assert time_search.stored_at_ms(log.queue, log, 3) == -1
    assert time_search.stored_at_ms(log.queue, log, 6) == 20
    assert time_search.stored_at_ms(log.queue, log, 7) == -1


def test_times_lead_to_batches() -> None:
    """LOWER and UPPER are first offsets of batches."""
    log, queue = batches(3, 4, 5)
    expected = {-1: (0, 0), 0: (0, 0), 5: (3, 0), 10: (3, 3), 11: (7, 3), 20: (7, 7), 21: (12, 7)}
    for at_ms, both in expected.items():
        found = tuple(time_search.offset_by_time(queue, log, at_ms, b) for b in Boundary)
        assert both == found
