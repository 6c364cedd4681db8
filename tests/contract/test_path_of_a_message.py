"""The tour in docs/ARCHITECTURE.md names each module that a message passes, from socket to answer.

A send is followed by a mark in it: whoever is given something that holds the mark has the message,
its bytes, its record, or who waits for its answer. What only helps, without having the message, is
not a step: clocks, counters, the sync of a file.
"""

import asyncio
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

import sprocket
from sprocket.node.rocketmq import Node
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import request
from sprocket.rocketmq.codec.headers import SendMessageV2
from sprocket.rocketmq.settings import ServerSettings, Settings
from sprocket.runtime import driver

SOURCE = Path(sprocket.__file__).parent
TOUR = SOURCE.parents[1] / "docs/ARCHITECTURE.md"
MARK = "a-key-that-is-found-nowhere-else"
STEPS_MAX = 14


def holds_the_mark(value: object, depth: int = 6) -> bool:
    """Say whether a value has the mark in it."""
    if isinstance(value, bytes | bytearray | memoryview):
        return MARK.encode() in bytes(value)
    if isinstance(value, str):
        return MARK in value
    parts: list[Any] = []
    if isinstance(value, msgspec.Struct):
        parts = [getattr(value, name) for name in value.__struct_fields__]
    elif isinstance(value, list | tuple):
        parts = list(value)
    elif isinstance(value, dict):
        parts = list(value.values())
    return depth > 0 and any(holds_the_mark(part, depth - 1) for part in parts)


class Walk:
    """The modules that were given the mark between the arrival of its bytes and the answer."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self._is_on = False

    def look(self, frame: FrameType, event: str, _: object) -> None:
        """See one call; what `sys.setprofile` wants."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(SOURCE)):
            return
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        has_it = any(holds_the_mark(frame.f_locals.get(n)) for n in names if n != "self")
        self._is_on |= has_it and code.co_name == "data_received"
        module = str(Path(code.co_filename).relative_to(SOURCE).with_suffix(""))
        if self._is_on and has_it and module not in self.modules:
            self.modules.append(module)
        if code.co_name == "send_now":
            self._is_on = False


async def _walk(folder: str) -> list[str]:
    """Send a message to a broker and return the modules that had it there."""
    server = ServerSettings(nameserver_port=0, broker_port=0)
    node = await Node.start(Settings(server=server), folder)
    walk = Walk()
    host, _, port = node.addresses.broker.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for number, key in enumerate(["the first one makes the topic", MARK]):
        header = SendMessageV2(
            producer_group="walkers",
            topic="paths",
            default_topic="TBW102",
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            properties=f"UNIQ_KEY\x01{key}\x02",
        )
        frame = b"".join(request(RequestCode.SEND_MESSAGE_V2, number, header, b"a body"))
        if key == MARK:
            sys.setprofile(walk.look)
        writer.write(frame)
        length = int.from_bytes(await reader.readexactly(4))
        answer = await reader.readexactly(length)
        sys.setprofile(None)
        assert key.encode() in answer
    writer.close()
    await node.stop()
    return walk.modules


def _told() -> list[str]:
    """Return the modules that the tour names, up to the answer."""
    text = TOUR.read_text(encoding="utf-8")
    tour = text[text.index("## The tour of one message") : text.index("### After the answer")]
    return re.findall(r"^\d+\. \*\*`([a-z_/]+)`\*\*", tour, re.MULTILINE)


def test_the_tour_names_each_module_that_a_message_passes(tmp_path: Path) -> None:
    """In the order in which it passes them first, and they are few."""
    passed = driver.run(_walk(str(tmp_path)))
    assert passed == _told()
    assert len(passed) <= STEPS_MAX
