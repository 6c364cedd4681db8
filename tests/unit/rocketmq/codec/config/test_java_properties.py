r"""Properties are read as Java reads them, and what we write Java reads back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.rocketmq.codec.config import java_properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1 ", {"a": "1 "}),
        ("a:1\nb 2\nc", {"a": "1", "b": "2", "c": ""}),
        ("  a==1", {"a": "=1"}),
        ("# a=1\n! b=2\n\n \t\nc=3", {"c": "3"}),
        ("a=1\\\n   2\nb=3", {"a": "12", "b": "3"}),
        ("a=1\\\\\nb=3", {"a": "1\\", "b": "3"}),
        ("a=1\\", {"a": "1"}),
        ("a=\\\n# no comment", {"a": "# no comment"}),
        ("a\\=b=c\\:\\\\", {"a=b": "c:\\"}),
        ("a=\\u00e9\\t\\n\\r\\f\\q\\u00", {"a": "é\t\n\r\fqu00"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("=1\n: 2", {}),
        ("", {}),
    ],
)
def test_what_java_reads(text: str, found: dict[str, str]) -> None:
    """Separators, comments, lines that go on, escapes."""
    assert java_properties.read(text) == found


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    """Nothing that a peer or a file holds is an error."""
    assert java_properties.read(b"a=\xff") == {"a": "�"}


@given(st.text())
def test_any_text_gives_something(text: str) -> None:
    """Never an error, and all of it texts."""
    for key, value in java_properties.read(text).items():
        assert key
        assert isinstance(value, str)


@given(st.lists(st.text().filter(lambda text: text[:1] not in tuple(" \t\f"))))
def test_what_is_written_is_read_back(values: list[str]) -> None:
    """Whatever is in a value, but for blanks before it."""
    table = {f"name{number}": value for number, value in enumerate(values)}
    assert java_properties.read(java_properties.write(table)) == {
        name: value.encode("utf-8", "replace").decode() for name, value in table.items()
    }
