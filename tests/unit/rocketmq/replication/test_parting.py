"""Where two logs part is found with few questions, wherever that is."""

import pytest
from tests.replicas import Follower, Master
from tests.stores import SMALL, clean, maintain

from sprocket.base.errors import CorruptRecord, OffsetTooLarge, OffsetTooSmall
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.replication import common_end
from sprocket.rocketmq.settings import RetentionSettings
from sprocket.rocketmq.store.store import Store

SEGMENT = SMALL.log.segment_bytes


class Asked:
    """Another log that is asked, and how often."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.count = 0

    def has(self, place: int, stored: memoryview) -> bool:
        """Say whether it has a record at a place."""
        self.count += 1
        try:
            return self._store.record_at(PhysicalOffset(place)) == stored
        except (CorruptRecord, OffsetTooLarge, OffsetTooSmall):
            return False


def parted(common: int, here: int, there: int) -> tuple[Master, Master, int]:
    """Return two logs that have so many records in common, and so many each by itself."""
    ours, theirs = Master(), Master()
    for one in (ours, theirs):
        one.add(*[400] * common)
    end = int(ours.store.written)
    assert theirs.store.written == end
    theirs.clock.advance(7)
    ours.add(*[400] * here)
    theirs.add(*[300] * there)
    return ours, theirs, end


@pytest.mark.parametrize(("here", "there"), [(0, 0), (1, 0), (0, 1), (1, 1), (30, 20)])
@pytest.mark.parametrize("common", [1, 2, 5, 6, 7, 8, 23])
def test_the_last_record_of_both(common: int, here: int, there: int) -> None:
    """Within a file, at the ends of files, and where one log is a beginning of the other."""
    ours, theirs, end = parted(common, here, there)
    asked = Asked(theirs.store)
    assert common_end(ours.store, 0, asked.has) == end
    assert asked.count <= 10


def test_nothing_in_common() -> None:
    """Not even the first record, or one of the logs is empty."""
    ours, theirs, _ = parted(0, 5, 5)
    assert common_end(ours.store, 0, Asked(theirs.store).has) is None
    assert common_end(ours.store, 0, Asked(Master().store).has) is None
    assert common_end(Master().store, 0, Asked(theirs.store).has) is None


def test_what_the_other_log_has_cleaned_away() -> None:
    """What lies before its beginning is not asked; nothing is known if this log ends there."""
    ours, theirs, end = parted(12, 3, 30)
    theirs.clock.advance(1000 * 3600 * 1000)
    maintain(theirs.store)
    clean(theirs.store, RetentionSettings(keep_hours=1), at_once=True)
    first = int(theirs.store.first)
    assert first > end
    assert common_end(ours.store, first, Asked(theirs.store).has) is None
    ours, theirs, end = parted(12, 3, 3)
    found = common_end(ours.store, SEGMENT + 10, Asked(theirs.store).has)
    assert found == end


def test_a_slave_that_lags_is_a_beginning_of_its_masters() -> None:
    """All that it has is there."""
    master, slave = Master(), Follower()
    master.add(*[300] * 20)
    slave.link(master)
    slave.take(master, 5000)
    found = common_end(slave.store, 0, Asked(master.store).has)
    assert found is not None
    assert found <= slave.store.written
