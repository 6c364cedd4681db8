"""The stream's planning, without Spark: each of the engine's traps, and what it is told."""

import json
import pickle
from typing import Any

import pytest
import structlog.testing
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from tests.unit.spark.damage_by_reader import (
    A_LOST_END,
    A_WRONG_BYTE,
    AT_NEW_END,
    FAILS,
    IS_DATA_LOSS,
    LOGGED,
    says,
)
from tests.unit.spark.samples import (
    STORED_AT_MS,
    FakeCluster,
    FakeDoor,
    encoded,
    plain_rows,
    schema,
)

from sprocket.base.errors import BrokerRefused, CorruptRecord, DataLost, SettingsError
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
RECORD_BYTES, AGE_BYTES, AGE_MS = 1_000, 1_000_000, 3_600_000


def cluster(one: int = 5, two: int = 3, lowest: int = 0) -> FakeCluster:
    """Return a cluster with a topic of two queues."""
    fake = FakeCluster({ONE: [], TWO: []}, dict.fromkeys((ONE, TWO), lowest))
    grow(fake, ONE, one)
    grow(fake, TWO, two)
    return fake


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


def places(kept: dict[str, Any]) -> dict[str, Any]:
    """Return an offset without the messages that were read, as earlier releases wrote it."""
    return {name: value for name, value in kept.items() if name != "last"}


def grow(fake: FakeCluster, queue: MessageQueue, count: int, age: int = 0) -> None:
    """Add messages to a queue; those of a later age lie behind all of those before it."""
    have = fake.lowest.get(queue, 0) + len(fake.records[queue])
    fake.records[queue] += [
        encoded(
            1,
            first=number,
            base=age * AGE_BYTES + number * RECORD_BYTES,
            stored_at_ms=STORED_AT_MS + age * AGE_MS,
        )
        for number in range(have, have + count)
    ]


def make_again(fake: FakeCluster, queue: MessageQueue, count: int) -> None:
    """Delete a queue and make it again, with other messages."""
    fake.records[queue], fake.lowest[queue] = [], 0
    grow(fake, queue, count, age=1)


AWAY = MessageQueue("orders", "broker-b", 0)


def at_both(one: int, away: int) -> dict[str, Any]:
    """Return an offset of a queue of each of two brokers."""
    return {"v": 1, "queues": {"orders": {"broker-a": {"0": one}, "broker-b": {"0": away}}}}


def two_brokers() -> FakeCluster:
    """Return a cluster with a topic that has a queue on each of two brokers."""
    fake = FakeCluster({ONE: [], AWAY: []})
    grow(fake, ONE, 5)
    grow(fake, AWAY, 3)
    return fake


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
    moved = json.dumps(stream.latestOffset(at(0, 0), ALL))
    assert json.dumps(places(json.loads(moved))) == json.dumps(at(5, 3))
    assert json.dumps(reader(monkeypatch, cluster()).latestOffset(at(0, 0), ALL)) == moved


def test_a_limit_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 4: the option is a limit, unless Spark asks for everything as Trigger.Once does."""
    stream = reader(monkeypatch, cluster(), maxoffsetspertrigger="4")
    assert stream.getDefaultReadLimit() == ReadMaxRows(4)
    assert places(stream.latestOffset(at(0, 0), ReadMaxRows(4))) == at(2, 1)
    assert places(stream.latestOffset(at(0, 0), ALL)) == at(5, 3)
    assert reader(monkeypatch, cluster()).getDefaultReadLimit() == ReadAllAvailable()


def test_few_messages_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch begins at once; then the fewest are waited for, until it is too late."""
    fake = cluster()
    given = {"minoffsetspertrigger": "4", "maxtriggerdelay": "1m"}
    stream = reader(monkeypatch, fake, **given)
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMinRows(4)
    start = stream.latestOffset(at(4, 3), limit)
    assert places(start) == at(5, 3)
    grow(fake, ONE, 2)
    grow(fake, TWO, 1)
    fake.clock.advance(59_999)
    assert stream.latestOffset(start, limit) is start
    assert places(stream.latestOffset(start, ALL)) == at(7, 4)
    fake.clock.advance(59_999)
    assert stream.latestOffset(start, limit) is start
    fake.clock.advance(1)
    assert places(stream.latestOffset(start, limit)) == at(7, 4)
    start = at(7, 4)
    grow(fake, TWO, 4)
    assert places(stream.latestOffset(start, limit)) == at(7, 8)
    both = reader(monkeypatch, fake, maxoffsetspertrigger="9", **given)
    assert both.getDefaultReadLimit() == ReadMaxRows(9)


