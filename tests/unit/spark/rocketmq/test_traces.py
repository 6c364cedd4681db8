"""Traces as rows: each note of each trace message of a store."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.stores import HOST

from sprocket.base.disk import RealDisk
from sprocket.rocketmq.codec import trace
from sprocket.rocketmq.model.internal import TRACE_TOPIC
from sprocket.rocketmq.model.message import NewRecord
from sprocket.rocketmq.model.trace import (
    ConsumeBegan,
    ConsumeEnded,
    ConsumeOutcome,
    Produced,
    Recalled,
    TraceRecord,
    TransactionEnded,
)
from sprocket.rocketmq.settings import StoreSettings
from sprocket.rocketmq.store.store import Store
from sprocket.spark import traces
from sprocket.testing.clock import FakeClock

SENT = Produced(
    at_ms=1_700_000_000_123,
    region="DefaultRegion",
    group="shop",
    topic="orders",
    message_id="A1",
    tags="paid",
    keys="k1 k2",
    store_host="10.0.0.1:10911",
    body_bytes=12,
    cost_ms=3,
    is_success=True,
)
BEGAN = ConsumeBegan(
    at_ms=1_700_000_000_200, region="R", group="g", request_id="q1", message_id="A1", retries=2
)
ENDED = ConsumeEnded(
    request_id="q1",
    message_id="A1",
    cost_ms=7,
    is_success=False,
    outcome=ConsumeOutcome.RAISED,
    at_ms=1_700_000_000_207,
    group="g",
)
DECIDED = TransactionEnded(
    at_ms=1_700_000_000_300,
    region="R",
    group="shop",
    topic="orders",
    message_id="A2",
    store_host="10.0.0.1:10911",
    transaction_id="A2",
    state="ROLLBACK_MESSAGE",
    was_asked=True,
)
CALLED_BACK = Recalled(
    at_ms=1_700_000_000_400, region="R", group="shop", topic="o", message_id="A3", is_success=True
)


def store_of(root: Path, bodies: list[bytes]) -> str:
    """Make a store with trace messages of these bodies, and one of another topic."""
    settings = StoreSettings(fill_ahead_bytes=0, message_bytes_max=1 << 20)
    opened = Store.open(RealDisk(), str(root), settings, FakeClock())
    for topic, body in [("orders", b"\x01"), *((TRACE_TOPIC, body) for body in bodies)]:
        opened.append(
            NewRecord(
                topic=topic,
                queue_id=0,
                body=body,
                properties=b"",
                born_host=HOST,
                store_host=HOST,
                born_at_ms=1,
            )
        )
    opened.write()
    opened.sync()
    opened.dispatch()
    opened.close()
    return str(root)


@pytest.mark.spark
@pytest.mark.slow
def test_each_note_is_a_row(spark: Any, tmp_path: Path) -> None:
    """Of all kinds; what cannot be read hides no other."""
    notes: list[TraceRecord] = [SENT, BEGAN, ENDED, DECIDED, CALLED_BACK]
    bodies = [trace.encode(notes[:2]) + b"Pub\x01oh\x02", trace.encode(notes[2:]), b"nothing"]
    store = store_of(tmp_path / "store", bodies)
    rows = sorted(traces(spark, store).collect(), key=lambda row: row.at)
    assert [round(row.at.timestamp() * 1000) for row in rows] == [one.at_ms for one in notes]
    assert [row.messageId for row in rows] == ["A1", "A1", "A1", "A2", "A3"]
    told = [(row.event, row.clientGroup, row.topic, row.isSuccess, row.outcome) for row in rows]
    assert told == [
        ("sent", "shop", "orders", True, "NORMAL"),
        ("consume began", "g", None, None, None),
        ("consume ended", "g", None, False, "RAISED"),
        ("transaction ended", "shop", "orders", None, "ROLLBACK_MESSAGE"),
        ("recalled", "shop", "o", True, None),
    ]
    sent, began, ended, *_ = rows
    assert (sent.costMs, sent.bodyBytes, sent.tags, sent.keys) == (3, 12, "paid", "k1 k2")
    assert (began.retries, began.requestId) == (2, "q1")
    assert (ended.costMs, ended.requestId) == (7, "q1")
    assert all(row.client.count(":") == 1 for row in rows)
    odd = [structs.replace(SENT, at_ms=at) for at in (-(1 << 60), 1 << 60)]
    rows = traces(spark, store_of(tmp_path / "odd", [trace.encode(odd)])).collect()
    assert [row.at for row in rows] == [None, None]
    assert traces(spark, store_of(tmp_path / "none", [])).count() == 0
