"""What expressions are made of: each term knows its type and how it is evaluated.

A property is a text or absent, and every other value stands in the expression. So all types are
known when it is compiled. What is not known is whether a value is absent, which is None here and
null in RocketMQ, and whether a text can be read as the number that it is compared with.

Source: RocketMQ `ComparisonExpression`, `UnaryExpression`, `LogicExpression`.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from msgspec import Struct, structs

from sprocket.rocketmq.errors import ExpressionIllegal, Incomparable
from sprocket.rocketmq.filter import java_numbers
from sprocket.rocketmq.filter.java_numbers import DOUBLE_MIN, INT32_MAX, INT64_MAX
from sprocket.rocketmq.filter.lexer import SHOWN_CHARACTERS

Properties = Mapping[str, str]
Value = str | int | float | bool | None
Read = Callable[[Properties], Value]


class Type(Enum):
    """What a term is, unless it is absent."""

    PROPERTY = "a property"
    TEXT = "a text"
    INT = "a number"
    LONG = "a number of 64 bits"
    DOUBLE = "a number with a point"
    BOOLEAN = "a condition"
    NOTHING = "always absent"
    """Something that is not a number, with a minus before it."""


class Term(Struct, frozen=True):
    """A part of an expression.

    Attributes:
        type: What it is.
        read: Returns its value for the properties of a message. Raises Incomparable.
        value: What it always is, if that is known: that of each text and number, and of TRUE, FALSE
            and NULL; of a property, its name.
        is_literal: It stands so in the expression: a number with a minus does not.
        depth: How many calls its evaluation takes inside each other.
        names: The properties that it asks for.
        conjuncts: Of an AND, the conditions that it joins, those of an AND among them in its place.
    """

    type: Type
    read: Read
    value: Value = None
    is_literal: bool = False
    depth: int = 1
    names: frozenset[str] = frozenset()
    conjuncts: tuple["Term", ...] = ()


_NUMBERS = (Type.INT, Type.LONG, Type.DOUBLE)
_TEXTS = (Type.PROPERTY, Type.TEXT)


def _is_true(text: str) -> bool:
    return text.lower() == "true"


_READERS: Mapping[Type, Callable[[str], float]] = {
    Type.INT: java_numbers.int32,
    Type.LONG: java_numbers.int64,
    Type.DOUBLE: java_numbers.double,
    Type.BOOLEAN: _is_true,
}
"""How the text of a property is read to be compared with a value of another type."""


def _above(left: float, right: float) -> bool:
    """Compare as Java does, for which NaN is more than everything."""
    return not left <= right


def _not_below(left: float, right: float) -> bool:
    return not left < right


_ORDERS: Mapping[str, Callable[[float, float], bool]] = {
    ">": _above,
    ">=": _not_below,
    "<": operator.lt,
    "<=": operator.le,
}
_MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
_SEARCHES: Mapping[str, Callable[[str, str], bool]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


# Operands


def constant(kind: Type, value: Value, *, is_literal: bool = True) -> Term:
    """Return what stands in an expression."""
    return Term(kind, lambda _: value, value, is_literal)


def integer(word: str, at: int) -> Term:
    """Return a whole number; the letter after it means nothing, its size decides on its type."""
    digits = word.rstrip("lL")
    if len(digits) > len(str(INT64_MAX)) or int(digits) > INT64_MAX:
        raise ExpressionIllegal(f"{digits[:SHOWN_CHARACTERS]} does not fit in 64 bits", at)
    value = int(digits)
    return constant(Type.INT if value <= INT32_MAX else Type.LONG, value)


def floating(word: str, at: int) -> Term:
    """Return a number with a point or an exponent."""
    value = float(word)
    if not DOUBLE_MIN <= value < math.inf:
        raise ExpressionIllegal(
            f"{word[:SHOWN_CHARACTERS]} is 0 or infinite for a number of 64 bits", at
        )
    return constant(Type.DOUBLE, value)


def named(name: str) -> Term:
    """Return a property."""
    return Term(
        Type.PROPERTY, lambda properties: properties.get(name), name, names=frozenset({name})
    )


def negative(term: Term) -> Term:
    """Return a term with a minus before it; what is not a number is absent then."""
    if term.type in _NUMBERS:
        assert isinstance(term.value, int | float)
        return constant(term.type, -term.value, is_literal=False)
    read = term.read

    def evaluate(properties: Properties) -> None:
        read(properties)  # which may raise

    return Term(Type.NOTHING, evaluate, depth=term.depth + 1, names=term.names)


# Conditions


def condition(term: Term, at: int) -> Term:
    """Return a term as a condition: a property by itself is false, whatever it holds."""
    if term.type is Type.BOOLEAN:
        return term
    if term.type is not Type.PROPERTY:
        raise ExpressionIllegal(f"a condition is expected, and this is {term.type.value}", at)
    name = _name(term)
    return _made(lambda properties: None if properties.get(name) is None else False, term)


def inverted(term: Term) -> Term:
    """Return NOT of a condition."""
    read = term.read

    def evaluate(properties: Properties) -> bool | None:
        value = read(properties)
        return None if value is None else not value

    return _made(evaluate, term)


def joined(terms: Sequence[Term], *, decisive: bool) -> Term:
    """Return AND of conditions, which False decides, or OR, which True decides."""
    reads = tuple(term.read for term in terms)

    def evaluate(properties: Properties) -> bool | None:
        result: bool | None = not decisive
        for read in reads:
            value = read(properties)
            if value is decisive:
                return decisive
            if value is None:
                result = None
        return result

    made = _made(evaluate, *terms)
    if decisive:
        return made
    return structs.replace(
        made, conjuncts=tuple(part for term in terms for part in term.conjuncts or (term,))
    )


def absent(term: Term) -> Term:
    """Return IS NULL."""
    read = term.read
    return _made(lambda properties: read(properties) is None, term)


def equal(left: Term, right: Term, at: int) -> Term:
    """Return `=` of two terms.

    Raises:
        ExpressionIllegal: One of them is NULL, or TRUE or FALSE is compared with a text or number.
    """
    if any(term.is_literal and term.value is None for term in (left, right)):
        raise ExpressionIllegal("NULL cannot be compared; IS NULL asks for it", at)
    is_mixed = left.type is Type.BOOLEAN and right.type is not Type.BOOLEAN
    if is_mixed and left.is_literal and right.is_literal:
        raise ExpressionIllegal(f"TRUE or FALSE cannot equal {right.type.value}", at)
    if left.type is Type.PROPERTY and right.value is not None and right.type in _READERS:
        return _of_property(left, operator.eq, right, if_absent=None)
    if left.type in _NUMBERS and right.type is Type.PROPERTY:
        return _of_property(right, operator.eq, left, if_absent=False)
    read_left, read_right, are_same = left.read, right.read, _sameness(left, right)

    def evaluate(properties: Properties) -> bool | None:
        one, other = read_left(properties), read_right(properties)
        if one is None or other is None:
            return None if one is None and other is not None else one is other
        return are_same(one, other)

    return _made(evaluate, left, right)


def ordered(order: str, left: Term, right: Term, at: int) -> Term:
    """Return a comparison of numbers; of texts, if they are read as numbers.

    Raises:
        ExpressionIllegal: A condition or a text cannot be more or less.
    """
    for term in (left, right):
        if term.type in (Type.TEXT, Type.BOOLEAN):
            raise ExpressionIllegal(f"{term.type.value} cannot be more or less than a number", at)
    if right.type in _NUMBERS and left.type is Type.PROPERTY:
        return _of_property(left, _ORDERS[order], right, if_absent=None)
    if left.type in _NUMBERS and right.type is Type.PROPERTY:
        return _of_property(right, _ORDERS[_MIRRORED[order]], left, if_absent=None)
    read_left, read_right, compare = left.read, right.read, _ORDERS[order]
    is_more = left.type in _NUMBERS and right.type in _NUMBERS and compare(*_widened(left, right))

    def evaluate(properties: Properties) -> bool | None:
        one = read_left(properties)
        if one is None:
            return None
        other = read_right(properties)
        if isinstance(one, str) and isinstance(other, str):
            return compare(_difference(one, other), 0)
        return None if other is None else is_more

    return _made(evaluate, left, right)


def between(value: Term, low: Term, high: Term, at: int, *, is_inverted: bool) -> Term:
    """Return BETWEEN, or NOT BETWEEN, which does not look whether there is anything between.

    Raises:
        ExpressionIllegal: As `ordered`; or nothing is between two numbers.
    """
    if is_inverted:
        return joined((ordered("<", value, low, at), ordered(">", value, high, at)), decisive=True)
    both = joined((ordered(">=", value, low, at), ordered("<=", value, high, at)), decisive=False)
    if low.is_literal and high.is_literal and operator.gt(*_widened(low, high)):
        raise ExpressionIllegal(f"nothing is between {low.value} and {high.value}", at)
    return both


def search(kind: str, term: Term, text: str, *, is_inverted: bool) -> Term:
    """Return CONTAINS, STARTSWITH, ENDSWITH, or NOT of one; what is absent never passes."""
    read, test = term.read, _SEARCHES[kind]

    def evaluate(properties: Properties) -> bool:
        value = read(properties) if text else None
        return isinstance(value, str) and test(value, text) is not is_inverted

    return _made(evaluate, term)


def one_of(term: Term, texts: Sequence[str], at: int, *, is_inverted: bool) -> Term:
    """Return IN, or NOT IN. Raises ExpressionIllegal if the term is not a property."""
    if term.type is not Type.PROPERTY:
        raise ExpressionIllegal(f"IN asks for a property, and this is {term.type.value}", at)
    name, wanted = _name(term), frozenset(texts)

    def evaluate(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else (text in wanted) is not is_inverted

    return _made(evaluate, term)


# How


def _made(evaluate: Callable[[Properties], bool | None], *parts: Term) -> Term:
    depth = 1 + max(part.depth for part in parts)
    names = frozenset[str]().union(*(part.names for part in parts))
    return Term(Type.BOOLEAN, evaluate, depth=depth, names=names)


def _name(term: Term) -> str:
    assert isinstance(term.value, str), "the value of a property is its name"
    return term.value


def _of_property(
    term: Term, compare: Callable[[float, float], bool], other: Term, *, if_absent: bool | None
) -> Term:
    """Return the comparison of a property with a number, TRUE or FALSE."""
    name, value, reader = _name(term), other.value, _READERS[other.type]
    assert isinstance(value, int | float)

    def evaluate(properties: Properties) -> bool | None:
        text = properties.get(name)
        return if_absent if text is None else compare(reader(text), value)

    return _made(evaluate, term)


def _sameness(left: Term, right: Term) -> Callable[[Value, Value], bool]:
    """Return what says of two values that are not absent whether they are equal."""
    kinds = left.type, right.type
    if left.type in _NUMBERS and right.type in _NUMBERS:
        result = operator.eq(*_widened(left, right))
        return lambda *_: result
    if kinds == (Type.BOOLEAN, Type.BOOLEAN) or {*kinds} <= {*_TEXTS}:
        return operator.eq
    if left.type in _TEXTS and right.type in _READERS:
        read_left = _READERS[right.type]
        return lambda one, other: read_left(str(one)) == other
    if left.type in _NUMBERS and right.type is Type.TEXT:
        read_right = _READERS[left.type]
        return lambda one, other: one == read_right(str(other))
    if left.type is Type.BOOLEAN and right.type in _TEXTS:
        return _cannot_compare
    return lambda *_: False


def _cannot_compare(*_: Value) -> bool:
    """Fail as RocketMQ does, which takes the condition for the text."""
    raise Incomparable


def _widened(left: Term, right: Term) -> tuple[float, float]:
    """Return two numbers as the wider of their types; Java rounds one of 64 bits to a double."""
    one, other = left.value, right.value
    assert isinstance(one, int | float)
    assert isinstance(other, int | float)
    return (float(one), float(other)) if Type.DOUBLE in (left.type, right.type) else (one, other)


def _difference(one: str, other: str) -> int:
    """Compare two texts as numbers as `Double.compareTo` does."""
    first, second = _rank(one), _rank(other)
    return (first > second) - (first < second)


def _rank(text: str) -> tuple[float, float, float]:
    """Return how Java sorts a number: −0.0 comes before 0.0, and NaN last."""
    value = java_numbers.double(text)
    return (1, 0, 0) if math.isnan(value) else (0, value, math.copysign(1, value))
