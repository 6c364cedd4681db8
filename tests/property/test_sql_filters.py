"""SQL92 filters: what is written means what RocketMQ's rules say, and any text ends."""

import random

from hypothesis import example, given
from hypothesis import strategies as st
from tests import sql_expressions

from sprocket.rocketmq.errors import ExpressionIllegal, Incomparable
from sprocket.rocketmq.filter import compile_sql

SOURCES = st.randoms(use_true_random=False)


@given(source=SOURCES, depth=st.integers(0, 5))
def test_what_is_written_means_what_the_tree_means(source: random.Random, depth: int) -> None:
    """Whatever the brackets, blanks and comments; for true, false, null and what fails."""
    tree = sql_expressions.condition(source, depth)
    found = compile_sql(sql_expressions.written(tree, source))
    assert not found.rest
    properties = sql_expressions.message(source)
    expected: object
    try:
        expected = sql_expressions.meaning(tree, properties)
    except Incomparable:
        expected = "it cannot be evaluated"
    if isinstance(expected, str) and tree.kind == "property":
        expected = False
    said: object
    try:
        said = found.evaluate(properties)
    except Incomparable:
        said = "it cannot be evaluated"
    assert expected == said
    assert found.matches(properties) is (expected is True)


@given(text=st.text(max_size=200) | SOURCES.map(sql_expressions.anything))
@example(text="(" * 10_000)
@example(text="NOT " * 4_000 + "a")
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    """By one error, which says where; and what compiles can be evaluated."""
    position = 0
    try:
        assert compile_sql(text).matches({"a": "3", "b": text}) in (True, False)
    except ExpressionIllegal as illegal:
        position = illegal.position
    assert 0 <= position <= len(text)
