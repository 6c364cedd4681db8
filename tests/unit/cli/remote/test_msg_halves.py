"""`sprocket msg halves` and `resume-check`: transactions that have not ended."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.unit.cli.running import done, refused, rows

from sprocket.rocketmq.client.blocking import (
    Message,
    ReceivedMessage,
    Transaction,
    TransactionProducer,
    TransactionState,
)
from sprocket.rocketmq.model.internal import CHECKED_TOO_OFTEN_TOPIC
from sprocket.rocketmq.settings import TransactionSettings
from sprocket.testing.local_broker import LocalBroker, small_settings

ROUND_SECONDS = 40.0


def unsure(_: ReceivedMessage) -> TransactionState:
    """Know nothing."""
    return TransactionState.UNKNOWN


@pytest.fixture
def producer(broker: LocalBroker) -> Iterator[TransactionProducer]:
    """Return a producer that never knows how its transactions ended."""
    with TransactionProducer(broker.nameserver, group="p", check=unsure) as found:
        yield found


def begun(producer: TransactionProducer, count: int) -> list[Transaction]:
    """Send half messages."""
    return [producer.begin(Message("orders", b"%d" % number)) for number in range(count)]


def test_those_that_wait_are_shown(broker: LocalBroker, producer: TransactionProducer) -> None:
    """All that have not ended, oldest first; again with another id after they were asked about."""
    assert rows(broker, "msg", "halves") == []
    first, ended, second = begun(producer, 3)
    assert ended.commit()
    found = rows(broker, "msg", "halves")
    assert [row["unique_key"] for row in found] == [first.message_id, second.message_id]
    row = found[0]
    assert (row["topic"], row["group"], row["checks"]) == ("orders", "p", 0)
    assert row["offset_id"] == first.sent.offset_message_id
    broker.advance(seconds=ROUND_SECONDS)
    again = rows(broker, "msg", "halves")
    assert [one["unique_key"] for one in again] == [first.message_id, second.message_id]
    assert [one["checks"] for one in again] == [1, 1]
    assert again[0]["offset_id"] != row["offset_id"]
    (one,) = rows(broker, "msg", "halves", "--limit", 1)
    assert one == again[0]
    assert second.message_id in done(broker, "msg", "halves")
    assert first.rollback()
    assert second.rollback()
    assert rows(broker, "msg", "halves") == []


def test_one_that_was_given_up_is_asked_about_again() -> None:
    """By either of its ids; it waits again then, as one about which nobody was asked."""
    settings = replace(small_settings(), transactions=TransactionSettings(check_count_max=1))
    with (
        LocalBroker(settings=settings) as broker,
        TransactionProducer(broker.nameserver, group="p", check=unsure) as producer,
    ):
        (transaction,) = begun(producer, 1)
        said = refused(broker, "msg", "resume-check", transaction.message_id)
        assert said == f"sprocket: no half message {transaction.message_id} was given up\n"
        for _ in range(2):
            broker.advance(seconds=ROUND_SECONDS)
        assert rows(broker, "msg", "halves") == []
        (given_up,) = broker.messages(CHECKED_TOO_OFTEN_TOPIC)
        for number in (transaction.message_id, given_up.offset_message_id):
            assert "of group p will be asked" in done(broker, "msg", "resume-check", number)
        found = rows(broker, "msg", "halves")
        assert [(row["unique_key"], row["checks"]) for row in found] == 2 * [
            (transaction.message_id, 0)
        ]
