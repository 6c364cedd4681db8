"""The stored message: how its bytes are read, and the names that other modules need of it.

`record_layout` has the offsets of the fields, `record_encode` writes records, `record_scan` follows
the records of a file. Others import what they need of these from here.

The layout is the same on disk and on the wire; see `docs/formats/record.md`. All integers are
big-endian and signed. With hosts of B and S bytes (8 for IPv4, 20 for IPv6), T = 1 in version 1
and 2 in version 2:

    0 size · 4 magic · 8 body crc · 12 queue id · 16 flag · 20 queue offset · 28 physical offset ·
    36 system flag · 40 born at · 48 born host (B) · 48+B stored at · 56+B store host (S) ·
    56+B+S reconsume times · 60+B+S prepared transaction offset · 68+B+S body length, body ·
    T topic length, topic · 2 properties length, properties

Invariants:

1. A record's physical offset field equals its place in the log; `scan` stops where it does not.
2. A record that `encode` makes with a CRC tail ends in 20 bytes: `__CRC32#` 0x01, ten digits, 0x02.
   One that it makes without a tail has no such property, so that nobody can forge a tail.
3. `decode` and `entry` raise `WireError` and nothing else, whatever the bytes.
"""

from msgspec import Struct

from sprocket.base.checksum import crc32
from sprocket.base.disk import Buffer
from sprocket.base.errors import WireError
from sprocket.rocketmq.codec.record import extra, ids, properties
from sprocket.rocketmq.codec.record.extra import Extra
from sprocket.rocketmq.codec.record.record_encode import (
    Encoded,
    blank,
    encode,
    encode_all,
    encode_batch,
    encoded_size,
    finish,
)
from sprocket.rocketmq.codec.record.record_layout import (
    BLANK_BYTES,
    BODY_CRC_AT,
    BORN_AT_MS_AT,
    BORN_HOST_AT,
    CRC_TAIL_BYTES,
    FIXED_BYTES,
    FLAG_AT,
    HOST_V6_EXTRA,
    MAGIC_AT,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    RECORD_BYTES_MIN,
    SIZE_AT,
    STORED_AT_MS_AT,
    STORED_AT_MS_END,
    SYS_FLAG_AT,
    TOPIC_BYTES_MAX,
    TOPIC_BYTES_MAX_V1,
    claims_to_fit,
    parts,
    stored_at_ms,
    tail_is_wrong,
    topic_text,
)
from sprocket.rocketmq.codec.record.record_scan import Scan, ScanStop, places, scan
from sprocket.rocketmq.model.hashes import cached_hash32
from sprocket.rocketmq.model.message import StoredMessage, is_queueable

__all__ = [
    "BLANK_BYTES",
    "BODY_CRC_AT",
    "BORN_AT_MS_AT",
    "BORN_HOST_AT",
    "CRC_TAIL_BYTES",
    "FIXED_BYTES",
    "FLAG_AT",
    "HOST_V6_EXTRA",
    "MAGIC_AT",
    "MAGIC_BLANK",
    "MAGIC_V1",
    "MAGIC_V2",
    "PHYSICAL_OFFSET_AT",
    "QUEUE_ID_AT",
    "QUEUE_OFFSET_AT",
    "RECORD_BYTES_MIN",
    "SIZE_AT",
    "STORED_AT_MS_AT",
    "STORED_AT_MS_END",
    "SYS_FLAG_AT",
    "TOPIC_BYTES_MAX",
    "TOPIC_BYTES_MAX_V1",
    "Encoded",
    "Entry",
    "Scan",
    "ScanStop",
    "blank",
    "claims_to_fit",
    "decode",
    "decode_all",
    "encode",
    "encode_all",
    "encode_batch",
    "encoded_size",
    "entry",
    "finish",
    "places",
    "scan",
    "stored_at_ms",
    "stored_properties",
    "tags_code",
    "tail_is_wrong",
]


