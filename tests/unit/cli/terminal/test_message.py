"""How commands show a message."""

import zlib
from hashlib import sha256

import pytest

from sprocket.base.errors import CorruptRecord
from sprocket.cli.terminal import message
from sprocket.rocketmq.client import MessageQueue, ReceivedMessage
from sprocket.rocketmq.codec.record import ids, properties, record
from sprocket.rocketmq.model.message import NewRecord

HOST = ids.host_bytes("192.0.2.10", 30911)


def stored(body: bytes = b"hello", sys_flag: int = 0, **own: str) -> memoryview:
    """A record as it lies in the log."""
    new = NewRecord(
        topic="orders",
        queue_id=2,
        body=body,
        properties=properties.encode(own),
        born_host=HOST,
        store_host=HOST,
        sys_flag=sys_flag,
        born_at_ms=1_357_035_300_000,
    )
    at_ms = 1_357_035_300_001
    return memoryview(
        record.encode(new, queue_offset=7, physical_offset=1234, stored_at_ms=at_ms, crc_tail=False)
    )


def test_json_has_the_names_of_every_command() -> None:
    """Those of the guide; what has no other name there has RocketMQ's."""
    found, crc_ok = message.decode(stored(TAGS="a", KEYS="k1 k2", UNIQ_KEY="AB"))
    body = b"hello"
    assert message.as_json(found, crc_ok=crc_ok) == {
        "topic": "orders",
        "queue_id": 2,
        "queue_offset": 7,
        "physical_offset": 1234,
        "tag": "a",
        "keys": ["k1", "k2"],
        "store_size": found.store_size,
        "magic": "daa320a7",
        "born_at_ms": 1_357_035_300_000,
        "stored_at_ms": 1_357_035_300_001,
        "born_host": "192.0.2.10:30911",
        "store_host": "192.0.2.10:30911",
        "sys_flag": 0,
        "flag": 0,
        "body_crc": zlib.crc32(body) & 0x7FFFFFFF,
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "offset_id": "C000020A000078BF00000000000004D2",
        "unique_key": "AB",
        "properties": {"KEYS": "k1 k2", "TAGS": "a", "UNIQ_KEY": "AB"},
        "body_len": 5,
        "body_sha256": sha256(body).hexdigest(),
        "body_hex": body.hex(),
    }


def test_json_of_a_packed_body_describes_both() -> None:
    """The body as an application gets it, and the bytes in the log."""
    body = b"x" * 1000
    packed = zlib.compress(body)
    found, _ = message.decode(stored(packed, sys_flag=1))
    fields = message.as_json(found)
    assert (fields["body_len"], fields["stored_body_len"]) == (1000, len(packed))
    assert fields["body_sha256"] == sha256(body).hexdigest()
    assert fields["stored_body_sha256"] == sha256(packed).hexdigest()
    assert "body_hex" not in fields
    assert fields["unique_key"] is None


def test_a_body_that_does_not_fit_its_crc_is_not_shown() -> None:
    """The rest is, with a mark: who looks at a damaged store wants to see where the damage is."""
    data = bytearray(stored())
    data[data.index(b"hello")] ^= 1
    found, crc_ok = message.decode(memoryview(data))
    shown = message.as_json(found, crc_ok=crc_ok)
    assert shown["crc_ok"] is False
    assert not [name for name in shown if name.startswith("body_") and name != "body_crc"]
    assert "body" not in message.fields(found, crc_ok=crc_ok)
    with pytest.raises(CorruptRecord):
        message.decode(memoryview(b"\0" * 100))


def test_a_body_that_cannot_be_unpacked_is_described_as_it_lies_there() -> None:
    """Its producer said that it was packed; its bytes are those that were stored."""
    found, crc_ok = message.decode(stored(b"not packed", sys_flag=1))
    assert crc_ok
    shown = message.as_json(found)
    assert (shown["stored_body_len"], "body_len" in shown) == (10, False)
    assert shown["body_error"]
    assert "body" not in message.fields(found)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", ""),
        ("zwölf".encode(), "zwölf"),
        (b"two\nlines", "two\nlines"),
        (b"\xff\x00", "ff 00"),
        (b"\x1b[31m", "1b 5b 33 31 6d"),
        (b"a" * 5000, "a" * 4096 + "… (5000 bytes)"),
    ],
)
def test_body_text(body: bytes, text: str) -> None:
    """Text as it is, anything else as hex: no terminal is told what to do by a message."""
    assert message.body_text(body) == text


def test_table_and_row_take_any_text() -> None:
    """Square brackets of a message are not markup."""
    found, _ = message.decode(stored(b"[/red]", TAGS="[bold]"))
    assert message.fields(found)["body"] == "[/red]"
    row = message.as_row(found)
    assert row[:6] == ["1234", "orders", "2", "7", "2013-01-01 10:15:00.001Z", "[bold]"]
    assert len(row) == len(message.LIST_HEADS)


def received(data: memoryview) -> ReceivedMessage:
    """A message as a client hands it out."""
    return ReceivedMessage(record.decode(data), MessageQueue("orders", "broker-a", 2))


def test_a_received_message_in_a_line() -> None:
    """When, where, tag, keys, body; what cannot be printed as hex."""
    line = message.received_line(received(stored(TAGS="hot", KEYS="k1 k2")))
    assert line == "2013-01-01 10:15:00.001Z broker-a/2/7 tag=hot key=k1 key=k2 hello"
    assert message.received_line(received(stored(b"\xff\x00"))).endswith("broker-a/2/7 ff 00")


def test_a_received_message_as_json() -> None:
    """The body is there whole, as text or, if it is none, in base64."""
    long = b"x" * 500
    assert message.received_json(received(stored(long)))["body"] == "x" * 500
    assert message.received_json(received(stored(b"\xff")))["body_base64"] == "/w=="


def test_a_message_in_a_list(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id is never broken and its body is cut where a line of the terminal ends."""
    found, _ = message.decode(stored(b"a" * 200, TAGS="hot", KEYS="k1 k2", UNIQ_KEY="7F00" * 8))
    monkeypatch.setenv("COLUMNS", "80")
    message.write_entry(found, "broker-a/2/7")
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{'7F00' * 8}  2013-01-01 10:15:00.001Z  broker-a/2/7"
    assert second == f"  tag=hot key=k1 key=k2 {'a' * 55}…"
    assert len(second) == 80
    monkeypatch.delenv("COLUMNS")
    message.write_entry(found, "broker-a/2/7", crc_ok=False)
    assert capsys.readouterr().out.endswith(
        "  tag=hot key=k1 key=k2 (does not fit its checksums)\n"
    )


def test_a_received_body_that_cannot_be_unpacked() -> None:
    """The reason stands where the body would."""
    broken = received(stored(b"no zlib", sys_flag=1))
    assert "(" in message.received_line(broken)
    assert "body_error" in message.received_json(broken)
