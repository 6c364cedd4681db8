"""The stream's planning, without Spark: each of the engine's traps, and what it is told."""

import json
import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from tests.unit.spark.samples import (
    STORED_AT_MS,
    FakeCluster,
    FakeDoor,
    encoded,
    plain_rows,
    schema,
)

from sprocket.base.errors import BrokerRefused, DataLost, SettingsError
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.errors import NoRoute
from sprocket.rocketmq.model.route import MessageQueue, QueueSlice
from sprocket.spark.rocketmq.live import cluster as live_cluster
from sprocket.spark.rocketmq.live import offsets
from sprocket.spark.rocketmq.live.cluster import Live
from sprocket.spark.rocketmq.live.stream import LiveReader
from sprocket.spark.rocketmq.options import read_live

ONE, TWO = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
ALL = ReadAllAvailable()


def cluster(one: int = 5, two: int = 3, lowest: int = 0) -> FakeCluster:
    """Return a cluster with a topic of two queues."""
    queues = {
        queue: [encoded(1, first=lowest + number) for number in range(count)]
        for queue, count in ((ONE, one), (TWO, two))
    }
    return FakeCluster(queues, dict.fromkeys(queues, lowest))


def reader(monkeypatch: pytest.MonkeyPatch, fake: FakeCluster, **given: str) -> LiveReader:
    """Return a reader of that cluster, with its clock."""
    named = {"nameserver": "n:1", "subscribe": "orders", **given}
    options = read_live({name: text for name, text in named.items() if text})
    door = FakeDoor(fake)
    live = Live(door.connect, retries_max=2, retry_wait_ms=1, wait=door.wait)
    monkeypatch.setattr(live_cluster, "open_live", lambda _: live)
    return LiveReader(schema(options), options, fake.clock)


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
    fake = cluster()
    given = {"minoffsetspertrigger": "4", "maxtriggerdelay": "1m"}
    stream = reader(monkeypatch, fake, **given)
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMinRows(4)
    start = stream.latestOffset(at(4, 3), limit)
    assert start == at(5, 3)
    grow(fake, ONE, 2)
    grow(fake, TWO, 1)
    fake.clock.advance(59_999)
    assert stream.latestOffset(start, limit) is start
    assert stream.latestOffset(start, ALL) == at(7, 4)
    fake.clock.advance(59_999)
    assert stream.latestOffset(start, limit) is start
    fake.clock.advance(1)
    assert stream.latestOffset(start, limit) == at(7, 4)
    start = at(7, 4)
    grow(fake, TWO, 4)
    assert stream.latestOffset(start, limit) == at(7, 8)
    both = reader(monkeypatch, fake, maxoffsetspertrigger="9", **given)
    assert both.getDefaultReadLimit() == ReadMaxRows(9)


def test_available_now_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more will come that it may read, so what there is is enough."""
    stream = reader(monkeypatch, cluster(), minoffsetspertrigger="100")
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
    """The target was fixed; what is gone since stays where it is."""
    fake = cluster()
    stream = reader(monkeypatch, fake)
    stream.prepareForTriggerAvailableNow()
    fake.records.clear()
    start = at(5, 3)
    assert stream.latestOffset(start, ALL) is start


def test_available_now_tells_of_what_was_gone_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that ends before the checkpoint, or that is not there, is lost; or it is dropped."""
    fake = cluster()
    strict, gentle = (reader(monkeypatch, fake, failondataloss=loss) for loss in ("true", "false"))
    strict.prepareForTriggerAvailableNow()
    with pytest.raises(DataLost, match="ends at 5, 9 were read"):
        strict.latestOffset(at(9, 3), ALL)
    gentle.prepareForTriggerAvailableNow()
    start = gentle.latestOffset(at(9, 3), ALL)
    assert start == at(5, 3)
    assert gentle.latestOffset(start, ALL) is start
    del fake.records[TWO]
    strict = reader(monkeypatch, fake)
    strict.prepareForTriggerAvailableNow()
    with pytest.raises(NoRoute, match="queue 1 of topic 'orders'"):
        strict.latestOffset(at(5, 3), ALL)


