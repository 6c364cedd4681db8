"""Record A of the golden vectors, to be stored with changes."""

from sprocket.rocketmq.codec.record import ids, properties, record
from sprocket.rocketmq.model.message import NewRecord

PAIRS = {"UNIQ_KEY": "AC110001000018B4AAC22F6DDC500000", "KEYS": "k1 k2", "TAGS": "TagA"}


def new_record(**changes: object) -> NewRecord:
    """Return record A of the golden vectors before it is stored, with changes."""
    values: dict[str, object] = {
        "topic": "TopicTest",
        "queue_id": 3,
        "body": b"hello",
        "properties": properties.encode(PAIRS),
        "born_at_ms": 1_700_000_000_000,
        "born_host": ids.host_bytes("127.0.0.1", 12345),
        "store_host": ids.host_bytes("192.168.0.1", 10911),
    }
    return NewRecord(**{**values, **changes})  # type: ignore[arg-type]


def stored(new: NewRecord, *, at: int = 1024, crc_tail: bool = False) -> bytes:
    """Return a record's bytes at the place and time of record A."""
    return record.encode(
        new,
        queue_offset=7,
        physical_offset=at,
        stored_at_ms=1_700_000_000_123,
        crc_tail=crc_tail,
    )