def decode(
    data: Buffer, position: int = 0, *, check_crc: bool = True, check_tail: bool = False
) -> StoredMessage:
    """Decode the record that starts at `position`.

    Args:
        data: Bytes that hold the whole record; what follows it does not matter.
        position: Where in `data` it starts.
        check_crc: Compare the body with its CRC.
        check_tail: If the record ends in a CRC tail, compare that as well. Only for stores that
            write it: elsewhere a producer may have sent a property that looks like one.

    Raises:
        WireError: There is no record, its lengths do not add up, the topic is not UTF-8, or a
            checksum is wrong.
    """
    fields, body_at, topic, topic_end, end = parts(data, position)
    (
        size,
        magic,
        body_crc,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_at_ms,
        born_host,
        stored_at_ms,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        body_bytes,
    ) = fields
    body = bytes(data[body_at : body_at + body_bytes])
    if check_crc and crc32(body) & 0x7FFFFFFF != body_crc:
        raise WireError(f"body of the record at {position} does not fit its checksum")
    if check_tail and tail_is_wrong(data, position, end):
        raise WireError(f"record at {position} does not fit its checksum")
    return StoredMessage(
        topic_text(data, topic, topic_end),
        queue_id,
        queue_offset,
        physical_offset,
        size,
        magic,
        born_at_ms,
        ids.host_text(born_host),
        stored_at_ms,
        ids.host_text(store_host),
        sys_flag,
        flag,
        body_crc,
        reconsume_times,
        prepared_transaction_offset,
        properties.decode(data[topic_end + 2 : end]),
        body,
        ids.offset_message_id(store_host, physical_offset),
    )


def decode_all(data: Buffer, *, check_crc: bool = True) -> list[StoredMessage]:
    """Decode records that lie one behind the other, as a pull answers them.

    Raises:
        WireError: As `decode`; also if bytes are left over.
    """
    messages: list[StoredMessage] = []
    position, end = 0, len(data)
    while position < end:
        message = decode(data, position, check_crc=check_crc)
        messages.append(message)
        position += message.store_size
    return messages


class Entry(Struct, frozen=True, gc=False):
    """What queue and index need to know of one record.

    Attributes:
        size: Bytes of the whole record.
        tags_code: The hash of the tag, 0 without one.
        keys: What the index finds it by, the unique key first if `unique`.
        extra: What decides about its units beside that; None for almost all records.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int
    stored_at_ms: int
    keys: tuple[str, ...] = ()
    sys_flag: int = 0
    prepared_transaction_offset: int = 0
    unique: bool = False
    extra: Extra | None = None

    @property
    def queueable(self) -> bool:
        """Whether it gets a unit in its queue."""
        return is_queueable(self.sys_flag)

    @property
    def next_offset(self) -> int:
        """The queue offset behind it."""
        return self.queue_offset + (1 if self.extra is None else self.extra.count)


def tags_code(tags: str) -> int:
    """Return the code of a tag: its `hash32`, 0 for no tag."""
    return cached_hash32(tags) if tags else 0


def entry(data: Buffer, position: int = 0, *, with_keys: bool = True) -> Entry:
    """Return what dispatch needs of the record at `position`; its checksums are not compared.

    Costs 2.5 µs, without keys 1.7.

    Args:
        data: Bytes that hold the whole record.
        position: Where in `data` it starts.
        with_keys: Look for its keys; if not, it has none, as for a queue, which needs none.

    Raises:
        WireError: There is no record, its lengths do not add up, or the topic is not UTF-8.
    """
    fields, _body, topic_at, topic_end, end = parts(data, position)
    pairs = b"\x02" + data[topic_end + 2 : end]
    tags = properties.value_of(pairs, b"\x02TAGS\x01")
    keys = unique_key = None
    if with_keys:
        keys = properties.value_of(pairs, b"\x02KEYS\x01")
        unique_key = properties.value_of(pairs, b"\x02UNIQ_KEY\x01")
    topic = topic_text(data, topic_at, topic_end)
    return Entry(
        topic,
        fields[3],
        fields[5],
        fields[6],
        fields[0],
        cached_hash32(tags) if tags else 0,
        fields[10],
        properties.index_keys(unique_key, keys) if with_keys else (),
        fields[7],
        fields[13],
        unique_key is not None,
        extra.find(topic, fields[7], pairs),
    )


def stored_properties(data: Buffer, position: int = 0) -> dict[str, str]:
    """Return the properties of the record at `position` without looking at the rest.

    Raises:
        WireError: There is no record, or its lengths do not add up.
    """
    _fields, _body, _topic, topic_end, end = parts(data, position)
    return properties.decode(data[topic_end + 2 : end])
