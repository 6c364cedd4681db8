"""Any bytes on the ports of a running node (for tests/fuzz/; needs node and broker).

Invariant: each whole request that wants an answer gets one or its connection is closed, no handler
fails unexpectedly, and the next connection is served.
"""

import asyncio
import dataclasses
import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
import structlog

from sprocket.base.errors import WireError
from sprocket.node.run import Node
from sprocket.rocketmq.codec import command
from sprocket.rocketmq.codec.connection import Connection
from sprocket.rocketmq.settings import Geometry, Settings
from sprocket.runtime import driver
from sprocket.testing.frames import mutated_frames

SEED = int(os.environ.get("SPROCKET_FUZZ_SEED", "20260118"))
COUNT = 20_000


def is_whole(frame: bytes) -> bool:
    """Tell whether a frame reaches the handlers."""
    connection = Connection()
    try:
        found = connection.receive(frame)
    except WireError:
        return False
    return len(found) == 1 and connection.broken is None


@pytest.mark.slow
def test_a_node_goes_on(tmp_path: Path) -> None:
    """Frames whose values are odd, 20 to a connection, at broker and NameServer."""
    failures: list[Any] = []

    def keep(_: Any, name: str, entry: MutableMapping[str, Any]) -> Any:
        if name in ("error", "exception", "critical"):
            failures.append(entry)
        raise structlog.DropEvent

    structlog.configure(processors=[keep])
    try:
        driver.run(_attack(tmp_path))
    finally:
        structlog.reset_defaults()
    assert not failures, f"seed {SEED}: {failures[0]}"


async def _attack(folder: Path) -> None:
    settings = Settings()
    server = dataclasses.replace(settings.server, nameserver_port=0, broker_port=0)
    settings = dataclasses.replace(settings, server=server)
    node = await Node.start(settings, str(folder), geometry=Geometry.small())
    frames = [frame for frame in mutated_frames(SEED, COUNT) if is_whole(frame)]
    for address in (node.addresses.broker, node.addresses.nameserver):
        port = int(address.rpartition(":")[2])
        for start in range(0, len(frames), 20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            answers = asyncio.ensure_future(reader.read())
            writer.writelines(frames[start : start + 20])
            writer.write_eof()
            async with asyncio.timeout(10):
                await answers
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.writelines(command.request(9999, 1))
            (answer,) = Connection().receive(await reader.read(1000))
            assert answer.code == 3
            writer.close()
    await node.stop()