def test_available_now_waits_for_a_broker_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queues were missing when the end was fixed; they stay where they are, this time."""
    fake = cluster()
    kept = fake.records.pop(TWO)
    stream = reader(monkeypatch, fake)
    stream.prepareForTriggerAvailableNow()
    fake.records[TWO] = kept
    assert stream.latestOffset(at(4, 1), ALL) == at(5, 1)
    start = at(5, 1)
    assert stream.latestOffset(start, ALL) is start
    gone = [MessageQueue(topic, "broker-b", 0) for topic in ("a", "b")]
    empty = FakeCluster({})
    stream = reader(monkeypatch, empty, subscribe="", subscribepattern=".")
    stream.prepareForTriggerAvailableNow()
    empty.records = {queue: [encoded(1)] for queue in gone}
    start = offsets.encode(dict.fromkeys(gone, 1))
    assert stream.latestOffset(start, ALL) is start


def test_batches_are_planned_purely(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart an unfinished batch is planned again: from the offsets, asking nobody."""
    fake = cluster()
    stream = reader(monkeypatch, fake)
    partitions = stream.partitions(at(1, 3), at(5, 3))
    assert [p.value for p in partitions] == [[QueueSlice(ONE, 1, 5)]]
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
    (task,) = stream.partitions(start, end)
    assert task.value == [QueueSlice(ONE, 0, 5), QueueSlice(TWO, 0, 3)]


def test_a_new_queue_that_lost_messages_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its oldest offset is not 0: an error, or it starts at the oldest, without empty batches."""
    fake = cluster()
    fake.records[TWO], fake.lowest[TWO] = (
        [encoded(1, first=number) for number in range(900, 903)],
        900,
    )
    begin = {"v": 1, "queues": {"orders": {"broker-a": {"0": 5}}}}
    stream = reader(monkeypatch, fake)
    end = stream.latestOffset(begin, ALL)
    lost = stream.partitions(begin, end)[-1]
    with pytest.raises(DataLost, match="offset 0 is gone, the oldest kept is 900"):
        list(stream.read(lost))
    gentle = reader(monkeypatch, fake, failondataloss="false", maxoffsetspertrigger="2")
    end = gentle.latestOffset(begin, gentle.getDefaultReadLimit())
    assert end == at(5, 902)
    (found,) = gentle.partitions(begin, end)
    assert [row["queueOffset"] for row in plain_rows(list(gentle.read(found)))] == [900, 901]


def test_new_topics_of_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics that appear are read from their beginning; internal ones and others never."""
    fake = FakeCluster({})
    given = {"subscribe": "", "subscribepattern": ".*orders-[ab]?"}
    stream = reader(monkeypatch, fake, **given)
    start = stream.initialOffset()
    assert start == {"v": 1, "queues": {}}
    assert stream.latestOffset(start, ALL) is start
    names = ("orders-a", "orders-b", "my-orders-c", "%RETRY%orders-", "rmq_sys_orders-")
    for name in names:
        fake.records[MessageQueue(name, "broker-a", 0)] = [encoded(2)]
    end = stream.latestOffset(start, ALL)
    assert sorted(end["queues"]) == ["orders-a", "orders-b"]
    (task,) = stream.partitions(start, end)
    starts = {one.queue.topic: one.start for one in task.value}
    assert starts == {"orders-a": 0, "orders-b": 0}
    del fake.records[MessageQueue("orders-b", "broker-a", 0)]
    with pytest.raises(NoRoute, match="orders-b"):
        stream.latestOffset(end, ALL)
    gentle = reader(monkeypatch, fake, failondataloss="false", **given)
    assert sorted(gentle.latestOffset(end, ALL)["queues"]) == ["orders-a"]


def test_a_topic_of_a_pattern_that_is_deleted_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was listed, and nobody knows its route any more; nothing of it was read yet."""
    fake = cluster()
    monkeypatch.setattr(fake, "topics", lambda: ["gone", "orders"])
    stream = reader(monkeypatch, fake, subscribe="", subscribepattern="gone|orders")
    assert stream.latestOffset(at(0, 0), ALL) == at(5, 3)


def test_assigned_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those are read, and one that is not there is named."""
    fake = cluster()
    stream = reader(monkeypatch, fake, subscribe="", assign='{"orders":{"broker-a":[1]}}')
    assert stream.initialOffset() == {"v": 1, "queues": {"orders": {"broker-a": {"1": 0}}}}
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert end == {"v": 1, "queues": {"orders": {"broker-a": {"1": 3}}}}
    wrong = reader(monkeypatch, fake, subscribe="", assign='{"orders":{"broker-a":[1,7]}}')
    with pytest.raises(SettingsError, match="assign names queue 7 of topic 'orders'"):
        wrong.initialOffset()


