"""docs/formats/sql92-filters.md: what it says of expressions is what they mean."""

import re
from pathlib import Path

from tests.unit.rocketmq.filter.test_truth_table import letter

from sprocket.rocketmq.errors import ExpressionIllegal
from sprocket.rocketmq.filter import LENGTH_MAX, compile_sql
from sprocket.rocketmq.filter.lexer import KEYWORDS
from sprocket.rocketmq.filter.parser import DEPTH_MAX, TERMS_MAX

PAGE = Path(__file__).parents[3] / "docs/formats/sql92-filters.md"
VALUES = {"TRUE": "T", "FALSE": "F", "NULL": "N", "an error": "E"}


def test_the_awkward_corners_are_as_the_page_says() -> None:
    """Row by row, for the message that it describes."""
    text = PAGE.read_text(encoding="utf-8").partition("## The awkward corners")[2]
    message = dict(re.findall(r"`(\w)` = `([\w.]+)`[, ]", text.partition(":\n")[0]))
    assert message == {"a": "3", "b": "x", "f": "3.5", "t": "true"}
    rows = re.findall(r"^\| `(.+?)` \| ([\w ]+?) \|", text, re.MULTILINE)
    assert len(rows) > 30
    for expression, value in rows:
        try:
            said = letter(compile_sql(expression), message)
        except ExpressionIllegal:
            said = "refused"
        assert (expression, said) == (expression, VALUES.get(value, value))


def test_limits_and_keywords_are_those_of_the_code() -> None:
    """And nothing else is a keyword."""
    text = PAGE.read_text(encoding="utf-8")
    limits = (
        rf"{LENGTH_MAX:,} characters, {TERMS_MAX} operands and operators, or {DEPTH_MAX} levels"
    )
    assert limits in text
    (words,) = re.findall(r"^\| keyword \| `([A-Z ]+)`", text, re.MULTILINE)
    assert set(words.split()) == KEYWORDS
