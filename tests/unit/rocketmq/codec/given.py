"""What several tests of the codec are given: record A of the golden vectors, and a topic."""

from sprocket.rocketmq.codec.record import ids, properties, record
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.model.topic import TopicConfig

PAIRS = {"UNIQ_KEY": "AC110001000018B4AAC22F6DDC500000", "KEYS": "k1 k2", "TAGS": "TagA"}

TOPIC = TopicConfig(
    name="t",
    read_queues=4,
    write_queues=3,
    perm=7,
    order=True,
    filter_type="MULTI_TAG",
    sys_flag=1,
    attributes={"+k": "v w"},
)
"""Everything in it differs from what a new one has."""


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
