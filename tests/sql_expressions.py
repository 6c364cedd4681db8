"""Random SQL92 expressions as trees: how they are written, and what they mean, by RocketMQ's rules.

`meaning` is a second, slow evaluation that looks at values only, as Java does; our compiler looks
at types. It takes what compiles; whether something does is asked of the real filter.
"""

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sprocket.rocketmq.errors import Incomparable
from sprocket.rocketmq.filter import java_numbers

OR, AND, EQUALITY, ORDER, UNARY = range(5)
LEVELS = {"OR": OR, "AND": AND, "=": EQUALITY, "<>": EQUALITY, "-": UNARY, "+": UNARY, "NOT": UNARY}
SEARCHES = ("CONTAINS", "STARTSWITH", "ENDSWITH")
ORDERS: Final[Mapping[str, Callable[[int], bool]]] = {
    "<": lambda difference: difference < 0,
    "<=": lambda difference: difference <= 0,
    ">": lambda difference: difference > 0,
    ">=": lambda difference: difference >= 0,
}
NAMES = ("a", "b", "c", "n", "$x_1")
TEXTS = ("", "3", "3.5", "x", "it's", "TRUE", "-0.0", "0.0", "NaN", "1e3", "3000000000", "33", "+3")
NUMBERS = ("0", "1", "3", "3L", "2147483647", "2147483648", "3.0", "3.5", "1e3", ".5", "3000000000")
WORDS = (
    *("(", ")", "NOT", "AND", "OR", "=", "<>", "<", ">=", "'x'", "''", "3", "a", "-", "+", "NULL"),
    *(
        "TRUE",
        "IN",
        "IS",
        "BETWEEN",
        "CONTAINS",
        ",",
        "#",
        "'",
        "/*",
        "*/",
        "0",
        "007",
        "1.5",
        "1e",
    ),
    *("L", ".5", "$", "_", "e5", "!", "<", "\u00e9", "IS NULL", "a = 3", "b IN ('3')"),
)
"""What expressions consist of, and what they do not."""
LITERALS = {"TRUE": True, "FALSE": False, "NULL": None}


