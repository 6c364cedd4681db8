"""The tours in docs/ARCHITECTURE.md name each module that a message passes, from socket to answer.

A message is followed by a mark in it: whoever is given something that holds the mark has the
message, its bytes, its record, or who waits for its answer. What only helps, without having the
message, is not a step: clocks, counters, the sync of a file. A confirm, an ack and an ack's record
have only a number of the message, so an AMQP message gets the same number from all who count it,
and is followed by that as well.
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
NUMBER = 419
"""Of the AMQP message: as its publisher, its queue and its consumer count."""
NUMBER_BYTES = NUMBER.to_bytes(7)
"""What frames and the queue index have of it; an eighth byte before it may hold flags."""
SENT = "runtime/driver/peer.send"
WRITTEN = "base/disk/disk.write"
STEPS_MAX = 14
AMQP_STEPS_MAX = 18
AMQP_WAYS = ("### From publish to the disk", "### The confirm", "### The delivery", "### The ack")
LOOSE = re.compile(r"\b(Any|object)\b|Callable\[\.\.\.")
"""A type that says nothing of what it is the type of."""
LOOSE_ON_PURPOSE = {
    "rabbitmq/server/handlers/channel_methods._did(what)": "fields of a line of the log",
    "rabbitmq/codec/amqp/methods._form(hint)": "an annotation, read when the module is imported",
    "rocketmq/codec/command._ext_texts(ext)": "JSON of a peer, before it is looked at",
    "rocketmq/codec/command._int32(members)": "JSON of a peer, before it is looked at",
    "rocketmq/codec/command._language(value)": "JSON of a peer, before it is looked at",
    "rocketmq/codec/command._check_serialize(value)": "JSON of a peer, before it is looked at",
    "runtime/driver/peer._handle(events)": "the driver passes on what a connection makes of bytes;"
    " whoever opens a port binds both to one type",
}
"""By parameter, why that is right."""


def holds_the_mark(value: object, depth: int = 6) -> bool:
    """Say whether a value has the mark or the number in it."""
    if isinstance(value, bytes | bytearray | memoryview):
        return MARK.encode() in bytes(value) or NUMBER_BYTES in bytes(value)
    if isinstance(value, str):
        return MARK in value
    if isinstance(value, int):
        return value == NUMBER
    parts: list[Any] = []
    if isinstance(value, msgspec.Struct):
        parts = [getattr(value, name) for name in value.__struct_fields__]
    elif isinstance(value, list | tuple):
        parts = list(value)
    elif isinstance(value, dict):
        parts = list(value.values())
    return depth > 0 and any(holds_the_mark(part, depth - 1) for part in parts)


class PassedModules:
    """The modules that were given the mark, by default since its bytes arrived.

    Args:
        ends: The functions with which a way ends, and the next begins.
        is_on: Whether it does not matter if the bytes arrived.
    """

    def __init__(self, *ends: str, is_on: bool = False) -> None:
        self.ways: list[list[str]] = [[]]
        self._ends = ends
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
        if not self._is_on or not has_it:
            return
        if module not in self.ways[-1]:
            self.ways[-1].append(module)
        if f"{module}.{code.co_name}" in self._ends:
            self.ways.append([])


async def _sent(folder: str) -> list[str]:
    """Send a message to a broker and return the modules that had it there."""
    server = ServerSettings(nameserver_port=0, broker_port=0)
    node = await Node.start(Settings(server=server), folder)
    passed = PassedModules("runtime/driver/peer.send_now")
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
    return passed.ways[0]


async def _published(folder: str) -> list[list[str]]:
    """Publish a message, wait for its confirm, consume and acknowledge it.

    Returns:
        The modules that the message or its number passed, in a list for each of these ways.
    """
    settings = AmqpNodeSettings(amqp=AmqpSettings(port=0, heartbeat_seconds=0))
    node = await AmqpNode.start(settings, folder)
    client = await RawClient.connect(node)
    await client.ask(methods.QueueDeclare(0, "paths", False, True, False, False, False, NO_FIELDS))
    publish = method(1, methods.BasicPublish(0, "", "paths", False, False))
    octets = properties.encode(BasicProperties(delivery_mode=2))
    other = publish + header(1, 0, octets)
    await _count_to_number(client, other)
    published = PassedModules(WRITTEN, SENT)
    delivered = PassedModules(SENT, is_on=True)
    acknowledged = PassedModules(WRITTEN)
    sys.setprofile(published.look)
    client.writer.write(
        publish + header(1, len(MARK), octets) + frame(FrameKind.BODY, 1, MARK.encode())
    )
    assert await client.answer() == methods.BasicAck(NUMBER, False)
    sys.setprofile(delivered.look)
    await client.ask(_consume(no_ack=False))
    assert isinstance(await client.answer(), methods.BasicDeliver)
    sys.setprofile(acknowledged.look)
    client.writer.write(method(1, methods.BasicAck(NUMBER, False)) + other)
    while not isinstance(await client.answer(), methods.BasicAck):
        pass  # the ack is written with the other message
    sys.setprofile(None)
    client.writer.close()
    await node.stop()
    return published.ways[:2] + delivered.ways[:1] + acknowledged.ways[:1]


async def _count_to_number(client: RawClient, publish: bytes) -> None:
    """Have the next message be `NUMBER` for its publisher, its queue and its consumer."""
    client.writer.write(publish)  # number 0 of the queue, which clients do not have
    await client.ask(methods.QueuePurge(0, "paths", False))
    await client.ask(methods.ConfirmSelect(False))
    client.writer.write(publish * (NUMBER - 1))
    assert await client.answer() == methods.BasicAck(NUMBER - 1, True)
    await client.ask(_consume(no_ack=True))
    for tag in range(1, NUMBER):
        delivered = await client.answer()
        assert isinstance(delivered, methods.BasicDeliver)
        assert delivered.delivery_tag == tag
    await client.ask(methods.BasicCancel("tag", False))


def _consume(*, no_ack: bool) -> methods.BasicConsume:
    return methods.BasicConsume(0, "paths", "tag", False, no_ack, False, False, NO_FIELDS)


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


def _amqp_tour() -> list[list[list[str]]]:
    """Return the steps of the AMQP tour, way by way."""
    ends = [*AMQP_WAYS[1:], "### The types of an AMQP message"]
    return [_tour(start, end) for start, end in zip(AMQP_WAYS, ends, strict=True)]


def test_the_tour_names_each_module_that_an_amqp_message_passes(tmp_path: Path) -> None:
    """From publish to confirm and from delivery to ack, on each way in the order of the first."""
    tour = _amqp_tour()
    passed = driver.run(_published(str(tmp_path)))
    assert passed == [[module for step in way for module in step] for way in tour]
    assert sum(map(len, tour)) <= AMQP_STEPS_MAX


def test_from_the_socket_to_the_disk_no_parameter_loses_its_type() -> None:
    """A message can be followed by the types of what its steps take, in both products."""
    steps = _tour("## The tour of one message", "### After the answer")
    steps += [step for way in _amqp_tour() for step in way]
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
