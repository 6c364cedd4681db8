"""How commands show a message: as JSON with RocketMQ's field names, as a table, in a list."""

from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from sprocket.base.errors import WireError
from sprocket.cli import output
from sprocket.rocketmq.codec import record
from sprocket.rocketmq.model.message import StoredMessage

if TYPE_CHECKING:
    from sprocket.rocketmq.client import ReceivedMessage

BODY_HEX_BYTES_MAX = 64
"""Longer bodies are described by their length and SHA-256 alone."""
BODY_SHOWN_BYTES_MAX = 4096

LIST_HEADS = ("physical", "topic", "queue", "offset", "stored at", "tag", "keys", "message id")
LIST_NUMBERS = ("physical", "queue", "offset", "bytes")


def decode(data: memoryview) -> tuple[StoredMessage, bool]:
    """Decode a record of the log; one that does not fit its checksums is let through.

    Returns:
        The message, and whether it fits them; if not, its body is not to be shown.

    Raises:
        WireError: The bytes are no record.
    """
    try:
        return record.decode(data, check_tail=True), True
    except WireError:
        return record.decode(data, check_crc=False), False


def as_json(message: StoredMessage, *, crc_ok: bool = True) -> dict[str, Any]:
    """Return the message as `sprocket store dump --json` writes it.

    The names are those of RocketMQ's own fields. `body_len` and `body_sha256` describe the body as
    an application gets it; `stored_body_len` and `stored_body_sha256` are there if the log has it
    packed, or has what cannot be unpacked, which is stored as it came (`body_error` says why).
    `body_hex` is there up to 64 bytes. A message that does not fit its checksums has `crc_ok`,
    which is false, and nothing about its body.
    """
    fields: dict[str, Any] = {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "phys": message.physical_offset,
        "store_size": message.store_size,
        "magic": f"{message.magic:08x}",
        "born_timestamp": message.born_at_ms,
        "store_timestamp": message.stored_at_ms,
        "born_host": message.born_host,
        "store_host": message.store_host,
        "sys_flag": message.sys_flag,
        "flag": message.flag,
        "body_crc": message.body_crc,
        "reconsume_times": message.reconsume_times,
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "msg_id": message.offset_message_id,
        "unique_key": message.unique_key,
        "properties": {k: v for k, v in sorted(message.properties.items()) if k and v},
    }
    if not crc_ok:
        return {**fields, "crc_ok": False}
    try:
        body = message.body
    except WireError as error:
        return {
            **fields,
            "body_error": str(error),
            **_described("stored_body", message.stored_body),
        }
    if body != message.stored_body:
        fields |= _described("stored_body", message.stored_body)
    fields |= _described("body", body)
    if len(body) <= BODY_HEX_BYTES_MAX:
        fields["body_hex"] = body.hex()
    return fields


def _described(name: str, data: bytes) -> dict[str, Any]:
    return {f"{name}_len": len(data), f"{name}_sha256": sha256(data).hexdigest()}


def as_table(message: StoredMessage, *, crc_ok: bool = True) -> Table:
    """Return everything about one message, a row a field."""
    made = output.table("", "field", "value")
    made.show_header = False
    fields = as_json(message, crc_ok=crc_ok)
    for name, value in fields.items():
        if name in ("body_hex", "properties"):
            continue
        shown = output.time_text(value) if name.endswith("_timestamp") else str(value)
        made.add_row(name, Text(shown))
    for name, value in sorted(message.properties.items()):
        made.add_row(f"property {name}", Text(value))
    if crc_ok and "body_error" not in fields:
        made.add_row("body", Text(body_text(message.body)))
    return made


def as_row(message: StoredMessage) -> list[Text]:
    """Return the cells that go under `LIST_HEADS`."""
    cells = (
        str(message.physical_offset),
        message.topic,
        str(message.queue_id),
        str(message.queue_offset),
        output.time_text(message.stored_at_ms),
        message.tags,
        " ".join(message.keys),
        message.message_id,
    )
    return [Text(cell) for cell in cells]


def received_json(message: "ReceivedMessage") -> dict[str, Any]:
    """Return a message that a broker gave: as `as_json` does, and the body whole.

    `body` is its text, or `body_base64` its bytes if it is none.
    """
    fields = as_json(message.stored)
    if "body_error" in fields:
        return fields
    try:
        return {**fields, "body": message.body.decode()}
    except UnicodeDecodeError:
        return {**fields, "body_base64": b64encode(message.body).decode()}


def received_row(message: "ReceivedMessage") -> dict[str, Any]:
    """Return what a list of messages says of one that a broker gave."""
    return {
        "stored_at_ms": message.stored_at_ms,
        "broker": message.queue.broker_name,
        "queue_id": message.queue.queue_id,
        "offset": message.queue_offset,
        "tag": message.tag,
        "keys": " ".join(message.keys),
        "message_id": message.message_id,
        "body": _body_of(message),
    }


def received_line(message: "ReceivedMessage") -> str:
    """Return one line of text about a message that a broker gave."""
    named = [f"{name}={value}" for name, value in (("tag", message.tag),) if value]
    named += [f"key={key}" for key in message.keys]
    return " ".join(
        [
            output.time_text(message.stored_at_ms),
            f"{message.queue.broker_name}/{message.queue.queue_id}/{message.queue_offset}",
            *named,
            _body_of(message),
        ]
    )


def _body_of(message: "ReceivedMessage") -> str:
    try:
        return body_text(message.body)
    except WireError as error:
        return f"({error})"


def body_text(body: bytes) -> str:
    """Return the body as text, or as hex if it is none; the beginning only of a long one."""
    shown = body[:BODY_SHOWN_BYTES_MAX]
    rest = f"… ({len(body)} bytes)" if len(body) > len(shown) else ""
    try:
        text = shown.decode() if not rest else shown.decode(errors="ignore")
    except UnicodeDecodeError:
        return shown.hex(" ") + rest
    return text + rest if text.isprintable() or "\n" in text else shown.hex(" ") + rest
