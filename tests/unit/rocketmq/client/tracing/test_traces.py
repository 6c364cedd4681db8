"""What producers and consumers note about their messages, and that it is there when they close."""

import asyncio
from typing import Any

import pytest

from sprocket.base.errors import BrokerRefused, InvalidMessage
from sprocket.rocketmq.client import (
    Client,
    ConsumerSettings,
    DeliverLater,
    LitePullConsumer,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    ReceivedMessage,
    TransactionProducer,
    TransactionState,
)
from sprocket.rocketmq.codec import headers, trace
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import response
from sprocket.rocketmq.codec.record import ids, record
from sprocket.rocketmq.model.internal import TRACE_TOPIC
from sprocket.rocketmq.model.trace import (
    ConsumeBegan,
    ConsumeEnded,
    ConsumeOutcome,
    MessageKind,
    Produced,
    TraceRecord,
    TransactionEnded,
)

TRACED = ProducerSettings(trace=True)


def traced(world: Any, topic: str = TRACE_TOPIC) -> list[TraceRecord]:
    """Return the records of the trace messages in the log, each found by a key of its message."""
    found = []
    for (name, _), queue in world.cluster.log.items():
        for stored in map(record.decode, queue if name == topic else []):
            records = trace.decode(stored.body)
            assert {one.message_id for one in records} <= set(stored.keys)
            found += records
    return found


def test_a_message_that_was_stored_is_noted(world: Any) -> None:
    """Where, with what it can be found by, and what kind it is."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        async with Producer(world.names, group="g", settings=TRACED, **world.reach) as producer:
            sent = await producer.send(Message("t", b"abc", tag="A", keys=["k", "l"]))
            await producer.send(Message("t", b"x", delay_level=3))
        first, second = traced(world)
        assert isinstance(first, Produced)
        assert isinstance(second, Produced)
        assert second.kind is MessageKind.DELAYED
        assert first == Produced(
            at_ms=first.at_ms,
            region="DefaultRegion",
            group="g",
            topic="t",
            message_id=sent.message_id,
            tags="A",
            keys="k l",
            store_host=world.cluster.broker_address,
            body_bytes=3,
            cost_ms=first.cost_ms,
            kind=MessageKind.NORMAL,
            offset_message_id=sent.offset_message_id,
            is_success=True,
        )

    world.run(main)


def test_each_message_of_a_batch_is_noted(world: Any) -> None:
    """With its own id, keys and size."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        async with Producer(world.names, settings=TRACED, **world.reach) as producer:
            sent = await producer.send_batch([Message("t", b"a"), Message("t", b"bc", keys=["k"])])
        found = [one for one in traced(world) if isinstance(one, Produced)]
        assert [one.message_id for one in found] == [one.message_id for one in sent]
        assert [one.offset_message_id for one in found] == [one.offset_message_id for one in sent]
        assert [(one.body_bytes, one.keys) for one in found] == [(1, ""), (2, "k")]

    world.run(main)