def test_available_now_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more will come that it may read, so what there is is enough."""
    stream = reader(monkeypatch, cluster(), minoffsetspertrigger="100")
    assert places(stream.latestOffset(at(0, 0), ReadMinRows(100))) == at(5, 3)
    stream.prepareForTriggerAvailableNow()
    assert places(stream.latestOffset(at(4, 3), ReadMinRows(100))) == at(5, 3)


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
    assert places(offset) == at(5, 3)
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
    assert places(start) == at(5, 3)
    assert gentle.latestOffset(start, ALL) is start
    fake = two_brokers()
    del fake.records[AWAY]
    strict = reader(monkeypatch, fake)
    strict.prepareForTriggerAvailableNow()
    with pytest.raises(DataLost, match="queue 0 of topic 'orders' on 'broker-b'"):
        strict.latestOffset(at_both(5, 3), ALL)


def test_available_now_waits_for_a_broker_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queues were missing when the end was fixed; they stay where they are, this time."""
    fake = two_brokers()
    kept = fake.records.pop(AWAY)
    stream = reader(monkeypatch, fake)
    stream.prepareForTriggerAvailableNow()
    fake.records[AWAY] = kept
    assert places(stream.latestOffset(at_both(4, 1), ALL)) == at_both(5, 1)
    start = at_both(5, 1)
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
    assert places(end) == at(5, 902)
    (found,) = gentle.partitions(begin, end)
    assert [row["queueOffset"] for row in plain_rows(list(gentle.read(found)))] == [900, 901]


def test_new_topics_of_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics that appear are read from their beginning; internal ones and others never."""
    fake = FakeCluster({})
    given = {"subscribe": "", "subscribepattern": ".*orders-[ab]?"}
    stream = reader(monkeypatch, fake, **given)
    start = stream.initialOffset()
    assert places(start) == {"v": 1, "queues": {}}
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
    with pytest.raises(DataLost, match="topic 'orders-b' was read until now"):
        stream.latestOffset(end, ALL)
    gentle = reader(monkeypatch, fake, failondataloss="false", **given)
    assert sorted(gentle.latestOffset(end, ALL)["queues"]) == ["orders-a"]


def test_a_topic_of_a_pattern_that_is_deleted_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was listed, and nobody knows its route any more; nothing of it was read yet."""
    fake = cluster()
    monkeypatch.setattr(fake, "topics", lambda: ["gone", "orders"])
    stream = reader(monkeypatch, fake, subscribe="", subscribepattern="gone|orders")
    assert places(stream.latestOffset(at(0, 0), ALL)) == at(5, 3)


