"""The stored message, whose bytes lie as `codec.record_layout` says.

`record` encodes and decodes it, `record_scan` scans many, `batch` knows messages that travel
together; `properties`, `ids`, `extra` and `op_message` are parts of them; `keyed` is what
compaction needs to know; `erased` is what takes the place of a message, `recall_handle` what one is
taken back by, `pop_records` what RocketMQ keeps of pops. `batch_rows` is not exported because it
needs numpy. Source: RocketMQ `MessageExtEncoder`, `MessageDecoder`.
"""

from sprocket.rocketmq.codec.record import (
    batch,
    erased,
    extra,
    ids,
    keyed,
    op_message,
    pop_records,
    properties,
    recall_handle,
    record,
    record_scan,
)
from sprocket.rocketmq.codec.record.batch import FRAME_BYTES
from sprocket.rocketmq.codec.record.extra import COUNT_MAX, Extra
from sprocket.rocketmq.codec.record.ids import UniqueIds, parse_host
from sprocket.rocketmq.codec.record.record import Entry, encoded_size
from sprocket.rocketmq.codec.record.record_scan import ScanStop

__all__ = [
    "COUNT_MAX",
    "FRAME_BYTES",
    "Entry",
    "Extra",
    "ScanStop",
    "UniqueIds",
    "batch",
    "encoded_size",
    "erased",
    "extra",
    "ids",
    "keyed",
    "op_message",
    "parse_host",
    "pop_records",
    "properties",
    "recall_handle",
    "record",
    "record_scan",
]
