"""Transactions of a real RocketMQ go on here: what it left is ended as its producers say, once.

Each half message of the recordings says in a property how its transaction was to end. Of those in
the store that was killed some were committed, and no op message says so.
"""

from collections import Counter

import pytest
from tests.half_messages import Transacting
from tests.recorded import Recorded

from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.model.internal import HALF_TOPIC, OP_TOPIC
from sprocket.rocketmq.model.transaction import Outcome

OUTCOMES = {
    "commit": Outcome.COMMIT,
    "commit on check": Outcome.COMMIT,
    "rollback": Outcome.ROLLBACK,
    "rollback on check": Outcome.ROLLBACK,
}
TARGETS = [("TransA", queue_id) for queue_id in range(4)] + [("TransB", 0), ("TransB", 1)]


def committed(process: Transacting) -> Counter[str]:
    """Return the keys of what consumers see, and how often."""
    return Counter(
        message.properties["UNIQ_KEY"]
        for target in TARGETS
        for message in process.messages(*target)
    )


@pytest.mark.parametrize("name", ["07-transactions", "07b-transactions-kill9"])
def test_what_a_broker_left_ends_once(name: str) -> None:
    """What it had committed is not committed again, the rest is asked about."""
    recorded = Recorded(name)
    process = Transacting(
        recorded.in_memory(), folder="/store", geometry=recorded.geometry, group="PTTrans"
    )
    process.produce()
    halves = process.messages(HALF_TOPIC, 0)
    wanted = {half.properties["UNIQ_KEY"]: half.properties["outcome"] for half in halves}
    before = committed(process)
    for _ in range(4):
        process.round()
        outcomes = {
            one.message.body: OUTCOMES.get(properties.decode(one.message.properties)["outcome"])
            for one in process.questions
        }
        process.answer(outcomes.get)
    after = committed(process)
    for key, outcome in wanted.items():
        is_committed = OUTCOMES.get(outcome) is Outcome.COMMIT
        assert after[key] == max(before[key], int(is_committed)), (key, outcome)
    open_ones = {key for key, outcome in wanted.items() if outcome == "never"}
    asked = {properties.decode(one.message.properties)["UNIQ_KEY"] for one in process.questions}
    assert asked <= open_ones


def test_what_was_committed_before_the_kill_is_known() -> None:
    """By the copies alone; an op message says it from then on."""
    recorded = Recorded("07b-transactions-kill9")
    process = Transacting(recorded.in_memory(), folder="/store", geometry=recorded.geometry)
    halves = process.messages(HALF_TOPIC, 0)
    copied = committed(process)
    assert copied
    without_op = [half.queue_offset for half in halves if half.properties["UNIQ_KEY"] in copied]
    assert all(offset in process.transactions.ended for offset in without_op)
    (op,) = process.messages(OP_TOPIC, 0)
    assert op.stored_body.decode() == "".join(f"{offset}," for offset in sorted(without_op))
    process.stop()
