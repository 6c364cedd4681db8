"""The example and the tables of docs/formats/amqp.md."""

import re
from pathlib import Path

from tests.amqp import running

from sprocket.rabbitmq.codec.amqp import Envelope, ReplyCode, frames, methods, properties
from sprocket.rabbitmq.model.fields import FieldKind
from sprocket.rabbitmq.model.properties import BasicProperties
from sprocket.rabbitmq.server.connection import Published

PAGE = (Path(__file__).parents[3] / "docs" / "formats" / "amqp.md").read_text(encoding="utf-8")


def test_the_example_is_what_the_page_says() -> None:
    """It is read as such, and written octet for octet."""
    block = re.search(r"```hex\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    lines = (line.partition("   ")[0] for line in block[1].splitlines())
    data = bytes.fromhex("".join(lines))
    assert f"three frames, {len(data)} octets" in PAGE
    (event,) = running().receive(data)
    assert isinstance(event, Published)
    (one,) = event.messages
    assert (one.method.exchange, one.method.routing_key) == ("", "orders")
    assert one.envelope == Envelope(delivery_mode=2)
    assert one.fragments == (b"hello",)
    octets = properties.encode(BasicProperties(delivery_mode=2))
    payload = methods.encode(methods.BasicPublish(0, "", "orders", False, False))
    assert b"".join(frames.encode_content(1, payload, octets, [b"hello"], 4096)) == data


def test_every_code_is_on_the_page() -> None:
    """With its name and what it closes."""
    found = re.findall(r"\| (\d{3}) \| ([A-Z_]+) \| (channel|connection|nothing)", PAGE)
    told = {(int(number), name) for number, name, _ in found}
    assert told == {(int(code), code.name) for code in ReplyCode}
    ends = {ReplyCode(int(number)) for number, _, closes in found if closes == "connection"}
    assert ends == {code for code in ReplyCode if code.ends_connection}


def test_every_sign_is_on_the_page() -> None:
    """With RabbitMQ's word for it."""
    found = re.findall(r"\| (`\w`(?:, `\w`)?) \| (\w+) ", PAGE)
    told = {(sign, word) for signs, word in found for sign in re.findall(r"`(\w)`", signs)}
    assert told == {(kind.value, kind.word) for kind in FieldKind}
