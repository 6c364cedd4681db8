"""A channel: tags, prefetch, acknowledgements, confirms, transactions, replies, its end."""

from collections.abc import Sequence

import pytest
from tests.rabbit_channels import Pier, Told, ack_all, leave, put, reject_all
from tests.rabbit_queues import TINY, SlowStorage, message

from sprocket.base.errors import DiskFailed, StoreFailed
from sprocket.rabbitmq.broker.channels import (
    DELIVER_MAX,
    REPLY_TO,
    BrokerChannel,
    Got,
    Publication,
)
from sprocket.rabbitmq.broker.channels.unacked import Held, UnackedDeliveries
from sprocket.rabbitmq.broker.queues import BrokerQueue
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.model.queue_options import Overflow, QueueOptions
from sprocket.runtime.turns import SHARE_WORK, SMALL_WORK


def publish(channel: BrokerChannel, pier: Pier, *bodies: int | str, to: str = "q") -> None:
    """Publish messages to queues, `to` being their names."""
    queues = [pier.queues[name] for name in to.split()]
    for body in bodies:
        put(channel, [Publication([message(body)], queues=queues)])


def test_tags_rise_and_are_used_up_by_all_deliveries() -> None:
    """By consumers that acknowledge, by those that do not, and by gets."""
    pier = Pier()
    one, two = pier.queue("one"), pier.queue("two")
    channel, client = pier.channel()
    publish(channel, pier, 1, 2, to="one two")
    channel.consume(one, "a")
    channel.consume(two, "b", no_ack=True)
    pier.settle()
    assert client.said() == ["a 1 1", "a 2 2", "b 3 1", "b 4 2"]
    channel.cancel("b")
    got: list[Got | None] = []
    publish(channel, pier, 3, 4, to="two")
    channel.get(two, got.append, no_ack=False)
    assert got[0] is not None
    assert (got[0].tag, got[0].entry.message.body, got[0].left_count) == (5, b"3", 1)
    channel.get(two, got.append, no_ack=True)
    channel.get(two, got.append, no_ack=True)
    assert got[1] is not None
    assert (got[1].tag, got[2]) == (6, None)
    for tag in (3, 6):
        with pytest.raises(RequestRefused, match=rf"^unknown delivery tag {tag} \(code 406\)$"):
            channel.ack([tag])


def test_acknowledgements_are_about_what_the_client_has() -> None:
    """One, all up to one, all; a tag that it does not have is refused, and nothing is done."""
    pier = Pier()
    queue = pier.queue()
    channel, client = pier.channel()
    ack_all(channel, 0)
    channel.consume(queue, "a")
    publish(channel, pier, *range(10))
    pier.settle()
    channel.ack([3])
    for tag in (3, 0):
        with pytest.raises(RequestRefused, match=rf"^unknown delivery tag {tag} \(code 406\)$"):
            channel.ack([tag])
    for tag in (3, 11):
        with pytest.raises(RequestRefused, match=rf"^unknown delivery tag {tag} \(code 406\)$"):
            ack_all(channel, tag)
    assert (channel.unacked_count, queue.unacked_count) == (9, 9)
    ack_all(channel, 5)
    assert (channel.unacked_count, queue.unacked_count) == (5, 5)
    reject_all(channel, 7, is_requeue=True)
    client.said()
    pier.settle()
    assert client.said() == ["a 11 5 again", "a 12 6 again"]
    channel.reject(8, is_requeue=False)
    ack_all(channel, 0)
    assert (channel.unacked_count, queue.unacked_count, queue.ready_count) == (0, 0, 0)


def test_an_acknowledgement_costs_what_it_is_about() -> None:
    """Not the deliveries before: an old message is held while very many are settled."""
    pier = Pier()
    queue = pier.queue()
    channel, client = pier.channel()
    channel.consume(queue, "a")
    publish(channel, pier, "old")
    pier.settle()
    for number in range(300):
        publish(channel, pier, number)
        pier.settle()
        channel.ack([client.tags[-1]])
    publish(channel, pier, "new")
    pier.settle()
    ack_all(channel, client.tags[-1])
    assert channel.unacked_count == 0
    pier.settle()
    assert queue.unacked_count == 0


