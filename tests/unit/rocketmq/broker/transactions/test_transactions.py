"""A committed message comes once, one that was rolled back never, and nobody waits for ever."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.half_messages import GROUP, Transacting

from sprocket.base.errors import DiskFailed
from sprocket.rocketmq.broker.transactions.half_records import read_op
from sprocket.rocketmq.broker.transactions.recovery import recover
from sprocket.rocketmq.codec.record import properties, record
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.internal import CHECKED_TOO_OFTEN_TOPIC, HALF_TOPIC, OP_TOPIC
from sprocket.rocketmq.model.offsets import PhysicalOffset
from sprocket.rocketmq.model.transaction import Outcome
from sprocket.rocketmq.settings import TransactionSettings
from sprocket.rocketmq.store.store import Store


def sent(*bodies: bytes, **found: str) -> Transacting:
    """Return a process to which half messages were sent."""
    process = Transacting()
    process.produce()
    process.send(*bodies, **found)
    process.timers.drain()
    return process


def test_what_is_committed_is_seen() -> None:
    """As it was sent, where it was sent; its copy names its half; one op message names both."""
    process = sent(b"a", b"b", b"c", TAGS="t")
    assert process.visible() == Counter()
    process.end(*process.acked[b"a"])
    process.end(*process.acked[b"b"], Outcome.ROLLBACK)
    process.timers.drain()
    (message,) = process.messages()
    half = process.messages(HALF_TOPIC, 0)[0]
    for one in (message, half):
        one.properties.pop(properties.CRC32)
    assert message.properties == half.properties
    assert message.stored_body == b"a"
    assert (message.sys_flag & 0xC, half.sys_flag & 0xC) == (8, 0)
    assert message.prepared_transaction_offset == half.physical_offset
    assert message.born_at_ms == half.born_at_ms == 1
    (op,) = process.messages(OP_TOPIC, 0)
    assert (op.stored_body, op.tags) == (b"0,1,", "d")


@pytest.mark.parametrize("first", Outcome)
@pytest.mark.parametrize("then", Outcome)
@pytest.mark.parametrize("in_one_turn", [True, False])
def test_a_transaction_ends_once(first: Outcome, then: Outcome, in_one_turn: bool) -> None:
    """The first word counts, and whoever says another one is told."""
    process = sent(b"a")
    told = [process.end(*process.acked[b"a"], first)]
    if not in_one_turn:
        process.timers.drain()
    told.append(process.end(*process.acked[b"a"], then))
    process.timers.drain()
    assert told[0] == [None]
    (refused,) = told[1]
    assert isinstance(refused, Refused)
    assert "has ended already" in refused.remark
    assert process.visible() == Counter([b"a"] if first is Outcome.COMMIT else [])
    assert len(process.messages(OP_TOPIC, 0)) == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"place": 1}, "Find prepared transaction message failed"),
        ({"offset": 7}, "state table offset wrong: 7, stored is 0"),
        ({"group": "others"}, "producer group wrong: 'others', stored is 'producers'"),
    ],
)
def test_whose_half_it_is(change: dict[str, object], told: str) -> None:
    """Nobody ends a transaction of which they do not know group and place."""
    process = sent(b"a")
    place, offset = process.acked[b"a"]
    asked = {"place": place, "offset": offset, "group": GROUP, **change}
    with pytest.raises(Refused, match=told):
        process.end(**asked)  # type: ignore[arg-type]


def test_a_message_that_is_no_half() -> None:
    """Another message is not ended, whatever it says."""
    process = sent(b"a")
    process.commit(b"a")
    (message,) = process.messages()
    with pytest.raises(Refused, match="topic wrong"):
        process.end(message.physical_offset, message.queue_offset)


def test_who_is_asked() -> None:
    """Those of whom nobody has said anything, once they are old enough, and again each round."""
    process = sent(b"a", b"b")
    process.commit(b"b")
    process.timers.advance(25_000)
    process.send(b"young")
    process.round()
    process.send(b"younger")
    process.timers.drain()
    process.checks.begin()
    process.timers.drain()
    assert [one.message.body for one in process.questions] == [b"a", b"young"]
    assert [one.half_offset for one in process.questions] == [3, 4]
    for number in range(2, 5):
        process.questions.clear()
        process.round()
        asked = {
            one.message.body: properties.decode(one.message.properties) for one in process.questions
        }
        assert set(asked) == {b"a", b"young", b"younger"}
        assert asked[b"a"]["TRANSACTION_CHECK_TIMES"] == str(number)
        assert asked[b"younger"]["TRANSACTION_CHECK_TIMES"] == str(number - 1)
    process.answer({b"a": Outcome.COMMIT, b"young": Outcome.ROLLBACK}.get)
    process.round()
    assert process.visible() == Counter([b"b", b"a"])
    assert [one.message.body for one in process.questions] == [b"younger"]


def test_a_late_word_about_the_first_half_counts() -> None:
    """A producer names the half that it knows, though that was stored again meanwhile."""
    process = sent(b"a")
    process.round()
    process.round()
    process.commit(b"a")
    process.answer(lambda _: Outcome.COMMIT)
    process.round()
    process.round()
    (copy,) = process.messages()
    assert (copy.stored_body, copy.properties["TRAN_PREPARED_QUEUE_OFFSET"]) == (b"a", "0")
    assert process.questions == []


@pytest.mark.parametrize("found", [{}, {"DELAY": "2"}])
def test_a_half_that_was_sent_twice_is_committed_once(found: dict[str, str]) -> None:
    """Its producer knows one of the two; nobody is asked about the other, which has ended."""
    process = sent(b"a", b"b", **found)
    process.send(b"a", **found)
    process.timers.drain()
    process.commit(b"a")
    process.timers.advance(1000)
    for _ in range(2):
        process.round()
        assert {one.message.body for one in process.questions} == {b"b"}
        process.questions.clear()
    assert 2 in process.transactions.ended
    where = ("SCHEDULE_TOPIC_XXXX", 1) if found else ("T", 1)
    assert [one.stored_body for one in process.messages(*where)] == [b"a"]


def test_a_second_process_knows_what_has_ended() -> None:
    """By the op messages, and late words about halves from before it are understood."""
    process = sent(b"a", b"b", b"c")
    process.round()
    process.commit(b"a")
    acked = process.acked
    again = Transacting(process.stop(), clock=process.clock)
    again.acked = acked
    again.produce()
    for body in (b"a", b"b"):
        again.end(*acked[body])
    again.timers.drain()
    again.round()
    again.answer(lambda _: Outcome.COMMIT)
    assert again.visible() == Counter([b"a", b"b", b"c"])
    again.round()
    assert again.questions == []
    # What has ended stays so when progress has passed it.
    third = Transacting(again.stop(), clock=process.clock)
    assert third.offsets.get("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0) == 7
    assert third.transactions.ended.floor == 7
    told = third.end(*acked[b"a"])
    third.timers.drain()
    assert isinstance(told[0], Refused)


def test_a_start_looks_at_the_end_of_the_log_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows a half that has not ended can only be where no op message was synced."""
    process = sent(*[b"%d" % number for number in range(20)])
    process.commit(b"0")
    (op,) = [read_op(message) for message in process.messages(OP_TOPIC, 0)]
    starts: list[object] = []
    batches = Store.record_batches

    def watched(store: Store, start: PhysicalOffset) -> Iterator[Any]:
        starts.append(start)
        return batches(store, start)

    monkeypatch.setattr(Store, "record_batches", watched)
    again = Transacting(process.stop(), clock=process.clock)
    assert starts == [op.synced]
    assert again.transactions.ended.gaps(20) == [(1, 20)]