def test_assigned_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those are read, and one that is not there is named."""
    fake = cluster()
    stream = reader(monkeypatch, fake, subscribe="", assign='{"orders":{"broker-a":[1]}}')
    assert stream.initialOffset() == {"v": 1, "queues": {"orders": {"broker-a": {"1": 0}}}}
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert places(end) == {"v": 1, "queues": {"orders": {"broker-a": {"1": 3}}}}
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
        assert places(stream.latestOffset(at(1, 1), ALL)) == at(5, 3)
    assert places(stream.latestOffset(at(2, 1), ALL)) == at(5, 3)
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
    with structlog.testing.capture_logs() as logged:
        assert places(gentle.latestOffset(at(9, 3), ALL)) == at(5, 3)
    assert [one["queue"] for one in logged] == [offsets.name(ONE)]
    assert says("`spark.readStream` of live topics", A_LOST_END) == (IS_DATA_LOSS, AT_NEW_END)


def test_damage_of_a_message_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rule of directories."""
    fake = cluster()
    damaged = bytearray(fake.records[ONE][2])
    damaged[88] ^= 0x40
    fake.records[ONE][2] = bytes(damaged)

    def rows(**given: str) -> list[dict[str, Any]]:
        stream = reader(monkeypatch, fake, **given)
        tasks = stream.partitions(at(0, 0), at(5, 3))
        return [row for task in tasks for row in plain_rows(list(stream.read(task)))]

    with pytest.raises(CorruptRecord, match=r"'orders' on 'broker-a'.*does not fit its checksum"):
        rows()
    with structlog.testing.capture_logs() as logged:
        assert len(rows(mode="DROPMALFORMED")) == 7
    assert [one["event"] for one in logged] == ["damage is left out"]
    assert says("`spark.readStream` of live topics", A_WRONG_BYTE) == (FAILS, LOGGED)


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
    fake = two_brokers()
    stream = reader(monkeypatch, fake)
    kept = fake.records.pop(AWAY)
    gone = "queue 0 of topic 'orders' on 'broker-b' is not in .* failOnDataLoss=false goes on"
    with pytest.raises(DataLost, match=gone):
        stream.latestOffset(at_both(5, 3), ALL)
    assert fake.asked.count("queues") == 3
    gentle = reader(monkeypatch, fake, failondataloss="false")
    left = gentle.latestOffset(at_both(4, 3), ALL)
    assert places(left) == {"v": 1, "queues": {"orders": {"broker-a": {"0": 5}}}}
    asked = len(fake.asked)
    assert gentle.latestOffset(left, ALL) is left
    assert len(fake.asked) == asked + 2
    fake.records[AWAY] = kept
    assert places(stream.latestOffset(at_both(5, 2), ALL)) == at_both(5, 3)


def test_a_topic_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how to go on; nobody to ask is not a loss, whatever the option says."""
    fake = cluster()
    fake.records.clear()
    with pytest.raises(DataLost, match=r"topic .orders. was read until now.*failOnDataLoss=false"):
        reader(monkeypatch, fake).latestOffset(at(5, 3), ALL)
    gentle = reader(monkeypatch, fake, failondataloss="false")
    assert gentle.latestOffset(at(5, 3), ALL) == {"v": 1, "queues": {}}
    for loss in ("true", "false"):
        fake = cluster()
        fake.failures = [NoRoute("no NameServer answers")] * 3
        with pytest.raises(NoRoute, match="no NameServer answers"):
            reader(monkeypatch, fake, failondataloss=loss).latestOffset(at(5, 3), ALL)


@pytest.mark.parametrize("is_available_now", [False, True])
@pytest.mark.parametrize("given", [{}, {"subscribe": "", "assign": '{"orders":{"broker-a":[1]}}'}])
def test_a_topic_that_has_fewer_queues(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], is_available_now: bool
) -> None:
    """What was read is not a loss, and nobody waits for it; given back, such a queue goes on."""
    fake = cluster()
    before = offsets.decode(at(4, 3)) if not given else {TWO: 3}
    fake.withdrawn = {TWO}
    stream = reader(monkeypatch, fake, **given)
    if is_available_now:
        stream.prepareForTriggerAvailableNow()
    start = offsets.encode(before)
    end = stream.latestOffset(start, ALL)
    assert offsets.decode(end) == (before if given else {ONE: 5, TWO: 3})
    assert stream.latestOffset(end, ALL) is end
    fake.withdrawn = set()
    grow(fake, TWO, 2)
    again = reader(monkeypatch, fake, **given)
    assert offsets.decode(again.latestOffset(end, ALL))[TWO] == 5


@pytest.mark.parametrize("is_available_now", [False, True])
def test_a_topic_that_has_fewer_queues_with_unread_messages(
    monkeypatch: pytest.MonkeyPatch, is_available_now: bool
) -> None:
    """They are told, and left until the topic has the queue again."""
    fake = cluster()
    fake.withdrawn = {TWO}
    strict, gentle = (reader(monkeypatch, fake, failondataloss=loss) for loss in ("true", "false"))
    if is_available_now:
        strict.prepareForTriggerAvailableNow()
        gentle.prepareForTriggerAvailableNow()
    unread = "queue 1 of topic 'orders'.* fewer queues.*: 2 messages .* failOnDataLoss=false"
    with pytest.raises(DataLost, match=unread):
        strict.latestOffset(at(4, 1), ALL)
    end = gentle.latestOffset(at(4, 1), ALL)
    assert places(end) == at(5, 1)
    assert gentle.latestOffset(end, ALL) is end
    fake.withdrawn = set()
    again = reader(monkeypatch, fake)
    assert places(again.latestOffset(end, ALL)) == at(5, 3)


def read_to_end(stream: LiveReader, start: dict[str, Any]) -> tuple[list[int], dict[str, Any]]:
    """Return the offsets in the first queue that batches read from an offset on, and the end."""
    found: list[int] = []
    limit = stream.getDefaultReadLimit()
    while (end := json.loads(json.dumps(stream.latestOffset(start, limit)))) != start:
        for task in stream.partitions(start, end):
            found += [
                n for one in task.value for n in range(one.start, one.end) if one.queue == ONE
            ]
        start = end
        assert len(found) < 99
    return found, start


@pytest.mark.parametrize("limits", [{}, {"maxoffsetspertrigger": "3"}])
@pytest.mark.parametrize("is_available_now", [False, True])
@pytest.mark.parametrize("count", [1, 3, 5, 6, 44])
def test_a_queue_that_was_made_again(
    monkeypatch: pytest.MonkeyPatch, count: int, is_available_now: bool, limits: dict[str, str]
) -> None:
    """Whether it has more messages than were read or fewer: told, or read from its first one."""
    fake = cluster()
    _, start = read_to_end(reader(monkeypatch, fake), at(0, 0))
    assert places(start) == at(5, 3)
    make_again(fake, ONE, count)
    strict = reader(monkeypatch, fake, **limits)
    gentle = reader(monkeypatch, fake, failondataloss="false", **limits)
    if is_available_now:
        strict.prepareForTriggerAvailableNow()
        gentle.prepareForTriggerAvailableNow()
    with pytest.raises(DataLost, match=r"queue 0 of topic .orders.*failOnDataLoss=false"):
        strict.latestOffset(start, strict.getDefaultReadLimit())
    found, end = read_to_end(gentle, start)
    assert found == list(range(count))
    assert places(end) == at(count, 3)
    again = reader(monkeypatch, fake)
    assert again.latestOffset(end, ALL) is end


def test_another_queue_is_told_with_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both messages are named by their places and times."""
    fake = cluster()
    _, start = read_to_end(reader(monkeypatch, fake), at(0, 0))
    make_again(fake, ONE, 44)
    was, now = STORED_AT_MS + 4, STORED_AT_MS + 4 + AGE_MS
    with pytest.raises(
        DataLost, match=f"message 4 was stored at {was} .* 4000, .* {now} at 1004000"
    ):
        reader(monkeypatch, fake).latestOffset(start, ALL)


