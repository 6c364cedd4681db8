"""The stored message: how its bytes are written, one by itself or many at once, and how read.

`record_layout` has the offsets of the fields, `record_scan` follows the records of a file.

The layout is the same on disk and on the wire; see `docs/formats/record.md`. All integers are
big-endian and signed. With hosts of B and S bytes (8 for IPv4, 20 for IPv6), T = 1 in version 1
and 2 in version 2:

    0 size · 4 magic · 8 body crc · 12 queue id · 16 flag · 20 queue offset · 28 physical offset ·
    36 system flag · 40 born at · 48 born host (B) · 48+B stored at · 56+B store host (S) ·
    56+B+S reconsume times · 60+B+S prepared transaction offset · 68+B+S body length, body ·
    T topic length, topic · 2 properties length, properties

Invariants:

1. A record's physical offset field equals its place in the log; a scan stops where it does not.
2. A record that `encode` makes with a CRC tail ends in 20 bytes: `__CRC32#` 0x01, ten digits, 0x02.
   One that it makes without a tail has no such property, so that nobody can forge a tail.
3. `decode` and `entry` raise `WireError` and nothing else, whatever the bytes.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from sprocket.base.checksum import crc32
from sprocket.base.disk import Buffer
from sprocket.base.errors import MessageTooLarge, WireError
from sprocket.base.units import KIB
from sprocket.rocketmq.codec.record import extra, ids, properties
from sprocket.rocketmq.codec.record.extra import Extra
from sprocket.rocketmq.codec.record.properties import PROPERTIES_BYTES_MAX
from sprocket.rocketmq.codec.record_layout import (
    BLANK_BYTES,
    CRC_MARK,
    CRC_NAME,
    CRC_TAIL_BYTES,
    FIXED,
    FIXED_V4,
    HEAD,
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    HOSTS_V6,
    I8,
    I16,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    TOPIC_BYTES_MAX,
    TOPIC_BYTES_MAX_V1,
    parts,
    tail_fits,
    topic_text,
)
from sprocket.rocketmq.errors import PropertiesTooLarge
from sprocket.rocketmq.model.hashes import cached_hash32
from sprocket.rocketmq.model.message import (
    Column,
    NewBatch,
    NewRecord,
    StoredMessage,
    is_queueable,
)

try:
    from sprocket.rocketmq.codec.record import batch_rows
except ImportError:  # the light install; plain Python does the same
    batch_rows = None  # type: ignore[assignment]

Encoded: TypeAlias = "bytes | memoryview | batch_rows.BatchRows"
"""A record, some records, or what will be some."""

_HOST_BYTES = HOST_V4_BYTES, HOST_V6_BYTES

ROWS_BYTES_MAX = 512 * KIB
"""So much is written as rows at once: what stays in a core's cache between the steps of that."""

_DIGITS = [(b"%03d" % number)[::-1] for number in range(1000)]
_FIRST_DIGITS = [CRC_NAME + digits for digits in _DIGITS]
_LAST_DIGITS = [(b"%04d" % number)[::-1] + b"\x02" for number in range(2148)]
"""The parts of a CRC tail, whose ten digits begin with the last: three, three and four of them.
Tables cost 0.4 µs a record less than a format that is turned round; larger ones are not in a core's
cache when they are wanted."""


@lru_cache(maxsize=4096)
def _topic_field(topic: str) -> tuple[int, bytes]:
    """Return the magic and the topic field with its length.

    RocketMQ counts UTF-16 units to choose version 2, but stores bytes: a topic that is short in
    one and long in the other would read back with a negative length. Bytes decide here.
    """
    try:
        data = topic.encode()
    except UnicodeEncodeError as error:
        raise WireError(f"topic {topic!r} is not valid Unicode") from error
    if len(data) <= TOPIC_BYTES_MAX_V1:
        return MAGIC_V1, I8.pack(len(data)) + data
    if len(data) <= TOPIC_BYTES_MAX:
        return MAGIC_V2, I16.pack(len(data)) + data
    raise MessageTooLarge(f"a topic of {len(data)} bytes exceeds {TOPIC_BYTES_MAX}")


def _stored_properties(given: bytes, crc_tail: bool) -> bytes:
    """Return the properties as stored, without the CRC tail but ready to take it.

    They never end in a zero: that is how those look that were not written to the end.
    """
    if CRC_NAME in given:
        given = properties.remove(given, properties.CRC32)
    if given and given[-1] != 2 and (crc_tail or given[-1] == 0):
        given += b"\x02"
    size = len(given) + (CRC_TAIL_BYTES if crc_tail else 0)
    if size > PROPERTIES_BYTES_MAX:
        raise PropertiesTooLarge(f"{size} bytes of properties exceed {PROPERTIES_BYTES_MAX}")
    return given


