"""The stream's planning, without Spark: each of the engine's traps, and what it is told."""

import json
import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from tests.unit.spark.samples import FakeCluster, FakeDoor, encoded, plain_rows, schema

from sprocket.base.errors import DataLost, SettingsError
from sprocket.rocketmq.errors import NoRoute
from sprocket.rocketmq.model.route import MessageQueue
from sprocket.spark.rocketmq.live import stream as module
from sprocket.spark.rocketmq.live.cluster import Live
from sprocket.spark.rocketmq.live.stream import LiveReader
from sprocket.spark.rocketmq.options import read_live
from sprocket.testing.clock import FakeClock

ONE, TWO = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
ALL = ReadAllAvailable()


def cluster(one: int = 5, two: int = 3, lowest: int = 0) -> FakeCluster:
    """Return a cluster with a topic of two queues."""
    queues = {
        queue: [encoded(1, first=lowest + number) for number in range(count)]
        for queue, count in ((ONE, one), (TWO, two))
    }
    return FakeCluster(queues, dict.fromkeys(queues, lowest))


def reader(
    monkeypatch: pytest.MonkeyPatch, fake: FakeCluster, clock: FakeClock | None = None, **given: str
) -> LiveReader:
    """Return a reader of that cluster."""
    options = read_live({"nameserver": "n:1", "subscribe": "orders", **given})
    door = FakeDoor(fake)
    live = Live(door.connect, retries_max=2, retry_wait_ms=1, wait=door.wait)
    monkeypatch.setattr(module, "open_live", lambda _: live)
    return LiveReader(schema(options), options, clock)


def at(one: int, two: int) -> dict[str, Any]:
    """Return an offset as Spark keeps it."""
    return {"v": 1, "queues": {"orders": {"broker-a": {"0": one, "1": two}}}}


def grow(fake: FakeCluster, queue: MessageQueue, count: int) -> None:
    """Add messages to a queue."""
    have = fake.lowest.get(queue, 0) + len(fake.records[queue])
    fake.records[queue] += [encoded(1, first=have + number) for number in range(count)]


def test_a_query_starts_where_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new query starts at the oldest kept, at the end, or where it was told."""
    fake = cluster(lowest=7)
    assert reader(monkeypatch, fake).initialOffset() == at(7, 7)
    assert reader(monkeypatch, fake, startingoffsets="latest").initialOffset() == at(12, 10)
    told = '{"orders":{"broker-a":{"0":9,"1":-1}}}'
    assert reader(monkeypatch, fake, startingoffsets=told).initialOffset() == at(9, 10)
    told = '{"orders":{"broker-a":{"1":-1}}}'
    assert reader(monkeypatch, fake, startingoffsets=told).initialOffset() == at(7, 10)
    unknown = reader(monkeypatch, fake, startingoffsets='{"orders":{"broker-b":{"0":9}}}')
    with pytest.raises(SettingsError, match="queue 0 of topic 'orders' on 'broker-b'"):
        unknown.initialOffset()


def test_the_initial_offset_is_the_same_when_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 1: Spark asks twice at the first start and mixes the answers; growth must not show."""
    fake = cluster()
    stream = reader(monkeypatch, fake, startingoffsets="latest")
    first = json.dumps(stream.initialOffset())
    grow(fake, ONE, 3)
    assert json.dumps(stream.initialOffset()) == first


def test_latest_after_a_failed_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 2: resolved anew, `latest` may lie behind the noted end; that is data loss."""
    stream = reader(monkeypatch, cluster(), startingoffsets="latest")
    with pytest.raises(DataLost, match="before its first batch"):
        stream.partitions(at(5, 3), at(4, 3))
    gentle = reader(monkeypatch, cluster(), failondataloss="false")
    assert gentle.partitions(at(5, 3), at(4, 3)) == []


def test_an_offset_that_did_not_move_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 3: the same text, or Spark would run empty batches for ever."""
    stream = reader(monkeypatch, cluster())
    start = json.loads(json.dumps(at(5, 3)))
    assert stream.latestOffset(start, ALL) is start
    assert json.dumps(stream.latestOffset(at(0, 0), ALL)) == json.dumps(at(5, 3))


