"""A client of RocketMQ's gRPC service that asks what a test wants, over grpcio."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import grpc.aio
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.codec.grpc import messages
from sprocket.rocketmq.codec.grpc.descriptors import CLASSES
from sprocket.rocketmq.codec.grpc.message_in import MessageType
from sprocket.rocketmq.codec.grpc.messages import (
    Address,
    Endpoints,
    FilterExpression,
    Message,
    MessageQueue,
    Publishing,
    Resource,
    Settings,
    Subscription,
    SubscriptionEntry,
    SystemProperties,
    TelemetryCommand,
)
from sprocket.rocketmq.codec.grpc.schema import RPCS
from sprocket.rocketmq.codec.grpc.status import Code
from sprocket.rocketmq.codec.grpc.times import duration

_RPC: Final = {rpc.name: rpc for rpc in RPCS}
PRODUCER, PUSH, SIMPLE = 1, 2, 3


class GrpcClient:
    """One client on one connection.

    Args:
        address: Where the broker is.
        client_id: How it calls itself; empty for not at all.
        metadata: What else it says with each call.
    """

    def __init__(self, address: str, client_id: str = "c1", **metadata: str) -> None:
        self.address = address
        host, _, port = address.rpartition(":")
        self.endpoints = Endpoints(scheme=1, addresses=[Address(host=host, port=int(port))])
        said = {"x-mq-client-id": client_id, "x-mq-language": "PYTHON"}
        said |= {name.replace("_", "-"): value for name, value in metadata.items()}
        said["x-mq-client-version"] = "5.1.2"
        self.metadata = [(name, value) for name, value in said.items() if value]
        options = [("grpc.use_local_subchannel_pool", 1)]
        self.channel = grpc.aio.insecure_channel(address, options=options)

    async def close(self) -> None:
        """Close its connection."""
        await self.channel.close()

    async def call(self, name: str, request: Any, seconds: float = LONG_SECONDS) -> Any:
        """Make a call of one request and one answer."""
        rpc = _RPC[name]
        method = self.channel.unary_unary(
            rpc.path,
            request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=CLASSES[rpc.response].FromString,
        )
        return await method(request, timeout=seconds, metadata=self.metadata)

    async def route(self, topic: str) -> Any:
        """Ask where a topic is."""
        return await self.call(
            "QueryRoute",
            messages.QueryRouteRequest(topic=Resource(name=topic), endpoints=self.endpoints),
        )

    async def send(self, *sent: Message) -> Any:
        """Send messages in one call."""
        return await self.call("SendMessage", messages.SendMessageRequest(messages=sent))

    async def receive(
        self, topic: str, group: str, seconds: float = LONG_SECONDS, **more: Any
    ) -> "Received":
        """Receive messages, for half a minute each, and wait for none."""
        queue = MessageQueue(topic=Resource(name=topic), id=0)
        asked: dict[str, Any] = {
            "group": Resource(name=group),
            "message_queue": queue,
            "filter_expression": FilterExpression(type=1, expression="*"),
            "batch_size": 32,
            "invisible_duration": duration(30_000),
            "long_polling_timeout": duration(0),
        }
        request = messages.ReceiveMessageRequest(**asked | more)
        rpc = _RPC["ReceiveMessage"]
        method = self.channel.unary_stream(
            rpc.path,
            request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=CLASSES[rpc.response].FromString,
        )
        stream = method(request, timeout=seconds, metadata=self.metadata)
        return Received([one async for one in stream])

    async def ack(self, topic: str, group: str, *received: Message) -> Any:
        """Acknowledge messages."""
        entries = [
            messages.AckMessageEntry(
                message_id=one.system_properties.message_id,
                receipt_handle=one.system_properties.receipt_handle,
            )
            for one in received
        ]
        return await self.call(
            "AckMessage",
            messages.AckMessageRequest(
                group=Resource(name=group), topic=Resource(name=topic), entries=entries
            ),
        )

    @asynccontextmanager
    async def telemetry(self, settings: Settings) -> AsyncIterator["TelemetryStream"]:
        """Open a stream, say what this client is, and read the answer."""
        rpc = _RPC["Telemetry"]
        method = self.channel.stream_stream(
            rpc.path,
            request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=CLASSES[rpc.response].FromString,
        )
        stream = method(metadata=self.metadata)
        try:
            await stream.write(TelemetryCommand(settings=settings))
            yield TelemetryStream(stream, await asyncio.wait_for(stream.read(), LONG_SECONDS))
        finally:
            stream.cancel()


class TelemetryStream:
    """A stream of a client.

    Attributes:
        first: What it was answered first.
    """

    def __init__(self, stream: Any, first: Any) -> None:
        self._stream = stream
        self.first = first

    async def read(self) -> Any:
        """Return what comes next."""
        return await asyncio.wait_for(self._stream.read(), LONG_SECONDS)

    async def write(self, command: TelemetryCommand) -> None:
        """Say something."""
        await self._stream.write(command)


class Received:
    """What a receive was answered.

    Attributes:
        parts: All of it.
        code: Its status.
        text: What that says.
        messages: The messages.
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = parts
        (status,) = [one.status for one in parts if one.WhichOneof("content") == "status"]
        self.code, self.text = Code(status.code), status.message
        self.messages = [one.message for one in parts if one.WhichOneof("content") == "message"]

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of the messages."""
        return [one.body for one in self.messages]


def message(topic: str, body: bytes, key: str = "", **said: Any) -> Message:
    """Return a message as an SDK sends it."""
    kind = said.pop("message_type", MessageType.NORMAL)
    properties = said.pop("user_properties", {})
    system = SystemProperties(
        message_id=key or f"01{body.hex():0<32}"[:34],
        body_encoding=1,
        born_host="here",
        message_type=kind,
        **said,
    )
    system.born_timestamp.FromMilliseconds(1_700_000_000_000)
    return Message(
        topic=Resource(name=topic), user_properties=properties, system_properties=system, body=body
    )


def producer_settings(*topics: str) -> Settings:
    """Return what a producer says of itself."""
    return Settings(
        client_type=PRODUCER,
        publishing=Publishing(topics=[Resource(name=name) for name in topics]),
    )


def consumer_settings(group: str, *topics: str, kind: int = PUSH) -> Settings:
    """Return what a consumer says of itself."""
    entries = [
        SubscriptionEntry(
            topic=Resource(name=name), expression=FilterExpression(type=1, expression="*")
        )
        for name in topics
    ]
    return Settings(
        client_type=kind,
        subscription=Subscription(group=Resource(name=group), subscriptions=entries),
    )