def _wide_hosts(born_host: bytes, store_host: bytes) -> int:
    """Return which of two hosts are IPv6: the number of their layout in `FIXED`."""
    born_bytes, store_bytes = len(born_host), len(store_host)
    if born_bytes not in _HOST_BYTES or store_bytes not in _HOST_BYTES:
        raise WireError(f"hosts of {born_bytes} and {store_bytes} bytes, not 8 or 20")
    return (born_bytes == HOST_V6_BYTES) + 2 * (store_bytes == HOST_V6_BYTES)


def encoded_size(record: NewRecord, crc_tail: bool) -> int:
    """Return how many bytes `encode` will make.

    Raises:
        MessageTooLarge: Topic or properties exceed their limits.
    """
    fixed = FIXED[_wide_hosts(record.born_host, record.store_host)].size
    stored = _stored_properties(record.properties, crc_tail)
    size = fixed + len(record.body) + len(_topic_field(record.topic)[1]) + 2 + len(stored)
    return size + CRC_TAIL_BYTES if crc_tail else size


def encode(
    record: NewRecord,
    *,
    queue_offset: int,
    physical_offset: int,
    stored_at_ms: int,
    crc_tail: bool,
) -> bytes:
    """Return the bytes to store of one record; see `encode_all`."""
    encoded, _ = encode_all([record], [queue_offset], physical_offset, stored_at_ms, crc_tail)
    return encoded


def encode_all(
    records: Sequence[NewRecord],
    queue_offsets: Sequence[int],
    physical_offset: int,
    stored_at_ms: int,
    crc_tail: bool,
) -> tuple[bytes, list[int]]:
    """Return the bytes to store of records, their physical offsets, and the one behind them.

    The bits for IPv6 hosts in the system flag are set as needed.

    It is on the hot path: one pack, one join, two checksums, few calls beside them, and one more
    join for all.

    Args:
        records: What to store, one after the other.
        queue_offsets: The place of each in its queue; 0 for what gets no unit.
        physical_offset: The place of the first in the log.
        stored_at_ms: Wall time at the broker.
        crc_tail: End each in a property that covers the whole record. A property of that name
            that the producer sent is dropped in either case.

    Raises:
        MessageTooLarge: Topic, properties or a number exceed the width of their fields.
        WireError: The topic is not valid Unicode, or a host has neither 8 nor 20 bytes.
    """
    pieces: list[bytes] = []
    place, physical_offsets = physical_offset, [physical_offset]
    join, pack_length = b"".join, I16.pack
    tail_bytes = CRC_TAIL_BYTES if crc_tail else 0
    topic_name, magic, topic = "", 0, b""
    born_bytes = store_bytes = -1
    wide_hosts, fixed_bytes, pack = 0, FIXED_V4.size, FIXED_V4.pack
    for record, queue_offset in zip(records, queue_offsets, strict=True):
        if record.topic != topic_name or not topic:
            topic_name = record.topic
            magic, topic = _topic_field(topic_name)
        body, born_host, store_host = record.body, record.born_host, record.store_host
        stored = record.properties
        if CRC_MARK in stored or (stored[-1:] != b"\x02" and (crc_tail or stored[-1:] == b"\0")):
            stored = _stored_properties(stored, crc_tail)
        length = len(stored) + tail_bytes
        if len(born_host) != born_bytes or len(store_host) != store_bytes:
            born_bytes, store_bytes = len(born_host), len(store_host)
            wide_hosts = _wide_hosts(born_host, store_host)
            fixed_bytes, pack = FIXED[wide_hosts].size, FIXED[wide_hosts].pack
        body_bytes = len(body)
        size = fixed_bytes + body_bytes + len(topic) + 2 + length
        try:
            head = pack(
                size,
                magic,
                crc32(body) & 0x7FFFFFFF,
                record.queue_id,
                record.flag,
                queue_offset,
                place,
                record.sys_flag & ~HOSTS_V6 | wide_hosts << 4,
                record.born_at_ms,
                born_host,
                stored_at_ms,
                store_host,
                record.reconsume_times,
                record.prepared_transaction_offset,
                body_bytes,
            )
            data = join((head, body, topic, pack_length(length), stored))
        except struct.error as error:
            if length > PROPERTIES_BYTES_MAX:
                text = f"{length} bytes of properties exceed {PROPERTIES_BYTES_MAX}"
                raise PropertiesTooLarge(text) from error
            raise MessageTooLarge(f"a field of the record does not fit: {error}") from error
        pieces.append(data)
        if crc_tail:
            crc = crc32(data) & 0x7FFFFFFF
            first, middle, last = crc % 1000, crc // 1000 % 1000, crc // 1_000_000
            pieces += _FIRST_DIGITS[first], _DIGITS[middle], _LAST_DIGITS[last]
        place += size
        physical_offsets.append(place)
    return join(pieces), physical_offsets


