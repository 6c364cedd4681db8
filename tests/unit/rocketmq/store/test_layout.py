"""Paths are RocketMQ's, and no topic leads out of the folder."""

import pytest

from sprocket.base.errors import CorruptRecord
from sprocket.rocketmq.store.layout import StoreLayout, check_topic


def test_paths_are_rocketmqs() -> None:
    """Each file has one place."""
    layout = StoreLayout("/s")
    found = (
        layout.commitlog,
        layout.consumequeue,
        layout.index,
        layout.config,
        layout.checkpoint,
        layout.abort,
        layout.lock,
        layout.geometry,
        layout.recovery,
        layout.clean,
        layout.queue_table,
        layout.queue("%RETRY%g", 3),
    )
    assert found == (
        "/s/commitlog",
        "/s/consumequeue",
        "/s/index",
        "/s/config",
        "/s/checkpoint",
        "/s/abort",
        "/s/lock",
        "/s/config/sprocket.json",
        "/s/config/recovery.json",
        "/s/config/clean.json",
        "/s/config/queues.json",
        "/s/consumequeue/%RETRY%g/3",
    )


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "../x", "a\0b"])
def test_a_topic_that_is_no_name_is_refused(topic: str) -> None:
    """Such a topic would be a file elsewhere."""
    with pytest.raises(CorruptRecord):
        check_topic(topic)


def test_other_topics_pass() -> None:
    """Whatever is one name is allowed."""
    assert check_topic("...") == "..."