def test_a_query_starts_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first message stored then or later: one time for all, or one for each queue."""
    fake = cluster()
    third = str(STORED_AT_MS + 2)
    assert reader(monkeypatch, fake, startingtimestamp=third).initialOffset() == at(2, 2)
    by_queue = {"startingoffsetsbytimestamp": '{"orders":{"broker-a":{"1":' + third + "}}}"}
    assert reader(monkeypatch, fake, **by_queue).initialOffset() == at(0, 2)
    late = {"startingtimestamp": str(STORED_AT_MS + 4)}
    assert reader(monkeypatch, fake, **late).initialOffset() == at(4, 3)
    strict = reader(monkeypatch, fake, startingoffsetsbytimestampstrategy="error", **late)
    with pytest.raises(SettingsError, match="has no message that was stored"):
        strict.initialOffset()


def test_progress_is_noted_in_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is before a batch's start is in the sink; so the last batch is noted, too."""
    fake = cluster()
    given = {"consumergroup": "watched", "commitoffsets": "true", "maxoffsetspertrigger": "6"}
    stream = reader(monkeypatch, fake, **given)
    stream.prepareForTriggerAvailableNow()
    offset = stream.initialOffset()
    seen = []
    while (after := stream.latestOffset(offset, stream.getDefaultReadLimit())) is not offset:
        seen.append(dict(fake.committed))
        offset = after
    assert seen[0] == {ONE: 0, TWO: 0}
    assert seen[1] == {ONE: 3, TWO: 2}
    assert fake.committed == {ONE: 5, TWO: 3}
    asked = fake.asked.count("commit")
    stream.latestOffset(offset, ALL)
    assert fake.asked.count("commit") == asked
    silent = reader(monkeypatch, fake, consumergroup="watched")
    silent.latestOffset(at(1, 1), ALL)
    assert fake.asked.count("commit") == asked


def test_progress_that_cannot_be_noted_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is for tools; the next batch tries again."""
    fake = cluster()

    def refuse(queue: MessageQueue, offset: int) -> None:
        raise BrokerRefused(ResponseCode.NO_PERMISSION, "not you")

    stream = reader(monkeypatch, fake, consumergroup="watched", commitoffsets="true")
    with monkeypatch.context() as patch:
        patch.setattr(fake, "commit", refuse)
        assert stream.latestOffset(at(1, 1), ALL) == at(5, 3)
    assert stream.latestOffset(at(2, 1), ALL) == at(5, 3)
    assert fake.committed == {ONE: 2, TWO: 1}


def test_a_queue_in_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """`minPartitions` cuts long queues; every message is in one of the parts."""
    stream = reader(monkeypatch, cluster(), minpartitions="4")
    parts = [part for task in stream.partitions(at(0, 0), at(5, 3)) for part in task.value]
    assert [(part.queue, part.start, part.end) for part in parts] == [
        *((ONE, 0, 1), (ONE, 1, 3), (ONE, 3, 5)),
        *((TWO, 0, 1), (TWO, 1, 3)),
    ]


def test_a_queue_that_went_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost disk is an error; or the next batch starts at the new end."""
    with pytest.raises(DataLost, match="ends at 5, 9 were read"):
        reader(monkeypatch, cluster()).latestOffset(at(9, 3), ALL)
    gentle = reader(monkeypatch, cluster(), failondataloss="false")
    assert gentle.latestOffset(at(9, 3), ALL) == at(5, 3)


OTHER = {"subscribe": "refunds"}
PATTERN = {"subscribe": "", "subscribepattern": "ref.*"}
ASSIGN = {"subscribe": "", "assign": '{"orders":{"broker-a":[1]}}'}


@pytest.mark.parametrize("is_available_now", [False, True])
@pytest.mark.parametrize(
    ("given", "dropped", "left"),
    [
        (OTHER, "topic 'orders'", {"refunds": {"broker-a": {"0": 2}}}),
        (PATTERN, "topic 'orders'", {"refunds": {"broker-a": {"0": 2}}}),
        (ASSIGN, "queue 0 of topic 'orders' on 'broker-a'", {"orders": {"broker-a": {"1": 3}}}),
    ],
)
def test_an_old_checkpoint_with_other_topics(
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, str],
    dropped: str,
    left: dict[str, Any],
    is_available_now: bool,
) -> None:
    """What was read until now and is not chosen any more is an error that names it; or is left."""
    fake = cluster()
    fake.records[MessageQueue("refunds", "broker-a", 0)] = [encoded(2, topic="refunds")] * 2
    strict = reader(monkeypatch, fake, **given)
    gentle = reader(monkeypatch, fake, failondataloss="false", **given)
    if is_available_now:
        strict.prepareForTriggerAvailableNow()
        gentle.prepareForTriggerAvailableNow()
    with pytest.raises(DataLost, match=f"the query read {dropped} until now"):
        strict.latestOffset(at(5, 2), ALL)
    end = gentle.latestOffset(at(5, 2), ALL)
    assert end["queues"] == left
    assert gentle.latestOffset(end, ALL) is end


def test_many_topics_that_are_not_chosen_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names some, and says how many more there are."""
    stream = reader(monkeypatch, cluster())
    old = {MessageQueue(f"t{number:03}", "broker-a", 0): 1 for number in range(500)}
    with pytest.raises(DataLost, match="topic 't009' and 490 more until now"):
        stream.latestOffset(offsets.encode(old), ALL)


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