def encode_batch(
    batch: NewBatch,
    queue_offset: int,
    physical_offset: int,
    stored_at_ms: int,
    crc_tail: bool,
) -> tuple[Sequence[Encoded], list[int]]:
    """Do as `encode_all` with the records of a batch, as rows if they all have the same sizes.

    Args:
        batch: What to store.
        queue_offset: The place of the first in its queue; the others follow.
        physical_offset: See `encode_all`, as for the others and what is raised.
        stored_at_ms: See there.
        crc_tail: See there.

    Returns:
        What `finish` makes the bytes to store of, the physical offsets, and the one behind them.
    """
    bodies, texts = batch.bodies, batch.properties
    if (
        isinstance(bodies, Column)
        and isinstance(texts, Column)
        and batch_rows is not None
        and len(bodies) >= batch_rows.ROWS_MIN
        and batch.added[-1:] == b"\x02"
        and not batch.has(CRC_MARK)
    ):
        try:
            rows = _as_rows(
                batch, bodies, texts, queue_offset, physical_offset, stored_at_ms, crc_tail
            )
            return [rows], list(range(physical_offset, rows.end + 1, rows.size))
        except struct.error:
            pass  # something is too large, and `encode_all` says what
    offsets = range(queue_offset, queue_offset + len(bodies))
    each, ends = encode_all(batch.records(), offsets, physical_offset, stored_at_ms, crc_tail)
    return [each], ends


def finish(encoded: Sequence[Encoded]) -> list[Buffer]:
    """Write the rows among what `encode_batch` returned, those of several batches at once.

    Args:
        encoded: What follows each other in the log.

    Returns:
        The bytes to store, in fewer pieces.
    """
    found: list[Buffer] = []
    waiting: list[batch_rows.BatchRows] = []
    for one in encoded:
        if waiting and (
            not isinstance(one, batch_rows.BatchRows)
            or not waiting[-1].goes_on_with(one)
            or one.end - waiting[0].physical_offset > ROWS_BYTES_MAX
        ):
            found.append(batch_rows.encode(waiting))
            waiting = []
        if isinstance(one, batch_rows.BatchRows):
            waiting.append(one)
        else:
            found.append(one)
    if waiting:
        found.append(batch_rows.encode(waiting))
    return found


def _as_rows(
    batch: NewBatch,
    bodies: Column,
    texts: Column,
    queue_offset: int,
    physical_offset: int,
    stored_at_ms: int,
    crc_tail: bool,
) -> "batch_rows.BatchRows":
    """Return the records of a batch whose messages have the same sizes, not written yet."""
    shared, added = batch.shared, batch.added
    magic, topic = _topic_field(shared.topic)
    wide_hosts = _wide_hosts(shared.born_host, shared.store_host)
    fixed = FIXED[wide_hosts]
    text_bytes = texts.width + len(added) + (CRC_TAIL_BYTES if crc_tail else 0)
    behind_body = topic + I16.pack(text_bytes)
    size = fixed.size + bodies.width + len(behind_body) + text_bytes
    head = fixed.pack(
        size,
        magic,
        *(0, shared.queue_id, 0, 0, 0),
        shared.sys_flag & ~HOSTS_V6 | wide_hosts << 4,
        shared.born_at_ms,
        shared.born_host,
        stored_at_ms,
        shared.store_host,
        shared.reconsume_times,
        shared.prepared_transaction_offset,
        bodies.width,
    )
    same = batch_rows.Same(head, behind_body, added + CRC_NAME if crc_tail else added, crc_tail)
    return batch_rows.BatchRows(
        same, batch.flags, bodies, texts, queue_offset, physical_offset, size
    )


def blank(size: int) -> bytes:
    """Return the record that ends a file, 8 bytes; `size` bytes are left from its start."""
    assert size >= BLANK_BYTES, size
    return HEAD.pack(size, MAGIC_BLANK)


def decode(
    data: Buffer, position: int = 0, *, check_crc: bool = True, check_tail: bool = False
) -> StoredMessage:
    """Decode the record that starts at `position`.

    Args:
        data: Bytes that hold the whole record; what follows it does not matter.
        position: Where in `data` it starts.
        check_crc: Compare the body with its CRC, unless a CRC tail fits.
        check_tail: If the record ends in a CRC tail, compare that. Only for stores that write it:
            elsewhere a producer may have sent a property that looks like one.

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
    fits = tail_fits(data, position, end) if check_tail else None
    if check_crc and not fits and crc32(body) & 0x7FFFFFFF != body_crc:
        raise WireError(f"body of the record at {position} does not fit its checksum")
    if fits is False:
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
    """Decode records that lie one after the other, as a pull answers them.

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
        tags_code: The `hash32` of the tag, 0 without one.
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
