"""Sends over gRPC: what is stored, what is answered, what is refused and with which words."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.grpc_client import message

from sprocket.base.errors import DiskFailed
from sprocket.rocketmq.codec.grpc.message_in import MessageType
from sprocket.rocketmq.codec.grpc.messages import Message
from sprocket.rocketmq.codec.grpc.status import Code
from sprocket.rocketmq.codec.record import recall_handle, record
from sprocket.rocketmq.model.message import StoredMessage

OnGrpc = Callable[..., None]


def stored(lab: Any, topic: str = "T") -> list[StoredMessage]:
    """Return the messages of a topic."""
    found = [record.decode(one) for _, one in lab.broker.store.records()]
    return [one for one in found if one.topic == topic]


def test_a_message_is_stored_as_its_client_says(on_grpc: OnGrpc) -> None:
    """With all of its properties, and those that the proxy adds."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        sent = message(
            "T", b"hello", "KEY1", tag="A", keys=["k1", "k2"], user_properties={"colour": "blau"}
        )
        answer = await lab.client.send(sent)
        assert (answer.status.code, answer.status.message) == (Code.OK, "OK")
        (entry,) = answer.entries
        assert (entry.status.code, entry.message_id, entry.offset) == (Code.OK, "KEY1", 0)
        (found,) = stored(lab)
        assert (found.body, found.message_id, found.tags, found.keys) == (
            b"hello",
            "KEY1",
            "A",
            ("k1", "k2"),
        )
        assert found.born_at_ms == 1_700_000_000_000
        expected = {"colour": "blau", "PGROUP": "T", "__BORNHOST": "here", "RECONSUME_TIME": "0"}
        assert expected.items() <= found.properties.items()
        assert found.properties["BORN_TIMESTAMP"] == "1700000000000"

    on_grpc(scenario)


def test_messages_without_a_group_go_to_queues_in_turn(on_grpc: OnGrpc) -> None:
    """Those with one to the queue that the proxy gives it."""

    async def scenario(lab: Any) -> None:
        lab.make_topic(queues=16)
        for number in range(4):
            await lab.client.send(message("T", b"%d" % number))
        queues = [one.queue_id for one in stored(lab)]
        assert len(set(queues)) == 4
        for group in ("order-1001", "order-1002", "order-1003", "g1"):
            await lab.client.send(
                message("T", group.encode(), message_group=group, message_type=MessageType.FIFO)
            )
        grouped = stored(lab)[4:]
        assert [one.queue_id for one in grouped] == [2, 15, 12, 9]
        assert [one.properties["__SHARDINGKEY"] for one in grouped] == [
            one.body.decode() for one in grouped
        ]

    on_grpc(scenario)


def test_several_messages_have_an_entry_each(on_grpc: OnGrpc) -> None:
    """In their order, one after the other in one queue."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        answer = await lab.client.send(*[message("T", b"%d" % n, f"K{n}") for n in range(5)])
        assert answer.status.code == Code.OK
        assert [(one.message_id, one.offset) for one in answer.entries] == [
            (f"K{n}", n) for n in range(5)
        ]
        assert len({one.queue_id for one in stored(lab)}) == 1
        assert [one.body for one in stored(lab)] == [b"%d" % n for n in range(5)]

    on_grpc(scenario)


def test_a_delayed_message_waits_and_can_be_taken_back(on_grpc: OnGrpc) -> None:
    """Its entry has the handle."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        sent = message("T", b"later", "K")
        due_at_ms = lab.clock.now_ms() + 60_000
        sent.system_properties.delivery_timestamp.FromMilliseconds(due_at_ms)
        sent.system_properties.message_type = MessageType.DELAY
        answer = await lab.client.send(sent)
        handle = recall_handle.decode(answer.entries[0].recall_handle)
        assert (handle.topic, handle.unique_key) == ("T", "K")
        assert stored(lab) == []
        (waiting,) = stored(lab, "rmq_sys_wheel_timer")
        assert waiting.properties["TIMER_DELIVER_MS"] == str(due_at_ms)

    on_grpc(scenario)


def broken(**changes: Any) -> Message:
    """Return a message of which something is wrong."""
    return message("T", changes.pop("body", b"x"), **changes)


