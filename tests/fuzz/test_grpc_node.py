"""Any bytes at the port at which a node serves gRPC.

Invariant: whatever a client sends, it hears whole frames only, of which each stream has one end at
most; a connection that breaks the rules is ended by the node; no handler fails; and afterwards the
node serves as before, and holds nothing of who sent it.

A failure names its seed and the number of the conversation.
"""

import asyncio
import gc
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from tests import grpc_client
from tests.fuzz.http2_frames import Conversations
from tests.fuzz.http2_said import check_said
from tests.grpc_client import GrpcClient
from tests.own_memory import own_bytes
from tests.unit.runtime.http2.http2_client import frame
from tests.waits import LONG_SECONDS

from sprocket.base.disk import RealDisk
from sprocket.base.units import MIB
from sprocket.node.rocketmq import Node
from sprocket.rocketmq.codec.grpc import messages
from sprocket.rocketmq.codec.grpc.messages import Resource, TelemetryCommand
from sprocket.rocketmq.codec.grpc.schema import RPCS
from sprocket.rocketmq.codec.grpc.status import Code
from sprocket.rocketmq.codec.grpc.times import duration
from sprocket.rocketmq.geometry import Geometry
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.settings import GrpcSettings, Settings
from sprocket.rocketmq.store.consistency import Rule
from sprocket.rocketmq.store.repair import check
from sprocket.runtime import driver
from sprocket.runtime.driver import carrier
from sprocket.runtime.http2 import frames

SEED = int(os.environ.get("SPROCKET_FUZZ_SEED", "20261130"))
COUNT: Final = 1_000_000
"""Frames by night."""
USED_EVERY: Final = 2_000
"""Conversations."""
GROWTH_BYTES_MAX: Final = 48 * MIB
"""What the process may have more after the last nine tenths: the allocator's, messages, offsets."""
SECONDS_MAX: Final = LONG_SECONDS
"""How long one connection may take: nothing hangs."""
OPENING: Final = frames.PREFACE + frame(4, 0, 0)
TOPIC, GROUP = "T", "g"


def calls() -> Sequence[tuple[str, bytes]]:
    """Return paths of methods, each with a request that is right, and one that is not served."""
    topic, group = Resource(name=TOPIC), Resource(name=GROUP)
    queue = messages.MessageQueue(topic=topic)
    said = {
        "QueryRoute": messages.QueryRouteRequest(topic=topic),
        "SendMessage": messages.SendMessageRequest(messages=[grpc_client.message(TOPIC, b"x")]),
        "QueryAssignment": messages.QueryAssignmentRequest(topic=topic, group=group),
        "ReceiveMessage": messages.ReceiveMessageRequest(
            group=group,
            message_queue=queue,
            batch_size=4,
            invisible_duration=duration(10_000),
            long_polling_timeout=duration(0),
        ),
        "AckMessage": messages.AckMessageRequest(group=group, topic=topic),
        "Telemetry": TelemetryCommand(settings=grpc_client.producer_settings(TOPIC)),
        "NotifyClientTermination": messages.NotifyClientTerminationRequest(),
    }
    found = [(rpc.path, said[rpc.name].SerializeToString()) for rpc in RPCS if rpc.name in said]
    found += [("/grpc.health.v1.Health/Watch", b""), ("/no.Service/Method", b"asked")]
    return found


@pytest.mark.parametrize(
    "share",
    [
        pytest.param(500, id="part", marks=pytest.mark.slow),
        pytest.param(1, id="whole", marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
    ],
)
def test_a_node_goes_on(tmp_path: Path, failures: list[Any], share: int) -> None:
    """Mutated frames; in between and at the end it serves as before, and nothing is left."""
    driver.run(_attack_and_use(tmp_path, COUNT // share, failures))
    assert not failures, f"seed {SEED}: {failures[0]}"
    found = check.check(RealDisk(), str(tmp_path))
    findings = [one for one in found if one.rule is not Rule.OFFSET_BEYOND]
    assert not findings, f"seed {SEED}: {findings[0]}"


async def _attack_and_use(folder: Path, count: int, failures: list[Any]) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context))
    settings = Settings(grpc=GrpcSettings(port=0, poll_ms_min=0, invisible_ms_min=0))
    server = replace(settings.server, nameserver_port=0, broker_port=0)
    settings = replace(settings, server=server)
    node = await Node.start(settings, str(folder), geometry=Geometry.small())
    assert node.broker is not None
    node.broker.topics.put(TopicConfig(name=TOPIC, read_queues=4, write_queues=4))
    address = node.addresses.grpc
    await _use(address)
    own_peers = len(carrier().peers)  # between broker and NameServer
    conversations = Conversations(SEED, calls(), [("x-mq-client-id", "hostile")])
    sent = number = settled = 0
    while sent < count:
        if not settled and sent >= count // 10:
            settled = own_bytes()
        data = conversations.draw()
        try:
            check_said(await _say(address, OPENING + b"".join(data)))
            if number % USED_EVERY == 0:
                await _use(address)
        except BaseException as error:
            error.add_note(f"seed {SEED}, conversation {number}: {b''.join(data)[:2_000].hex()}")
            raise
        sent += len(data)
        number += 1
    await _use(address)
    async with asyncio.timeout(SECONDS_MAX):
        while len(carrier().peers) > own_peers:  # the last ones close a turn or two later
            await asyncio.sleep(0)
    assert own_bytes() - settled < GROWTH_BYTES_MAX
    seen = [*failures]
    await node.stop()
    # What is to be given again just then finds that nothing reads the disk any more.
    failures[:] = [*seen, *(one for one in failures[len(seen) :] if "why" not in one)]


async def _say(address: str, data: bytes) -> bytes:
    """Send octets on a connection of their own, and nothing more; return the whole frames heard."""
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(SECONDS_MAX):
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(data)
            writer.write_eof()
            return _whole(await reader.read())
        except ConnectionError:  # it closed with some of it unread
            return b""
        finally:
            writer.close()


def _whole(data: bytes) -> bytes:
    """Leave out what may be cut: the node drops what the client did not wait for."""
    at = 0
    while len(data) - at >= frames.HEAD_BYTES:
        end = at + frames.HEAD_BYTES + frames.read_head(data, at)[0]
        if end > len(data):
            break
        at = end
    return data[:at]


async def _use(address: str) -> None:
    """Send a message and receive it."""
    client = GrpcClient(address, "user")
    try:
        sent = await client.send(grpc_client.message(TOPIC, b"whole"))
        assert sent.status.code == Code.OK
        while b"whole" not in (found := await client.receive(TOPIC, "user")).bodies:
            assert found.messages, "a message that was sent does not come"
        await client.ack(TOPIC, "user", *found.messages)
    finally:
        await client.close()
    gc.collect()
