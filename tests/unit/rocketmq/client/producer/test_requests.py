"""A request by message has one reply, or says why there is none."""

import asyncio
from typing import Any

import pytest

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.client import (
    Admin,
    Client,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SendResult,
    reply_to,
)
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command, request, response
from sprocket.rocketmq.codec.headers import PushReply, SendMessageAnswer, SendMessageV2
from sprocket.rocketmq.codec.record import properties
from sprocket.rocketmq.errors import ReplyTimeout
from sprocket.runtime.driver import Peer


class Replies:
    """The broker's half: hands a reply to the client that it names."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.answers: list[Command] = []
        world.cluster.on[RequestCode.SEND_REPLY_MESSAGE_V2] = self.take
        usual = world.cluster.usual(RequestCode.SEND_MESSAGE_V2)

        def send(peer: Peer, command: Command) -> None:
            header = command.header(SendMessageV2)
            marked = properties.append(header.properties.encode(), "CLUSTER", "c").decode()
            command.ext = SendMessageV2(
                topic=header.topic,
                queue_id=header.queue_id,
                sys_flag=header.sys_flag,
                born_timestamp=header.born_timestamp,
                flag=header.flag,
                properties=marked,
            )
            usual(peer, command)

        world.cluster.on[RequestCode.SEND_MESSAGE_V2] = send

    def take(self, peer: Peer, command: Command) -> None:
        """Push a reply and answer its sender."""
        header = command.header(SendMessageV2)
        self.push(header.topic, header.properties, bytes(command.body))
        answer = SendMessageAnswer(msg_id="0", queue_id=0, queue_offset=0)
        peer.send(response(command, 0, answer))

    def push(self, topic: str, pairs: str, body: bytes, client_id: str = "") -> None:
        """Push a reply to the client that its properties name."""
        client_id = client_id or properties.decode(pairs)["REPLY_TO_CLIENT"]
        pushed = PushReply(
            producer_group="r",
            topic=topic,
            queue_id=0,
            sys_flag=0,
            born_timestamp=5,
            flag=0,
            properties=pairs,
            born_host="10.0.0.7:1",
            store_host="10.0.0.2:10911",
            store_timestamp=6,
        )
        self.send(request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, 77, pushed, body), client_id)

    def send(self, buffers: Any, client_id: str) -> None:
        """Send bytes to a client, and note what it answers to them."""
        waiting = self.world.cluster.peers[client_id]
        usual = self.world.cluster.handle

        def event(peer: Peer, command: Command) -> None:
            if command.is_response:
                self.answers.append(command)
            else:
                usual(peer, command)

        waiting.on_event = event
        waiting.send(buffers)


def test_a_request_is_answered(world: Any) -> None:
    """The reply carries what the replier said; the broker hears that it arrived."""
    world.cluster.topics |= {"t": 1, "c_REPLY_TOPIC": 1}
    replies = Replies(world)

    async def main() -> None:
        async with Producer(world.names, group="asks", **world.reach) as asking:
            answering = Producer(world.names, group="answers", **world.reach)

            async def listener(messages: list[ReceivedMessage]) -> None:
                for one in messages:
                    text = b"re: " + one.body
                    await answering.send(reply_to(one, text, tag="T", own_properties={"a": "b"}))

            consumer = PushConsumer(
                world.names, group="g", listener=listener, start="first", **world.reach
            )
            async with answering, consumer:
                await consumer.subscribe("t")
                found = await asking.request(Message("t", b"what", keys=["k"]), timeout_ms=30_000)
                assert (found.body, found.tag, found.properties["a"]) == (b"re: what", "T", "b")
                assert found.topic == "c_REPLY_TOPIC"
                assert (found.born_at_ms, found.stored_at_ms) == (5, 6)
                assert int(found.properties["ARRIVE_TIME"]) == world.clock.now_ms()
                assert found.properties["TTL"] == "30000"
                both = await asyncio.gather(
                    *(asking.request(Message("t", b"%d" % n), timeout_ms=30_000) for n in range(2))
                )
                assert [one.body for one in both] == [b"re: 0", b"re: 1"]
        assert [(one.code, one.opaque) for one in replies.answers] == [(0, 77)] * 3

    world.run(main)


def test_the_broker_knows_us_before_the_request(world: Any) -> None:
    """The heartbeat comes first, or the reply could not be delivered."""
    world.cluster.topics["t"] = 1

    async def main() -> None:
        async with Producer(world.names, group="asks", **world.reach) as asking:
            with pytest.raises(ReplyTimeout, match="no reply came within 50 ms"):
                await asking.request(Message("t", b"what"), timeout_ms=50)
        sent = world.cluster.seen.index(RequestCode.SEND_MESSAGE_V2)
        assert RequestCode.HEART_BEAT in world.cluster.seen[:sent]
        (beat, *_) = [one for one in world.cluster.requests if one.code == RequestCode.HEART_BEAT]
        assert bodies.decode_heartbeat(beat.body).producers == ["asks"]

    world.run(main)


def test_a_connection_that_others_opened_is_no_introduction(world: Any) -> None:
    """An admin that shares the client may have been at the broker before us, and a producer too."""
    world.cluster.topics["t"] = 1

    async def main() -> None:
        async with Client(world.names, **world.reach) as client, Admin(client) as admin:
            await admin.create_topic("t", 1)
            for group in ("asks", "asks2"):
                async with Producer(client, group=group) as asking:
                    for _ in range(2):
                        with pytest.raises(ReplyTimeout):
                            await asking.request(Message("t", b"what"), timeout_ms=50)
        told = [
            bodies.decode_heartbeat(one.body).producers
            for one in world.cluster.requests
            if one.code == RequestCode.HEART_BEAT
        ]
        assert told == [["asks"], ["asks2"]]

    world.run(main)


def test_a_reply_that_nobody_waits_for_is_answered_all_the_same(world: Any) -> None:
    """One that comes too late with success, one that cannot be read with an error."""
    world.cluster.topics["t"] = 1
    replies = Replies(world)

    async def main() -> None:
        async with Producer(world.names, group="asks", **world.reach) as asking:
            await asking.send(Message("t", b"x"))
            await world.until(lambda: bool(world.cluster.peers))
            (client_id,) = world.cluster.peers
            replies.push("c_REPLY_TOPIC", "CORRELATION_ID\x01old\x02", b"late", client_id)
            replies.send(request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, 78), client_id)
            await world.until(lambda: len(replies.answers) == 2)
            codes = [(one.opaque, one.code) for one in replies.answers]
            assert codes == [(77, ResponseCode.SUCCESS), (78, ResponseCode.SYSTEM_ERROR)]

    world.run(main)


def test_only_requests_can_be_replied_to(world: Any) -> None:
    """What is missing is named; nor can a request be marked by hand."""
    world.cluster.topics["t"] = 1
    got: list[ReceivedMessage] = []

    async def main() -> None:
        consumer = PushConsumer(
            world.names, group="g", listener=got.extend, start="first", **world.reach
        )
        async with Producer(world.names, **world.reach) as sender, consumer:
            await consumer.subscribe("t")
            sent: SendResult = await sender.send(Message("t", b"x"))
            await world.until(lambda: bool(got))
            with pytest.raises(InvalidMessage, match=f"{sent.message_id} .*ION_ID, .*CLUST"):
                reply_to(got[0], b"y")
            with pytest.raises(InvalidMessage, match="given to a request by the client"):
                await sender.request(Message("t", b"x", properties={"CORRELATION_ID": "1"}))

    world.run(main)
