"""Transactions as rows: what became of each half message of a real broker's store."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.samples import expected, unpack

from sprocket.rocketmq.model.internal import HALF_TOPIC
from sprocket.spark import transactions


@pytest.mark.spark
@pytest.mark.slow
def test_how_transactions_ended(spark: Any, tmp_path: Path) -> None:
    """At once, or when their producer was asked; those that it does not know wait."""
    lines = expected("07-transactions")
    halves = [line for line in lines if line["topic"] == HALF_TOPIC]
    found = transactions(spark, unpack("07-transactions", tmp_path)).collect()
    assert {row.transactionId for row in found} == {line["unique_key"] for line in halves}
    assert Counter(row.state for row in found) == {"committed": 16, "rolled back": 16, "unknown": 8}
    for row in found:
        own = [line for line in halves if line["unique_key"] == row.transactionId]
        last = max(own, key=lambda line: int(line["phys"]))
        assert (row.halfOffset, row.physicalOffset) == (last["queue_offset"], last["phys"])
        assert round(row.sentAt.timestamp() * 1000) == own[0]["store_timestamp"]
        assert row.topic == last["properties"]["REAL_TOPIC"]
        assert row.producerGroup == last["properties"]["PGROUP"]
        assert row.checks == int(last["properties"].get("TRANSACTION_CHECK_TIMES", 0))
        copies = [
            line
            for line in lines
            if line["unique_key"] == row.transactionId and line["sys_flag"] & 12 == 8
        ]
        assert bool(copies) == (row.state == "committed")


@pytest.mark.spark
@pytest.mark.slow
def test_a_store_without_transactions_has_none(spark: Any, tmp_path: Path) -> None:
    """It has none of their topics."""
    assert transactions(spark, unpack("01-basic", tmp_path)).count() == 0
