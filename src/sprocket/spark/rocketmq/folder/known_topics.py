"""Which topics a store's folder knows, so that an unknown one is an error and not an empty result.

The folders of the queues name every topic that has messages, where queues are files; the table of
topics and its journal name the others. A folder that holds only a log names none.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from sprocket.base import log
from sprocket.base.errors import SettingsError, StoreError, WireError
from sprocket.base.nearest import hint
from sprocket.rocketmq.codec.config import fastjson
from sprocket.rocketmq.store.layout import StoreLayout
from sprocket.spark.files import Files, read_whole

_log = log.get_logger(__name__)


def require_topics(disk: Files, folder: str, topics: Sequence[str]) -> None:
    """Check that topics which were asked for are there.

    Raises:
        SettingsError: One is not; the text names the nearest.
    """
    layout = StoreLayout(folder)
    known = {*disk.list(layout.consumequeue), *disk.list(layout.batch_queues)}
    if known.issuperset(topics):
        return
    known |= _configured(disk, folder)
    for topic in topics:
        if not known:
            _log.warning("nothing tells which topics this folder has", folder=folder, topic=topic)
        elif topic not in known:
            meant = hint(topic, known)
            raise SettingsError(
                f"there is no topic {topic!r} in {folder}{meant or f'; there are {len(known)}'}. To"
                " read what the log still has of a deleted one, leave `subscribe` away and filter"
                " by the column `topic`"
            )


def require_pattern(files: Files, folder: str, pattern: "re.Pattern[str] | None") -> None:
    """Check that a pattern of topics which was given has any.

    Raises:
        SettingsError: It has none.
    """
    if pattern is None:
        return
    known = topics_of(files, folder)
    if not known:
        _log.warning("nothing tells which topics this folder has", folder=folder)
    elif not any(pattern.fullmatch(topic) for topic in known):
        raise SettingsError(
            f"no topic in {folder} fits subscribePattern {pattern.pattern!r}; there are"
            f" {len(known)}"
        )


def topics_of(disk: Files, folder: str) -> set[str]:
    """Return every topic that a store's folder names, internal ones and some deleted ones, too."""
    layout = StoreLayout(folder)
    named = {*disk.list(layout.consumequeue), *disk.list(layout.batch_queues)}
    return named | _configured(disk, folder)


def _configured(disk: Files, folder: str) -> set[str]:
    """Return the names in the table of topics and in its journal, some deleted ones among them."""
    layout = StoreLayout(folder)
    found: set[str] = set()
    for name in disk.list(layout.config):
        path = f"{layout.config}/{name}"
        try:
            if path in (layout.topics, f"{layout.topics}.bak"):
                table = fastjson.read_large(read_whole(disk, path))
                found.update(_names(table, "topicConfigTable"))
            elif path.startswith(layout.topic_journal):
                for line in read_whole(disk, path).split(b"\n"):
                    entry = _json(line.partition(b"\t")[2])
                    found.update(_names(entry, 3))
        except (StoreError, WireError) as error:
            _log.warning("a table of topics cannot be read", path=path, error=str(error))
    return found


def _names(value: Any, place: str | int) -> list[str]:
    """Return the names of the object at a place of a value; of what is none there, nothing."""
    try:
        found = value[place]
    except (TypeError, LookupError):
        return []
    return list(found) if isinstance(found, dict) else []


def _json(data: bytes) -> Any:
    """Return a JSON value, None for what is none: the end of a journal may be torn."""
    try:
        return json.loads(data)
    except ValueError:
        return None
