"""Routes: read from lines, and their patterns mean what those of bindings mean."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocket.base.errors import SettingsError
from sprocket.spark.jobs import routes

WORDS = st.sampled_from(["", "a", "b", "*", "#", "a+b", "é"])


def test_a_line_is_divided_at_blanks() -> None:
    """Quotes keep them, and a backslash is a part of a pattern."""
    (route, last) = routes.read_routes(
        ["  # no route", "", r"queue='a b\.c' routingKey=*.eu.# topic=x-{queue} tag={2}"]
    )
    assert route.patterns == {"queue": r"a b\.c"}
    assert route.routing_key == "*.eu.#"
    assert route.topic.pieces == (("x-", "queue"),)
    assert route.tag.names == {"2"}
    assert last is routes.DEFAULT


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("queu=a topic=b", "found 'queu=a'; did you mean queue"),
        ("orders", "expected NAME=VALUE, found 'orders'"),
        ("queue=a queue=b topic=c", "names queue twice"),
        ("queue=a", "leads nowhere"),
        ("queue=( topic=b", "queue must be a regular expression"),
        ("topic=a.b", r"expected letters, digits or %\|_- in topic, found 'a.b'"),
        ("topic=", "has an empty topic"),
        ("topic={exchang}", "no message has {exchang}; did you mean exchange"),
        ("topic={0}", "no message has {0}"),
        ("topic={queue!r}", "alone in the braces"),
        ("topic={queue", "expected '}'"),
        ("topic='a", "No closing quotation"),
    ],
)
def test_what_is_wrong_is_said(line: str, said: str) -> None:
    """With the line."""
    with pytest.raises(SettingsError, match=said) as caught:
        routes.read_routes([line])
    assert line in str(caught.value).replace('\\"', '"')


def test_routes_have_a_limit() -> None:
    """And one more is an error."""
    lines = ["topic=a"] * routes.ROUTES_MAX
    assert len(routes.read_routes(lines)) == routes.ROUTES_MAX + 1
    with pytest.raises(SettingsError, match="1001 routes; 1000 at most"):
        routes.read_routes([*lines, "topic=b"])


@given(st.lists(WORDS, max_size=4), st.lists(st.sampled_from(["", "a", "b", "é"]), max_size=4))
def test_patterns_are_those_of_bindings(pattern: list[str], key: list[str]) -> None:
    """As words are compared one by one: `*` is one word, `#` any number."""
    text, told = ".".join(pattern), ".".join(key)
    expression = routes.binding_expression(text)
    closed = f"{told}." if told else ""
    found = re.fullmatch(expression, closed) is not None
    assert found == fits(text.split(".") if text else [], told.split(".") if told else [])


def fits(pattern: list[str], key: list[str]) -> bool:
    """Say whether words fit a pattern, one word at a time."""
    if not pattern:
        return not key
    first, *rest = pattern
    if first == "#":
        return fits(rest, key) or (bool(key) and fits(pattern, key[1:]))
    return bool(key) and first in ("*", key[0]) and fits(rest, key[1:])


def test_the_guide_shows_routes_that_can_be_read() -> None:
    """Each line of its example."""
    guide = Path(__file__).resolve().parents[4] / "docs" / "guides" / "spark-migrate.md"
    (text,) = re.findall(r"^```text\n(.+?)^```", guide.read_text(encoding="utf-8"), re.S | re.M)
    assert len(routes.read_routes(text.splitlines())) == 5
