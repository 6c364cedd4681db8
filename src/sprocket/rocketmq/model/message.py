"""Messages: on their way into the log, as read from it, and as a user of the client sends them.

These are `msgspec` structs because they are made once per message on the hot path, where a
dataclass would cost two microseconds.
"""

from collections.abc import Iterator, Sequence
from typing import overload

from msgspec import Struct, field, structs

from sprocket.base import compression
from sprocket.base.compression import Method
from sprocket.base.disk import Buffer
from sprocket.base.errors import WireError
from sprocket.rocketmq.model.integers import Int32, Int64

COMPRESSED = 0x1
MULTI_TAGS = 0x2
TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC
TRANSACTION_MASK = 0xC
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80
COMPRESSION_MASK = 0x700

_METHODS = {0x000: Method.ZLIB, 0x100: Method.LZ4, 0x200: Method.ZSTD, 0x300: Method.ZLIB}
_METHOD_BITS = {Method.LZ4: 0x100, Method.ZSTD: 0x200, Method.ZLIB: 0x300}


def is_queueable(sys_flag: int) -> bool:
    """Say whether a record gets a unit in its queue: all but prepared and rolled back ones do."""
    return sys_flag & TRANSACTION_MASK in (0, TRANSACTION_COMMIT)


def is_indexable(sys_flag: int) -> bool:
    """Say whether a record's keys go into the index: all but those of rolled back ones do."""
    return sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK


def compression_method(sys_flag: int) -> Method | None:
    """Return how a body with this system flag is packed, or None for a plain one.

    Raises:
        WireError: The three method bits hold a number that stands for nothing.
    """
    if not sys_flag & COMPRESSED:
        return None
    method = _METHODS.get(sys_flag & COMPRESSION_MASK)
    if method is None:
        raise WireError(f"unknown compression in system flag {sys_flag:#x}")
    return method


def unpacked(stored_body: Buffer, sys_flag: int) -> bytes:
    """Return a body as its producer was given it, unpacked if `sys_flag` says that it is packed.

    Raises:
        WireError: The packed bytes are damaged, of an unknown method, or too large unpacked.
    """
    method = compression_method(sys_flag)
    return bytes(stored_body) if method is None else compression.decompress(method, stored_body)


def compression_flag(method: Method) -> int:
    """Return the system flag bits that say a body is packed with `method`."""
    return COMPRESSED | _METHOD_BITS[method]


class NewRecord(Struct, frozen=True, gc=False):
    """A message on its way into the log.

    Attributes:
        topic: Topic of the queue it goes to.
        queue_id: Queue within the topic, from 0.
        body: The bytes to store, packed already if `sys_flag` says so.
        properties: Pairs as `codec.properties` encodes them, UTF-8.
        born_host: Producer's address: 4 or 16 address bytes, then the port as i32.
        store_host: The broker's own address in the same form.
        flag: The producer's own 32 bits.
        sys_flag: Bits of this module's constants; those for IPv6 are set by `record.encode`.
        born_at_ms: Wall time at the producer.
        reconsume_times: How often it was delivered before.
        prepared_transaction_offset: Where the half message of a committed transaction lies.
        unique_key: Its UNIQ_KEY, for the answer to its producer; `properties` hold it as well. Of a
            batch its own one, "" if it has none.
    """

    topic: str
    queue_id: int
    body: bytes | memoryview
    properties: bytes
    born_host: bytes
    store_host: bytes
    flag: int = 0
    sys_flag: int = 0
    born_at_ms: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    unique_key: str = ""

    @property
    def queueable(self) -> bool:
        """Whether it takes a place in its queue."""
        return is_queueable(self.sys_flag)


class NewHalf(NewRecord, frozen=True, kw_only=True, gc=False):
    """A half message of which its properties say no more than that it is one.

    It was not asked about yet, may be asked about after the usual time, and does not wait when it
    is committed.

    Attributes:
        real_topic: Where it goes then.
        real_queue_id: Its queue there.
        group: The group of its producers, "" if it names none.
    """

    real_topic: str
    real_queue_id: int
    group: str