def test_few_messages_of_another_queue_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where to go on is noted at once, or it would be forgotten until there are enough."""
    fake = cluster()
    _, start = read_to_end(reader(monkeypatch, fake), at(0, 0))
    given = {"minoffsetspertrigger": "100", "failondataloss": "false"}
    stream = reader(monkeypatch, fake, **given)
    stream.latestOffset(at(4, 3), stream.getDefaultReadLimit())
    make_again(fake, ONE, 6)
    fake.clock.advance(600_000)
    assert places(stream.latestOffset(start, stream.getDefaultReadLimit())) == at(0, 3)


def test_a_log_that_was_cut_back_and_has_grown_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it still has was read; the messages since then were not, whatever their offsets."""
    fake = cluster()
    _, start = read_to_end(reader(monkeypatch, fake), at(0, 0))
    del fake.records[ONE][4:]
    strict = reader(monkeypatch, fake)
    with pytest.raises(DataLost, match="ends at 4, 5 were read"):
        strict.latestOffset(start, ALL)
    shorter = reader(monkeypatch, fake, failondataloss="false")
    found, end = read_to_end(shorter, start)
    assert (found, places(end)) == ([], at(4, 3))
    grow(fake, ONE, 5, age=1)
    with pytest.raises(DataLost, match="is not the one that was read: message 4 was stored at"):
        reader(monkeypatch, fake).latestOffset(start, ALL)
    found, _ = read_to_end(reader(monkeypatch, fake, failondataloss="false"), start)
    assert found == [4, 5, 6, 7, 8]


