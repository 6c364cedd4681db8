"""Consumers over gRPC: what they are given, and what becomes of what they say about it."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs
from tests.grpc_client import PUSH, SIMPLE, consumer_settings, message
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.codec.grpc.messages import (
    AckMessageEntry,
    AckMessageRequest,
    ChangeInvisibleDurationRequest,
    FilterExpression,
    ForwardMessageToDeadLetterQueueRequest,
    HeartbeatRequest,
    NotifyClientTerminationRequest,
    QueryAssignmentRequest,
    Resource,
    Status,
    TelemetryCommand,
    ThreadStackTrace,
    VerifyMessageResult,
)
from sprocket.rocketmq.codec.grpc.status import Code
from sprocket.rocketmq.codec.grpc.times import duration, ms_of
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.settings import GrpcSettings

OnGrpc = Callable[..., None]


async def filled(lab: Any, count: int, **said: Any) -> None:
    """Make topic T and send to it."""
    lab.make_topic()
    for number in range(count):
        answer = await lab.client.send(message("T", b"m%d" % number, f"K{number}", **said))
        assert answer.status.code == Code.OK


async def some(lab: Any, **more: Any) -> Any:
    """Receive until something comes."""
    async with asyncio.timeout(LONG_SECONDS):
        while (found := await lab.client.receive("T", "g", **more)).code is not Code.OK:
            await asyncio.sleep(0.01)
    return found


async def again(lab: Any, seconds: float, **more: Any) -> Any:
    """Let time pass, and receive what comes again."""
    async with asyncio.timeout(LONG_SECONDS):
        while True:
            lab.advance(seconds)
            await asyncio.sleep(0.02)
            found = await lab.client.receive("T", "g", **more)
            if found.code is Code.OK:
                return found


def test_messages_come_with_all_that_clients_need(on_grpc: OnGrpc) -> None:
    """The status first, the time last."""

    async def scenario(lab: Any) -> None:
        await filled(lab, 1, tag="A", keys=["k"], user_properties={"colour": "blau"})
        found = await some(lab)
        kinds = [one.WhichOneof("content") for one in found.parts]
        assert kinds == ["status", "message", "delivery_timestamp"]
        (got,) = found.messages
        said = got.system_properties
        assert (got.body, got.topic.name, dict(got.user_properties)) == (
            b"m0",
            "T",
            {"colour": "blau"},
        )
        assert (said.message_id, said.tag, [*said.keys]) == ("K0", "A", ["k"])
        assert (said.body_digest.type, said.body_digest.checksum) == (
            2,
            hashlib.md5(b"m0", usedforsecurity=False).hexdigest().upper(),
        )
        assert (said.body_encoding, said.delivery_attempt, said.message_type) == (1, 1, 1)
        assert (said.born_host, ms_of(said.born_timestamp)) == ("here", 1_700_000_000_000)
        assert ms_of(said.invisible_duration) == 30_000
        assert len(said.receipt_handle.split(" ")) == 9

    on_grpc(scenario)


def test_what_is_acknowledged_does_not_come_again(on_grpc: OnGrpc) -> None:
    """And what is not does, as another attempt."""

    async def scenario(lab: Any) -> None:
        await filled(lab, 2)
        found = await some(lab)
        first = found.messages[0]
        answer = await lab.client.ack("T", "g", first)
        assert answer.status.code == Code.OK
        (entry,) = answer.entries
        assert (entry.status.code, entry.message_id) == (
            Code.OK,
            first.system_properties.message_id,
        )
        left = {b"m0", b"m1"} - {first.body}
        comes = await again(lab, 31)
        assert {*comes.bodies} == left
        assert [one.system_properties.delivery_attempt for one in comes.messages] == [2]

    on_grpc(scenario)


def test_an_acknowledgement_that_is_wrong_is_told(on_grpc: OnGrpc) -> None:
    """Of each message; the common code is that of the answer."""

    async def scenario(lab: Any) -> None:
        await filled(lab, 1)
        (got,) = (await some(lab)).messages
        good = AckMessageEntry(message_id="K0", receipt_handle=got.system_properties.receipt_handle)
        bad = AckMessageEntry(message_id="K1", receipt_handle="nonsense")

        async def ack(*entries: AckMessageEntry) -> Any:
            request = AckMessageRequest(
                group=Resource(name="g"), topic=Resource(name="T"), entries=entries
            )
            return await lab.client.call("AckMessage", request)

        answer = await ack(good, bad)
        assert [one.status.code for one in answer.entries] == [
            Code.OK,
            Code.INVALID_RECEIPT_HANDLE,
        ]
        assert answer.status.code == Code.MULTIPLE_RESULTS
        assert (await ack(bad)).status.code == Code.INVALID_RECEIPT_HANDLE
        assert (await ack()).status.code == Code.INTERNAL_SERVER_ERROR
        lab.advance(31)
        late = await ack(good)
        assert (late.status.code, late.status.message) == (
            Code.INVALID_RECEIPT_HANDLE,
            "receipt handle is expired",
        )
        other = good.receipt_handle.replace("broker-a", "broker-b")
        assert (
            await ack(AckMessageEntry(message_id="K0", receipt_handle=other))
        ).status.code == Code.INVALID_RECEIPT_HANDLE

    on_grpc(scenario)


def test_a_message_comes_when_its_consumer_says(on_grpc: OnGrpc) -> None:
    """By the new handle it can be acknowledged."""

    async def scenario(lab: Any) -> None:
        await filled(lab, 1)
        (got,) = (await some(lab)).messages

        async def change(handle: str, ms: int) -> Any:
            request = ChangeInvisibleDurationRequest(
                group=Resource(name="g"),
                topic=Resource(name="T"),
                receipt_handle=handle,
                invisible_duration=duration(ms),
                message_id="K0",
            )
            return await lab.client.call("ChangeInvisibleDuration", request)

        changed = await change(got.system_properties.receipt_handle, 300_000)
        assert changed.status.code == Code.OK
        lab.advance(31)
        await asyncio.sleep(0.05)
        assert (await lab.client.receive("T", "g")).code is Code.MESSAGE_NOT_FOUND
        soon = await change(changed.receipt_handle, 0)
        assert soon.status.code == Code.OK
        comes = await again(lab, 0.001)
        assert comes.bodies == [b"m0"]
        assert (await lab.client.ack("T", "g", *comes.messages)).status.code == Code.OK
        too_long = await change(comes.messages[0].system_properties.receipt_handle, 43_200_001)
        assert too_long.status.code == Code.ILLEGAL_INVISIBLE_TIME

    on_grpc(scenario)


def test_a_message_can_be_given_up(on_grpc: OnGrpc) -> None:
    """It is a dead letter then, and comes no more."""

    async def scenario(lab: Any) -> None:
        await filled(lab, 1)
        (got,) = (await some(lab)).messages
        request = ForwardMessageToDeadLetterQueueRequest(
            group=Resource(name="g"),
            topic=Resource(name="T"),
            receipt_handle=got.system_properties.receipt_handle,
            message_id="K0",
            delivery_attempt=1,
            max_delivery_attempts=1,
        )
        answer = await lab.client.call("ForwardMessageToDeadLetterQueue", request)
        assert answer.status.code == Code.OK
        records = [record.decode(one) for _, one in lab.broker.store.records()]
        (dead,) = [one for one in records if one.topic == "%DLQ%g"]
        assert (dead.body, dead.properties["RETRY_TOPIC"]) == (b"m0", "T")
        lab.advance(60)
        await asyncio.sleep(0.05)
        assert (await lab.client.receive("T", "g")).code is Code.MESSAGE_NOT_FOUND

    on_grpc(scenario)


def test_a_message_that_failed_too_often_is_a_dead_letter(on_grpc: OnGrpc) -> None:
    """It is not given out once more."""

    async def scenario(lab: Any) -> None:
        await filled(lab, 1)
        group = lab.broker.groups.find("g")
        lab.broker.groups.put([structs.replace(group, retry_times_max=1)])
        await some(lab)
        comes = await again(lab, 31)
        assert comes.messages[0].system_properties.delivery_attempt == 2
        async with asyncio.timeout(LONG_SECONDS):
            while lab.broker.topics.get("%DLQ%g") is None:
                lab.advance(31)
                await asyncio.sleep(0.02)
                assert not (await lab.client.receive("T", "g")).messages

    on_grpc(scenario)


def test_a_receive_waits_for_a_message(on_grpc: OnGrpc) -> None:
    """And ends without one when its time is over."""

    async def scenario(lab: Any) -> None:
        await filled(lab, 0)
        waiting = asyncio.create_task(
            lab.client.receive("T", "g", long_polling_timeout=duration(20_000))
        )
        async with asyncio.timeout(LONG_SECONDS):
            while not lab.broker.pop_hold.count:
                await asyncio.sleep(0.001)
        await lab.client.send(message("T", b"now"))
        assert (await waiting).bodies == [b"now"]
        empty = await lab.client.receive("T", "g", long_polling_timeout=duration(150))
        assert (empty.code, empty.text) == (Code.MESSAGE_NOT_FOUND, "no new message")
        assert empty.parts[-1].WhichOneof("content") == "delivery_timestamp"

    on_grpc(scenario)


def test_a_client_that_leaves_waits_no_more(on_grpc: OnGrpc) -> None:
    """Whether it ends the call or the connection; another's call goes on."""

    async def scenario(lab: Any) -> None:
        await filled(lab, 0)
        other = lab.another("c2")
        calls = [
            asyncio.create_task(one.receive("T", "g", long_polling_timeout=duration(20_000)))
            for one in (lab.client, lab.client, other)
        ]
        async with asyncio.timeout(LONG_SECONDS):
            while lab.broker.pop_hold.count < 3:
                await asyncio.sleep(0.001)
            calls[0].cancel()
            while lab.broker.pop_hold.count > 2:
                await asyncio.sleep(0.001)
            calls[2].cancel()
            await other.close()
            while lab.broker.pop_hold.count > 1:
                await asyncio.sleep(0.001)
        await lab.client.send(message("T", b"now"))
        assert (await calls[1]).bodies == [b"now"]

    on_grpc(scenario)


