"""The broker for tests, for SDKs of RocketMQ 5."""

import asyncio
from dataclasses import replace

import pytest
from tests.grpc_client import GrpcClient, message
from tests.waits import LONG_SECONDS

from sprocket.node import rocketmq
from sprocket.rocketmq.client import blocking
from sprocket.rocketmq.codec.grpc.status import Code
from sprocket.rocketmq.codec.grpc.times import duration
from sprocket.rocketmq.settings import GrpcSettings
from sprocket.testing.local_broker import LocalBroker, small_settings


def test_sdks_find_it_and_find_it_again() -> None:
    """At the same port after a restart; short times are taken."""

    async def through(address: str, body: bytes) -> list[bytes]:
        client = GrpcClient(address)
        try:
            sent = await client.send(message("orders", body))
            assert sent.status.code == Code.OK
            async with asyncio.timeout(LONG_SECONDS):
                while True:
                    got = await client.receive("orders", "g", invisible_duration=duration(100))
                    if got.messages:
                        await client.ack("orders", "g", *got.messages)
                        return got.bodies
        finally:
            await client.close()

    with LocalBroker() as broker:
        with blocking.Admin(broker.nameserver) as admin:
            admin.create_topic("orders", 1)
        first = broker.grpc
        assert asyncio.run(through(first, b"one")) == [b"one"]
        broker.restart()
        assert broker.grpc == first
        assert asyncio.run(through(first, b"two")) == [b"two"]


def test_what_was_acknowledged_does_not_come_after_a_crash() -> None:
    """What was not comes again, as another attempt."""

    async def begin(address: str) -> bytes:
        client = GrpcClient(address)
        try:
            sent = [message("orders", b"%d" % number) for number in range(3)]
            assert (await client.send(*sent)).status.code == Code.OK
            async with asyncio.timeout(LONG_SECONDS):
                while len(got := (await client.receive("orders", "g")).messages) < 3:
                    assert not got
            assert (await client.ack("orders", "g", got[0])).status.code == Code.OK
            return bytes(got[0].body)
        finally:
            await client.close()

    async def rest(address: str, seen: dict[bytes, int]) -> None:
        client = GrpcClient(address)
        try:
            for one in (await client.receive("orders", "g")).messages:
                seen[one.body] = one.system_properties.delivery_attempt
        finally:
            await client.close()

    with LocalBroker() as broker:
        with blocking.Admin(broker.nameserver) as admin:
            admin.create_topic("orders", 1)
        done = asyncio.run(begin(broker.grpc))
        broker.crash()
        seen: dict[bytes, int] = {}
        while len(seen) < 2:
            broker.advance(seconds=31)
            asyncio.run(rest(broker.grpc, seen))
        assert done not in seen
        assert {*seen.values()} == {2}


def test_it_serves_none_if_it_is_told_so_or_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra there is nothing to serve them by."""
    off = replace(small_settings(), grpc=GrpcSettings(port="off"))
    with LocalBroker(settings=off) as broker:
        assert broker.grpc == ""
    monkeypatch.setattr(rocketmq, "GRPC_PACKAGES", ("no_such_package",))
    with LocalBroker() as broker:
        assert broker.grpc == ""
