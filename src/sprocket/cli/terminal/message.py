"""How commands show a message: as JSON, as a table of its fields, in a list."""

from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, set_cell_size

from sprocket.base.errors import CorruptRecord, WireError
from sprocket.cli.terminal import output, tables
from sprocket.rocketmq.codec.record import record
from sprocket.rocketmq.model.message import StoredMessage

if TYPE_CHECKING:
    from sprocket.rocketmq.client import ReceivedMessage

BODY_HEX_BYTES_MAX = 64
"""Longer bodies are described by their length and SHA-256 alone."""
BODY_SHOWN_BYTES_MAX = 4096

LIST_HEADS = ("physical", "topic", "queue", "offset", "stored at", "tag", "keys", "id")
"""What stands above the lines of `sprocket store dump`."""
_INDENT = "  "


def decode(data: memoryview) -> tuple[StoredMessage, bool]:
    """Decode a record of the log; one that does not fit its checksums is let through.

    Returns:
        The message, and whether it fits them; if not, its body is not to be shown.

    Raises:
        CorruptRecord: The bytes are not a record.
    """
    try:
        return record.decode(data, check_tail=True), True
    except WireError:
        pass
    try:
        return record.decode(data, check_crc=False), False
    except WireError as error:
        raise CorruptRecord(str(error)) from None


def as_json(message: StoredMessage, *, crc_ok: bool = True) -> dict[str, Any]:
    """Return the message as `sprocket store dump --json` writes it.

    The names are those of every command; the guide lists them. `body_len` and `body_sha256`
    describe the body as an application gets it; `stored_body_len` and `stored_body_sha256` are
    there if the log has it packed, or has what cannot be unpacked, which is stored as it came
    (`body_error` says why). `body_hex` is there up to 64 bytes. A message that does not fit its
    checksums has `crc_ok`, which is false, and nothing about its body.
    """
    told: dict[str, Any] = {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": message.physical_offset,
        "unique_key": message.unique_key,
        "offset_id": message.offset_message_id,
        "stored_at_ms": message.stored_at_ms,
        "born_at_ms": message.born_at_ms,
        "tag": message.tags,
        "keys": list(message.keys),
        "store_size": message.store_size,
        "magic": f"{message.magic:08x}",
        "born_host": message.born_host,
        "store_host": message.store_host,
        "sys_flag": message.sys_flag,
        "flag": message.flag,
        "body_crc": message.body_crc,
        "reconsume_times": message.reconsume_times,
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "properties": {k: v for k, v in sorted(message.properties.items()) if k and v},
    }
    if not crc_ok:
        return {**told, "crc_ok": False}
    try:
        body = message.body
    except WireError as error:
        return {
            **told,
            "body_error": str(error),
            **_described("stored_body", message.stored_body),
        }
    if body != message.stored_body:
        told |= _described("stored_body", message.stored_body)
    told |= _described("body", body)
    if len(body) <= BODY_HEX_BYTES_MAX:
        told["body_hex"] = body.hex()
    return told


def _described(name: str, data: bytes) -> dict[str, Any]:
    return {f"{name}_len": len(data), f"{name}_sha256": sha256(data).hexdigest()}


def fields(message: StoredMessage, *, crc_ok: bool = True) -> dict[str, Any]:
    """Return everything about one message, for a table with a line for each."""
    told = as_json(message, crc_ok=crc_ok)
    shown = {
        name: value if name.endswith("_at_ms") or isinstance(value, list | bool) else str(value)
        for name, value in told.items()
        if name not in ("body_hex", "properties")
    }
    for name, value in sorted(message.properties.items()):
        shown[f"property {name}"] = value
    if crc_ok and "body_error" not in told:
        shown["body"] = body_text(message.body)
    return shown


def write_entry(message: StoredMessage, place: str, *, crc_ok: bool = True) -> None:
    """Write two lines of a list: which message it is and where; then its tag, keys and body.

    Only the body is cut where a line is short; a message that does not fit its checksums has none.
    """
    at = output.time_text(message.stored_at_ms)
    output.write_line(f"{message.message_id}  {at}  {place}")
    body = _body_of(message).replace("\n", " ") if crc_ok else "(does not fit its checksums)"
    line = _INDENT + "".join(f"{mark} " for mark in _marks(message))
    limit = tables.width()
    room = None if limit is None else max(limit - cell_len(line), 1)
    if room is not None and cell_len(body) > room:
        body = set_cell_size(body, room - 1) + "…"
    output.write_line(line + body)


def _marks(message: StoredMessage) -> list[str]:
    marks = [f"tag={message.tags}"] if message.tags else []
    return marks + [f"key={key}" for key in message.keys]


def as_row(message: StoredMessage) -> list[str]:
    """Return the cells that go under `LIST_HEADS`."""
    return [
        str(message.physical_offset),
        message.topic,
        str(message.queue_id),
        str(message.queue_offset),
        output.time_text(message.stored_at_ms),
        message.tags,
        " ".join(message.keys),
        message.message_id,
    ]


def received_json(message: "ReceivedMessage") -> dict[str, Any]:
    """Return a message that a broker gave: as `as_json` does, its broker, and the body whole.

    `body` is its text, or `body_base64` its bytes if it is not text.
    """
    told = {"broker": message.queue.broker_name, **as_json(message.stored)}
    if "body_error" in told:
        return told
    try:
        return {**told, "body": message.body.decode()}
    except UnicodeDecodeError:
        return {**told, "body_base64": b64encode(message.body).decode()}


def received_line(message: "ReceivedMessage") -> str:
    """Return one line of text about a message that a broker gave."""
    return " ".join(
        [
            output.time_text(message.stored_at_ms),
            f"{message.queue.broker_name}/{message.queue.queue_id}/{message.queue_offset}",
            *_marks(message.stored),
            _body_of(message.stored),
        ]
    )


def _body_of(message: StoredMessage) -> str:
    try:
        return body_text(message.body)
    except WireError as error:
        return f"({error})"


def body_text(body: bytes) -> str:
    """Return the body as text, or as hex if it is not text; of a long one only the beginning."""
    shown = body[:BODY_SHOWN_BYTES_MAX]
    rest = f"… ({len(body)} bytes)" if len(body) > len(shown) else ""
    try:
        text = shown.decode() if not rest else shown.decode(errors="ignore")
    except UnicodeDecodeError:
        return shown.hex(" ") + rest
    return text + rest if text.isprintable() or "\n" in text else shown.hex(" ") + rest
