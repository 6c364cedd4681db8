"""Timed messages over the wire, on a running broker."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.waits import LONG_SECONDS

from sprocket.base.errors import BrokerRefused, InvalidMessage
from sprocket.rocketmq.client import Message, ProducerSettings, blocking
from sprocket.rocketmq.codec import trace
from sprocket.rocketmq.codec.record import recall_handle, record
from sprocket.rocketmq.model.internal import TRACE_TOPIC
from sprocket.rocketmq.model.trace import Recalled
from sprocket.rocketmq.settings import TimerSettings
from sprocket.testing.local_broker import LocalBroker, small_settings

PATIENT = ProducerSettings(
    timeout_ms=int(LONG_SECONDS * 1000), try_timeout_ms=int(LONG_SECONDS * 1000)
)
"""Sends nothing twice, however slow the machine is."""


def test_messages_come_at_their_times() -> None:
    """After a restart as well; a level beside them waits as before."""
    with LocalBroker(now_ms=1_700_000_000_000) as broker:
        with blocking.Producer(broker.nameserver, group="p", settings=PATIENT) as producer:
            for delay_ms in (90_000, 1500, 40):
                properties = {"TIMER_DELAY_MS": str(delay_ms)}
                producer.send(Message("orders", b"%d" % delay_ms, properties=properties))
            broker.advance_until(lambda: len(broker.messages("orders")) == 2)
        broker.restart()
        broker.advance_until(lambda: len(broker.messages("orders")) == 3)
        found = broker.messages("orders")
    assert [one.body for one in found] == [b"40", b"1500", b"90000"]
    for one in found:
        late_ms = one.stored_at_ms - int(one.properties["TIMER_OUT_MS"])
        assert late_ms >= 0


def test_a_message_that_is_taken_back_does_not_come() -> None:
    """Of those that wait for the same time."""
    with LocalBroker(now_ms=1_700_000_000_000) as broker:
        at_ms = 1_700_000_060_000  # a whole second
        with blocking.Producer(broker.nameserver, group="p", settings=PATIENT) as producer:
            sent = [
                producer.send(Message("orders", body, deliver_at_ms=at_ms)) for body in (b"a", b"b")
            ]
            plain = producer.send(Message("orders", b"c"))
            assert plain.recall_handle is None
            assert producer.recall(sent[0].recall_handle or "") == sent[0].message_id
            broker.advance_until(lambda: len(broker.messages("orders")) == 2)
            assert [one.body for one in broker.messages("orders")] == [b"c", b"b"]
            with pytest.raises(BrokerRefused, match="timestamp invalid") as late:
                producer.recall(sent[1].recall_handle or "")
            assert late.value.code == 604
            with pytest.raises(InvalidMessage, match="recall_handle of a SendResult"):
                producer.recall("x")
            with pytest.raises(InvalidMessage, match="of a message that waits"):
                producer.recall(cast("str", plain.recall_handle))


def test_taking_back_is_traced() -> None:
    """Whether the broker did it or not."""
    settings = replace(PATIENT, trace=True)
    with LocalBroker() as broker:
        with blocking.Producer(broker.nameserver, group="p", settings=settings) as producer:
            sent = producer.send(Message("orders", b"x", delay_ms=60_000))
            producer.recall(sent.recall_handle or "")
            over = recall_handle.encode(recall_handle.RecallHandle("orders", "broker-a", 1, "K"))
            with pytest.raises(BrokerRefused):
                producer.recall(over)
        messages = broker.messages(TRACE_TOPIC)
    traced = [one for message in messages for one in trace.decode(message.body)]
    found = [one for one in traced if isinstance(one, Recalled)]
    assert [(one.message_id, one.is_success) for one in found] == [
        (sent.message_id, True),
        ("K", False),
    ]
    assert {(one.group, one.topic, one.region) for one in found} == {
        ("p", "orders", "DefaultRegion")
    }


def test_a_message_that_waits_for_a_time_has_a_handle(on_node: Callable[..., None]) -> None:
    """In JSON and in binary form; a plain one has none, nor has a retry of a group."""

    async def scenario(lab: Any) -> None:
        fields: dict[str, Any] = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 7}
        fields |= {"h": 0, "i": "UNIQ_KEY\x01U1\x02"}
        plain = (await lab.broker.call(310, fields, b"x")).ext_map()
        assert "recallHandle" not in plain
        fields["i"] += "TIMER_DELAY_SEC\x0160\x02"
        for serialize in (0, 1):
            answer = await lab.broker.call(310, fields, b"x", serialize=serialize)
            handle = recall_handle.decode(answer.ext_map()["recallHandle"])
            assert (handle.topic, handle.broker_name, handle.unique_key) == ("T", "broker-a", "U1")
            told = {"topic": "T", "recallHandle": answer.ext_map()["recallHandle"]}
            taken = await lab.broker.call(370, told, serialize=serialize)
            assert (taken.code, taken.ext_map()["msgId"]) == (0, "U1")
        fields["b"] = "%RETRY%p"
        assert "recallHandle" not in (await lab.broker.call(310, fields, b"x")).ext_map()
        wrong = await lab.broker.call(370, {"topic": "T", "recallHandle": "x"})
        assert (wrong.code, wrong.remark) == (604, "recall handle is invalid")

    on_node(scenario)


def test_slaves_are_told_how_far_it_is(on_node: Callable[..., None]) -> None:
    """The checkpoint's 56 bytes, and what waits."""

    async def scenario(lab: Any) -> None:
        fields = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 7, "h": 0}
        fields["i"] = "UNIQ_KEY\x01U1\x02TIMER_DELAY_SEC\x0160\x02"
        await lab.broker.call(310, fields, b"x")
        while not (counts := lab.node.broker.timed.counts().topics):
            await asyncio.sleep(0)
        assert counts["T"].count == 1
        told = await lab.broker.call(60)
        assert (told.code, len(told.body)) == (0, 56)
        told = await lab.broker.call(61)
        assert json.loads(told.body)["timingCount"]["T"]["count"] == 1

    on_node(scenario)