WRONG: list[tuple[Message, Code, str]] = [
    (broken(body=b""), Code.MESSAGE_BODY_EMPTY, "message body cannot be empty"),
    (
        broken(body=bytes(4 * 1024 * 1024 + 1)),
        Code.MESSAGE_BODY_TOO_LARGE,
        "message body cannot exceed the max 4194304",
    ),
    (broken(key=" "), Code.ILLEGAL_MESSAGE_ID, "message id cannot be empty"),
    (broken(key="K\x02DELAY\x013"), Code.ILLEGAL_MESSAGE_ID, "control character"),
    (broken(trace_context="t\x02DELAY\x013"), Code.BAD_REQUEST, "trace context cannot"),
    (broken(tag="a|b"), Code.ILLEGAL_MESSAGE_TAG, "tag cannot contain '|'"),
    (broken(tag=" "), Code.ILLEGAL_MESSAGE_TAG, "whitespace"),
    (broken(keys=["\x02"]), Code.ILLEGAL_MESSAGE_KEY, "control character"),
    (broken(keys=["  "]), Code.ILLEGAL_MESSAGE_KEY, "whitespace"),
    (broken(message_group="g" * 64), Code.ILLEGAL_MESSAGE_GROUP, "exceed the max size 64"),
    (broken(message_group=" "), Code.ILLEGAL_MESSAGE_GROUP, "whitespace"),
    (
        broken(user_properties={"TAGS": "x"}),
        Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
        "property is used by system: TAGS",
    ),
    (
        broken(user_properties={"a": "\x01"}),
        Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
        "control character",
    ),
    (
        broken(user_properties={f"k{n}": "" for n in range(129)}),
        Code.MESSAGE_PROPERTIES_TOO_LARGE,
        "max is 128",
    ),
    (
        broken(user_properties={"a": "x" * 16_384}),
        Code.MESSAGE_PROPERTIES_TOO_LARGE,
        "max is 16384",
    ),
]


def test_what_is_wrong_with_a_message_is_told(on_grpc: OnGrpc) -> None:
    """By the proxy's codes; nothing is stored."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        for sent, code, text in WRONG:
            answer = await lab.client.send(sent)
            assert (Code(answer.status.code), text in answer.status.message) == (code, True)
        late = broken()
        late.system_properties.delivery_timestamp.FromMilliseconds(
            lab.clock.now_ms() + 25 * 3_600_000
        )
        assert (await lab.client.send(late)).status.code == Code.ILLEGAL_DELIVERY_TIME
        elsewhere = broken()
        elsewhere.system_properties.born_host = "h\x02DELAY\x013"
        assert (await lab.client.send(elsewhere)).status.code == Code.BAD_REQUEST
        assert (await lab.client.send()).status.code == Code.MESSAGE_CORRUPTED
        two = await lab.client.send(broken(), message("U", b"x"))
        assert two.status.code == Code.MESSAGE_CORRUPTED
        assert stored(lab) == []

    on_grpc(scenario)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("", Code.ILLEGAL_TOPIC),
        ("a b", Code.ILLEGAL_TOPIC),
        ("a" * 128, Code.ILLEGAL_TOPIC),
        ("RMQ_SYS_TRANS_HALF_TOPIC", Code.ILLEGAL_TOPIC),
        ("missing", Code.TOPIC_NOT_FOUND),
    ],
)
def test_a_topic_that_is_not_one(on_grpc: OnGrpc, topic: str, code: Code) -> None:
    """Is refused by route and by send alike."""

    async def scenario(lab: Any) -> None:
        assert Code((await lab.client.route(topic)).status.code) is code
        assert Code((await lab.client.send(message(topic, b"x"))).status.code) is code

    on_grpc(scenario)


def test_a_typed_topic_takes_its_kind_alone(on_grpc: OnGrpc) -> None:
    """As its route says."""

    async def scenario(lab: Any) -> None:
        lab.make_topic(message_type="FIFO")
        route = await lab.client.route("T")
        assert {*route.message_queues[0].accept_message_types} == {MessageType.FIFO}
        answer = await lab.client.send(message("T", b"x"))
        assert answer.status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        fifo = message("T", b"x", message_group="g", message_type=MessageType.FIFO)
        assert (await lab.client.send(fifo)).status.code == Code.OK

    on_grpc(scenario)


def test_a_client_says_who_it_is(on_grpc: OnGrpc) -> None:
    """Or hears that it has to."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        answer = await lab.another("").send(message("T", b"x"))
        assert answer.status.code == Code.CLIENT_ID_REQUIRED
        assert answer.status.message == "client id cannot be empty"

    on_grpc(scenario)


def test_a_write_that_fails_is_told(on_grpc: OnGrpc) -> None:
    """Of each message of the call."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        disk = lab.broker.place.disk

        def fail(call: str, path: str) -> None:
            if "commitlog" in path and call != "read":
                raise DiskFailed("no")

        disk.before = fail
        answer = await lab.client.send(message("T", b"a"), message("T", b"b"))
        assert {one.status.code for one in answer.entries} == {Code.INTERNAL_SERVER_ERROR}
        assert answer.status.code == Code.INTERNAL_SERVER_ERROR
        disk.before = None

    on_grpc(scenario)
