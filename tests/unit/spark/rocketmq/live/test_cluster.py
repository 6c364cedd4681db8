"""Reading ranges of queues: whole, in order, through failures, and loud when messages are gone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import certificates
from tests.unit.spark.samples import FakeCluster, FakeDoor, directory, encoded, plain_rows, schema

from sprocket.base.errors import (
    BrokerRefused,
    ClientError,
    CorruptRecord,
    DataLost,
    NotConnected,
    RequestTimeout,
    SettingsError,
)
from sprocket.rocketmq.client import ClientSettings, blocking, tls_context
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.errors import NoRoute, NoSuchTopic
from sprocket.rocketmq.model.route import MessageQueue, QueueSlice
from sprocket.rocketmq.settings import TlsSettings
from sprocket.spark.rocketmq.live import cluster as module
from sprocket.spark.rocketmq.live.cluster import Live, open_live, read_slices
from sprocket.spark.rocketmq.options import read_live
from sprocket.spark.rocketmq.rows.batches import Batches
from sprocket.testing.local_broker import LocalBroker, small_settings

QUEUE = MessageQueue("orders", "broker-a", 0)


def cluster(count: int = 10, lowest: int = 0) -> FakeCluster:
    """Return a cluster with one queue."""
    records = [encoded(1, first=lowest + number) for number in range(count)]
    return FakeCluster({QUEUE: records}, {QUEUE: lowest})


def read(
    fake: FakeCluster, start: int, end: int, *, count: int = 3, loss: bool = True, **given: str
) -> tuple[list[int], FakeDoor]:
    """Return the offsets read, and the door."""
    options = directory(columns="queueOffset,brokerName", **given)
    door = FakeDoor(fake)
    live = Live(door.connect, retries_max=4, retry_wait_ms=500, wait=door.wait)
    batches = Batches(schema(options), options, "broker-a")
    wanted = QueueSlice(QUEUE, start, end)
    made = read_slices(live, [wanted], batches, count_max=count, fail_on_data_loss=loss)
    rows = plain_rows(list(made))
    assert {row["brokerName"] for row in rows} <= {"broker-a", None}
    return [row["queueOffset"] for row in rows], door


@pytest.mark.parametrize("count", [1, 3, 100])
def test_exactly_the_range(count: int) -> None:
    """Nothing before it, nothing behind it, whatever an answer holds."""
    assert read(cluster(), 2, 9, count=count)[0] == list(range(2, 9))


def test_more_than_was_asked_for_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker may answer with messages around the range."""
    fake = cluster()
    pull = fake.pull
    monkeypatch.setattr(
        fake, "pull", lambda queue, offset, _, **more: pull(queue, max(offset - 1, 0), 9, **more)
    )
    assert read(fake, 2, 5)[0] == [2, 3, 4]


def test_answers_are_decoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small answers make large batches, up to a size."""
    for size in (1, 250, 1 << 20):
        monkeypatch.setattr(module, "DECODED_BYTES", size)
        assert read(cluster(), 0, 10, count=1)[0] == list(range(10))


def test_the_next_answers_come_while_some_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One lot is asked for ahead, and no more: what is held has a bound."""
    fake = cluster()
    one = len(fake.records[QUEUE][0])
    monkeypatch.setattr(module, "DECODED_BYTES", 2 * one)
    options = directory(columns="queueOffset")
    door = FakeDoor(fake)
    live = Live(door.connect, retries_max=4, retry_wait_ms=1, wait=door.wait)
    wanted = QueueSlice(QUEUE, 0, 7)
    made = read_slices(
        live, [wanted], Batches(schema(options), options), count_max=1, fail_on_data_loss=True
    )
    seen = [(len(next(made)), list(fake.asked)) for _ in range(4)]
    pulls = [f"pull {offset}" for offset in range(7)]
    assert seen == [(2, pulls[:4]), (2, pulls[:6]), (2, pulls), (1, pulls)]
    assert list(made) == []
    assert fake.asked == pulls