def test_a_consumer_keeps_the_limit_with_which_it_began() -> None:
    """A limit of the channel counts for all of them at once; the other kind removes it."""
    pier = Pier()
    queue = pier.queue()
    channel, client = pier.channel()
    channel.qos(2, is_global=False)
    channel.consume(queue, "a")
    channel.qos(1, is_global=False)
    channel.consume(queue, "b")
    publish(channel, pier, *range(9))
    pier.settle()
    assert client.said() == ["a 1 0", "b 2 1", "a 3 2"]
    channel.qos(4, is_global=True)
    channel.cancel("b")
    channel.qos(0, is_global=False)
    channel.consume(queue, "c")
    pier.settle()
    assert len(client.said()) == 6
    assert channel.unacked_count == 9


def test_a_limit_of_the_channel_is_for_all_its_consumers() -> None:
    """Gets are not limited; room goes to any queue."""
    pier = Pier()
    one, two = pier.queue("one"), pier.queue("two")
    channel, client = pier.channel()
    channel.qos(2, is_global=True)
    channel.consume(one, "a")
    channel.consume(two, "b")
    publish(channel, pier, 1, 2, 3, to="one")
    pier.settle()
    publish(channel, pier, 4, to="two")
    pier.settle()
    assert client.said() == ["a 1 1", "a 2 2"]
    got: list[Got | None] = []
    channel.get(one, got.append, no_ack=False)
    assert got[0] is not None
    pier.settle()
    ack_all(channel, 1)
    pier.settle()
    assert client.said() == ["b 4 4"]
    channel.ack([3])
    pier.settle()
    assert client.said() == []
    channel.qos(0, is_global=True)
    publish(channel, pier, 5, to="one two")
    pier.settle()
    assert client.said() == ["a 5 5", "b 6 5"]


def test_a_channel_with_a_limit_serves_its_queues_by_turns() -> None:
    """Each acknowledgement makes room for the queue that has waited longest, not for its own."""
    pier = Pier()
    channel, client = pier.channel()
    channel.qos(1, is_global=True)
    for name in ("a", "b", "c"):
        channel.consume(pier.queue(name), name)
    publish(channel, pier, 1, 2, 3, to="a b c")
    pier.settle()
    for tag in range(1, 9):
        channel.ack([tag])
        pier.settle()
    assert [told[0] for told in client.said()] == list("abcabcabc")


def test_a_channel_with_a_limit_serves_the_consumers_of_a_queue_by_turns() -> None:
    """So none of them starves."""
    pier = Pier()
    queue = pier.queue()
    channel, client = pier.channel()
    channel.qos(1, is_global=True)
    channel.consume(queue, "a")
    channel.consume(queue, "b")
    publish(channel, pier, 1, 2, 3, 4)
    pier.settle()
    for tag in range(1, 4):
        channel.ack([tag])
        pier.settle()
    assert client.said() == ["a 1 1", "b 2 2", "a 3 3", "b 4 4"]


def test_messages_go_to_who_consumed_when_they_came() -> None:
    """Neither one who comes in the same turn gets them, nor is one passed over who goes in it."""
    pier = Pier()
    queue = pier.queue()
    channel, client = pier.channel()
    channel.consume(queue, "low", priority=1)
    pier.settle()
    publish(channel, pier, 1)
    channel.consume(queue, "high", priority=2)
    publish(channel, pier, 2)
    channel.cancel("high")
    publish(channel, pier, 3)
    got: list[Got | None] = []
    channel.get(queue, got.append, no_ack=True)
    pier.settle()
    assert client.said() == ["low 1 1", "high 2 2", "low 3 3"]
    assert got == [None]


def test_a_full_channel_delivers_nothing_to_who_does_not_acknowledge_either() -> None:
    """Such deliveries do not count, but wait until there is room again."""
    pier = Pier()
    one, two = pier.queue("one"), pier.queue("two")
    channel, client = pier.channel()
    channel.qos(1, is_global=True)
    channel.consume(one, "a")
    channel.consume(two, "b", no_ack=True)
    publish(channel, pier, 1, to="one")
    publish(channel, pier, 2, 3, to="two")
    pier.settle()
    assert client.said() == ["a 1 1"]
    channel.ack([1])
    pier.settle()
    assert client.said() == ["b 2 2", "b 3 3"]


