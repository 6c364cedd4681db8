"""Typed values and tables of them."""

from sprocket.rabbitmq.model.fields import (
    INTEGERS,
    NO_FIELDS,
    Field,
    FieldKind,
    FieldTable,
    long_string,
)


def test_the_first_of_two_values_counts() -> None:
    """Both are kept, in their order."""
    first, second = Field(FieldKind.BOOL, True), Field(FieldKind.SIGNED_INT, 7)
    table = FieldTable((("a", first), ("b", second), ("a", second)))
    assert table.get("a") == first
    assert [name for name, _ in table] == ["a", "b", "a"]
    assert table.get("c") is None


def test_an_empty_table_is_false() -> None:
    """As other empty collections are."""
    assert not NO_FIELDS
    assert FieldTable((("a", long_string("x")),))


def test_each_kind_has_its_word() -> None:
    """One sign has the same word as another: that is how RabbitMQ reads it."""
    words = {kind: kind.word for kind in FieldKind}
    assert words.pop(FieldKind.LONG_CAPITAL) == words[FieldKind.LONG]
    assert len(set(words.values())) == len(words)


def test_integers_are_those_with_whole_numbers() -> None:
    """Eight of them; neither a boolean nor a timestamp is one."""
    assert len(INTEGERS) == 8
    assert not INTEGERS & {FieldKind.BOOL, FieldKind.TIMESTAMP, FieldKind.DECIMAL}


def test_a_text_keeps_bytes_that_are_no_text() -> None:
    """Names and texts go back to the bytes that they came from."""
    assert long_string(b"\xff\xfe".decode("utf-8", "surrogateescape")).value == b"\xff\xfe"
