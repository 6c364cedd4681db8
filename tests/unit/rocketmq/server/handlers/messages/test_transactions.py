"""Transactions over the wire: hidden, committed, asked about, and refused where a word is wrong."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.settings import TransactionSettings

AT_ONCE = TransactionSettings(check_interval_ms=10, timeout_ms=0)


def half(key: str = "U1", **changes: Any) -> dict[str, Any]:
    """Return the ext fields of a half message."""
    base: dict[str, Any] = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 1, "f": 4, "g": 7}
    text = f"TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01{key}\x02"
    return base | {"h": 0, "i": text} | changes


def ending(stored: dict[str, str], **changes: Any) -> dict[str, Any]:
    """Return the ext fields of a commit, from those of the answer to the send."""
    return {
        "producerGroup": "p",
        "tranStateTableOffset": stored["queueOffset"],
        "commitLogOffset": int(stored["msgId"][16:], 16),
        "commitOrRollback": 8,
    } | changes


async def end_of(lab: Any) -> int:
    """Return how many messages the queue has."""
    found = await lab.broker.call(30, {"topic": "T", "queueId": 1})
    return int(found.ext_map()["offset"])


async def connect(lab: Any) -> None:
    """Say that a producer is there."""
    beat = {"clientID": "c", "producerDataSet": [{"groupName": "p"}], "consumerDataSet": []}
    assert (await lab.broker.call(34, {}, json.dumps(beat).encode())).code == 0


def test_a_commit_shows_the_message(on_node: Callable[..., None]) -> None:
    """Its producer is told queue, place and transaction id; a second end is refused."""

    async def scenario(lab: Any) -> None:
        sent = await lab.broker.call(310, half(), b"hi")
        stored = sent.ext_map()
        assert (sent.code, stored["queueId"], stored["transactionId"]) == (0, "1", "U1")
        assert await end_of(lab) == 0
        assert (await lab.broker.call(37, ending(stored, commitOrRollback=0))).code == 0
        assert await end_of(lab) == 0
        wrong = await lab.broker.call(37, ending(stored, commitOrRollback=3))
        assert (wrong.code, "commitOrRollback is 3" in wrong.remark) == (1, True)
        assert (await lab.broker.call(37, ending(stored))).code == 0
        assert await end_of(lab) == 1
        again = await lab.broker.call(37, ending(stored, commitOrRollback=12))
        assert (again.code, "has ended already" in again.remark) == (1, True)
        for change in (
            {"producerGroup": "others"},
            {"commitLogOffset": 1},
            {"tranStateTableOffset": 5},
        ):
            refused = await lab.broker.call(37, ending(stored, **change))
            assert (refused.code, bool(refused.remark)) == (1, True)

    on_node(scenario)


def test_a_producer_is_asked(on_node: Callable[..., None]) -> None:
    """With the half message as it would be consumed, and may answer with what it was given."""

    async def scenario(lab: Any) -> None:
        await connect(lab)
        await lab.broker.call(310, half(), b"hi")
        async with asyncio.timeout(LONG_SECONDS):
            while (asked := await lab.broker.pushed.get()).code != 39:
                pass
        fields = asked.ext_map()
        message = record.decode(asked.body)
        assert (message.topic, message.queue_id, message.body) == ("T", 1, b"hi")
        assert (fields["transactionId"], fields["msgId"], fields["topic"]) == ("U1", "U1", "T")
        answer = {
            "producerGroup": message.properties["PGROUP"],
            "tranStateTableOffset": fields["tranStateTableOffset"],
            "commitLogOffset": fields["commitLogOffset"],
            "commitOrRollback": 8,
            "fromTransactionCheck": "true",
        }
        assert (await lab.broker.call(37, answer)).code == 0
        assert await end_of(lab) == 1

    on_node(scenario, transactions=AT_ONCE)


def test_transactions_may_be_rejected(on_node: Callable[..., None]) -> None:
    """As by RocketMQ's `rejectTransactionMessage`."""

    async def scenario(lab: Any) -> None:
        refused = await lab.broker.call(310, half(), b"hi")
        assert (refused.code, "transactions.enabled" in refused.remark) == (16, True)

    on_node(scenario, transactions=TransactionSettings(enabled=False))


@pytest.mark.parametrize("name", ["nothing", "", None])
def test_what_was_not_given_up_is_not_resumed(
    on_node: Callable[..., None], name: str | None
) -> None:
    """With a remark."""

    async def scenario(lab: Any) -> None:
        fields = {} if name is None else {"msgId": name}
        refused = await lab.broker.call(323, fields)
        assert (refused.code, bool(refused.remark)) == (1, True)

    on_node(scenario)