def test_what_was_got_does_not_count_for_a_limit() -> None:
    """Neither when it is got nor when it is acknowledged."""
    pier = Pier()
    queue = pier.queue()
    channel, client = pier.channel()
    publish(channel, pier, 0)
    channel.get(queue, lambda _: None, no_ack=False)
    channel.qos(1, is_global=True)
    channel.ack([1])
    channel.consume(queue, "a")
    publish(channel, pier, 1, 2)
    pier.settle()
    assert client.said() == ["a 2 1"]


def test_a_slow_client_is_given_a_limited_part() -> None:
    """Nothing while it is not ready, and the rest when it is."""
    pier = Pier()
    queue = pier.queue()
    channel, client = pier.channel()
    other, ready = pier.channel()
    client.is_ready = False
    channel.consume(queue, "slow")
    publish(channel, pier, 1)
    pier.settle()
    assert client.said() == []
    other.consume(queue, "quick")
    pier.settle()
    assert ready.said() == ["quick 1 1"]
    other.cancel("quick")
    publish(channel, pier, *range(DELIVER_MAX + 1))
    pier.settle()
    client.be_ready()
    pier.settle()
    assert len(client.said()) == DELIVER_MAX + 1


def test_confirms_are_put_together() -> None:
    """One answer for a turn whose messages are all durable; refusals stand alone, and first."""
    pier = Pier()
    pier.queue()
    pier.queue("full", QueueOptions(max_length=0, overflow=Overflow.REJECT_PUBLISH))
    channel, client = pier.channel()
    publish(channel, pier, 0)
    channel.confirm_select()
    channel.confirm_select()
    publish(channel, pier, 1, 2, 3)
    assert client.said() == []
    pier.settle()
    assert client.said() == ["ack up to 3"]
    publish(channel, pier, 4, to="q full")
    publish(channel, pier, 5)
    publish(channel, pier, 6, to="full")
    pier.settle()
    assert client.said() == ["nack 4", "nack 6", "ack 5"]


def test_a_confirm_waits_for_what_it_is_about() -> None:
    """A persistent message in a durable queue until that is written; nothing else waits for it."""
    pier = Pier()
    pier.commits.is_holding = True
    pier.queue("durable", storages=[SlowStorage()])
    pier.queue("transient")
    channel, client = pier.channel()
    channel.confirm_select()
    publish(channel, pier, 1, 2, to="durable transient")
    publish(channel, pier, 3, to="transient")
    durable = [pier.queues["durable"]]
    put(channel, [Publication([message(4, is_persistent=False)], queues=durable)])
    put(channel, [Publication([message(5)], queues=[])])
    pier.settle()
    assert client.said() == ["ack 3", "ack 4", "ack 5"]
    publish(channel, pier, 6, to="durable")
    pier.settle()
    pier.commits.commit()
    assert client.said() == ["ack up to 2", "ack 6"]
    publish(channel, pier, 7, 8, to="durable")
    pier.settle()
    pier.commits.commit(StoreFailed("a sync failed"))
    assert client.said() == ["nack 7", "nack 8"]


def test_a_confirm_waits_for_transient_messages_that_are_kept() -> None:
    """A queue may keep what was not published as persistent."""
    pier = Pier()
    pier.queue(options=QueueOptions(keeps_transient=True), storages=[SlowStorage()])
    pier.commits.is_holding = True
    channel, client = pier.channel()
    channel.confirm_select()
    kept = [pier.queues["q"]]
    put(channel, [Publication([message(1, is_persistent=False)], queues=kept)])
    pier.settle()
    assert client.said() == []
    pier.commits.commit()
    assert client.said() == ["ack 1"]


