"""Queries give whole records, the newest within the limits, and pass over what is gone."""

from typing import Any, cast

import pytest

from sprocket.base.errors import CorruptRecord, OffsetTooSmall
from sprocket.rocketmq.broker.delivery import Queries, query
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.model.query import KeyQuery
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.store import Store


class FakeStore:
    """A store with records at 0, 10 and 20, the one at 10 damaged."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def find(self, _topic: str, _key: str, *, max_count: int, **_: int) -> Any:
        """Find all three."""
        self.asked.append(max_count)

        class Found:
            offsets = (PhysicalOffset(0), PhysicalOffset(10), PhysicalOffset(20))
            index_updated_at_ms = 5
            index_end = 20

        return Found

    def record_at(self, offset: int) -> memoryview:
        """Give a record of 600 bytes."""
        if offset == 10:
            raise CorruptRecord("damaged")
        if offset < 0:
            raise OffsetTooSmall(offset, 0)
        return memoryview(b"%3d" % offset * 200)


def asked_for(**changes: Any) -> KeyQuery:
    """Return a query of everything."""
    fields: dict[str, Any] = {"topic": "T", "key": "k", "max_count": 64}
    return KeyQuery(**{"begin_ms": 0, "end_ms": 9} | fields | changes)


def test_damaged_records_are_passed_over() -> None:
    """The others come, the oldest first."""
    found = Queries(cast("Store", FakeStore()), StoreSettings()).by_key(asked_for())
    assert [bytes(record[:3]) for record in found.records] == [b"  0", b" 20"]
    assert (found.index_updated_at_ms, found.index_end) == (5, 20)


def test_an_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bytes, keeping the newest; and in number, whatever the client asks for."""
    monkeypatch.setattr(query, "BYTES_MAX", 1000)
    store = FakeStore()
    queries = Queries(cast("Store", store), StoreSettings())
    found = queries.by_key(asked_for(max_count=2**31 - 1))
    assert [bytes(record[:3]) for record in found.records] == [b" 20"]
    queries.by_key(asked_for(is_unique_key=True, max_count=5))
    assert store.asked == [64, query.UNIQUE_KEY_MAX]


@pytest.mark.parametrize(
    ("count_max", "bytes_max", "asked", "limit"),
    [
        (3, 600, 4, "600 bytes"),
        (3, 1200, 4, "3 messages"),
        (3, 1200, 3, ""),
        (4, 1200, 5, ""),
        (4, 0, 5, "0 bytes"),
    ],
)
def test_an_answer_that_is_cut_off_is_said(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    count_max: int,
    bytes_max: int,
    asked: int,
    limit: str,
) -> None:
    """Once, with the limit and the start of the key; not if that was all there is, or asked for."""
    monkeypatch.setattr(query, "BYTES_MAX", bytes_max)
    settings = StoreSettings(found_messages_max=count_max)
    Queries(cast("Store", FakeStore()), settings).by_key(asked_for(max_count=asked, key="k" * 999))
    said = [one.getMessage() for one in caplog.records if "cut off" in one.getMessage()]
    assert len(said) == (limit != "")
    assert all("k" * 128 in one and "k" * 129 not in one for one in said)
    assert not limit or limit in said[-1]


@pytest.mark.parametrize("offset", [-1, 10])
def test_an_offset_without_a_record_is_refused(offset: int) -> None:
    """Whatever is wrong with it."""
    with pytest.raises(Refused) as refused:
        Queries(cast("Store", FakeStore()), StoreSettings()).by_offset(offset)
    assert refused.value.why is Refusal.OTHER


def test_a_broker_without_an_index_says_so() -> None:
    """It could not look, so it does not say that there is nothing."""
    queries = Queries(cast("Store", FakeStore()), StoreSettings(index_messages=False))
    with pytest.raises(Refused, match="keeps no index") as refused:
        queries.by_key(asked_for())
    assert refused.value.why is Refusal.NOT_FOUND