@pytest.mark.parametrize("code", [ResponseCode.MESSAGE_ILLEGAL, ResponseCode.FLUSH_DISK_TIMEOUT])
def test_what_is_not_stored_as_it_should_be_is_noted(world: Any, code: ResponseCode) -> None:
    """Refused, or stored without the sync that it should have."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        usual = world.cluster.usual(RequestCode.SEND_MESSAGE_V2)

        def answer(peer: Any, command: Any) -> None:
            if command.header(headers.SendMessageV2).topic != "t":
                usual(peer, command)
                return
            told = headers.SendMessageAnswer(
                msg_id=ids.offset_message_id(bytes(8), 0), queue_id=0, queue_offset=0
            )
            peer.send(response(command, code, told, "so"))

        world.cluster.on[RequestCode.SEND_MESSAGE_V2] = answer
        async with Producer(world.names, settings=TRACED, **world.reach) as producer:
            try:
                await producer.send(Message("t", b"a"))
            except BrokerRefused:
                assert code is ResponseCode.MESSAGE_ILLEGAL
        (found,) = traced(world)
        assert isinstance(found, Produced)
        assert not found.is_success
        assert found.store_host == world.cluster.broker_address

    world.run(main)


def test_without_being_asked_nothing_is_noted(world: Any) -> None:
    """By neither side."""

    async def main() -> None:
        got: list[ReceivedMessage] = []
        async with (
            Client(world.names, **world.reach) as client,
            Producer(client) as producer,
            PushConsumer(client, group="g", listener=got.extend, start="first") as consumer,
        ):
            await consumer.subscribe("t")
            await producer.send(Message("t", b"a"))
            await world.until(lambda: got)
        assert (TRACE_TOPIC, 0) not in world.cluster.log
        assert traced(world) == []

    world.run(main)


def test_the_listeners_calls_are_noted(world: Any) -> None:
    """When it got a message, how long it took, and that it is delivered again after a failure."""

    async def main() -> None:
        seen: list[int] = []
        settings = ConsumerSettings(trace=True, trace_topic="mine", batch_messages_max=1)

        async def listener(messages: list[ReceivedMessage]) -> None:
            await asyncio.sleep(0.05)
            seen.append(len(messages))
            if len(seen) == 1:
                raise ValueError
            if len(seen) == 2:
                raise DeliverLater

        world.cluster.store("t", 0, b"x", world.encoded(UNIQ_KEY="M1", KEYS="k"))
        world.cluster.store("t", 0, b"y", world.encoded(UNIQ_KEY="M2", TRACE_ON="false"))
        async with PushConsumer(
            world.names, group="g", listener=listener, start="first", orderly=True,
            settings=settings, **world.reach
        ) as consumer:  # fmt: skip
            await consumer.subscribe("t")
            await world.until(lambda: len(seen) >= 4)
        found = traced(world, "mine")
        assert {one.message_id for one in found} == {"M1"}
        began = [one for one in found if isinstance(one, ConsumeBegan)]
        ended = [one for one in found if isinstance(one, ConsumeEnded)]
        assert [one.retries for one in began] == [0, 1, 2]
        assert [one.request_id for one in began] == [one.request_id for one in ended]
        assert len({one.request_id for one in began}) == 3
        assert [one.outcome for one in ended] == [
            ConsumeOutcome.RAISED,
            ConsumeOutcome.FAILED,
            ConsumeOutcome.SUCCESS,
        ]
        assert [one.is_success for one in ended] == [False, False, True]
        assert {one.keys for one in found if isinstance(one, ConsumeBegan)} == {"k"}
        assert all(one.cost_ms >= 49 for one in ended)

    world.run(main)


def test_what_is_polled_is_noted(world: Any) -> None:
    """From the poll that gave it to the next one; by several or one by one."""

    async def main() -> None:
        settings = ConsumerSettings(trace=True)
        for number in range(4):
            key = f"M{number}"
            world.cluster.store("t", 0, b"x", world.encoded(UNIQ_KEY=key, KEYS="k"))
        async with LitePullConsumer(
            world.names, group="g", start="first", settings=settings, **world.reach
        ) as consumer:
            await consumer.subscribe("t")
            got = await consumer.poll()
            await asyncio.sleep(0.05)
            while len(got) < 4:
                got += await consumer.poll()
            await consumer.poll(0)
            world.cluster.store("t", 0, b"x", world.encoded(UNIQ_KEY="M4"))
            world.cluster.store("t", 0, b"x", world.encoded(UNIQ_KEY="M5"))
            each = aiter(consumer)
            assert [(await anext(each)).message_id for _ in range(2)] == ["M4", "M5"]
        found = traced(world)
        began = [one for one in found if isinstance(one, ConsumeBegan)]
        ended = [one for one in found if isinstance(one, ConsumeEnded)]
        assert [one.message_id for one in began] == [f"M{number}" for number in range(6)]
        assert [one.request_id for one in began] == [one.request_id for one in ended]
        assert began[4].request_id != began[5].request_id
        assert all(one.outcome is ConsumeOutcome.SUCCESS for one in ended)
        assert ended[0].cost_ms > 0

    world.run(main)


def test_the_end_of_a_transaction_is_noted(world: Any) -> None:
    """Of its own saying, with the half message before it."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        world.cluster.on[RequestCode.END_TRANSACTION] = lambda peer, command: peer.send(
            response(command, 0)
        )
        async with TransactionProducer(
            world.names,
            group="g",
            check=lambda _: TransactionState.UNKNOWN,
            settings=TRACED,
            **world.reach,
        ) as producer:
            transaction = await producer.begin(Message("t", b"a", tag="A", keys=["k"]))
            await transaction.commit()
        half, end = traced(world)
        assert isinstance(half, Produced)
        assert half.kind is MessageKind.HALF
        assert isinstance(end, TransactionEnded)
        assert (end.state, end.was_asked) == ("COMMIT_MESSAGE", False)
        assert (end.message_id, end.tags, end.keys) == (transaction.message_id, "A", "k")
        assert end.transaction_id == transaction.message_id
        assert end.store_host == world.cluster.broker_address

    world.run(main)


def test_the_answer_to_a_check_is_noted(world: Any) -> None:
    """With the word that the broker had asked."""

    async def main() -> None:
        world.cluster.topics["t"] = 1
        world.cluster.on[RequestCode.END_TRANSACTION] = lambda *_: None
        async with TransactionProducer(
            world.names,
            group="g",
            check=lambda _: TransactionState.ROLLBACK,
            settings=TRACED,
            **world.reach,
        ) as producer:
            transaction = await producer.begin(Message("t", b"a"))
            transaction.leave()
            encoded = world.cluster.log["t", 0][0]
            number = transaction.message_id
            place = record.decode(encoded).physical_offset
            header = headers.CheckTransaction(
                topic="t",
                tran_state_table_offset=0,
                commit_log_offset=place,
                msg_id=number,
                transaction_id=number,
                offset_msg_id=transaction.sent.offset_message_id,
            )
            (client_id,) = world.cluster.peers
            code = RequestCode.CHECK_TRANSACTION_STATE
            world.cluster.ask(client_id, code, header, encoded, oneway=True)
            await asyncio.sleep(0.1)
        end = traced(world)[-1]
        assert isinstance(end, TransactionEnded)
        assert (end.state, end.was_asked) == ("ROLLBACK_MESSAGE", True)
        assert end.message_id == number

    world.run(main)


def test_the_trace_topic_must_be_one_that_can_be_sent_to(world: Any) -> None:
    """Told before anything is begun."""
    with pytest.raises(InvalidMessage, match="belongs to the broker"):
        Producer(world.names, settings=ProducerSettings(trace_topic="SCHEDULE_TOPIC_XXXX"))
    with pytest.raises(InvalidMessage, match="letters"):
        PushConsumer(world.names, group="g", settings=ConsumerSettings(trace_topic="a b"))
