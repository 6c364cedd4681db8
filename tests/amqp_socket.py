"""A client that says each frame itself, over a socket to a node of the same loop."""

import asyncio
from collections.abc import Sequence

from tests.amqp import LOGIN, handshake, heard, method

from sprocket.node.rabbitmq import AmqpNode
from sprocket.rabbitmq.codec.amqp import frames, methods
from sprocket.rabbitmq.model.fields import Field, FieldKind, FieldTable
from sprocket.rabbitmq.server.connection import WireLimits


class RawClient:
    """Somebody at the other end of a socket, who is in and has a channel."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, node: AmqpNode, *, understands: Sequence[str] = ()) -> "RawClient":
        """Open a connection and a channel, as a client with some capabilities."""
        return await cls.open(node.address, understands=understands)

    @classmethod
    async def open(cls, address: str, *, understands: Sequence[str] = ()) -> "RawClient":
        """Do so with whoever is at an address."""
        host, _, port = address.rpartition(":")
        self = cls(*await asyncio.open_connection(host, int(port)))
        able = FieldTable(tuple((name, Field(FieldKind.BOOL, True)) for name in understands))
        told = FieldTable((("capabilities", Field(FieldKind.TABLE, able)),))
        login = methods.ConnectionStartOk(told, "PLAIN", b"\x00guest\x00guest", "en_US")
        limits = WireLimits(heartbeat_seconds=0)
        self.writer.write(handshake(limits).replace(LOGIN, method(0, login)))
        self.writer.write(method(1, methods.ChannelOpen()))
        while True:
            if isinstance(await self.answer(), methods.ChannelOpenOk):
                return self

    async def answer(self) -> methods.AmqpMethod:
        """Return the next method that it is told."""
        while True:
            head = await self.reader.readexactly(frames.HEAD_BYTES)
            kind, _, size = frames.HEAD.unpack(head)
            rest = await self.reader.readexactly(size + 1)
            if kind == frames.FrameKind.METHOD:
                ((_, found),) = heard(head + rest)
                return found

    async def ask(self, asked: methods.AmqpMethod) -> methods.AmqpMethod:
        """Call a method and return its answer."""
        self.writer.write(method(1, asked))
        return await self.answer()
