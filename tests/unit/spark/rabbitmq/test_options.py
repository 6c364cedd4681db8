"""The options of the format, and the tables of the guide."""

import re
from pathlib import Path

import pytest

from sprocket.base.errors import SettingsError
from sprocket.spark.mode import Mode
from sprocket.spark.rabbitmq.batches import column_names, spark_schema
from sprocket.spark.rabbitmq.columns import COLUMNS, META
from sprocket.spark.rabbitmq.options import OPTIONS, read_any, read_options

GUIDE = Path(__file__).resolve().parents[4] / "docs" / "guides" / "spark-rabbitmq.md"


def test_every_option_is_read() -> None:
    """Names in lower case, as Spark gives them."""
    options = read_options(
        {
            "path": "file:///node/vhosts",
            "vhost": "/, other",
            "queue": "orders,refunds",
            "columns": "body",
            "headersformat": "JSON",
            "includegone": "FALSE",
            "mode": "permissive",
            "verifycrc": "false",
            "maxpartitionbytes": "2m",
            "minpartitions": "3",
            "fs.region": "here",
        }
    )
    assert options.path == "/node/vhosts"
    assert options.vhosts == ("/", "other")
    assert options.queues == ("orders", "refunds")
    assert not options.include_gone
    assert options.mode is Mode.PERMISSIVE
    assert (options.verify_crc, options.compares_sums) == (False, False)
    assert read_any({}).compares_sums
    assert (options.partition_bytes_max, options.partitions_min) == (2 << 20, 3)
    assert options.file_system == (("region", "here"),)
    assert column_names(options) == ("body", "corruption")
    assert "here" not in repr(options)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "which folder"),
        ({"path": ""}, "must name a folder"),
        ({"path": "file://other/x"}, "another|machine"),
        ({"path": "x", "queu": "a"}, "did you mean 'queue'|queue"),
        ({"path": "x", "queue": ","}, "at least one"),
        ({"path": "x", "queuePattern": "("}, "regular expression"),
        ({"path": "x", "queue": "a", "queuePattern": "b"}, "exclude each other"),
        ({"path": "x", "includeGone": "perhaps"}, "true or false"),
        ({"path": "x", "mode": "BRAVE"}, "FAILFAST, PERMISSIVE"),
        ({"path": "x", "maxPartitionBytes": "0"}, "a size"),
        ({"path": "x", "minPartitions": "0"}, "from 1"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, str], said: str) -> None:
    """In one sentence that names the option."""
    with pytest.raises(SettingsError, match=said):
        read_options(given)


def test_columns_are_chosen() -> None:
    """By view, by name in any spelling, each once."""
    assert column_names(read_any({"view": "meta"})) == META
    assert spark_schema(read_any({"columns": "BODY,seqid"})) == "`body` binary, `seqId` bigint"
    assert spark_schema(read_any({"columns": "headers", "headersFormat": "json"})) == (
        "`headers` string"
    )
    with pytest.raises(SettingsError, match="twice"):
        column_names(read_any({"columns": "body,Body"}))
    with pytest.raises(SettingsError, match="bodySize"):
        column_names(read_any({"columns": "bodySiz"}))


def rows(title: str, cells: int) -> dict[str, list[str]]:
    """Return the rows of the guide's table under a heading, by their first cell."""
    text = GUIDE.read_text(encoding="utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| `([\w.*]+)` \| (.*) \|$", text, re.M)
    return {name: rest.split(" | ", cells) for name, rest in found}


def test_the_guide_lists_every_option() -> None:
    """With its note."""
    listed = {name: cells[-1] for name, cells in rows("Options", 1).items()}
    assert listed == {name: option.note for name, option in OPTIONS.items()}


def test_the_guide_lists_every_column() -> None:
    """With its type and its note."""
    listed = rows("Columns", 1)
    assert listed == {name: [column.kind, column.note] for name, column in COLUMNS.items()}
    assert tuple(listed)[:8] == META
