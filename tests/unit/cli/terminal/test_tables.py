"""Tables fit the terminal, and no name or id is broken or cut."""

from typing import Any

import pytest

from sprocket.cli.terminal import tables

ROWS: list[dict[str, Any]] = [
    {"topic": "orders", "messages": 1234567, "queue_id": 7, "stored_at_ms": 1_357_035_300_001},
    {
        "topic": "a-topic-with-a-name-of-some-length",
        "messages": 2,
        "queue_id": 1234,
        "stored_at_ms": 0,
    },
]


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test says how wide it is."""
    monkeypatch.delenv("COLUMNS", raising=False)


def test_columns_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers at the right with commas, but for ids; times to the second; nothing for none."""
    tables.write_table("what there is", ROWS)
    assert capsys.readouterr().out.splitlines() == [
        "what there is",
        "topic                                messages  queue  stored at",
        "orders                              1,234,567      7  2013-01-01 10:15:00Z",
        "a-topic-with-a-name-of-some-length          2   1234  –",
    ]
    tables.write_table("", [])
    assert capsys.readouterr().out == ""


def test_what_is_not_known_is_a_blank(capsys: pytest.CaptureFixture[str]) -> None:
    """In a column of numbers too, which may begin with one."""
    tables.write_table("", [{"spent_ms": None, "a": ""}, {"spent_ms": 1234, "a": "x"}])
    assert capsys.readouterr().out.splitlines()[1:] == ["", "1,234  x"]


def test_what_can_be_spared_is_left_out_where_there_is_no_room(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of it first, and no more than needed."""
    monkeypatch.setenv("COLUMNS", "60")
    tables.write_table("", ROWS, spare=("messages", "stored_at_ms"))
    assert capsys.readouterr().out.splitlines()[0].split() == ["topic", "messages", "queue"]
    monkeypatch.setenv("COLUMNS", "45")
    tables.write_table("", ROWS, spare=("messages", "stored_at_ms"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["topic", "queue"]
    assert max(map(len, lines)) <= 45


def test_a_table_that_is_too_wide_is_a_block_a_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With everything in it, each value whole."""
    monkeypatch.setenv("COLUMNS", "48")
    tables.write_table("", ROWS)
    assert capsys.readouterr().out.splitlines() == [
        "topic      orders",
        "messages   1,234,567",
        "queue      7",
        "stored at  2013-01-01 10:15:00.001Z",
        "",
        "topic      a-topic-with-a-name-of-some-length",
        "messages   2",
        "queue      1234",
        "stored at  –",
        "",
    ]


def test_wide_letters_count_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """As they do in a terminal."""
    tables.write_table("", [{"a": "漢字", "b": 1}, {"a": "abcd", "b": 2}])
    assert capsys.readouterr().out.splitlines() == ["a     b", "漢字  1", "abcd  2"]


def test_fields(capsys: pytest.CaptureFixture[str]) -> None:
    """A line each; lists with commas, what is not text for a terminal spelled out."""
    tables.write_fields("one", {"is_on": True, "names": ["a", "b"], "body": "x\ny\x1b[1m"})
    assert capsys.readouterr().out.splitlines() == [
        "one",
        "is on  yes",
        "names  a, b",
        "body   x\\ny\\x1b[1m",
    ]


def test_a_value_that_would_be_broken_has_a_line_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And names that are not ours stay as they are."""
    monkeypatch.setenv("COLUMNS", "24")
    tables.write_fields("", {"body_len": 3, "property MSG_REGION": "R", "offset_id": "7F" * 11})
    assert capsys.readouterr().out.splitlines() == [
        "body len             3",
        "property MSG_REGION  R",
        "offset id",
        "  7F7F7F7F7F7F7F7F7F7F7F",
    ]