@pytest.mark.parametrize("retries", [0, 1])
def test_a_failure_of_what_was_asked_for_ahead(
    monkeypatch: pytest.MonkeyPatch, retries: int
) -> None:
    """It is met when its answers are wanted, and is then as any other: waited out, or the end."""
    fake = cluster(3)
    monkeypatch.setattr(module, "DECODED_BYTES", 1)
    fake.failures = [None, NotConnected("gone")]
    options = directory(columns="queueOffset")
    door = FakeDoor(fake)
    live = Live(door.connect, retries_max=retries, retry_wait_ms=1, wait=door.wait)
    made: Any = read_slices(
        live,
        [QueueSlice(QUEUE, 0, 3)],
        Batches(schema(options), options),
        count_max=1,
        fail_on_data_loss=True,
    )
    found = plain_rows([next(made)])
    assert fake.asked == ["pull 0", "pull 1"]
    if retries:
        found += plain_rows(list(made))
    else:
        with pytest.raises(NotConnected, match="gone"):
            next(made)
    assert [row["queueOffset"] for row in found] == list(range(3 if retries else 1))
    assert fake.asked[2:] == ["close", "pull 1", "pull 2"][: 3 if retries else 1]


def test_tags_are_the_brokers_to_compare_first() -> None:
    """The expression goes with each pull; all tags where none is given."""
    fake = cluster()
    read(fake, 0, 3)
    assert fake.tags == "*"
    options = directory(columns="queueOffset")
    live = Live(FakeDoor(fake).connect, retries_max=0, retry_wait_ms=1, wait=FakeDoor(fake).wait)
    batches, wanted = Batches(schema(options), options), QueueSlice(QUEUE, 0, 3)
    list(read_slices(live, [wanted], batches, count_max=9, fail_on_data_loss=True, tags="A || B"))
    assert fake.tags == "A || B"


@pytest.mark.parametrize(
    "error",
    [
        NotConnected("gone"),
        RequestTimeout("late"),
        NoRoute("nobody"),
        BrokerRefused(ResponseCode.SERVICE_NOT_AVAILABLE, "stopping"),
        BrokerRefused(ResponseCode.TOPIC_NOT_EXIST, "starting"),
    ],
)
def test_passing_failures_are_waited_out(error: Exception) -> None:
    """A broker that is killed and restarted costs waiting, not messages; connections are new."""
    fake = cluster()
    fake.failures = [error] * 4
    offsets, door = read(fake, 0, 10)
    assert offsets == list(range(10))
    assert door.waits == [0.5] * 4
    assert fake.asked.count("close") == 4


def test_one_failure_more_than_there_are_retries_fails_the_query() -> None:
    """One failure more than there are retries fails the query, with the last reason."""
    fake = cluster()
    fake.failures = [NotConnected("gone")] * 5
    with pytest.raises(NotConnected, match="gone"):
        read(fake, 0, 10)


def test_a_new_query_does_not_wait_for_an_unknown_topic_as_for_a_broker() -> None:
    """It may have been mistyped; what runs already waits on, as its broker may be on its way up."""
    fake = cluster()
    for tries, failures in ((1, 2), (None, 4)):
        fake.failures = [NoSuchTopic("no topic 'order'; did you mean orders?")] * 9
        door = FakeDoor(fake)
        live = Live(door.connect, retries_max=3, retry_wait_ms=1, wait=door.wait)
        with pytest.raises(NoSuchTopic, match="did you mean orders"):
            live.ask(lambda asked: asked.queues("order"), gone_tries_max=tries)
        assert len(door.waits) == failures - 1
    fake.failures = [NotConnected("gone")] * 3
    live = Live(door.connect, retries_max=3, retry_wait_ms=1, wait=door.wait)
    found = live.ask(lambda asked: asked.queues("orders"), gone_tries_max=1)
    assert found == [QUEUE]


def test_a_refusal_that_does_not_pass_fails_at_once() -> None:
    """No permission stays no permission."""
    fake = cluster()
    fake.failures = [BrokerRefused(ResponseCode.NO_PERMISSION, "no")]
    with pytest.raises(BrokerRefused):
        read(fake, 0, 10)


def test_cleaned_away_messages() -> None:
    """What retention took is an error that names the oldest left; or reading begins there."""
    with pytest.raises(DataLost, match="offset 2 is gone, the oldest kept is 5"):
        read(cluster(5, lowest=5), 2, 9)
    assert read(cluster(5, lowest=5), 2, 9, loss=False)[0] == [5, 6, 7, 8]


def test_a_queue_that_lost_its_end() -> None:
    """It is asked for again, since a broker may be on its way up, and then an error."""
    fake = cluster(4)
    with pytest.raises(DataLost, match="offset 4 is gone, the queue ends before that"):
        read(fake, 0, 9)
    offsets, door = read(fake, 0, 9, loss=False)
    assert offsets == [0, 1, 2, 3]
    assert len(door.waits) == 4
    with pytest.raises(DataLost, match="offset 6 is gone"):
        read(fake, 6, 9)


