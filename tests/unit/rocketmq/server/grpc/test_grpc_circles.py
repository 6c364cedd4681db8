"""What calls leave behind: nothing that only the collector of circles would find."""

import asyncio
import gc
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.grpc_client import message, producer_settings

from sprocket.rocketmq.server.grpc.calls import ClientCall
from sprocket.rocketmq.server.grpc.sessions import ClientSession
from sprocket.runtime.grpc import GrpcCall, GrpcConnection
from sprocket.runtime.http2 import Http2Connection, Stream

OnGrpc = Callable[..., None]
KINDS = (ClientCall, ClientSession, GrpcCall, GrpcConnection, Http2Connection, Stream)


def there() -> Counter[str]:
    """Return how many there are of what belongs to clients of gRPC."""
    return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, KINDS))


async def use(lab: Any) -> None:
    """Have calls that end in all ways, of a client that goes."""
    client = lab.another("user")
    for number in range(10):
        await client.send(message("T", b"m%d" % number))
    await client.send(message("T", b"a"), message("T", b"b"))
    await client.send(message("missing", b"x"))
    got = await client.receive("T", "g")
    await client.ack("T", "g", *got.messages)
    async with client.telemetry(producer_settings("T")):
        await client.send(message("T", b"c"))
    waiting = asyncio.ensure_future(
        client.receive("missing-as-well", "g", long_polling_timeout={"seconds": 20})
    )
    await asyncio.sleep(0.05)
    waiting.cancel()
    lab.service.sessions.end("user")
    await client.close()


def test_calls_and_connections_leave_no_circles(on_grpc: OnGrpc) -> None:
    """For one that was there at two looks would stay for ever."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        await use(lab)
        gc.collect()
        before = there()
        gc.disable()
        try:
            for _ in range(3):
                await use(lab)
            for _ in range(300):  # the last connection ends a little later
                left = there() - before
                if max(left.values(), default=0) <= 1:  # the group commit still has the last call
                    break
                await asyncio.sleep(0.01)
            assert max(left.values(), default=0) <= 1, left
        finally:
            gc.enable()

    on_grpc(scenario)