@pytest.mark.parametrize(
    ("expression", "bodies"),
    [
        (FilterExpression(type=1, expression="B||C"), {b"m1", b"m2"}),
        (FilterExpression(type=2, expression="n > 1"), {b"m2"}),
        (FilterExpression(), {b"m0", b"m1", b"m2"}),
    ],
)
def test_a_consumer_gets_what_it_wants(
    on_grpc: OnGrpc, expression: FilterExpression, bodies: set[bytes]
) -> None:
    """By tags, by SQL, or all."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        for number, tag in enumerate("ABC"):
            sent = message("T", b"m%d" % number, tag=tag, user_properties={"n": str(number)})
            await lab.client.send(sent)
        found: set[bytes] = set()
        async with asyncio.timeout(LONG_SECONDS):
            while found != bodies:
                got = await lab.client.receive("T", "g", filter_expression=expression)
                found |= {*got.bodies}
                await asyncio.sleep(0.001)

    on_grpc(scenario)


def test_times_have_limits(on_grpc: OnGrpc) -> None:
    """Those of the proxy, unless settings say otherwise."""

    async def scenario(lab: Any) -> None:
        await filled(lab, 0)

        async def refused(**more: Any) -> Any:
            found = await lab.client.receive("T", "g", **more)
            assert [one.WhichOneof("content") for one in found.parts] == [
                "status",
                "delivery_timestamp",
            ]
            return found

        short = await refused(invisible_duration=duration(9_999))
        assert (short.code, short.text) == (
            Code.ILLEGAL_INVISIBLE_TIME,
            "the invisibleTime is too small. min is 10000",
        )
        long = await refused(invisible_duration=duration(43_200_001))
        assert long.code is Code.ILLEGAL_INVISIBLE_TIME
        soon = await refused(seconds=4.0)
        assert soon.code is Code.ILLEGAL_POLLING_TIME

    on_grpc(scenario, grpc=GrpcSettings(port=0))


def test_a_kept_message_is_its_consumers_own(on_grpc: OnGrpc) -> None:
    """For as long as it is there; by its first handle it is acknowledged."""

    async def scenario(lab: Any) -> None:
        await filled(lab, 1)
        async with lab.client.telemetry(consumer_settings("g", "T")) as stream:
            assert stream.first.settings.subscription.receive_batch_size == 32
            (got,) = (await some(lab, auto_renew=True)).messages
            assert ms_of(got.system_properties.invisible_duration) == 60_000
            for _ in range(40):
                lab.advance(6)
                service = lab.service
                service.sessions.sweep()
                service.renewals.sweep()
                await asyncio.sleep(0)
            assert not (await lab.client.receive("T", "g")).messages
            assert (await lab.client.ack("T", "g", got)).status.code == Code.OK
            assert lab.service.renewals.count == 0

    on_grpc(scenario)


def test_messages_of_a_consumer_that_goes_come_again(on_grpc: OnGrpc) -> None:
    """A second after it has said so."""

    async def scenario(lab: Any) -> None:
        await filled(lab, 1)
        async with lab.client.telemetry(consumer_settings("g", "T")):
            await some(lab, auto_renew=True)
            left = await lab.client.call(
                "NotifyClientTermination", NotifyClientTerminationRequest(group=Resource(name="g"))
            )
            assert left.status.code == Code.OK
            assert (await again(lab, 1.1)).bodies == [b"m0"]

    on_grpc(scenario)


def test_a_consumer_without_a_stream_is_gone_after_a_while(on_grpc: OnGrpc) -> None:
    """Unless it is heard of."""

    async def scenario(lab: Any) -> None:
        await filled(lab, 0)
        beat = HeartbeatRequest(group=Resource(name="g"), client_type=PUSH)
        assert (
            await lab.client.call("Heartbeat", beat)
        ).status.code == Code.UNRECOGNIZED_CLIENT_TYPE
        async with lab.client.telemetry(consumer_settings("g", "T")):
            assert (await lab.client.call("Heartbeat", beat)).status.code == Code.OK
            assert lab.broker.members.consumers("g").client_ids() == ["c1"]
        async with asyncio.timeout(LONG_SECONDS):
            while any(one.streams for one in lab.service.sessions.all()):
                await asyncio.sleep(0.001)
        lab.advance(20)
        assert (await lab.client.call("Heartbeat", beat)).status.code == Code.OK
        lab.advance(20)
        lab.service.sessions.sweep()
        assert lab.broker.members.consumers("g").client_ids() == ["c1"]
        lab.advance(11)
        lab.service.sessions.sweep()
        assert lab.broker.members.consumers("g").client_ids() == []

    on_grpc(scenario)


def test_what_consumers_are_told_to_read(on_grpc: OnGrpc) -> None:
    """All of it at once, or queue by queue in order."""

    async def scenario(lab: Any) -> None:
        lab.make_topic(queues=3)

        async def assigned() -> list[int]:
            request = QueryAssignmentRequest(
                topic=Resource(name="T"),
                group=Resource(name="g"),
                endpoints=lab.client.endpoints,
            )
            answer = await lab.client.call("QueryAssignment", request)
            assert answer.status.code == Code.OK
            queues = [one.message_queue for one in answer.assignments]
            assert {one.broker.endpoints.addresses[0].port for one in queues} == {
                lab.client.endpoints.addresses[0].port
            }
            return [one.id for one in queues]

        assert await assigned() == [-1]
        group = lab.broker.groups.find("g")
        ordered = structs.replace(group, consume_message_orderly=True)
        lab.broker.groups.put([ordered])
        assert await assigned() == [0, 1, 2]
        async with lab.client.telemetry(consumer_settings("g", "T", kind=SIMPLE)) as stream:
            assert stream.first.settings.subscription.fifo

    on_grpc(scenario)


def test_messages_in_order_come_one_after_the_other(on_grpc: OnGrpc) -> None:
    """Those behind one that is not settled wait; it comes again as another attempt."""

    async def scenario(lab: Any) -> None:
        lab.make_topic(queues=1)
        group = lab.broker.groups.find("g")
        lab.broker.groups.put([structs.replace(group, consume_message_orderly=True)])
        for number in range(3):
            sent = message("T", b"m%d" % number, message_group="a")
            await lab.client.send(sent)
        (first,) = (await some(lab, batch_size=1, attempt_id="a1")).messages
        assert first.body == b"m0"
        assert not (await lab.client.receive("T", "g", batch_size=1)).messages
        same = await lab.client.receive("T", "g", batch_size=1, attempt_id="a1")
        assert same.bodies == [b"m0"]
        waiting = asyncio.create_task(
            lab.client.receive("T", "g", batch_size=1, long_polling_timeout=duration(20_000))
        )
        async with asyncio.timeout(LONG_SECONDS):
            while not lab.broker.pop_hold.count:
                await asyncio.sleep(0.001)
        assert (await lab.client.ack("T", "g", *same.messages)).status.code == Code.OK
        (second,) = (await waiting).messages
        assert (second.body, second.system_properties.delivery_attempt) == (b"m1", 1)
        comes = await again(lab, 31, batch_size=1)
        assert comes.bodies == [b"m1"]
        assert comes.messages[0].system_properties.delivery_attempt == 2
        handle = comes.messages[0].system_properties.receipt_handle
        request = ChangeInvisibleDurationRequest(
            group=Resource(name="g"),
            topic=Resource(name="T"),
            receipt_handle=handle,
            invisible_duration=duration(5_000),
            message_id="K1",
        )
        changed = await lab.client.call("ChangeInvisibleDuration", request)
        assert changed.status.code == Code.OK
        assert (await again(lab, 1, batch_size=1)).bodies == [b"m1"]

    on_grpc(scenario)


def test_administrators_ask_consumers(on_grpc: OnGrpc) -> None:
    """What their threads are at, and to try a message; one may not answer."""

    async def scenario(lab: Any) -> None:
        await filled(lab, 1)
        admin = lab.lab.broker
        fields = {"consumerGroup": "g", "clientId": "c1"}
        (stored,) = [record.decode(one) for _, one in lab.broker.store.records()]
        direct = {**fields, "msgId": stored.offset_message_id}
        async with lab.client.telemetry(consumer_settings("g", "T")) as stream:
            asked = admin.send(307, fields)
            nonce = (await stream.read()).print_thread_stack_trace_command.nonce
            trace = ThreadStackTrace(nonce=nonce, thread_stack_trace="main: waits")
            await stream.write(TelemetryCommand(thread_stack_trace=trace))
            answer = await asyncio.wait_for(asked, LONG_SECONDS)
            assert json.loads(answer.body)["jstack"] == "main: waits"
            for code, text, result in (
                (Code.OK, "", "CR_SUCCESS"),
                (Code.FAILED_TO_CONSUME_MESSAGE, "no", "CR_THROW_EXCEPTION"),
            ):
                asked = admin.send(309, direct)
                command = (await stream.read()).verify_message_command
                assert command.message.body == b"m0"
                said = TelemetryCommand(
                    status=Status(code=code, message=text),
                    verify_message_result=VerifyMessageResult(nonce=command.nonce),
                )
                await stream.write(said)
                answer = await asyncio.wait_for(asked, LONG_SECONDS)
                assert json.loads(answer.body)["consumeResult"] == result
            asked = admin.send(309, direct)
            await stream.read()
            lab.service.questions.end_all()
            assert (await asyncio.wait_for(asked, LONG_SECONDS)).code == 207

    on_grpc(scenario)