@dataclass(frozen=True, slots=True)
class Tree:
    """An operation on operands: an operator, a kind of operand, or a condition of several words.

    `word` is the operator, or how the operand is written; texts are those of IN and searches.
    """

    kind: str
    word: str
    parts: tuple["Tree", ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Number:
    """A number as Java has it: `rank` is 0 for an int, 1 for a long, 2 for a double."""

    value: float
    rank: int


Value = str | bool | Number | None


def message(source: random.Random) -> dict[str, str]:
    """Return the properties of a message; `n` is never there."""
    return {name: source.choice(TEXTS) for name in NAMES if name != "n" and source.random() < 0.8}


def condition(source: random.Random, depth: int) -> Tree:
    """Return a condition that compiles."""
    kind = source.choice(("logic", "logic", "equal", "order", "between", "in", "search", "null"))
    if depth <= 0:
        return source.choice((_property, _literal))(source)
    if kind == "logic":
        word = source.choice(("AND", "OR", "NOT"))
        parts = [condition(source, depth - 1) for _ in range(1 if word == "NOT" else 2)]
        return Tree("logic", word, tuple(parts))
    if kind == "equal":
        left, right = operand(source, depth - 1), operand(source, depth - 1)
        first, second = _bare(left).word, _bare(right).word
        if "NULL" in (first, second) or first in LITERALS:  # some of these do not compile
            left, right = _property(source), _number(source)
        return Tree("equal", source.choice(("=", "<>")), (left, right))
    if kind == "order":
        parts = [_sortable(source, depth - 1) for _ in range(2)]
        return Tree("order", source.choice([*ORDERS]), tuple(parts))
    if kind == "between":
        low = Tree("sign", "-", (_number(source),))  # is not compared with the other
        parts = [_sortable(source, depth - 1), low, _sortable(source, depth - 1)]
        return Tree("between", _word(source, "BETWEEN"), tuple(parts))
    if kind == "in":
        texts = [source.choice(TEXTS) for _ in range(source.randrange(1, 8))]
        return Tree("in", _word(source, "IN"), (_property(source),), tuple(texts))
    if kind == "search":
        word = _word(source, source.choice(SEARCHES))
        return Tree("search", word, (operand(source, depth - 1),), (source.choice(TEXTS),))
    word = source.choice(("IS NULL", "IS NOT NULL"))
    return Tree("null", word, (operand(source, depth - 1),))


def operand(source: random.Random, depth: int) -> Tree:
    """Return anything that has a value."""
    kind = source.choice(("property", "number", "text", "literal", "sign", "condition"))
    if kind == "condition" and depth > 0:
        return condition(source, depth)
    if kind == "sign" and depth > 0:
        return Tree("sign", source.choice("-+"), (operand(source, depth - 1),))
    if kind == "text":
        return Tree("text", "", texts=(source.choice(TEXTS),))
    return {"number": _number, "literal": _literal}.get(kind, _property)(source)


def anything(source: random.Random) -> str:
    """Return an expression, nearly one (a word left out, put in or changed), or just words."""
    if source.random() < 0.2:
        blanks = ("", " ", " ", "\n", "--", "--x\n", "/**/")
        return "".join(
            source.choice(WORDS) + source.choice(blanks) for _ in range(source.randrange(1, 9))
        )
    text = written(condition(source, source.randrange(5)), source)
    if source.random() < 0.5:
        return text
    words = re.findall(r"'(?:''|[^'])*'|[\w.$]+|<>|[<>]=|\S", text)
    at = source.randrange(len(words) + 1)
    words[at : at + source.randrange(2)] = [source.choice(WORDS)] * source.randrange(2)
    return " ".join(words)


def written(tree: Tree, source: random.Random, level: int = OR) -> str:
    """Return a tree as an expression, with the brackets that it needs and some more."""
    own = LEVELS.get(tree.word, EQUALITY if tree.kind == "null" else ORDER)
    if not tree.parts:
        own = UNARY + 1
    text = _written(tree, source, own)
    is_bare = own >= level and source.random() < 0.8
    return text if is_bare else f"({_blank(source)}{text})"


def _written(tree: Tree, source: random.Random, own: int) -> str:
    word = "".join(source.choice((one.lower(), one)) for one in tree.word)
    texts = [_quoted(text) for text in tree.texts]
    parts = [
        written(part, source, own if at == 0 else own + 1) for at, part in enumerate(tree.parts)
    ]
    match tree.kind:
        case "text":
            return texts[0]
        case "property":
            return tree.word
        case "in":
            return f"{parts[0]} {word}{_blank(source)}({', '.join(texts)})"
        case "search":
            return f"{parts[0]} {word} {texts[0]}"
        case "between":
            low, high = (written(part, source, UNARY) for part in tree.parts[1:])
            return f"{parts[0]} {word} {low} AND {high}"
        case "null":
            return f"{parts[0]} {word}"
    if not parts:
        return word
    if len(parts) == 1:
        return f"{word} {parts[0]}"
    return f"{parts[0]} {word}{_blank(source)} {parts[1]}"


def meaning(tree: Tree, properties: Mapping[str, str]) -> Value:
    """Return what a tree says of a message. Raises Incomparable."""
    values = (meaning(part, properties) for part in tree.parts)  # in order, and only if needed
    is_not = tree.word.startswith("NOT ")
    match tree.kind:
        case "property":
            return properties.get(tree.word)
        case "text":
            return tree.texts[0]
        case "number":
            return _number_of(tree.word)
        case "literal":
            return LITERALS[tree.word]
        case "sign":
            value = next(values)
            if tree.word == "+":
                return value
            return Number(-value.value, value.rank) if isinstance(value, Number) else None
        case "logic":
            return _logic(tree, properties)
        case "equal":
            return _not(_equal(*values), tree.word == "<>")
        case "null":
            return (next(values) is None) is (tree.word == "IS NULL")
        case "order":
            return _ordered(tree.word, tree.parts, properties)
        case "in":
            value = next(values)
            return None if value is None else (value in tree.texts) is not is_not
        case "search":
            return _found(tree, next(values) if tree.texts[0] else None, is_not)
    value_tree, low, high = tree.parts
    first, last, word = (">=", "<=", "AND") if not is_not else ("<", ">", "OR")
    both = [
        Tree("order", first, (value_tree, low)),
        Tree("order", last, (value_tree, high)),
    ]
    return _logic(Tree("logic", word, tuple(both)), properties)


def _logic(tree: Tree, properties: Mapping[str, str]) -> bool | None:
    decisive, is_unknown = tree.word == "OR", False
    for part in tree.parts:
        value = meaning(part, properties)
        if part.kind == "property" and value is not None:
            value = False
        assert not isinstance(value, str | Number)
        if tree.word == "NOT":
            return _not(value, True)
        if value is decisive:
            return decisive
        is_unknown |= value is None
    return None if is_unknown else not decisive


def _not(value: bool | None, is_inverted: bool) -> bool | None:
    return value if value is None or not is_inverted else not value


def _equal(left: Value, right: Value) -> bool | None:
    if left is None or right is None:
        return None if left is None and right is not None else left is right
    return _difference(left, right) == 0


def _ordered(word: str, parts: tuple[Tree, ...], properties: Mapping[str, str]) -> bool | None:
    left = meaning(parts[0], properties)
    if left is None:
        return None
    right = meaning(parts[1], properties)
    if right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        left, right = (Number(java_numbers.double(one), 2) for one in (left, right))
    return ORDERS[word](_difference(left, right))


def _found(tree: Tree, value: Value, is_not: bool) -> bool:
    if not isinstance(value, str):
        return False
    text = tree.texts[0]
    found = {
        "CONTAINS": text in value,
        "STARTSWITH": value[: len(text)] == text,
        "ENDSWITH": value[-len(text) :] == text,
    }
    return found[tree.word.removeprefix("NOT ")] is not is_not


def _difference(left: Value, right: Value) -> int:
    """Return what Java's comparison of two values that are not null says: below, at or above 0."""
    if isinstance(left, bool) and isinstance(right, str):
        raise Incomparable
    if isinstance(left, str) and isinstance(right, bool):
        left = left.lower() == "true"
    elif isinstance(left, str) and isinstance(right, Number):
        left = _read(left, right.rank)
    elif isinstance(left, Number) and isinstance(right, str):
        right = _read(right, left.rank)
    if isinstance(left, Number) and isinstance(right, Number):
        one, other = left.value, right.value
        if 2 in (left.rank, right.rank):
            one, other = float(one), float(other)
        if one != one or other != other:
            return (one != one) - (other != other)
        if one == other == 0:
            return (str(one)[0] != "-") - (str(other)[0] != "-")
        return (one > other) - (one < other)
    if isinstance(left, bool) and isinstance(right, bool):
        return left - right
    if isinstance(left, str) and isinstance(right, str):
        return (left > right) - (left < right)
    return -1


def _read(text: str, rank: int) -> Number:
    readers: tuple[Callable[[str], float], ...] = (
        java_numbers.int32,
        java_numbers.int64,
        java_numbers.double,
    )
    return Number(readers[rank](text), rank)


def _number_of(word: str) -> Number:
    if "." in word or "e" in word:
        return Number(float(word), 2)
    value = int(word.rstrip("L"))
    return Number(value, 0 if value < 1 << 31 else 1)


def _property(source: random.Random) -> Tree:
    return Tree("property", source.choice(NAMES))


def _literal(source: random.Random) -> Tree:
    return Tree("literal", source.choice([*LITERALS]))


def _number(source: random.Random) -> Tree:
    return Tree("number", source.choice(NUMBERS))


def _sortable(source: random.Random, depth: int) -> Tree:
    """Return what may be more or less than something."""
    if depth > 0 and source.random() < 0.3:
        return Tree("sign", "-", (operand(source, depth - 1),))
    return source.choice((_property, _number))(source)


def _bare(tree: Tree) -> Tree:
    """Return what stands after the signs that mean nothing."""
    return _bare(tree.parts[0]) if tree.word == "+" else tree


def _word(source: random.Random, word: str) -> str:
    return source.choice((word, f"NOT {word}"))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _blank(source: random.Random) -> str:
    return source.choice(("", "", " ", "\n", "/* x */", "-- (\n", "\t"))
