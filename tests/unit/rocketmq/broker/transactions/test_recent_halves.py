"""Half messages that are kept for their end make the same records as those that are read."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from tests.half_messages import Transacting

from sprocket.base.errors import DiskFailed
from sprocket.base.units import KIB, MIB
from sprocket.rocketmq.broker.transactions import RecentHalves
from sprocket.rocketmq.errors import Refused
from sprocket.rocketmq.model.message import NewHalf
from sprocket.rocketmq.model.transaction import Outcome

HERE = b"\x7f\0\0\x01\0\0\x2a\x9f"


def half(size: int = 10) -> NewHalf:
    """Return a half message with a body of so many bytes."""
    return NewHalf("H", 0, bytes(size), b"", HERE, HERE, real_topic="T", real_queue_id=1, group="p")


def log_of(process: Transacting) -> bytes:
    """Return what the log has."""
    store = process.store
    parts = [bytes(stored) for _, stored in store.records(store.first, store.written)]
    return b"".join(parts)


def _ends(process: Transacting) -> None:
    process.send(b"a", b"b", b"c", b"d")
    process.send(b"e", TAGS="t")
    process.timers.drain()
    process.end(*process.acked[b"c"])
    process.end(*process.acked[b"a"], Outcome.ROLLBACK)
    process.commit(b"e")
    process.commit(b"b")


def _ends_after_a_question(process: Transacting) -> None:
    process.send(b"a", b"b", b"c")
    process.round()
    process.commit(b"b")
    process.roll_back(b"c")
    process.round()
    process.commit(b"a")


def _ends_after_a_wrong_word(process: Transacting) -> None:
    process.send(b"a", b"b")
    process.timers.drain()
    place, offset = process.acked[b"a"]
    for wrong in ({"group": "others"}, {"offset": offset + 1}):
        with pytest.raises(Refused):
            process.end(**{"place": place, "offset": offset, **wrong})  # type: ignore[arg-type]
    process.commit(b"a", b"b")
    told = process.end(place, offset)
    process.timers.drain()
    assert isinstance(told[0], Refused)


def _ends_after_a_write_that_failed(process: Transacting) -> None:
    process.disk.fail("write", 1)
    process.send(b"lost")
    process.timers.drain()
    process.send(b"a")
    process.timers.drain()
    process.disk.fail("write", 1)
    told = process.end(*process.acked[b"a"])
    process.timers.drain()
    assert isinstance(told[0], DiskFailed)
    process.commit(b"a")


def _ends_that_wait(process: Transacting) -> None:
    process.send(b"a", DELAY="2")
    process.send(b"b", CHECK_IMMUNITY_TIME_IN_SECONDS="95")
    process.timers.drain()
    process.commit(b"b", b"a")


LIVES = [
    _ends,
    _ends_after_a_question,
    _ends_after_a_wrong_word,
    _ends_after_a_write_that_failed,
    _ends_that_wait,
]


@pytest.mark.parametrize("live", LIVES, ids=lambda live: live.__name__)
def test_the_log_is_the_same(live: Callable[[Transacting], None]) -> None:
    """Byte for byte, whether halves are kept, or read from the log when they end."""
    kept, read = Transacting(), Transacting(recent_bytes=0)
    for process in (kept, read):
        live(process)
    assert log_of(kept) == log_of(read)
    assert kept.visible() == read.visible()


def test_most_ends_read_nothing() -> None:
    """What was stored a moment ago is there, until it has ended."""
    process = Transacting()
    process.send(*(b"%d" % number for number in range(100)))
    process.timers.drain()
    assert len(process.recent) == 100
    process.store.record_at = None  # type: ignore[method-assign,assignment]
    for number in range(100):
        process.end(*process.acked[b"%d" % number], Random(number).choice(list(Outcome)))
    process.timers.drain()
    assert len(process.recent) == 0
    assert process.transactions.ended.floor == 100


def test_what_failed_is_not_kept() -> None:
    """Another record gets its place."""
    process = Transacting()
    process.disk.fail("write", 1)
    process.send(b"a")
    process.timers.drain()
    assert (len(process.recent), process.acked) == (0, {})
    process.send(b"b")
    process.timers.drain()
    process.commit(b"b")
    assert process.visible() == Counter([b"b"])


@pytest.mark.parametrize("size", [10, 3000, 40_000])
def test_memory_is_bounded(size: int) -> None:
    """However many never end: the newest are kept, half of what may be at the least."""
    recent, count = RecentHalves(64 * KIB), 1000
    for number in range(count):
        recent.add(half(size), number, number * 10, 5)
        recent.add(half(size), number, number * 10, 5)  # a sync that failed has it prepared again
        assert len(recent) * size <= 64 * KIB + 2 * size
    kept = [number for number in range(count) if recent.take(number * 10)]
    assert kept == list(range(kept[0], count))
    assert len(kept) * (size + 1024) >= 32 * KIB - size
    assert len(recent) == 0


def test_those_that_end_make_room() -> None:
    """Ten thousand that end soon push none out that waits."""
    recent = RecentHalves(MIB)
    recent.add(half(), 0, 1, 5)
    for number in range(10_000):
        recent.add(half(1000), number, number * 10, 5)
        assert recent.take(number * 10) is not None
    found = recent.take(1)
    assert found is not None
    assert (found.offset, found.place, found.stored_at_ms) == (0, 1, 5)
    assert (found.group, found.target(), found.root) == ("p", ("T", 1), 0)
    assert recent.take(1) is None
