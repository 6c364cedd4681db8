"""A disk that fails, a clock that is set: what clients of gRPC are told, and what holds."""

import asyncio
import struct
from collections.abc import Callable
from contextlib import nullcontext
from random import Random
from typing import Any

import pytest
from tests.fuzz.http2_frames import enveloped
from tests.grpc_client import message, producer_settings
from tests.unit.runtime.http2.http2_client import POST, frame
from tests.waits import LONG_SECONDS

from sprocket.base.errors import StoreFailed
from sprocket.rocketmq.codec.grpc.messages import Message
from sprocket.rocketmq.codec.grpc.schema import SERVICE
from sprocket.rocketmq.codec.grpc.standard_messages import ServerReflectionRequest
from sprocket.rocketmq.codec.grpc.status import Code
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.store.store import Store
from sprocket.runtime.driver import carrier
from sprocket.runtime.http2 import frames, trailers_block
from sprocket.testing.disk import SimulatedDisk

OnGrpc = Callable[..., None]
SENDERS = 6
CRASHES = 12


def bodies(disk: SimulatedDisk) -> set[bytes]:
    """Return the bodies that the store on a disk has."""
    store = Store.open_read_only(disk, "/store")
    try:
        return {record.decode(one).body for _, one in store.records()}
    finally:
        store.close()


def fail_in_log(disk: SimulatedDisk, call: str, nth: int) -> None:
    """Have a coming call for the log fail."""
    seen = 0

    def before(kind: str, path: str) -> None:
        nonlocal seen
        if kind == call and "commitlog" in path:
            seen += 1
            if seen == nth:
                disk.fail(call)

    disk.before = before


async def send_until_refused(lab: Any, sender: int, count: int) -> tuple[set[bytes], set[int]]:
    """Send one message after the other; return those answered OK, and the codes of others."""
    client, answered, codes = lab.another(f"sender-{sender}"), set(), set()
    for number in range(count):
        body = b"%d of %d" % (number, sender)
        answer = await client.send(message("T", body))
        (entry,) = answer.entries
        assert answer.status.code == entry.status.code
        if entry.status.code != Code.OK:
            codes.add(entry.status.code)
            break
        answered.add(body)
    return answered, codes


@pytest.mark.parametrize("nth", [1, 2, 5, 9])
@pytest.mark.parametrize("call", ["sync", "write"])
def test_what_was_answered_survives_a_disk_that_fails(on_grpc: OnGrpc, call: str, nth: int) -> None:
    """And a loss of power after that; what was not stored is told of, by the code of the proxy."""
    disk = SimulatedDisk()

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        await lab.client.send(message("T", b"first"))
        fail_in_log(disk, call, nth)
        told = await asyncio.gather(
            *[send_until_refused(lab, number, 12) for number in range(SENDERS)]
        )
        answered = {b"first"}.union(*[one for one, _ in told])
        codes = set[int]().union(*[one for _, one in told])
        assert codes == {Code.INTERNAL_SERVER_ERROR}
        disk.before = None
        for seed in range(CRASHES):
            assert answered <= bodies(disk.crash(Random(seed).randrange))

    # A store of which a sync failed does not end as if all was well.
    with pytest.raises(StoreFailed) if call == "sync" else nullcontext():
        on_grpc(scenario, disk=disk)


def test_sends_go_on_once_a_full_disk_has_room(on_grpc: OnGrpc) -> None:
    """Meanwhile they are refused; none is answered OK that a loss of power takes."""
    disk = SimulatedDisk()

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        await lab.client.send(message("T", b"before"))
        disk.is_full = True
        kept = {b"before"}
        for number in range(3):
            answer = await lab.client.send(message("T", b"%d" % number))
            assert answer.status.code == Code.INTERNAL_SERVER_ERROR
            assert "No space left" in answer.status.message
        disk.heal()
        async with asyncio.timeout(LONG_SECONDS):
            while (answer := await lab.client.send(message("T", b"after"))).status.code != Code.OK:
                lab.advance(1)
                await asyncio.sleep(0.01)
        kept.add(b"after")
        for seed in range(CRASHES):
            assert kept <= bodies(disk.crash(Random(seed).randrange))

    on_grpc(scenario, disk=disk)


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000])
def test_a_clock_that_is_set_changes_nothing(on_grpc: OnGrpc, step_ms: int) -> None:
    """By an hour, either way: invisible times are what they were, and nobody is taken for gone."""

    async def scenario(lab: Any) -> None:
        lab.make_topic()
        for body in (b"a", b"b"):
            await lab.client.send(message("T", body))
        async with lab.client.telemetry(producer_settings("T")):
            got: list[Message] = []
            while len(got) < 2:
                got += (await lab.client.receive("T", "g")).messages
            lab.clock.step_wall(step_ms)
            lab.service.sessions.sweep()
            assert lab.service.sessions.is_there("c1")
            answer = await lab.client.ack("T", "g", got[0])
            assert answer.status.code == Code.OK
            await asyncio.sleep(0.25)
            assert (await lab.client.receive("T", "g")).messages == []
            assert (await lab.client.send(message("T", b"c"))).status.code == Code.OK
            lab.advance(31)
            again: dict[bytes, int] = {}
            async with asyncio.timeout(LONG_SECONDS):
                while len(again) < 2:
                    for one in (await lab.client.receive("T", "g")).messages:
                        again[one.body] = one.system_properties.delivery_attempt
                    await asyncio.sleep(0.01)
            assert again == {got[1].body: 2, b"c": 1}

    on_grpc(scenario)


async def read_until(reader: asyncio.StreamReader, kind: int) -> None:
    """Read frames until one of some kind has come."""
    async with asyncio.timeout(LONG_SECONDS):
        while True:
            size, found, _, _ = frames.read_head(await reader.readexactly(frames.HEAD_BYTES), 0)
            await reader.readexactly(size)
            if found == kind:
                return


def test_answers_that_wait_for_windows_are_those_of_a_slow_client(on_grpc: OnGrpc) -> None:
    """Until its windows are opened, or it is gone."""
    data, window = frames.FrameType.DATA, frames.FrameType.WINDOW_UPDATE
    asked = ServerReflectionRequest(file_containing_symbol=SERVICE).SerializeToString()
    fields = [
        (name, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        if name == ":path"
        else (name, value)
        for name, value in POST
    ]
    said = frame(data, 0, 1, enveloped(asked))
    opening = frames.PREFACE + frame(4, 0, 0, struct.pack(">HI", 4, 0))

    async def scenario(lab: Any) -> None:
        host, _, port = lab.node.addresses.grpc.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(opening + frame(1, 4, 1, trailers_block(fields)) + said)
        async with asyncio.timeout(LONG_SECONDS):
            while not (waiting := carrier().slow_bytes):
                await asyncio.sleep(0.01)
            assert waiting > 1_000
            writer.write(frame(window, 0, 1, struct.pack(">I", 1_000_000)))
            await read_until(reader, data)
            assert carrier().slow_bytes == 0
            writer.write(
                frame(4, 0, 0, struct.pack(">HI", 4, 0)) + frame(window, 0, 1, b"\0\0\0\1")
            )
            writer.write(said * 100)  # more than the windows that are left
            while not carrier().slow_bytes:
                await asyncio.sleep(0.01)
            writer.close()
            while carrier().slow_bytes:
                await asyncio.sleep(0.01)

    on_grpc(scenario)
