"""The stored message: the one place that knows how its bytes lie.

`record` encodes and decodes one, `record_scan` walks over many, `batch` and `inner_batch` know
messages that travel together; `properties` and `ids` are parts of them. Source: RocketMQ
`MessageExtEncoder`, `MessageDecoder`.
"""

from sprocket.rocketmq.codec.record import (
    batch,
    batch_rows,
    extra,
    ids,
    inner_batch,
    properties,
    record,
    record_layout,
)
from sprocket.rocketmq.codec.record.batch import FRAME_BYTES
from sprocket.rocketmq.codec.record.extra import (
    COUNT_MAX,
    LIGHT_PREFIX,
    MARK,
    Extra,
)
from sprocket.rocketmq.codec.record.ids import UniqueIds, host_bytes, host_text, parse_host
from sprocket.rocketmq.codec.record.properties import (
    ARRIVE_TIME,
    CLUSTER,
    CORRELATION_ID,
    KEYS,
    MSG_TYPE,
    REPLY_TO_CLIENT,
    TAGS,
    TTL,
    UNIQ_KEY,
)
from sprocket.rocketmq.codec.record.record import Entry
from sprocket.rocketmq.codec.record.record_encode import encoded_size
from sprocket.rocketmq.codec.record.record_layout import (
    BLANK_BYTES,
    BODY_CRC_AT,
    BORN_AT_MS_AT,
    BORN_HOST_AT,
    CRC_NAME,
    CRC_TAIL_BYTES,
    FIXED_BYTES,
    FLAG_AT,
    HEAD,
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
    TOPIC_BYTES_MAX_V1,
    claims_to_fit,
)
from sprocket.rocketmq.codec.record.record_scan import ScanStop, places
from sprocket.rocketmq.model.internal import SCHEDULE_TOPIC

__all__ = [
    "ARRIVE_TIME",
    "BLANK_BYTES",
    "BODY_CRC_AT",
    "BORN_AT_MS_AT",
    "BORN_HOST_AT",
    "CLUSTER",
    "CORRELATION_ID",
    "COUNT_MAX",
    "CRC_NAME",
    "CRC_TAIL_BYTES",
    "FIXED_BYTES",
    "FLAG_AT",
    "FRAME_BYTES",
    "HEAD",
    "HOST_V6_EXTRA",
    "KEYS",
    "LIGHT_PREFIX",
    "MAGIC_AT",
    "MAGIC_BLANK",
    "MAGIC_V1",
    "MAGIC_V2",
    "MARK",
    "MSG_TYPE",
    "PHYSICAL_OFFSET_AT",
    "QUEUE_ID_AT",
    "QUEUE_OFFSET_AT",
    "RECORD_BYTES_MIN",
    "REPLY_TO_CLIENT",
    "SCHEDULE_TOPIC",
    "SIZE_AT",
    "STORED_AT_MS_AT",
    "STORED_AT_MS_END",
    "SYS_FLAG_AT",
    "TAGS",
    "TOPIC_BYTES_MAX_V1",
    "TTL",
    "UNIQ_KEY",
    "Entry",
    "Extra",
    "ScanStop",
    "UniqueIds",
    "batch",
    "batch_rows",
    "claims_to_fit",
    "encoded_size",
    "extra",
    "host_bytes",
    "host_text",
    "ids",
    "inner_batch",
    "parse_host",
    "places",
    "properties",
    "record",
    "record_layout",
]
