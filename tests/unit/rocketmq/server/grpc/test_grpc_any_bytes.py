"""Whatever a client sends as a request is answered, and the next call is served."""

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

import grpc
from google.protobuf.message import Message
from tests.grpc_client import message
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.codec.grpc.descriptors import CLASSES
from sprocket.rocketmq.codec.grpc.schema import MESSAGES, RPCS, ProtoField
from sprocket.rocketmq.codec.grpc.status import Code

OnGrpc = Callable[..., None]
ROUNDS: Final = 12
TEXTS: Final = ("", "T", "g", " ", "\x01", "T\x02", "x" * 300, "é", "1 2 3", "%RETRY%g", "n > 1")
NUMBERS: Final = (0, 1, 2, 3, -1, 32, 1 << 30, -(1 << 31))


def filled(made: Any, fields: tuple[ProtoField, ...], chance: random.Random, depth: int) -> Message:
    """Fill a message with values that its sender need not mean."""
    for field in fields:
        if chance.random() < 0.3:
            continue
        kind, name = field.kind, field.name
        if kind in MESSAGES:
            if depth and not field.is_repeated:
                filled(getattr(made, name), tuple(MESSAGES[kind]), chance, depth - 1)
            elif depth:
                filled(getattr(made, name).add(), tuple(MESSAGES[kind]), chance, depth - 1)
        elif kind in ("Timestamp", "Duration"):
            part = getattr(made, name).add() if field.is_repeated else getattr(made, name)
            part.seconds = chance.choice((0, 1, -1, 15, 1 << 33))
        elif kind == "map":
            getattr(made, name)[chance.choice(TEXTS)] = chance.choice(TEXTS)
        else:
            value: object = chance.choice(TEXTS)
            if kind == "bytes":
                value = chance.randbytes(20)
            elif kind == "bool":
                value = chance.random() < 0.5
            elif kind == "float":
                value = chance.random()
            elif kind != "string":
                value = chance.choice(NUMBERS)
            if field.is_repeated:
                getattr(made, name).append(value)
            else:
                setattr(made, name, value)
    return made  # type: ignore[no-any-return]


def requests(name: str, chance: random.Random) -> Iterator[bytes]:
    """Give requests of some kind, whole and damaged, and bytes that are none."""
    for number in range(ROUNDS):
        data = filled(CLASSES[name](), tuple(MESSAGES[name]), chance, 3).SerializeToString()
        yield data
        damaged = bytearray(data)
        if damaged:
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        yield bytes(damaged)
        yield data[: chance.randrange(len(data) + 1)]
        yield chance.randbytes(number * 3)


def test_any_request_is_answered(on_grpc: OnGrpc) -> None:
    """Of every method, with a status or an error of gRPC."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        chance = random.Random(7)
        codes = set()
        for rpc in RPCS:
            many = lab.client.channel.stream_stream(rpc.path)
            for data in requests(rpc.request, chance):
                # A receive that is right may wait; a client that has enough leaves.
                call = many(iter([data]), metadata=lab.client.metadata, timeout=LONG_SECONDS)
                try:
                    await asyncio.wait_for(call.read(), 0.5)
                    codes.add(grpc.StatusCode.OK)
                except TimeoutError:
                    assert rpc.name == "ReceiveMessage"
                except grpc.aio.AioRpcError as error:
                    codes.add(error.code())
                call.cancel()
        assert codes <= {
            grpc.StatusCode.OK,
            grpc.StatusCode.INTERNAL,
            grpc.StatusCode.INVALID_ARGUMENT,
            grpc.StatusCode.UNIMPLEMENTED,
        }
        answer = await lab.client.send(message("T", b"still there"))
        assert answer.status.code == Code.OK

    on_grpc(scenario)
