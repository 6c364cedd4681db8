"""Settings of the RabbitMQ column: defaults are RabbitMQ's, texts are there."""

import pytest

from sprocket.base import settings as loader
from sprocket.rabbitmq.settings import VhostGeometry, VhostStoreSettings


@pytest.mark.parametrize("group", [VhostGeometry, VhostStoreSettings])
def test_each_setting_says_what_it_does(group: type) -> None:
    """In the text below it."""
    texts = loader.descriptions(group)
    assert all(texts.get(name) for name in group.__dataclass_fields__)  # type: ignore[attr-defined]


def test_defaults_are_those_of_rabbitmq() -> None:
    """As far as it has such a setting."""
    assert VhostGeometry().segment_entries == 2048
    store = VhostStoreSettings()
    assert (store.embed_bytes_below, store.store_file_bytes) == (4096, 16777216)
    assert (store.journal_records_max, store.flush_idle_ms) == (32768, 1000)