def test_a_message_that_retention_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing; what was to be read is there, or the rule of lost messages holds."""
    fake = cluster()
    _, start = read_to_end(reader(monkeypatch, fake), at(0, 0))
    grow(fake, ONE, 5)
    del fake.records[ONE][:5]
    fake.lowest[ONE] = 5
    assert read_to_end(reader(monkeypatch, fake), start)[0] == [5, 6, 7, 8, 9]
    del fake.records[ONE][:2]
    fake.lowest[ONE] = 7
    stream = reader(monkeypatch, fake)
    end = stream.latestOffset(start, ALL)
    with pytest.raises(DataLost, match="offset 5 is gone, the oldest kept is 7"):
        list(stream.read(stream.partitions(start, end)[0]))


def test_a_message_that_is_lost_or_damaged_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker gives the next one for it; a wrong checksum is not another message."""
    fake = cluster()
    _, start = read_to_end(reader(monkeypatch, fake), at(0, 0))
    sound = fake.records[ONE][4]
    grow(fake, ONE, 1)
    damaged = bytearray(sound)
    damaged[90] ^= 1
    for other in (fake.records[ONE][5], bytes(damaged), b""):
        fake.records[ONE][4] = other
        assert places(reader(monkeypatch, fake).latestOffset(start, ALL)) == at(6, 3)


def test_an_old_checkpoint_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases before kept no messages, so nobody knows who was there; from now on they are."""
    fake = cluster()
    make_again(fake, ONE, 44)
    stream = reader(monkeypatch, fake)
    found, end = read_to_end(stream, at(5, 3))
    assert found == list(range(5, 44))
    now = {"0": [43, 1_043_000, STORED_AT_MS + AGE_MS + 43], "1": [2, 2_000, STORED_AT_MS + 2]}
    assert end["last"] == {"orders": {"broker-a": now}}


def test_an_empty_queue_has_no_last_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to tell it by; the other has one, which the same stream does not ask for."""
    fake = cluster(two=0)
    stream = reader(monkeypatch, fake)
    end = stream.latestOffset(at(0, 0), ALL)
    assert end["last"] == {"orders": {"broker-a": {"0": [4, 4_000, STORED_AT_MS + 4]}}}
    grow(fake, TWO, 1)
    end = stream.latestOffset(end, ALL)
    assert set(end["last"]["orders"]["broker-a"]) == {"0", "1"}


def test_what_it_costs_to_know_who_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pull for each queue when a query starts, another to choose messages, and none for batches.

    After ten minutes it is done again, so that retention cannot take what was chosen.
    """
    fake = cluster()

    def pulls(stream: LiveReader, start: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
        before = len(fake.asked)
        end = stream.latestOffset(start, ALL)
        return [one for one in fake.asked[before:] if one.startswith("pull")], end

    stream = reader(monkeypatch, fake, subexpression="A")
    asked, end = pulls(stream, at(0, 0))
    assert asked == ["pull 4", "pull 2"]
    assert fake.tags == "*"
    for _ in range(3):
        grow(fake, ONE, 1)
        fake.clock.advance(100_000)
        asked, end = pulls(stream, end)
        assert asked == []
    stream = reader(monkeypatch, fake)
    assert pulls(stream, end)[0] == ["pull 4", "pull 2"]
    grow(fake, ONE, 1)
    asked, end = pulls(stream, end)
    assert asked == ["pull 8"]
    assert end["last"]["orders"]["broker-a"]["0"][0] == 8
    grow(fake, ONE, 1)
    fake.clock.advance(600_000)
    asked, end = pulls(stream, end)
    assert asked == ["pull 8", "pull 2", "pull 9"]


def test_queues_of_several_brokers_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """One broker lost its disk; what the other has is read on."""
    fake = two_brokers()
    end = reader(monkeypatch, fake).latestOffset(at_both(0, 0), ALL)
    make_again(fake, AWAY, 4)
    with pytest.raises(DataLost, match="queue 0 of topic 'orders' on 'broker-b' is not the one"):
        reader(monkeypatch, fake).latestOffset(end, ALL)
    grow(fake, ONE, 1)
    gentle = reader(monkeypatch, fake, failondataloss="false")
    end = gentle.latestOffset(end, ALL)
    assert places(end) == at_both(6, 0)
    assert places(gentle.latestOffset(end, ALL)) == at_both(6, 4)
