"""The key index: which records of the log have a key, by its hash.

`Indexes` puts and finds keys, an index file after the other. It is made from the log, and made
again if it is lost, by many at once with `key_run`. What its slots do not lead to yet is looked for
in its units.
"""

from sprocket.rocketmq.store.index.compacted import CompactedIndex, compacted
from sprocket.rocketmq.store.index.index_file import (
    HEADER,
    HEADER_BYTES,
    INDEX_UNIT,
    SECONDS_MAX,
    SLOT_BYTES,
    UNIT_BYTES,
    IndexHeader,
)
from sprocket.rocketmq.store.index.key_index import (
    Indexes,
    batch_hashes,
    file_name,
    key_string,
)
from sprocket.rocketmq.store.index.key_run import (
    IndexedKey,
    KeyRun,
    KeyRunWriter,
    index_of,
    key_of,
)

__all__ = [
    "HEADER",
    "HEADER_BYTES",
    "INDEX_UNIT",
    "SECONDS_MAX",
    "SLOT_BYTES",
    "UNIT_BYTES",
    "CompactedIndex",
    "IndexHeader",
    "IndexedKey",
    "Indexes",
    "KeyRun",
    "KeyRunWriter",
    "batch_hashes",
    "compacted",
    "file_name",
    "index_of",
    "key_of",
    "key_string",
]