class ProducedMessage(Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """What a producer says of a message, or of those of a batch, beside their bodies."""

    topic: str
    queue_id: Int32
    """Negative: the broker chooses."""
    sys_flag: Int32
    born_timestamp: Int64
    """Milliseconds since 1970."""
    flag: Int32
    producer_group: str = ""
    default_topic: str | None = None
    """A topic that is not there is made like this one; then it must be named, and the next too."""
    default_topic_queue_nums: Int32 | None = None
    properties: str = ""
    """name U+0001 value U+0002, repeated."""
    reconsume_times: Int32 = 0
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


class SendRequest(Struct, frozen=True, gc=False):
    """A message, or a batch, that is to be stored.

    Attributes:
        message: What its producer says of it.
        body: Its body as it came.
        address: The producer's, `ip:port` or `[ip]:port`.
    """

    message: ProducedMessage
    body: bytes
    address: str


class SendBackRequest(Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """A message that a consumer could not handle and gives back.

    Attributes:
        offset: Bytes into the log.
        group: The consumer's group, whose retry or dead-letter topic it goes to.
        delay_level: How long it waits; 0: the broker chooses; negative: to the dead letters.
        unit_mode: Whether the retry topic, if it is new, belongs to a unit.
        max_reconsume_times: Deliveries that the consumer wants; None for what the group says.
    """

    offset: Int64
    group: str
    delay_level: Int32
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


class Column(Sequence[bytes]):
    """Texts of one width that lie at equal distances in one buffer; each is cut out when asked for.

    Attributes:
        data: The buffer.
        start: Where the first begins.
        width: Bytes of each.
        stride: From the beginning of one to that of the next.
        joined: All of them, one after the other.
    """

    __slots__ = ("_count", "_joined", "data", "start", "stride", "width")

    def __init__(self, data: bytes, *, start: int, width: int, stride: int, count: int) -> None:
        assert count > 0
        assert start + stride * (count - 1) + width <= len(data)
        self.data = data
        self.start = start
        self.width = width
        self.stride = stride
        self._count = count
        self._joined: bytes | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, number: int) -> bytes: ...
    @overload
    def __getitem__(self, number: slice) -> list[bytes]: ...
    def __getitem__(self, number: int | slice) -> bytes | list[bytes]:
        if isinstance(number, slice):
            return list(self)[number]
        at = self.start + self.stride * range(self._count)[number]
        return self.data[at : at + self.width]

    def __iter__(self) -> Iterator[bytes]:
        data, start, width, stride = self.data, self.start, self.width, self.stride
        end = start + stride * self._count
        return iter([data[at : at + width] for at in range(start, end, stride)])

    @property
    def joined(self) -> bytes:
        """See the class."""
        if self._joined is None:
            self._joined = b"".join(iter(self))
        return self._joined

    @joined.setter
    def joined(self, joined: bytes) -> None:
        """Take what somebody has who could join them at less cost."""
        self._joined = joined


class NewBatch(Struct, frozen=True, gc=False):
    """Messages on their way into the log together, one after the other in one queue.

    Attributes:
        shared: A record with all that they have in common; not its flag, body and properties.
        flags: The flag of each; at least one.
        bodies: The body of each.
        properties: The properties of each.
        added: Ends the properties of each.
    """

    shared: NewRecord
    flags: Sequence[int]
    bodies: Sequence[bytes]
    properties: Sequence[bytes]
    added: bytes

    def has(self, mark: int) -> bool:
        """Say whether a byte is in the properties of any: one search, not one for each."""
        texts = self.properties
        joined = texts.joined if isinstance(texts, Column) else b"".join(texts)
        return mark in self.added or mark in joined

    @property
    def bodies_size(self) -> int:
        """Bytes of all bodies."""
        bodies = self.bodies
        if isinstance(bodies, Column):
            return bodies.width * len(bodies)
        return sum(map(len, bodies))

    def records(self) -> list[NewRecord]:
        """Return each message as a record of its own."""
        shared, added = self.shared, self.added
        return [
            structs.replace(shared, flag=flag, body=body, properties=properties + added)
            for flag, body, properties in zip(self.flags, self.bodies, self.properties, strict=True)
        ]


class StoredMessage(Struct, frozen=True, gc=False):
    """A record of the log, decoded.

    Attributes:
        physical_offset: The record's own field, which must equal its place in the log.
        store_size: Bytes of the whole record.
        magic: 0xDAA320A7 for version 1, 0xDAA320AB for version 2.
        born_host: `ip:port`, an IPv6 address in brackets and written out in full.
        store_host: The same for the broker that stored it.
        stored_body: The body as it lies in the log; see `body`.
        offset_message_id: Store host and physical offset in hex.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_size: int
    magic: int
    born_at_ms: int
    born_host: str
    stored_at_ms: int
    store_host: str
    sys_flag: int
    flag: int
    body_crc: int
    reconsume_times: int
    prepared_transaction_offset: int
    properties: dict[str, str]
    stored_body: bytes
    offset_message_id: str = ""

    @property
    def body(self) -> bytes:
        """The body as the producer gave it; see `unpacked` for what is raised."""
        return unpacked(self.stored_body, self.sys_flag)

    @property
    def message_id(self) -> str:
        """What users know the message by: the producer's unique key, else the offset id."""
        return self.properties.get("UNIQ_KEY") or self.offset_message_id

    @property
    def unique_key(self) -> str | None:
        """The id that the producer made, if there is one."""
        return self.properties.get("UNIQ_KEY")

    @property
    def tags(self) -> str:
        """The tag, empty if there is none."""
        return self.properties.get("TAGS", "")

    @property
    def keys(self) -> tuple[str, ...]:
        """The words of the property KEYS, without the unique key."""
        return tuple(word for word in self.properties.get("KEYS", "").split(" ") if word)


class Message(Struct):
    """What a user of the client sends.

    Attributes:
        topic: Where it goes.
        body: What it says, at most 4 MiB by default.
        tag: What consumers may filter by on the broker.
        keys: What it can be found by later; no word may hold a blank.
        properties: Further names and values; no empty ones, none with 0x01 in a name or 0x02.
        flag: 32 bits of the user's own.
        delay_level: Deliver it later: levels 1 to 18 stand for 1, 5, 10 and 30 s, 1 to 10, 20 and
            30 minutes, 1 and 2 hours, unless the broker has other ones; 0: at once.
        delay_ms: Deliver it so many milliseconds after the broker stored it; 0: at once.
        deliver_at_ms: Deliver it at this time, ms since 1970; 0, or a time that is over: at once.

    One of the last three says when it is delivered; `BrokerRefused` if that is too far ahead.
    """

    topic: str
    body: bytes
    tag: str = ""
    keys: Sequence[str] = ()
    properties: dict[str, str] = field(default_factory=dict)
    flag: int = 0
    delay_level: int = 0
    delay_ms: int = 0
    deliver_at_ms: int = 0
