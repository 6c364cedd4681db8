"""Any bytes at the socket of an AMQP server.

Invariant: whatever a client sends, it hears whole frames only; no handler fails; the next client is
served as if nothing had been; and nothing of those that are gone is left.

A failure names its seed and the number of the connection.
"""

import asyncio
import gc
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import sockets
from tests.amqp import handshake, heard, message, method
from tests.amqp_tenant import Door
from tests.fuzz.amqp_frames import mutated_units
from tests.waits import LONG_SECONDS

from sprocket.base.clock import SystemClock
from sprocket.base.disk import RealDisk
from sprocket.node.rabbitmq import AmqpNode
from sprocket.rabbitmq.codec.amqp import methods
from sprocket.rabbitmq.model.fields import NO_FIELDS
from sprocket.rabbitmq.server.amqp_server import AmqpServer
from sprocket.rabbitmq.server.connection import WireLimits
from sprocket.rabbitmq.server.greeting import Greeting
from sprocket.rabbitmq.store.reading import vhost_folders
from sprocket.rabbitmq.store.repair import check_vhost
from sprocket.runtime import driver
from sprocket.runtime.driver import carrier
from sprocket.runtime.turns import Turns
from sprocket.testing.local_amqp import small_settings

SEED = int(os.environ.get("SPROCKET_FUZZ_SEED", "20261123"))
COUNT = 50_000
"""Units at the socket by night; a twentieth of them in every run."""
UNITS_PER_CONNECTION = 3
SECONDS_MAX = LONG_SECONDS
"""How long one connection may take: nothing hangs."""
LIMITS = WireLimits(message_bytes_max=100_000)
OPENING = handshake(LIMITS) + method(1, methods.ChannelOpen())
DECLARE = method(1, methods.QueueDeclare(0, "plain", False, False, False, False, False, NO_FIELDS))
GET = method(1, methods.BasicGet(0, "plain", True))
OWN = method(1, methods.QueueDeclare(0, "plain", False, False, True, False, False, NO_FIELDS))
"""The same, for one connection alone."""
BYE = method(0, methods.ConnectionClose(200, "bye", 0, 0))
GONE = method(0, methods.ConnectionCloseOk())


@pytest.mark.parametrize(
    "share",
    [
        pytest.param(60, id="sixtieth", marks=pytest.mark.slow),
        pytest.param(1, id="whole", marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
    ],
)
def test_a_server_goes_on(failures: list[Any], share: int) -> None:
    """Mutated frames; in between and at the end it serves as before, and nothing is left."""
    driver.run(_attack_and_use(COUNT // share, failures))
    assert not failures, f"seed {SEED}: {failures[0]}"


@pytest.mark.parametrize(
    "share",
    [
        pytest.param(100, id="hundredth", marks=pytest.mark.slow),
        pytest.param(1, id="whole", marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
    ],
)
def test_a_broker_goes_on(tmp_path: Path, failures: list[Any], share: int) -> None:
    """The same at a real one; what it leaves behind is whole."""
    driver.run(_attack_and_use_broker(tmp_path, COUNT // share, failures))
    assert not failures, f"seed {SEED}: {failures[0]}"
    disk = RealDisk()
    for folder in vhost_folders(disk, str(tmp_path)):
        findings = list(check_vhost(disk, folder))
        assert not findings, f"seed {SEED}: {findings[0]}"


async def _attack_and_use_broker(folder: Path, count: int, failures: list[Any]) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context))
    settings = small_settings()
    settings = replace(settings, amqp=replace(settings.amqp, port=0))
    node = await AmqpNode.start(settings, str(folder))
    port = int(node.address.rpartition(":")[2])
    await _attack(port, count, OWN)
    async with asyncio.timeout(SECONDS_MAX):
        while carrier().peers:
            await asyncio.sleep(0)
    assert (node.server.sessions, node.server.alarms.blocked_count) == ({}, 0)
    await node.stop()


async def _attack_and_use(count: int, failures: list[Any]) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context))
    door = Door()
    server = AmqpServer(door, Greeting("fuzz"), LIMITS, SystemClock(), loop, Turns(loop))
    listening = await sockets.serve(
        server.connection, server.on_event, "127.0.0.1", 0, policy=server.policy()
    )
    await _attack(listening.port, count, DECLARE)
    async with asyncio.timeout(SECONDS_MAX):
        while carrier().peers:  # the last ones close a turn or two later
            await asyncio.sleep(0)
    assert (server.sessions, door.inside, door.consumers) == ({}, [], {})
    server.stop()
    await listening.close()


async def _attack(port: int, count: int, declare: bytes) -> None:
    """Send mutated units, and use the server in between and at the end."""
    units = mutated_units(SEED, count)
    for number in range(count // UNITS_PER_CONNECTION):
        data = b"".join(next(units) for _ in range(UNITS_PER_CONNECTION))
        try:
            heard(_whole(await _say(port, OPENING + data + BYE)))
            if number % 500 == 0:
                await _use(port, declare)
        except BaseException as error:
            error.add_note(f"seed {SEED}, connection {number}: {data[:400].hex()}")
            raise
    await _use(port, declare)


async def _say(port: int, data: bytes) -> bytes:
    """Send octets on a connection of their own, and nothing more; return what is heard."""
    async with asyncio.timeout(SECONDS_MAX):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(data)
            writer.write_eof()
            return await reader.read()
        except ConnectionError:  # it closed with some of it unread
            return b""
        finally:
            writer.close()


def _whole(data: bytes) -> bytes:
    """Leave out what may be cut: the server drops what the client did not wait for."""
    at = 0
    while len(data) - at >= 8:
        size = 8 + int.from_bytes(data[at + 3 : at + 7], "big")
        if at + size > len(data):
            break
        at += size
    return data[:at]


async def _use(port: int, declare: bytes) -> None:
    """Publish a message and get it back."""
    async with asyncio.timeout(SECONDS_MAX):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(OPENING + declare + message(1, b"whole", "plain", exchange="") + GET + BYE)
        data = await reader.readuntil(GONE)
        writer.close()  # which the server leaves to its clients
    told = [type(one) for _, one in heard(data)]
    assert told[3:] == [
        methods.ChannelOpenOk,
        methods.QueueDeclareOk,
        methods.BasicGetOk,
        methods.ConnectionCloseOk,
    ]
    assert b"whole" in data
    gc.collect()