def test_nobody_is_asked_before_the_message_allows_it() -> None:
    """It counts from its storing; it holds nobody else up, and ends as others do."""
    process = sent(b"slow", CHECK_IMMUNITY_TIME_IN_SECONDS="95")
    process.send(b"a")
    for _ in range(3):
        process.round()
        assert [one.message.body for one in process.questions] == [b"a"]
        process.questions.clear()
    process.round()
    assert {one.message.body for one in process.questions} == {b"slow", b"a"}
    place, offset = process.acked[b"slow"]
    with pytest.raises(Refused) as caught:
        process.end(place, offset)
    assert caught.value.why is Refusal.TOO_LATE
    process.answer(lambda _: Outcome.COMMIT)
    assert process.visible() == Counter([b"slow", b"a"])


def test_what_nobody_knows_is_given_up() -> None:
    """After some questions; it is kept where somebody may look, and can be asked about again."""
    settings = TransactionSettings(check_count_max=3)
    process = Transacting(settings=settings)
    process.send(b"a")
    for _ in range(5):
        process.round()
    assert process.visible() == Counter()
    (lost,) = process.messages(CHECKED_TOO_OFTEN_TOPIC, 0)
    assert lost.stored_body == b"a"
    process.produce()
    process.round()
    assert process.questions == []
    process.durable.append(
        [process.transactions.resume(lost.offset_message_id)], lambda *_: None, [None]
    )
    process.timers.drain()
    process.round()
    process.answer(lambda _: Outcome.COMMIT)
    assert process.visible() == Counter([b"a"])
    with pytest.raises(Refused, match="that was given up"):
        process.transactions.resume(process.messages()[0].offset_message_id)


