"""The helper that starts a session."""

from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_small_machine_defaults(spark: Any) -> None:
    """UTC, no web page, few shuffle partitions, and the format is there."""
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.defaultParallelism == 2
