"""The table of topics in a folder, for programs that look at a store without being its broker.

The broker keeps it as a snapshot and a journal (`base.tables`); both are read here, neither is
changed.
"""

from collections.abc import Callable

import msgspec

from sprocket.base.disk import Disk, read_file
from sprocket.base.errors import FileMissing, WireError
from sprocket.base.tables import BACKUP, journal
from sprocket.rocketmq.codec.config import TopicLine, fastjson, tables
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.store.layout import StoreLayout

_decode: Callable[[bytes], TopicLine] = msgspec.json.Decoder(TopicLine).decode


def read(disk: Disk, layout: StoreLayout) -> dict[str, TopicConfig] | None:
    """Return every topic by name; None if there is no table that can be read."""
    for path in (layout.topics, layout.topics + BACKUP):
        try:
            content = fastjson.read_large(read_file(disk, path), fastjson.Members)
            found = tables.TOPICS.read(content)
            covered = tables.covered_by(content)
            for *_, changed in journal.read_lines(disk, layout.topic_journal, covered, _decode):
                tables.TOPICS.apply(found, changed)
        except (FileMissing, WireError):
            continue
        return found
    return None
