"""What becomes of headers whose names or values a property cannot have."""

from typing import Any

import pytest

from sprocket.rocketmq.codec.record import properties
from sprocket.spark.jobs import migrated_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KINDS = {
    **dict.fromkeys(("seqId", "bodySize"), "bigint"),
    **dict.fromkeys(("queuePriority", "deliveryMode", "priority"), "int"),
    **dict.fromkeys(("expiresAt", "timestamp"), "timestamp"),
    **dict.fromkeys(("body", "id"), "binary"),
    "isPersistent": "boolean",
    "routingKeys": "array<string>",
    "headers": "map<string,string>",
}


def row(spark: Any, **given: Any) -> Any:
    """Return a row of the format as a DataFrame; what is not given is null."""
    names = migrated_rows.SOURCE_COLUMNS
    schema = ", ".join(f"`{name}` {KINDS.get(name, 'string')}" for name in names)
    return spark.createDataFrame([tuple(given.get(name) for name in names)], schema)


def made(spark: Any, headers: dict[str, str | None]) -> tuple[dict[str, str], bool, int]:
    """Return the properties, whether headers are said to have changed, and the bytes of all."""
    from pyspark.sql import functions as F

    pairs = migrated_rows.properties_map()
    size = migrated_rows.properties_bytes(pairs, F.lit("tag"), migrated_rows.keys())
    frame = row(spark, headers=headers, messageId="a\x02b")
    found = frame.select(pairs, migrated_rows.has_changed_headers(), size).first()
    return tuple(found)


def test_names_that_properties_cannot_have(spark: Any) -> None:
    """They are escaped, so that no two are one; others stay."""
    headers: dict[str, str | None] = dict.fromkeys(sorted(properties.RESERVED), "x")
    others: dict[str, str | None] = {
        "amqp_queue": "1",
        "amqp_header_TAGS": "2",
        "__RMQ.TRANSIENT.a": "3",
        "a\x01b\x02c%": "4",
        "": "5",
        "x-death": "6",
        "50%": "7",
    }
    found, is_changed, _ = made(spark, headers | others)
    expected = {f"amqp_header_{name}": "x" for name in properties.RESERVED}
    assert found == expected | {
        "amqp_header_amqp_queue": "1",
        "amqp_header_amqp_header_TAGS": "2",
        "amqp_header___RMQ.TRANSIENT.a": "3",
        "amqp_header_a%01b%02c%25": "4",
        "amqp_header_": "5",
        "x-death": "6",
        "50%": "7",
    }
    assert not is_changed


def test_values_that_properties_cannot_have(spark: Any) -> None:
    """What ends a property is shown, and what is empty is left out, which is said."""
    found, is_changed, size = made(spark, {"a": "1\x022", "b": "é"})
    assert (found, is_changed) == ({"a": "1␂2", "b": "é"}, True)
    stored = {"TAGS": "tag", "KEYS": "a␂b", "UNIQ_KEY": "0" * 32, **found}
    assert len(properties.encode(stored)) == size
    assert made(spark, {"a": "", "b": "2"})[:2] == ({"b": "2"}, True)
    assert made(spark, {"a": None})[:2] == ({}, True)
    assert made(spark, {})[:2] == ({}, False)