def test_an_answer_is_not_about_what_is_not_stored_yet() -> None:
    """A sync that ends in the middle of a turn says nothing of that turn's messages."""
    pier = Pier()
    pier.commits.is_holding = True
    pier.queue("durable", storages=[SlowStorage()])
    pier.queue("transient")
    channel, client = pier.channel()
    channel.confirm_select()
    publish(channel, pier, 1, 2, to="durable")
    pier.settle()
    publish(channel, pier, 3, to="durable")
    publish(channel, pier, 4, to="transient")
    pier.commits.commit()
    assert client.said() == ["ack up to 2", "ack 4"]
    pier.settle()
    pier.commits.commit()
    assert client.said() == ["ack 3"]


def test_a_message_that_cannot_be_stored_is_refused() -> None:
    """With a confirm; who wants none is told by the end of the channel."""
    pier = Pier()
    storage = SlowStorage()
    storage.is_full = True
    pier.queue(storages=[storage])
    channel, client = pier.channel()
    with pytest.raises(RequestRefused, match=r"\(code 541\)$"):
        publish(channel, pier, 1)
    channel.confirm_select()
    publish(channel, pier, 1)
    pier.settle()
    assert client.said() == ["nack 1"]
    assert pier.queues["q"].ready_count == 0


@pytest.mark.parametrize("is_persistent", [False, True])
def test_a_confirm_stands_for_nothing_that_is_in_no_queue_yet(*, is_persistent: bool) -> None:
    """However messages for several queues alternate of which some are put in a later turn."""
    pier = Pier()
    queues = [pier.queue(name, storages=[SlowStorage()]) for name in ("one", "two")]
    channel, client = pier.channel()
    channel.confirm_select()
    count = 2 * SHARE_WORK + 2
    sent = [message(number, is_persistent=is_persistent) for number in range(count)]
    alike = [
        Publication(sent[at::2], range(at, count, 2), [queue]) for at, queue in enumerate(queues)
    ]
    confirmed: set[int] = set()
    for _ in channel.publish_in_turns(alike):
        pier.settle()
        confirmed |= answered(client, confirmed)
        put_in_both = 2 * queues[1].ready_count
        assert confirmed == {
            *range(1, put_in_both + 1),
            *range(put_in_both + 1, 2 * queues[0].ready_count, 2),
        }
    pier.settle()
    assert confirmed | answered(client, confirmed) == set(range(1, count + 1))


def answered(client: Told, before: set[int]) -> set[int]:
    """Return what a client was told of since this was asked; nothing may be told twice."""
    found: set[int] = set()
    for line in client.said():
        word, *_, number = line.split()
        assert word == "ack"
        up_to = int(number)
        assert up_to not in before | found
        first = 1 if "up to" in line else up_to
        found |= set(range(first, up_to + 1)) - before
    return found


def test_what_no_queue_gets_is_returned_before_its_confirm() -> None:
    """If it is mandatory."""
    pier = Pier()
    channel, client = pier.channel()
    channel.confirm_select()
    put(channel, [Publication([message(1)], queues=[], is_mandatory=True)])
    put(channel, [Publication([message(2)], queues=[])])
    pier.settle()
    assert client.said() == ["returned 1", "ack up to 2"]


def test_a_transaction_is_not_seen_before_its_commit() -> None:
    """What is published and acknowledged happens then, and is said when it is durable."""
    pier = Pier()
    pier.commits.is_holding = True
    queue = pier.queue(storages=[SlowStorage()])
    channel, client = pier.channel()
    publish(channel, pier, 1, 2)
    channel.tx_select()
    channel.tx_select()
    channel.consume(queue, "a")
    pier.settle()
    channel.ack([1])
    publish(channel, pier, 3)
    put(channel, [Publication([message(4)], queues=[], is_mandatory=True)])
    pier.settle()
    assert client.said() == ["a 1 1", "a 2 2"]
    assert queue.unacked_count == 2
    done: list[str] = []
    channel.tx_commit(lambda: done.append("done"))
    assert client.said() == ["returned 4"]
    assert done == []
    pier.commits.commit()
    assert done == []
    pier.settle()
    assert (client.said(), queue.unacked_count) == (["a 3 3"], 3)
    pier.commits.commit()  # of what was published; only then something is acknowledged
    assert (done, queue.unacked_count) == ([], 2)
    pier.settle()
    pier.commits.commit()
    assert done == ["done"]
    assert queue.unacked_count == 2