def test_producers_take_turns() -> None:
    """Each is asked its share."""
    asked: Counter[object] = Counter()
    process = Transacting(ask=lambda link, _: asked.update([link]))
    process.produce(3)
    process.send(*(b"%d" % number for number in range(300)))
    process.round()
    assert asked == Counter(dict.fromkeys(("link 0", "link 1", "link 2"), 100))


def test_a_write_that_fails_ends_nothing() -> None:
    """Who said how it ended is told, and may say it again; so is a round taken up again."""
    process = sent(b"a", b"b")
    process.disk.fail("write", 1)
    told = process.end(*process.acked[b"a"])
    process.timers.drain()
    assert isinstance(told[0], DiskFailed)
    process.timers.advance(25_000)
    process.disk.fail("write", 1)
    process.checks.begin()
    process.timers.drain()
    assert process.questions == []
    process.commit(b"a")
    process.round()
    process.answer(lambda _: Outcome.COMMIT)
    assert process.visible() == Counter([b"a", b"b"])


def test_one_that_has_no_room_for_more() -> None:
    """It is asked about all the same, and holds nobody up."""
    process = sent(b"a", much="x" * 32_600)
    process.send(b"b")
    process.round()
    process.round()
    assert [one.message.body for one in process.questions].count(b"a") == 2
    assert [one.half_offset for one in process.questions if one.message.body == b"a"] == [0, 0]
    process.answer(lambda _: Outcome.COMMIT)
    assert process.visible() == Counter([b"a", b"b"])


def test_a_round_costs_what_is_due() -> None:
    """Thousands that are immune, or have ended, are not read again."""
    process = Transacting(segment_bytes=1 << 22)
    process.send(*(b"%d" % n for n in range(2000)), CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    process.round()
    reads = 0
    half_at = process.transactions.half_at

    def counted(offset: int) -> object:
        nonlocal reads
        reads += 1
        return half_at(offset)

    process.transactions.half_at = counted  # type: ignore[method-assign,assignment]
    for _ in range(5):
        process.round()
    assert reads == 0


def test_a_commit_waits_for_its_delay_level() -> None:
    """Delayed from the commit on; it says where it is to go then."""
    process = sent(b"a", DELAY="2")
    process.commit(b"a")
    (waiting,) = process.messages("SCHEDULE_TOPIC_XXXX", 1)
    assert waiting.properties["REAL_TOPIC"] == "T"
    assert waiting.prepared_transaction_offset == process.acked[b"a"][0]


def test_damage_is_passed_over() -> None:
    """A half that cannot be read is named in the log, and the others are asked about."""
    process = sent(b"a", b"b")
    place, _ = process.acked[b"a"]
    file = process.disk.open("/s/commitlog/" + "0" * 20, write=True)
    file.write([b"\xff"], place + 4)
    file.close()
    process.round()
    assert [one.message.body for one in process.questions] == [b"b"]
    assert record.decode(process.store.record_at(process.acked[b"b"][0])).stored_body == b"b"


def test_offsets_of_lost_halves_are_filled_up() -> None:
    """An op message that outlived halves which it names must not end those that come after them."""
    process = sent(b"a")
    op = process.records.op([0, 3], followed=0, synced=0)
    process.durable.append([op], lambda *_: None, [None])
    process.timers.drain()
    again = Transacting(process.disk.kill(), clock=process.clock)
    again.produce()
    again.send(b"b")
    again.timers.drain()
    assert again.acked[b"b"][1] == 4
    again.round()
    assert [one.message.body for one in again.questions] == [b"b"]


def test_a_slave_mends_nothing() -> None:
    """Its log may end between a copy and its op message; the master has what follows."""
    process = sent(b"a")
    op = process.records.op([0, 3], followed=0, synced=0)
    process.durable.append([op], lambda *_: None, [None])
    process.timers.drain()
    process.store.follow("a slave")
    end = process.store.end
    assert recover(process.store, process.offsets, process.records).last == {}
    assert process.store.end == end
