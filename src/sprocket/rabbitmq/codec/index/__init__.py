"""The records of a classic queue's index: journal.jif and N.idx, and N.qi, N.qs of version 2.

`records` has the layout and makes the bytes, one record at a time. `reading` takes whole files
apart, as columns: it finds the positions of the records, says why it stopped, and adds up what they
say of each message. `version_2` reads the files of version 2, `sums` has the
checksums of ours beside those of version 1. Needs numpy.
"""

from sprocket.rabbitmq.codec.index.reading import (
    IndexedMessages,
    IndexFinding,
    IndexRecords,
    IndexStop,
    JournalRow,
    JournalRows,
    MessageStates,
    journal_rows,
    messages,
    read_journal,
    read_segment,
    states,
)
from sprocket.rabbitmq.codec.index.records import (
    PublishRecord,
    RecordKind,
    ack,
    acks,
    decode_publish,
    deliver,
    delivers,
    publish,
    publishes,
    segment_mark,
    segment_publish,
)
from sprocket.rabbitmq.codec.index.sums import (
    CheckedIndex,
    IndexSum,
    check_index,
    decode_sums,
    index_sum,
)
from sprocket.rabbitmq.codec.index.version_2 import (
    HEADER_BYTES,
    STORED_HEAD,
    BoundsV2,
    MessagePlace,
    SegmentV2,
    bounds_v2,
    read_segment_v2,
    stored_term,
)

__all__ = [
    "HEADER_BYTES",
    "STORED_HEAD",
    "BoundsV2",
    "CheckedIndex",
    "IndexFinding",
    "IndexRecords",
    "IndexStop",
    "IndexSum",
    "IndexedMessages",
    "JournalRow",
    "JournalRows",
    "MessagePlace",
    "MessageStates",
    "PublishRecord",
    "RecordKind",
    "SegmentV2",
    "ack",
    "acks",
    "bounds_v2",
    "check_index",
    "decode_publish",
    "decode_sums",
    "deliver",
    "delivers",
    "index_sum",
    "journal_rows",
    "messages",
    "publish",
    "publishes",
    "read_journal",
    "read_segment",
    "read_segment_v2",
    "segment_mark",
    "segment_publish",
    "states",
    "stored_term",
]
