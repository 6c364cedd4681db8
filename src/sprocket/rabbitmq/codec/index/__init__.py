"""The records of a classic queue's index, version 1: journal.jif and the segment files N.idx.

`records` has the layout and makes the bytes, one record at a time. `reading` takes whole files
apart, as columns: it finds the places of the records, says why it stopped, and adds up what they
say of each message. Needs numpy.
"""

from sprocket.rabbitmq.codec.index.reading import (
    IndexedMessages,
    IndexFinding,
    IndexRecords,
    IndexStop,
    MessageStates,
    messages,
    read_journal,
    read_segment,
    states,
)
from sprocket.rabbitmq.codec.index.records import (
    PublishRecord,
    RecordKind,
    ack,
    decode_publish,
    deliver,
    publish,
    segment_mark,
    segment_publish,
)

__all__ = [
    "IndexFinding",
    "IndexRecords",
    "IndexStop",
    "IndexedMessages",
    "MessageStates",
    "PublishRecord",
    "RecordKind",
    "ack",
    "decode_publish",
    "deliver",
    "messages",
    "publish",
    "read_journal",
    "read_segment",
    "segment_mark",
    "segment_publish",
    "states",
]