def test_a_commit_waits_for_what_storages_have_been_given() -> None:
    """What was acknowledged in it is forgotten there before anybody writes for it."""
    pier = Pier()
    storage = SlowStorage()
    queue = pier.queue(storages=[storage])
    channel, _ = pier.channel()
    publish(channel, pier, 1)
    channel.tx_select()
    channel.consume(queue, "a")
    pier.settle()
    channel.ack([1])
    counts: list[int] = []
    pier.commits.watch = lambda: counts.append(storage.unacked_count())
    channel.tx_commit(lambda: None)
    pier.settle()
    assert counts == [0]


def test_a_rollback_leaves_what_the_client_had() -> None:
    """Under the tags of before, and in their order; nothing was published."""
    pier = Pier()
    queue = pier.queue()
    channel, client = pier.channel()
    publish(channel, pier, *range(4))
    channel.tx_select()
    channel.consume(queue, "a")
    pier.settle()
    channel.ack([3])
    channel.reject(2, is_requeue=True)
    with pytest.raises(RequestRefused, match="unknown delivery tag 3"):
        channel.ack([3])
    publish(channel, pier, "never")
    channel.tx_rollback()
    pier.settle()
    assert len(client.said()) == 4
    reject_all(channel, 3, is_requeue=True)
    done: list[int] = []
    channel.tx_commit(lambda: done.append(1))
    pier.settle()
    assert client.said() == ["a 5 0 again", "a 6 1 again", "a 7 2 again"]
    assert (done, queue.ready_count) == ([1], 0)


