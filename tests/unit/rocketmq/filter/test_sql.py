"""What a compiled expression tells of itself, what is refused and how, and the limits."""

import inspect
import sys
from collections.abc import Callable, Iterator

import pytest

from sprocket.rocketmq.errors import ExpressionIllegal, Incomparable
from sprocket.rocketmq.filter import LENGTH_MAX, compile_sql, lexer
from sprocket.rocketmq.filter.parser import DEPTH_MAX, TERMS_MAX


def test_an_expression_tells_what_it_asks_for() -> None:
    """The properties, what it costs, and what stands after its end."""
    found = compile_sql("a > 2 AND (region IN ('eu', 'us') OR NOT $b_1 IS NULL)")
    assert found.names == {"a", "region", "$b_1"}
    assert found.cost == 10
    assert found.rest == ""
    assert found.matches({"a": "3", "region": "us"})
    assert not found.matches({"a": "2", "region": "us"})


@pytest.mark.parametrize(
    ("text", "names", "is_tested"),
    [
        ("a = 3", "a", True),
        ("a = 3 OR a = 4", "a", True),
        ("a = 3 OR b = 4", "", False),
        ("a BETWEEN 3 AND 5", "a", True),
        ("a > 3 AND b > 3 AND (a < 5 AND c IS NULL)", "abc", True),
        ("a > 3 AND (b > 3 OR c > 3)", "a", False),
        ("a > 3 AND TRUE", "a", False),
        ("NOT (a = 3 AND b = 4)", "", False),
        ("a = 1 AND b = 1 AND c = 1 AND d = 1 AND e = 1", "abcd", False),
        ("TRUE", "", False),
    ],
)
def test_what_each_property_has_to_be_is_told(text: str, names: str, is_tested: bool) -> None:
    """Of the conditions that AND joins those that ask for one."""
    found = compile_sql(text)
    assert [one.name for one in found.tests] == [*names]
    assert found.is_tested is is_tested


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("a = 3 b = 4", "b = 4"),
        ("a = 3) OR b", ") OR b"),
        ("a = 007", "07"),
        ("a = 3 /* x */ ", ""),
    ],
)
def test_what_is_ignored_is_told(text: str, rest: str) -> None:
    """RocketMQ reads to the end of the first condition and says nothing of the rest."""
    assert rest == compile_sql(text).rest


def test_a_text_that_cannot_be_compared_does_not_match() -> None:
    """The other way of asking says why."""
    found = compile_sql("a > 2")
    assert not found.matches({"a": "x"})
    assert not compile_sql("NOT (a > 2) OR a <= 2").matches({"a": "x"})
    with pytest.raises(Incomparable):
        found.evaluate({"a": "x"})


@pytest.mark.parametrize(
    ("text", "what", "position"),
    [
        ("", "expected a property, a literal or a bracket, found the end", 0),
        ("a = 3 AND", "expected a property, a literal or a bracket, found the end", 9),
        ("a = 3 OR AND", "expected a property, a literal or a bracket, found `AND`", 9),
        ("(a = 3", "expected ), found the end", 6),
        ("a IS 3", "expected NULL, found `3`", 5),
        ("a CONTAINS 3", "expected a text in quotes, found `3`", 11),
        ("a IN ('x' 'y')", "expected , or ), found `'y'`", 10),
        ("a BETWEEN 1 OR 2", "expected AND, found `OR`", 12),
        ("a NOT = 3", "expected CONTAINS or STARTSWITH or ENDSWITH or BETWEEN or IN, found `=`", 6),
        ("a = 'x", "a text without an end", 4),
        ("a = 3 # b", "`#` is not part of SQL92", 6),
        ("a > '2'", "a text cannot be more or less than a number", 2),
        ("a = NULL", "NULL cannot be compared; IS NULL asks for it", 2),
        ("TRUE = 1", "TRUE or FALSE cannot equal a number", 5),
        ("a OR 3", "a condition is expected, and this is a number", 5),
        ("-a", "a condition is expected, and this is always absent", 0),
        ("3 IN ('3')", "IN asks for a property, and this is a number", 2),
        ("a BETWEEN 5 AND 1", "nothing is between 5 and 1", 2),
        ("a = 9223372036854775808", "9223372036854775808 does not fit in 64 bits", 4),
        ("a = 0.0", "0.0 is 0 or infinite for a number of 64 bits", 4),
    ],
)
def test_an_error_says_what_is_wrong_and_where(text: str, what: str, position: int) -> None:
    """Characters are counted from 1 for people, from 0 for programs."""
    with pytest.raises(ExpressionIllegal) as illegal:
        compile_sql(text)
    assert str(illegal.value) == f"{what}, at character {position + 1}"
    assert illegal.value.position == position