def test_an_end_that_comes_back() -> None:
    """A queue that is short for a moment is read whole."""
    fake = cluster(4)
    rest = [encoded(1, first=number) for number in range(4, 9)]
    door = FakeDoor(fake)
    door.on_wait = lambda: fake.records[QUEUE].extend(rest)
    options = directory(columns="queueOffset")
    live = Live(door.connect, retries_max=4, retry_wait_ms=1, wait=door.wait)
    made: Any = read_slices(
        live,
        [QueueSlice(QUEUE, 0, 9)],
        Batches(schema(options), options),
        count_max=100,
        fail_on_data_loss=True,
    )
    assert [row["queueOffset"] for row in plain_rows(list(made))] == list(range(9))


THREE = [MessageQueue("orders", "broker-a", number) for number in range(3)]
"""Queues that share a task."""


def shared(
    fake: FakeCluster, *, loss: bool = True, first: int = 0, retries: int = 4, **given: str
) -> tuple[list[tuple[int, int]], FakeDoor]:
    """Return queue and offset of what a task reads of three queues up to offset 4, and the door."""
    options = directory(columns="queueId,queueOffset", **given)
    door = FakeDoor(fake)
    live = Live(door.connect, retries_max=retries, retry_wait_ms=1, wait=door.wait)
    slices = [QueueSlice(queue, first, 4) for queue in THREE]
    batches = Batches(schema(options), options)
    made = read_slices(live, slices, batches, count_max=3, fail_on_data_loss=loss)
    return [(row["queueId"], row["queueOffset"]) for row in plain_rows(list(made))], door


def three(*counts: int) -> FakeCluster:
    """Return a cluster with three queues of one topic."""
    return FakeCluster(
        {
            queue: [encoded(1, first=number, queue=queue.queue_id) for number in range(count)]
            for queue, count in zip(THREE, counts, strict=True)
        }
    )