def test_a_rollback_puts_back_once_what_was_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often something was: each time all that the client has is put in order."""
    pier = Pier()
    queue = pier.queue()
    channel, client = pier.channel()
    channel.consume(queue, "a")
    publish(channel, pier, *range(9))
    pier.settle()
    channel.tx_select()
    channel.ack(client.tags[:3])
    reject_all(channel, client.tags[7], is_requeue=True)
    counts: list[int] = []
    put_back = UnackedDeliveries.put_back

    def watched(self: UnackedDeliveries, taken: Sequence[Held]) -> None:
        counts.append(len(taken))
        put_back(self, taken)

    monkeypatch.setattr(UnackedDeliveries, "put_back", watched)
    channel.tx_rollback()
    assert (counts, channel.unacked_count) == ([8], 9)


def test_what_a_rollback_gave_back_is_in_order() -> None:
    """Dead letters are made in the order of the tags."""
    pier = Pier()
    dead = pier.queue("dead")
    options = QueueOptions(dead_letter_exchange="", dead_letter_routing_key="dead")
    queue = pier.queue(options=options)
    channel, _ = pier.channel()
    publish(channel, pier, *range(4))
    channel.tx_select()
    channel.consume(queue, "a")
    pier.settle()
    for tag in (3, 1):
        channel.ack([tag])
    channel.tx_rollback()
    reject_all(channel, 0, is_requeue=False)
    channel.tx_commit(lambda: None)
    pier.settle()
    assert pier.drain(dead) == ["0", "1", "2", "3"]


def test_a_commit_that_fails_in_a_later_turn_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for it would wait for ever."""
    pier = Pier()
    pier.queue()
    channel, client = pier.channel()
    channel.tx_select()
    count = SHARE_WORK + 2
    sent = [message(number) for number in range(count)]
    put(channel, [Publication(sent, range(count), [pier.queues["q"]])])
    channel.tx_commit(lambda: client.log.append("committed"))
    assert client.said() == []

    def fail(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(BrokerQueue, "publish_all", fail)
    pier.timers.drain()
    assert client.said() == ["INTERNAL_ERROR"]


def test_a_message_whose_queue_went_before_the_commit_is_returned() -> None:
    """It is as if no queue had been bound; one that another queue gets is not returned."""
    pier = Pier()
    gone, left = pier.queue("gone"), pier.queue("left")
    channel, client = pier.channel()
    channel.tx_select()
    put(channel, [Publication([message("1")], queues=[gone], is_mandatory=True)])
    put(channel, [Publication([message("2")], queues=[gone, left], is_mandatory=True)])
    gone.delete()
    done: list[int] = []
    channel.tx_commit(lambda: done.append(1))
    pier.settle()
    assert (done, client.said(), left.ready_count) == ([1], ["returned 1"], 1)
    assert channel.published_counts.returned == 1


def test_a_queue_that_refuses_makes_a_commit_partial() -> None:
    """The rest has happened; the client is told."""
    pier = Pier()
    queue = pier.queue()
    pier.queue("full", QueueOptions(max_length=0, overflow=Overflow.REJECT_PUBLISH))
    channel, client = pier.channel()
    channel.tx_select()
    publish(channel, pier, 1, to="full")
    publish(channel, pier, 2)
    done: list[int] = []
    channel.tx_commit(lambda: done.append(1))
    pier.settle()
    assert (done, client.said()) == ([], ["PRECONDITION_FAILED - partial tx completion"])
    assert queue.ready_count == 1
    pier.commits.is_holding = True
    channel.tx_commit(lambda: done.append(1))
    pier.settle()
    pier.commits.commit(StoreFailed("a sync failed"))
    assert (done, client.said()) == ([], ["INTERNAL_ERROR"])


def test_modes_exclude_each_other() -> None:
    """And a channel without a transaction has nothing to commit."""
    pier = Pier()
    channel, _ = pier.channel()
    with pytest.raises(RequestRefused, match=r"^channel is not transactional \(code 406\)$"):
        channel.tx_rollback()
    with pytest.raises(RequestRefused, match=r"^channel is not transactional \(code 406\)$"):
        channel.tx_commit(lambda: None)
    channel.confirm_select()
    with pytest.raises(RequestRefused, match="cannot switch from confirm to tx mode"):
        channel.tx_select()
    other, _ = pier.channel()
    other.tx_select()
    with pytest.raises(RequestRefused, match="cannot switch from tx to confirm mode"):
        other.confirm_select()


def test_the_end_of_a_channel_gives_back_what_it_has() -> None:
    """In order, to others first; a transaction is rolled back; it is told nothing more."""
    pier = Pier()
    pier.commits.is_holding = True
    queue = pier.queue(storages=[SlowStorage()])
    channel, client = pier.channel()
    other, neighbour = pier.channel()
    publish(other, pier, *range(4))
    channel.tx_select()
    channel.consume(queue, "a")
    pier.settle()
    channel.ack([2])
    publish(channel, pier, "never")
    other.consume(queue, "b")
    client.said()
    leave(channel)
    leave(channel)
    pier.settle()
    assert neighbour.said() == [f"b {body + 1} {body} again" for body in range(4)]
    confirming, silent = pier.channel()
    confirming.confirm_select()
    publish(confirming, pier, 9)
    pier.settle()
    leave(confirming)
    pier.commits.commit()
    assert (client.said(), silent.said()) == ([], [])


@pytest.mark.parametrize("how", ["close", "recover", "nack", "commit"])
def test_nobody_is_given_what_is_behind_before_all_is_back(how: str) -> None:
    """However many come back to a queue, by however many steps, and what is published meanwhile."""
    pier = Pier()
    queue, aside = pier.queue(), pier.queue("aside")
    channel, client = pier.channel()
    other, neighbour = pier.channel()
    if how == "commit":
        channel.tx_select()
    channel.consume(queue, "a")
    channel.consume(queue, "b")
    channel.consume(aside, "c")
    count = 3 * SHARE_WORK
    put(other, [Publication([message(one) for one in range(count)], range(count), [queue])])
    put(other, [Publication([message("aside")], queues=[aside])])
    pier.settle()
    assert channel.unacked_count == count + 1
    for tag in ("a", "b", "c"):
        channel.cancel(tag)
    other.consume(queue, "b")
    if how == "close":
        work = channel.close_in_turns()
    elif how == "recover":
        work = channel.recover_in_turns()
    else:
        work = channel.settle_in_turns(0, is_requeue=True)
    if how == "commit":
        for _ in work:
            pass
        done: list[int] = []
        pier.turns.work_left = 0
        channel.tx_commit(lambda: done.append(1))
        while not done:
            publish(other, pier, "late")
            pier.timers.turn()
            pier.turns.work_left = 0
    else:
        pier.turns.work_left = 0
        for _ in work:
            publish(other, pier, "late")
            pier.timers.turn()
            pier.turns.work_left = 0
    pier.settle()
    said = neighbour.said()
    assert [one.split()[2] for one in said[:count]] == [str(number) for number in range(count)]
    assert len(said) > count
    assert {one.split()[2] for one in said[count:]} == {"late"}
    assert (queue.unacked_count, aside.ready_count) == (len(said), 1)
    client.said()


@pytest.mark.parametrize("is_commit", [False, True])
def test_what_was_acknowledged_stays_so_if_the_channel_ends_meanwhile(*, is_commit: bool) -> None:
    """Of a transaction only after its commit; all that was not settled comes back."""
    pier = Pier()
    queue = pier.queue()
    channel, _ = pier.channel()
    other, _ = pier.channel()
    if is_commit:
        channel.tx_select()
    channel.consume(queue, "a")
    count = 3 * SHARE_WORK
    put(other, [Publication([message(one) for one in range(count)], range(count), [queue])])
    pier.settle()
    work = channel.settle_in_turns(count - 1, is_ack=True)
    pier.turns.work_left = 0
    next(work)
    leave(channel)
    pier.settle()
    assert (queue.unacked_count, queue.ready_count) == (0, count if is_commit else 1)


def test_a_queue_that_much_comes_back_to_serves_and_counts_in_the_end() -> None:
    """Who gets meanwhile is answered with the first; a limit holds, of the oldest none is left."""
    pier = Pier()
    queue = pier.queue(options=QueueOptions(max_length=SHARE_WORK, overflow=Overflow.DROP_HEAD))
    channel, _ = pier.channel()
    other, _ = pier.channel()
    channel.consume(queue, "a")
    for number in range(2 * SHARE_WORK):
        publish(other, pier, number)
        pier.settle()
    channel.cancel("a")
    work = channel.recover_in_turns()
    pier.turns.work_left = 0
    got: list[Got | None] = []
    is_asked = False
    for _ in work:
        if queue.ready_count and not is_asked:
            other.get(queue, got.append, no_ack=True)
            is_asked = True
        pier.timers.turn()
        pier.turns.work_left = 0
        assert not got
    pier.settle()
    (first,) = got
    assert first is not None
    assert first.entry.message.body == str(SHARE_WORK).encode()
    assert queue.ready_count == SHARE_WORK - 1


def test_a_message_for_many_queues_waits_if_a_turn_is_over() -> None:
    """One for few does not; and a commit is like it."""
    pier = Pier()
    many = [pier.queue(str(number)) for number in range(SMALL_WORK + 1)]
    channel, _ = pier.channel()
    pier.turns.work_left = 0
    publish_some = channel.publish_in_turns(
        [Publication([message("few")], queues=many[:SMALL_WORK])]
    )
    assert next(publish_some, "done") == "done"
    pier.turns.work_left = 0
    work = channel.publish_in_turns([Publication([message("many")], queues=many)])
    assert next(work) is None
    assert many[-1].ready_count == 0
    assert next(work, "done") == "done"
    assert many[-1].ready_count == 1
    channel.tx_select()
    put(channel, [Publication([message("many")], queues=many)])
    pier.turns.work_left = 0
    channel.tx_commit(lambda: None)
    assert many[-1].ready_count == 1
    pier.settle()
    assert many[-1].ready_count == 2


def test_recover_gives_back_what_gets_got_too() -> None:
    """And what comes again is for anybody."""
    pier = Pier()
    queue = pier.queue()
    channel, client = pier.channel()
    publish(channel, pier, 1, 2)
    got: list[Got | None] = []
    channel.get(queue, got.append, no_ack=False)
    channel.consume(queue, "a")
    pier.settle()
    for _ in channel.recover_in_turns():
        pass
    pier.settle()
    assert client.said() == ["a 2 2", "a 3 1 again", "a 4 2 again"]


def test_a_get_waits_for_the_disk_and_the_channel_with_it() -> None:
    """If the channel ends meanwhile the message stays as it was; a failure is told."""
    pier = Pier(TINY)
    storage = SlowStorage()
    storage.publish(0, [message("slow")], expires_at_us=None, is_delivered=False)
    pier.reads.is_holding = True
    queue = pier.queue(storages=[storage])
    channel, _ = pier.channel()
    got: list[Got | None] = []
    channel.get(queue, got.append, no_ack=False)
    pier.settle()
    assert got == []
    leave(channel)
    pier.reads.go_on()
    pier.settle()
    other, client = pier.channel()
    pier.reads.is_holding = False
    other.get(queue, got.append, no_ack=True)
    assert [one and one.entry.is_delivered for one in got] == [False]
    storage.publish(1, [message("bad")], expires_at_us=None, is_delivered=False)
    storage.fails_with = DiskFailed("a bad sector")
    broken = pier.queue("broken", storages=[storage])
    other.get(broken, got.append, no_ack=True)
    pier.settle()
    assert client.said() == ["INTERNAL_ERROR"]
    assert len(got) == 1


def test_consumers_have_tags_of_their_own() -> None:
    """Made up for those that have none; one of another consumer is refused."""
    pier = Pier()
    queue = pier.queue()
    channel, client = pier.channel()
    made = {channel.consume(queue, "") for _ in range(2)}
    assert all(tag.startswith("amq.ctag-") and len(tag) == 31 for tag in made)
    assert len(made) == 2
    channel.consume(queue, "a")
    with pytest.raises(RequestRefused, match=r"^attempt to reuse consumer tag 'a' \(code 530\)$"):
        channel.consume(queue, "a")
    channel.cancel("a")
    channel.cancel("unknown")
    channel.consume(queue, "a")
    assert len(channel.consumed()) == 3
    pier.delete("q")
    assert sorted(client.said()) == sorted(f"cancelled {tag}" for tag in [*made, "a"])
    assert channel.consumed() == []


def test_a_reply_goes_straight_to_who_waits_for_it() -> None:
    """Only to who knows the key; it is in no queue, and dropped when nobody waits any more."""
    pier = Pier()
    channel, client = pier.channel()
    server, told = pier.channel()
    with pytest.raises(RequestRefused, match=r"^fast reply consumer does not exist"):
        _ = channel.reply_key
    with pytest.raises(RequestRefused, match=r"^reply consumer cannot acknowledge"):
        channel.consume_replies("r", no_ack=False)
    channel.consume_replies("r", no_ack=True)
    with pytest.raises(RequestRefused, match=r"^reply consumer already set"):
        channel.consume_replies("s", no_ack=True)
    with pytest.raises(RequestRefused, match="attempt to reuse consumer tag 'r'"):
        channel.consume(pier.queue(), "r")
    key = channel.reply_key
    assert key.startswith(f"{REPLY_TO}.")
    assert pier.replies.is_key(key)
    assert not pier.replies.is_key(REPLY_TO)
    server.confirm_select()
    reply = Publication([message("answer", key=key)], reply_key=key, is_mandatory=True)
    put(server, [reply])
    pier.settle()
    assert client.said() == ["r 1 answer reply"]
    assert told.said() == ["returned answer", "ack 1"]
    channel.cancel("r")
    assert not pier.replies.is_open(key)
    put(server, [reply])
    assert client.said() == []
    channel.consume_replies("", no_ack=True)
    other = channel.reply_key
    assert other != key
    assert pier.replies.is_open(other)
    leave(channel)
    assert not pier.replies.is_open(other)


def test_a_client_that_does_not_acknowledge_is_overdue() -> None:
    """Its oldest message counts, not the newest."""
    pier = Pier()
    queue = pier.queue()
    channel, _ = pier.channel()
    assert not channel.is_overdue(10)
    channel.consume(queue, "a")
    for body in range(3):
        publish(channel, pier, body)
        pier.settle()
        pier.clock.advance(4000)
    assert channel.is_overdue(10)
    channel.ack([1])
    assert not channel.is_overdue(10)
    pier.clock.advance(3000)
    assert channel.is_overdue(10)
    ack_all(channel, 0)
    assert not channel.is_overdue(10)