@pytest.mark.parametrize("word", ["x" * 9000, "1" * 9000, "1." + "0" * 9000, f"'{'x' * 9000}'"])
@pytest.mark.parametrize("text", ["a IS {0}", "a IN ('x' {0})", "a > ({0} {0}"])
def test_an_error_is_short(text: str, word: str) -> None:
    """However long the word is that is wrong."""
    with pytest.raises(ExpressionIllegal) as illegal:
        compile_sql(text.format(word))
    assert len(str(illegal.value)) < 140


NESTS: dict[str, Callable[[int], str]] = {
    "brackets": lambda depth: "(" * depth + "a = 3" + ")" * depth,
    "brackets on the right": lambda depth: "a = (" * (depth - 1) + "3" + ")" * (depth - 1),
    "NOT": lambda depth: "NOT " * (depth - 2) + "(a = 3)",
    "minus": lambda depth: f"a < {'-' * (depth - 3)}- b".replace("--", "- - "),
    "AND in brackets": lambda depth: "b = 3 AND (" * (depth - 2) + "a = 3" + ")" * (depth - 2),
    "a row of equals": lambda depth: "a" + " = a" * (depth - 1),
    "a row of IS NULL": lambda depth: "a" + " IS NULL" * (depth - 1),
}


@pytest.fixture
def short_stack() -> Iterator[None]:
    """Leave 400 calls of Python's 1,000."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 400)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("short_stack")
@pytest.mark.parametrize("name", NESTS)
def test_depth_has_a_limit(name: str) -> None:
    """Far below what Python can call; at the limit an expression is evaluated."""
    nest = NESTS[name]
    found = compile_sql(nest(DEPTH_MAX - 1))
    assert found.matches({"a": "3", "b": "3"}) in (True, False)
    for depth in (DEPTH_MAX + 2, 400):
        with pytest.raises(ExpressionIllegal, match="deeper than 64 levels, at character"):
            compile_sql(nest(depth))


def test_the_limit_of_depth_is_exact() -> None:
    """For brackets, which take no call, and for calls."""
    for name, most in (("brackets", DEPTH_MAX), ("a row of equals", DEPTH_MAX)):
        assert compile_sql(NESTS[name](most))
        with pytest.raises(ExpressionIllegal):
            compile_sql(NESTS[name](most + 1))


def test_signs_that_do_nothing_cost_nothing() -> None:
    """Thousands of plus signs are one operand."""
    assert compile_sql("+ " * 4000 + "a = 3").matches({"a": "3"})


def test_long_rows_are_not_deep() -> None:
    """As many conditions as the number of terms allows, joined by AND or OR."""
    count = (TERMS_MAX - 1) // 3
    assert compile_sql(" AND ".join(["a = 3"] * count)).matches({"a": "3"})
    assert not compile_sql(" OR ".join(["a = 3"] * count)).matches({"a": "4"})


def test_terms_and_length_have_limits() -> None:
    """One more is one too many; the texts of IN do not count."""
    row = " OR ".join(["a"] * (TERMS_MAX - 1))
    assert compile_sql(row).cost == TERMS_MAX
    with pytest.raises(ExpressionIllegal, match="more than 512 terms, at character"):
        compile_sql(f"{row} OR a")
    longest = f"a IN ('{'x' * (LENGTH_MAX - 9)}')"
    assert compile_sql(longest).matches({"a": "x" * (LENGTH_MAX - 9)})
    with pytest.raises(ExpressionIllegal, match="longer than 16384 characters, at character 16385"):
        compile_sql(longest + " ")
    many = ",".join(f"'{number}'" for number in range(2000))
    assert compile_sql(f"a IN ({many})").cost == 2


@pytest.mark.parametrize(
    "text",
    ["(" * LENGTH_MAX, "NOT " * 4096, "'" * LENGTH_MAX, "/*" * 8192, "- " * 8192, "a=" * 8192],
)
def test_each_word_is_read_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the time is bounded by the length."""
    read = 0

    def counted(text: str, position: int, token_at: Callable[..., lexer.Token]) -> lexer.Token:
        nonlocal read
        read += 1
        return token_at(text, position)

    token_at = lexer.token_at
    monkeypatch.setattr(lexer, "token_at", lambda text, at: counted(text, at, token_at))
    with pytest.raises(ExpressionIllegal):
        compile_sql(text)
    assert 1 <= read <= LENGTH_MAX + 1


@pytest.mark.parametrize("digit", ["0", "9", "\u0660"])
def test_numbers_of_any_length_are_read(digit: str) -> None:
    """Where Java does; Python would refuse more than 4,300 digits."""
    text = digit * 10_000 + "3"
    assert compile_sql("a = 3").matches({"a": text}) is (digit != "9")
    assert compile_sql("a > 2.5").matches({"a": text}) is (digit != "\u0660")


def test_an_expression_is_shown_by_what_it_says() -> None:
    """And not by the functions that it became."""
    assert repr(compile_sql("a = 3")).startswith("SqlFilter(text='a = 3', names=")
