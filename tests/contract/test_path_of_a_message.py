"""The tours in docs/ARCHITECTURE.md name each module that a message passes, from socket to answer.

A message is followed by a mark in it: whoever is given something that holds the mark has the
message, its bytes, its record, or who waits for its answer. What only helps, without having the
message, is not a step: clocks, counters, the sync of a file.
"""

import ast
import asyncio
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
from tests.amqp import frame, header, method
from tests.amqp_socket import RawClient

import sprocket
from sprocket.node.rabbitmq import AmqpNode
from sprocket.node.rocketmq import Node
from sprocket.rabbitmq.codec.amqp import methods, properties
from sprocket.rabbitmq.codec.amqp.frames import FrameKind
from sprocket.rabbitmq.model.fields import NO_FIELDS
from sprocket.rabbitmq.model.properties import BasicProperties
from sprocket.rabbitmq.settings import AmqpNodeSettings, AmqpSettings
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import request
from sprocket.rocketmq.codec.headers import SendMessageV2
from sprocket.rocketmq.settings import ServerSettings, Settings
from sprocket.runtime import driver

SOURCE = Path(sprocket.__file__).parent
TOUR = SOURCE.parents[1] / "docs/ARCHITECTURE.md"
MARK = "a-key-that-is-found-nowhere-else"
STEPS_MAX = 14
AMQP_STEPS_MAX = 18
LOOSE = re.compile(r"\b(Any|object)\b|Callable\[\.\.\.")
"""A type that says nothing of what it is the type of."""
LOOSE_ON_PURPOSE = {
    "rabbitmq/server/handlers/channel_methods._did(what)": "fields of a line of the log",
    "rocketmq/codec/command._ext_texts(ext)": "JSON of a peer, before it is looked at",
    "rocketmq/codec/command._int32(members)": "JSON of a peer, before it is looked at",
    "rocketmq/codec/command._language(value)": "JSON of a peer, before it is looked at",
    "rocketmq/codec/command._check_serialize(value)": "JSON of a peer, before it is looked at",
    "runtime/driver/peer._handle(events)": "the driver passes on what a connection makes of bytes;"
    " whoever opens a port binds both to one type",
}
"""By parameter, why that is right."""


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


class PassedModules:
    """The modules that were given the mark, by default since its bytes arrived."""

    def __init__(self, *, is_on: bool = False) -> None:
        self.modules: list[str] = []
        self._is_on = is_on

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


async def _sent(folder: str) -> list[str]:
    """Send a message to a broker and return the modules that had it there."""
    server = ServerSettings(nameserver_port=0, broker_port=0)
    node = await Node.start(Settings(server=server), folder)
    passed = PassedModules()
    host, _, port = node.addresses.broker.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for number, key in enumerate(["the first one makes the topic", MARK]):
        header = SendMessageV2(
            producer_group="senders",
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
            sys.setprofile(passed.look)
        writer.write(frame)
        length = int.from_bytes(await reader.readexactly(4))
        answer = await reader.readexactly(length)
        sys.setprofile(None)
        assert key.encode() in answer
    writer.close()
    await node.stop()
    return passed.modules


async def _published(folder: str) -> list[str]:
    """Publish a message, wait for its confirm, consume it; return the modules that had it."""
    settings = AmqpNodeSettings(amqp=AmqpSettings(port=0, heartbeat_seconds=0))
    node = await AmqpNode.start(settings, folder)
    client = await RawClient.connect(node)
    await client.ask(methods.QueueDeclare(0, "paths", False, True, False, False, False, NO_FIELDS))
    await client.ask(methods.ConfirmSelect(False))
    octets = properties.encode(BasicProperties(delivery_mode=2))
    published, delivered = PassedModules(), PassedModules(is_on=True)
    sys.setprofile(published.look)
    client.writer.write(
        method(1, methods.BasicPublish(0, "", "paths", False, False))
        + header(1, len(MARK), octets)
        + frame(FrameKind.BODY, 1, MARK.encode())
    )
    assert await client.answer() == methods.BasicAck(1, False)
    sys.setprofile(delivered.look)
    await client.ask(methods.BasicConsume(0, "paths", "tag", False, False, False, False, NO_FIELDS))
    assert isinstance(await client.answer(), methods.BasicDeliver)
    sys.setprofile(None)
    client.writer.close()
    await node.stop()
    fresh = [one for one in delivered.modules if one not in published.modules]
    return published.modules + fresh


def _tour(start: str, end: str) -> list[list[str]]:
    """Return the modules that each step of a tour names."""
    text = TOUR.read_text(encoding="utf-8")
    tour = text[text.index(start) : text.index(end)]
    steps = re.findall(r"^\d+\. (.*?)(?=^\d+\. |^\[|^#|\Z)", tour, re.MULTILINE | re.DOTALL)
    return [re.findall(r"\*\*`([a-z_/]+)`\*\*", one) for one in steps]


def test_the_tour_names_each_module_that_a_message_passes(tmp_path: Path) -> None:
    """In the order in which it passes them first, and they are few."""
    passed = driver.run(_sent(str(tmp_path)))
    assert [[one] for one in passed] == _tour("## The tour of one message", "### After the answer")
    assert len(passed) <= STEPS_MAX


def test_the_tour_names_each_module_that_an_amqp_message_passes(tmp_path: Path) -> None:
    """From publish to confirm, and what it passes for the first time when it is delivered."""
    passed = driver.run(_published(str(tmp_path)))
    steps = _tour("## The tour of an AMQP message", "### The types of an AMQP message")
    assert passed == [module for step in steps for module in step]
    assert len(steps) <= AMQP_STEPS_MAX


def test_from_the_socket_to_the_disk_no_parameter_loses_its_type() -> None:
    """A message can be followed by the types of what its steps take, in both products."""
    steps = _tour("## The tour of one message", "### After the answer")
    steps += _tour("## The tour of an AMQP message", "### The types of an AMQP message")
    loose = {
        f"{module}.{function.name}({one.arg})"
        for module in {module for step in steps for module in step}
        for function in ast.walk(ast.parse((SOURCE / f"{module}.py").read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for one in ast.walk(function.args)
        if isinstance(one, ast.arg) and one.annotation is not None
        if LOOSE.search(ast.unparse(one.annotation))
    }
    assert loose == LOOSE_ON_PURPOSE.keys()