def test_a_limit_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 4: the option is a limit, unless Spark asks for everything as Trigger.Once does."""
    stream = reader(monkeypatch, cluster(), maxoffsetspertrigger="4")
    assert stream.getDefaultReadLimit() == ReadMaxRows(4)
    assert stream.latestOffset(at(0, 0), ReadMaxRows(4)) == at(2, 1)
    assert stream.latestOffset(at(0, 0), ALL) == at(5, 3)
    assert reader(monkeypatch, cluster()).getDefaultReadLimit() == ReadAllAvailable()


def test_few_messages_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch begins at once; then the fewest are waited for, until it is too late."""
    fake, clock = cluster(), FakeClock()
    given = {"minoffsetspertrigger": "4", "maxtriggerdelay": "1m"}
    stream = reader(monkeypatch, fake, clock, **given)
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMinRows(4)
    start = stream.latestOffset(at(4, 3), limit)
    assert start == at(5, 3)
    grow(fake, ONE, 2)
    grow(fake, TWO, 1)
    clock.advance(59_999)
    assert stream.latestOffset(start, limit) is start
    assert stream.latestOffset(start, ALL) == at(7, 4)
    clock.advance(59_999)
    assert stream.latestOffset(start, limit) is start
    clock.advance(1)
    assert stream.latestOffset(start, limit) == at(7, 4)
    start = at(7, 4)
    grow(fake, TWO, 4)
    assert stream.latestOffset(start, limit) == at(7, 8)
    both = reader(monkeypatch, fake, clock, maxoffsetspertrigger="9", **given)
    assert both.getDefaultReadLimit() == ReadMaxRows(9)


def test_available_now_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more will come that it may read, so what there is is enough."""
    stream = reader(monkeypatch, cluster(), FakeClock(), minoffsetspertrigger="100")
    assert stream.latestOffset(at(0, 0), ReadMinRows(100)) == at(5, 3)
    stream.prepareForTriggerAvailableNow()
    assert stream.latestOffset(at(4, 3), ReadMinRows(100)) == at(5, 3)


def test_available_now_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never past what was there at its start, in as many steps as the limit asks for, then stop."""
    fake = cluster()
    stream = reader(monkeypatch, fake, maxoffsetspertrigger="3")
    offset = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    grow(fake, ONE, 50)
    steps = 0
    while (after := stream.latestOffset(offset, ReadMaxRows(3))) is not offset:
        offset, steps = after, steps + 1
        assert steps < 9
    assert offset == at(5, 3)
    assert stream.reportLatestOffset() == at(5, 3)


def test_available_now_ends_when_the_topic_vanished(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target was fixed; a queue ahead of it, or gone, stays where it is."""
    fake = cluster()
    stream = reader(monkeypatch, fake)
    stream.prepareForTriggerAvailableNow()
    fake.records.clear()
    ahead = at(9, 3)
    assert stream.latestOffset(ahead, ALL) is ahead


def test_batches_are_planned_purely(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart an unfinished batch is planned again: from the offsets, asking nobody."""
    fake = cluster()
    stream = reader(monkeypatch, fake)
    partitions = stream.partitions(at(1, 3), at(5, 3))
    assert [(p.value.queue, p.value.start, p.value.end) for p in partitions] == [(ONE, 1, 5)]
    assert isinstance(partitions, list)
    assert fake.asked == []
    rows = plain_rows(list(stream.read(pickle.loads(pickle.dumps(partitions[0])))))  # noqa: S301
    assert [row["queueOffset"] for row in rows] == [1, 2, 3, 4]
    assert fake.asked[-1] == "close"


def test_readers_travel_without_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark pickles the reader for its workers."""
    stream = reader(monkeypatch, cluster())
    stream.initialOffset()
    copy = pickle.loads(pickle.dumps(stream))  # noqa: S301
    assert copy.initialOffset() == at(0, 0)
    stream.stop()


def test_new_queues_are_read_from_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue found while running begins at 0."""
    fake = cluster()
    stream = reader(monkeypatch, fake)
    del fake.records[TWO]
    start = stream.initialOffset()
    grow_to = cluster().records[TWO]
    fake.records[TWO] = grow_to
    end = stream.latestOffset(start, ALL)
    found = {p.value.queue: (p.value.start, p.value.end) for p in stream.partitions(start, end)}
    assert found == {ONE: (0, 5), TWO: (0, 3)}


def test_a_queue_that_went_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost disk is an error; or the next batch starts at the new end."""
    with pytest.raises(DataLost, match="ends at 5, 9 were read"):
        reader(monkeypatch, cluster()).latestOffset(at(9, 3), ALL)
    gentle = reader(monkeypatch, cluster(), failondataloss="false")
    assert gentle.latestOffset(at(9, 3), ALL) == at(5, 3)


def test_queues_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are asked for again while patience lasts; then an error, or they are dropped."""
    fake = cluster()
    stream = reader(monkeypatch, fake)
    kept = fake.records.pop(TWO)
    with pytest.raises(NoRoute, match="queue 1 of topic 'orders' on 'broker-a'"):
        stream.latestOffset(at(5, 3), ALL)
    assert fake.asked.count("queues") == 3
    gentle = reader(monkeypatch, fake, failondataloss="false")
    left = gentle.latestOffset(at(4, 3), ALL)
    assert left == {"v": 1, "queues": {"orders": {"broker-a": {"0": 5}}}}
    asked = len(fake.asked)
    assert gentle.latestOffset(left, ALL) is left
    assert len(fake.asked) == asked + 2
    fake.records[TWO] = kept
    assert stream.latestOffset(at(5, 2), ALL) == at(5, 3)
