"""How commands show a message of RabbitMQ: its properties, its body."""

import math
from hashlib import sha256
from typing import Any

from msgspec import structs

from sprocket.rabbitmq.codec.amqp import AmqpError
from sprocket.rabbitmq.codec.amqp import properties as properties_codec
from sprocket.rabbitmq.model.fields import Field, FieldKind, FieldTable, ScaledInteger
from sprocket.rabbitmq.model.message import BasicMessage
from sprocket.rabbitmq.model.names import name_bytes
from sprocket.rabbitmq.model.properties import BasicProperties

BODY_HEX_BYTES_MAX = 64
"""Longer bodies are described by their length and SHA-256 alone."""


def as_json(message: BasicMessage) -> dict[str, Any]:
    """Return what was published, as every command writes it; the guide lists the names.

    `properties_hex` are flags and values as they are sent to a consumer, `properties` the same for
    people, and `properties_error` instead says why they cannot be read. `body_hex` is there up to
    64 bytes.
    """
    told: dict[str, Any] = {
        "exchange": text(message.exchange),
        "routing_key": text(message.routing_keys[0]) if message.routing_keys else "",
        "body_len": message.body_size,
        "body_sha256": sha256(message.body).hexdigest(),
        **_properties(message.properties),
        "id": message.id.hex(),
    }
    if len(message.routing_keys) > 1:
        told["more_routing_keys"] = [text(key) for key in message.routing_keys[1:]]
    if message.body_size <= BODY_HEX_BYTES_MAX:
        told["body_hex"] = message.body.hex()
    return told


def _properties(found: bytes | BasicProperties) -> dict[str, Any]:
    if isinstance(found, BasicProperties):
        encoded = properties_codec.encode(found)
        return {"properties_hex": encoded.hex(), "properties": properties_json(found)}
    try:
        decoded = properties_codec.decode(found)
    except AmqpError as error:
        return {"properties_hex": found.hex(), "properties_error": str(error)}
    return {"properties_hex": found.hex(), "properties": properties_json(decoded)}


def properties_json(found: BasicProperties) -> dict[str, Any]:
    """Return the properties that are there, for people: not every type can be recognized."""
    told: dict[str, Any] = {}
    for name, value in structs.asdict(found).items():
        if isinstance(value, FieldTable):
            told[name] = _table(value)
        elif isinstance(value, str):
            told[name] = text(value)
        elif value is not None:
            told[name] = value
    return told


def _table(table: FieldTable) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, field in table:
        told.setdefault(text(name), _field(field))  # of two the first one counts
    return told


def _field(field: Field) -> Any:
    kind, value = field
    match value:
        case FieldTable():
            return _table(value)
        case ScaledInteger():
            return {"decimal": _decimal(value)}
        case tuple():
            return [_field(one) for one in value]
        case bytes():
            return _string(kind, value)
        case float() if not math.isfinite(value):
            return {"float": str(value)}
    return {"timestamp": value} if kind is FieldKind.TIMESTAMP else value


def _string(kind: FieldKind, value: bytes) -> Any:
    try:
        return {"bytes_hex": value.hex()} if kind is FieldKind.BINARY else value.decode()
    except UnicodeDecodeError:
        return {"bytes_hex": value.hex()}


def _decimal(value: ScaledInteger) -> str:
    digits = str(value.unscaled).rjust(value.scale + 1, "0")
    point = len(digits) - value.scale
    return f"{digits[:point]}.{digits[point:]}" if value.scale else digits


def text(name: str) -> str:
    """Return a name that can be written: each byte that is not UTF-8 is spelled out."""
    return name_bytes(name).decode("utf-8", "backslashreplace")


def body_text(message: BasicMessage) -> str:
    """Return the body for people: its text, or the beginning of its bytes."""
    body = message.body
    try:
        found = body.decode()
    except UnicodeDecodeError:
        found = ""
    if found.isprintable() and (found or not body):
        return found
    rest = "…" if len(body) > BODY_HEX_BYTES_MAX else ""
    return f"{body[:BODY_HEX_BYTES_MAX].hex()}{rest}"
