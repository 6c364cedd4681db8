"""The property string of a message: `name 0x01 value 0x02`, again and again, as UTF-8.

The format cannot carry an empty value (a reader drops the pair), nor 0x02 anywhere, nor 0x01 in a
name; a value may hold 0x01. See `docs/formats/properties.md`.
"""

from collections.abc import Mapping

from sprocket.base.errors import InvalidMessage
from sprocket.rocketmq.codec.record_layout import CRC_PROPERTY

KEYS = "KEYS"
TAGS = "TAGS"
UNIQ_KEY = "UNIQ_KEY"
WAIT = "WAIT"
DELAY = "DELAY"
REAL_TOPIC = "REAL_TOPIC"
REAL_QID = "REAL_QID"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
TRAN_MSG = "TRAN_MSG"
TRANSACTION_ID = "__transactionId__"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
TRAN_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
CHECK_IMMUNITY_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
PRODUCER_GROUP = "PGROUP"
BORN_TIMESTAMP = "BORN_TIMESTAMP"
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
CLUSTER = "CLUSTER"
POP_CK = "POP_CK"
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TTL = "TTL"
MSG_TYPE = "MSG_TYPE"
REPLY = "reply"
"""The value of MSG_TYPE in a message that answers a request."""
ARRIVE_TIME = "ARRIVE_TIME"
MSG_REGION = "MSG_REGION"
TRACE_ON = "TRACE_ON"
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"
INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
CRC32 = CRC_PROPERTY

RESERVED = frozenset(
    {
        *(KEYS, TAGS, UNIQ_KEY, WAIT, DELAY, REAL_TOPIC, REAL_QID, RETRY_TOPIC, ORIGIN_MESSAGE_ID),
        *(TRAN_MSG, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, CLUSTER, CORRELATION_ID),
        *(REPLY_TO_CLIENT, TTL, MSG_TYPE, ARRIVE_TIME, MSG_REGION, TRACE_ON, INNER_NUM, INNER_BASE),
        *(INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET, PUSH_REPLY_TIME, CRC32),
        *(
            PRODUCER_GROUP,
            "MIN_OFFSET",
            "MAX_OFFSET",
            "BUYER_ID",
            "TRANSFER_FLAG",
            "CORRECTION_FLAG",
        ),
        *("MQ2_FLAG", "RECONSUME_TIME", "MAX_RECONSUME_TIMES", "CONSUME_START_TIME", POP_CK),
        *("POP_CK_OFFSET", "1ST_POP_TIME", "EXTEND_UNIQ_INFO", "INSTANCE_ID", "DUP_INFO"),
        *(CHECK_IMMUNITY_SECONDS, TRAN_PREPARED_QUEUE_OFFSET, TRANSACTION_ID),
        *(TRANSACTION_CHECK_TIMES, TIMER_OUT_MS, TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS),
        *(TIMER_ROLL_TIMES, TIMER_DEL_UNIQKEY, "TIMER_DELAY_LEVEL", "__SHARDINGKEY"),
        *("DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "TRACE_CONTEXT", "__BORNHOST"),
        *(BORN_TIMESTAMP, "REDIRECT", "PROPERTY_FORWARD_QUEUE_ID"),
    }
)
"""Names that clients, brokers and proxies give a meaning to: RocketMQ's `MessageConst`."""

PROPERTIES_BYTES_MAX = 32_767
"""The length is an i16; the CRC tail and the separator before it count as well."""

_NAME_END = "\x01"
_PAIR_END = "\x02"
_PAIR_END_BYTES = b"\x02"


def encode(pairs: Mapping[str, str]) -> bytes:
    """Encode pairs in their own order.

    Raises:
        InvalidMessage: A name is empty or holds 0x01 or 0x02, or a value holds 0x02.
    """
    text = "".join([f"{name}\x01{value}\x02" for name, value in pairs.items()])
    if text.count(_PAIR_END) != len(pairs) or "" in pairs:
        raise InvalidMessage(_complaint(pairs))
    if text.count(_NAME_END) != len(pairs) and any(_NAME_END in name for name in pairs):
        raise InvalidMessage(_complaint(pairs))
    return text.encode("utf-8", "replace")


def _complaint(pairs: Mapping[str, str]) -> str:
    for name, value in pairs.items():
        if not name:
            return "a property has an empty name"
        if _NAME_END in name or _PAIR_END in name:
            return f"the name of property {name!r} holds 0x01 or 0x02"
        if _PAIR_END in value:
            return f"the value of property {name!r} holds 0x02"
    return "a property holds a separator"


def decode(data: bytes | bytearray | memoryview | str) -> dict[str, str]:
    """Decode a property string as RocketMQ's `MessageDecoder` does.

    Pieces without 0x01, with an empty name or an empty value are dropped; of two pairs with one
    name the later wins; a missing last 0x02 does not matter. Bytes that are not UTF-8 become
    U+FFFD. Never raises.
    """
    text = data if isinstance(data, str) else str(data, "utf-8", "replace")
    pairs: dict[str, str] = {}
    for piece in text.split(_PAIR_END):
        name, _, value = piece.partition(_NAME_END)
        if name and value:
            pairs[name] = value
    return pairs


def append(encoded: bytes, name: str, value: str) -> bytes:
    """Add one pair after the others, closing the last of them if it is open."""
    return join(encoded, f"{name}\x01{value}\x02".encode())


def join(first: bytes, then: bytes) -> bytes:
    """Put two property strings after each other, closing the first if it is open."""
    if not first or not then or first.endswith(_PAIR_END_BYTES):
        return first + then
    return first + _PAIR_END_BYTES + then


def find(encoded: bytes, name: str) -> str | None:
    """Return one value without decoding the rest; None if `decode` would not give it."""
    return value_of(_PAIR_END_BYTES + encoded, f"\x02{name}\x01".encode())


def value_of(closed: bytes, mark: bytes) -> str | None:
    """Return one value of a property string that is given with one 0x02 before it.

    Args:
        closed: 0x02 and the property string, so that every name follows a 0x02.
        mark: 0x02, the name, 0x01.
    """
    start = closed.rfind(mark)
    while start >= 0:
        value_start = start + len(mark)
        end = closed.find(_PAIR_END_BYTES, value_start)
        value = closed[value_start:] if end < 0 else closed[value_start:end]
        if value:
            return value.decode("utf-8", "replace")
        start = closed.rfind(mark, 0, start + 1)
    return None


def remove(encoded: bytes, name: str) -> bytes:
    """Return the property string without any pair of this name."""
    mark = f"{name}\x01".encode()
    if mark not in encoded:
        return encoded
    pieces = encoded.split(_PAIR_END_BYTES)
    return _PAIR_END_BYTES.join([piece for piece in pieces if not piece.startswith(mark)])


def index_keys(unique_key: str | None, keys: str | None) -> tuple[str, ...]:
    """Return what the index finds a message by: the unique key, then each word of KEYS.

    Words are split at single blanks and not made unique, as `IndexService` does.
    """
    if unique_key and keys and " " not in keys:
        return unique_key, keys
    words = tuple([word for word in keys.split(" ") if word]) if keys else ()
    return (unique_key, *words) if unique_key else words
