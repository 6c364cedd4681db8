"""Key-value pairs are kept before they count."""

from collections.abc import Mapping
from typing import Any

import pytest

from sprocket.base.errors import DiskFull, WireError
from sprocket.rocketmq.nameserver import KeyValues, key_values


def test_each_change_is_kept() -> None:
    """Deleting the last key leaves the namespace, as in RocketMQ; deleting none keeps nothing."""
    kept: list[Mapping[str, Any]] = []
    table = KeyValues({"N": {"k": "v"}}, kept.append)
    assert (table.get("N", "k"), table.get("N", "x"), table.get("M", "k")) == ("v", None, None)
    table.put("M", "a", "1")
    table.put("M", "b", None)
    table.delete("N", "k")
    table.delete("N", "k")
    table.delete("O", "k")
    assert kept == [
        {"configTable": {"N": {"k": "v"}, "M": {"a": "1"}}},
        {"configTable": {"N": {"k": "v"}, "M": {"a": "1"}}},
        {"configTable": {"N": {}, "M": {"a": "1"}}},
    ]
    assert table.namespace("N") == {}
    assert table.namespace("O") is None


def test_what_could_not_be_kept_does_not_count() -> None:
    """The tool learns of it, and nobody is told a value that a restart would lose."""

    def full(_: Mapping[str, Any]) -> None:
        raise DiskFull("no space")

    table = KeyValues({"N": {"k": "v"}}, full)
    with pytest.raises(DiskFull):
        table.put("N", "k", "w")
    with pytest.raises(DiskFull):
        table.delete("N", "k")
    assert table.get("N", "k") == "v"


def test_what_the_file_holds() -> None:
    """Numbers count as texts, as everywhere in RocketMQ's JSON."""
    assert key_values.from_json({"configTable": {"N": {"k": 5}}}) == {"N": {"k": "5"}}
    assert key_values.from_json({}) == {}
    with pytest.raises(WireError):
        key_values.from_json({"configTable": {"N": [1]}})