def test_too_far_ahead_is_refused() -> None:
    """By code and remark of RocketMQ's."""
    with (
        LocalBroker() as broker,
        blocking.Producer(broker.nameserver, group="p", settings=PATIENT) as producer,
        pytest.raises(BrokerRefused, match="max delay 259200000ms") as refused,
    ):
        producer.send(Message("t", b"x", properties={"TIMER_DELAY_SEC": "259201"}))
    assert refused.value.code == 13


def test_a_broker_may_take_none() -> None:
    """It says why."""
    settings = replace(small_settings(), timers=TimerSettings(enabled=False))
    with (
        LocalBroker(settings=settings) as broker,
        blocking.Producer(broker.nameserver, group="p", settings=PATIENT) as producer,
        pytest.raises(BrokerRefused, match="timerWheelEnable is false") as refused,
    ):
        producer.send(Message("t", b"x", properties={"TIMER_DELAY_SEC": "5"}))
    assert refused.value.code == 1


def test_the_answer_names_the_queue_that_was_chosen(on_node: Callable[..., None]) -> None:
    """Where the message will be, not where it waits."""

    async def scenario(lab: Any) -> None:
        fields = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": -1, "f": 0, "g": 7, "h": 0}
        fields["i"] = "UNIQ_KEY\x01U1\x02TIMER_DELAY_SEC\x0160\x02"
        for _ in range(8):
            answer = (await lab.broker.call(310, fields, b"x")).ext_map()
            place = int(answer["msgId"][16:], 16)
            seen = await lab.broker.call(33, {"offset": place})
            stored = record.decode(seen.body)
            assert stored.topic == "rmq_sys_wheel_timer"
            assert answer["queueId"] == stored.properties["REAL_QID"]

    on_node(scenario)