@pytest.mark.parametrize("size", [1, 700, 1 << 20])
def test_queues_that_share_a_task(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Each is read in order, exactly its range, over one connection, however answers gather."""
    monkeypatch.setattr(module, "DECODED_BYTES", size)
    fake = three(9, 9, 9)
    expected = [(queue, offset) for queue in range(3) for offset in (2, 3)]
    assert shared(fake, first=2)[0] == expected
    assert "close" not in fake.asked


def test_small_queues_are_decoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done once for all records of a batch is not done for each queue."""
    options = directory(columns="queueOffset")
    fake = three(4, 4, 4)
    door = FakeDoor(fake)
    live = Live(door.connect, retries_max=0, retry_wait_ms=1, wait=door.wait)
    slices = [QueueSlice(queue, 0, 4) for queue in THREE]
    batches = Batches(schema(options), options)
    made = list(read_slices(live, slices, batches, count_max=9, fail_on_data_loss=True))
    assert [len(batch) for batch in made] == [12]
    monkeypatch.setattr(module, "_SLICES_AT_ONCE", 2)
    made = list(read_slices(live, slices, batches, count_max=9, fail_on_data_loss=True))
    assert [len(batch) for batch in made] == [8, 4]


def test_a_broker_that_is_restarted_under_a_shared_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row is lost, none comes twice, in whichever queue it went."""
    monkeypatch.setattr(module, "DECODED_BYTES", 1)
    expected = [(queue, offset) for queue in range(3) for offset in range(4)]
    for good in range(6):
        fake = three(4, 4, 4)
        fake.failures = [*[None] * good, NotConnected("gone"), NoSuchTopic("not yet")]
        assert shared(fake)[0] == expected


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (NoSuchTopic("no topic 'orders'"), 5),
        (BrokerRefused(ResponseCode.TOPIC_NOT_EXIST, "no topic"), 5),
        (BrokerRefused(ResponseCode.INVALID_PARAMETER, "no queue"), 1),
    ],
)
def test_a_queue_that_vanishes_under_a_shared_task(
    monkeypatch: pytest.MonkeyPatch, error: ClientError, tries: int
) -> None:
    """It is an error that names the queue; or the others are read, and patience is had once."""

    def without(lost: set[int]) -> FakeCluster:
        fake = three(4, 4, 4)
        pull = fake.pull

        def pull_or_refuse(queue: MessageQueue, offset: int, *rest: Any, **more: Any) -> Any:
            found = pull(queue, offset, *rest, **more)
            if queue.queue_id in lost and offset:
                raise error
            return found

        monkeypatch.setattr(fake, "pull", pull_or_refuse)
        return fake

    with pytest.raises(DataLost, match=r"queue 1 of topic 'orders' .*: offset 3 is gone, .*no "):
        shared(without({1}))
    rows, door = shared(without({1}), loss=False)
    of = [[(queue, offset) for offset in range(4)] for queue in range(3)]
    assert rows == of[0] + of[1][:3] + of[2]
    assert len(door.waits) == tries - 1
    fake = without({0, 1, 2})
    rows, door = shared(fake, loss=False, first=1)
    assert rows == []
    assert len(door.waits) == tries - 1


def test_messages_that_are_gone_under_a_shared_task() -> None:
    """One queue's loss costs the others nothing; many that are cut short are waited for once."""
    rows, door = shared(three(2, 4, 1), loss=False)
    assert rows == [(0, 0), (0, 1), *((1, offset) for offset in range(4)), (2, 0)]
    assert len(door.waits) == 8
    rows, door = shared(three(0, 0, 0), loss=False)
    assert (rows, len(door.waits)) == ([], 4)
    fake = three(4, 4, 4)
    fake.lowest[THREE[1]] = 2
    fake.records[THREE[1]] = fake.records[THREE[1]][2:]
    rows, door = shared(fake, loss=False)
    assert [row for row in rows if row[0] == 1] == [(1, 2), (1, 3)]
    assert (len(rows), door.waits) == (10, [])
    with pytest.raises(DataLost, match=r"queue 1 of .*: offset 0 is gone, the oldest kept is 2"):
        shared(fake)


def test_rubbish_in_one_queue_of_a_shared_task() -> None:
    """The error names the queue, or the other queues are whole."""
    fake = three(4, 4, 4)
    fake.records[THREE[1]][0] = b"rubbish in place of a record"
    with pytest.raises(CorruptRecord, match="queue 1 of topic 'orders' on 'broker-a': byte 0"):
        shared(fake)
    rows, _ = shared(fake, mode="DROPMALFORMED")
    assert [row for row in rows if row[0] != 1] == [(q, n) for q in (0, 2) for n in range(4)]


def test_rubbish_in_an_answer() -> None:
    """It fails the query, or costs the rest of that answer only."""
    fake = cluster(6)
    fake.records[QUEUE][1] = b"rubbish in place of a record"
    with pytest.raises(CorruptRecord, match="queue 0 of topic 'orders'"):
        read(fake, 0, 6)
    assert read(fake, 0, 6, mode="DROPMALFORMED")[0] == [0, 3, 4, 5]
    assert read(fake, 0, 6, mode="PERMISSIVE")[0] == [0, None, 3, 4, 5]


ONCE = {"subscribe": "orders", "fetchOffset.numRetries": "0", "pullTimeoutMs": "500"}
"""Options of a stream that asks once."""


def test_nobody_there_is_said_at_once() -> None:
    """A question where nobody listens fails with a client's error, so that it can be put again."""
    live = open_live(read_live(ONCE | {"nameServer": "127.0.0.1:1"}))
    with pytest.raises(ClientError):
        live.ask(lambda cluster: cluster.queues("orders"))


def test_an_address_that_cannot_be_read() -> None:
    """It is an error of the settings, which no waiting mends."""
    live = open_live(read_live(ONCE | {"nameServer": "nowhere", "fetchOffset.numRetries": "9"}))
    with pytest.raises(SettingsError):
        live.ask(lambda cluster: cluster.queues("orders"))


def test_wait_comes_back() -> None:
    """Waiting blocks and ends."""
    module.wait(0.001)


@pytest.mark.slow
def test_a_stream_speaks_tls(tmp_path: Path) -> None:
    """By the options alone, which are what workers get; without them the error names TLS."""
    made = certificates.make(tmp_path)
    tls = TlsSettings(mode="enforcing", cert_path=made.cert, key_path=made.key)
    with LocalBroker(settings=replace(small_settings(), tls=tls)) as broker:
        settings = ClientSettings(tls=tls_context())
        with blocking.Admin(broker.nameserver, client=settings) as admin:
            admin.create_topic("orders", queues=2)
        given = ONCE | {"nameServer": broker.nameserver}
        for more in ({"tls": "true"}, {"tlsTrustPath": made.cert}):
            live = open_live(read_live(given | more))
            assert len(live.ask(lambda cluster: cluster.queues("orders"))) == 2
            live.close()
        plain = open_live(read_live(given))
        with pytest.raises(ClientError, match="if it wants TLS"):
            plain.ask(lambda cluster: cluster.queues("orders"))
        plain.close()
        with pytest.raises(SettingsError, match=r"none\.crt cannot be used"):
            open_live(read_live({**given, "tlsTrustPath": "/none.crt"}))
