"""Expressions and messages that RocketMQ's own SQL92 filter was asked about, and what it said.

The recording has a line for each expression: a letter for each message of its block (T, F, N for
null, E for an error of the evaluation), or P for one that cannot be parsed. It also says where
RocketMQ's Bloom filters have the bits of some names. `tests/interop/test_sql92.py` compares it with
the real filter and writes it anew; our filter is held against it without Java.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

RECORDING = Path(__file__).parent / "data" / "rocketmq-5.3.3" / "sql92.json"

MESSAGES: Sequence[Mapping[str, str]] = (
    {"a": "3", "b": "x", "f": "3.5", "t": "true"},
    {"a": "3.5", "b": "3", "t": "TRUE", "p": "1"},
    {"a": "0.0", "b": "-0.0", "f": "-3", "t": "false"},
    {"a": "", "b": "", "f": "", "t": "yes"},
    {},
    {"a": "+3", "b": " 3 ", "f": "3.0f", "t": " true"},
    {"a": "3000000000", "b": "3e9", "f": "2999999999.5", "t": "x"},
    {"a": "9223372036854775808", "b": "9223372036854775807", "f": "9.3e18", "t": "3"},
    {"a": "NaN", "b": "Infinity", "f": "NaN", "t": "NaN"},
    {"a": "0x1.8p1", "b": "3d", "f": "-Infinity", "t": "tRuE"},
    {"a": "\u0663", "b": "-3", "f": "\uff13", "t": "\u0663.0", "n": "3"},
    {"a": "TRUE", "b": "x'y%_", "f": "a,b", "t": "X", "n": "x", "m": "x"},
)
"""`n` and `m` are nearly always absent; 663 and FF13 are threes of other scripts."""

TEXTS = (
    *("0", "-0", "+0", "007", "-007", "+", "-", "", " ", "3 ", "\t3", "3\x00", "\u00a03", "3_0"),
    *("2147483647", "2147483648", "-2147483648", "-2147483649", "3L", "3l", "0x3", "0b11", "1e0"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "1" + "0" * 40),
    *("0" * 40 + "3", "-9223372036854775809", "\u0663\u0663", "\U0001d7d1", "\u00b2", "\u2155"),
    *("3.", ".5", ".", "+.5", "-.5e1", "3e", "3e+", "3e1", "3E-1", "3e400", "-3e400", "3e-400"),
    *("3f", "3F", "3d", "3D", "3.0f ", "3ff", "3 f", "f", "NaN", "-NaN", "+NaN", "nan", "NaNf"),
    *("Infinity", "-Infinity", "+Infinity", "infinity", "inf", "Infinityd", "1,5", "1.5.2"),
    *("0x1p1", "0X1.8P1", "0x.8p1", "0x1.p1", "0x1.8", "0x1p1f", "-0x1p1", "0x1p99999"),
    *("0x1p-9999", "0xp1", "0x.p1", "0x1p", "0x1p+1", "true", "TRUE", "truE", " true", "t"),
    *("\u0661.\u0665", "4.9e-324", "2.4e-324", "1.7976931348623157e308", "1.7976931348623159e308"),
    *("-0.0", "0.0", "9007199254740993", "9007199254740993.0", "9007199254740992", "2.5", "3.0"),
    *(
        "3000000000.0",
        "3000000001",
        "-0x1p99999",
        "-0009223372036854775808",
        "0009223372036854775808",
    ),
)
"""What the property `a` of a message may hold beside a number, or instead of one."""

_OPERANDS = (
    *("a", "n", "f", "t", "3", "3.0", "-3", "3000000000", "'x'", "'3'", "TRUE", "FALSE", "NULL"),
    *("-a", "-'x'", "-TRUE", "(a = 3)", "(n = 1)", "(b <> 3)", "-(b <> 3)", "NOT t"),
)
_SIGNS = ("=", "<>", ">", ">=", "<", "<=")
_CONDITIONS = ("TRUE", "FALSE", "NULL", "a", "n", "b <> 3", "a = 3", "3", "'x'", "-a", "NOT n")


def _composed() -> Iterator[str]:
    """Give each operand with each operator."""
    for left, sign, right in product(_OPERANDS, _SIGNS, _OPERANDS):
        yield f"{left} {sign} {right}"
    for left, word in product(_OPERANDS, ("AND", "OR")):
        yield f"{left} {word} b <> 3"
    for left, word, right in product(_CONDITIONS, ("AND", "OR"), _CONDITIONS):
        yield f"{left} {word} {right}"
    for one in _OPERANDS:
        yield one
        yield f"({one})"
        yield f"NOT {one}"
        yield f"- - {one} = -3"
        yield f"{one} IS NULL"
        yield f"{one} IS NOT NULL"
        for word in ("", "NOT "):
            yield f"{one} {word}IN ('x', '3')"
            yield f"{one} {word}BETWEEN 1 AND 5"
            yield f"{one} {word}BETWEEN 5 AND 1"
            yield f"{one} {word}BETWEEN f AND 9"
            yield f"4 {word}BETWEEN {one} AND 9"
            yield f"a {word}BETWEEN 2.5 AND {one}"
            for search in ("CONTAINS", "STARTSWITH", "ENDSWITH"):
                yield f"{one} {word}{search} '3'"
                yield f"{one} {word}{search} ''"


_BY_HAND = (
    # Precedence
    *("a IS NULL < 3", "a IS NULL IN ('3')", "a IS NOT NULL NOT", "a IS NULL = TRUE"),
    *("NOT a = 3", "NOT (a = 3)", "NOT a > 2", "a = 3 OR b = 'x' AND n = 1"),
    *("(a = 3 OR b = 'x') AND n = 1", "a = 3 AND b = 'x' OR n = 1", "NOT a = 3 AND t"),
    *("a = 3 = TRUE", "a > 2 = TRUE", "TRUE = a > 2", "a = 1 > 2", "1 < 2 < 3"),
    *("a BETWEEN 1 AND 5 = TRUE", "a BETWEEN 1 AND 5 AND b = 'x'", "a IS NULL IS NULL"),
    *("a IS NULL IS NOT NULL", "a = 3 IS NULL", "a = b = t", "a <> 3 <> TRUE"),
    *("a IN ('3') IN ('3')", "a CONTAINS '3' CONTAINS '3'", "a CONTAINS '3' = TRUE"),
    *("a > 2 IS NULL", "a < 4 AND a > 2 AND t = TRUE AND b = 'x'"),
    *("n = 1 OR m = 1 OR n IS NULL OR a = 3", "n = 1 AND a = 4", "a = 4 AND n = 1"),
    *("n = 1 OR a = 3", "b <> 3 OR a = 3", "a = 3 OR b <> 3", "a = 4 AND b <> 3"),
    *("b <> 3 AND a = 4", "n > b", "n > -(b <> 3)", "b > -n", "n = b", "n = m"),
    # Words
    *("a=3", "a  =\t3", "a\n=\r\n3\f", "a\v= 3", "a\u00a0= 3", "A = 3", "a = 3;", "a == 3"),
    *("a != 3", "a is null", "a Is NoT nUlL", "not (a = 3)", "a = 3 aNd b = 'x'"),
    *("a between 1 and 5", "t = true", "null = a", "a contains '3'", "a not startsWith '3'"),
    *("TRUEx = 3", "x1 IS NULL", "_a IS NULL", "$a IS NULL", "a.b IS NULL", "a-b IS NULL"),
    *("1a IS NULL", "e5 IS NULL", "E1 = 3", "\u00e9 = 3", "a = 'x", "a = x'", "a = '", "a = ''"),
    *("b = 'x''y%_'", "a = '\\''", "a = '\n'", 'a = "3"', "a = 'x' 'y'", "b = 'x''' "),
    *("a /* b */ = 3", "a /* b", "a = /* * / */ 3", "a /**/ = /***/ 3", "a -- b\n= 3", "a = 3 --"),
    *("a = 3 -- b", "a = 3 -- b\n", "a = 3 -- b\r", "a = --\n3", "a = --3", "a /*/ = 3", "a = 3 /"),
    *("a = 3 */", "a % 3 = 0", "a + 1 = 4", "a * 1 = 3", "a - 1 = 2"),
    # Numbers
    *(
        "a > b",
        "a >= b",
        "a < b",
        "a <= b",
        "b > a",
        "b <= a",
        "f > a",
        "f >= f",
        "b < f",
        "t >= a",
    ),
    *("a = 0", "a = 00", "a = 007", "a = 0L", "a = 3l", "a = 3L", "a = 3LL", "a = 0x3", "a = 3f"),
    *("a = 3.0f", "a = 2147483647", "a = 2147483648", "-2147483648 < a", "a = 9223372036854775807"),
    *("a = 9223372036854775808", "a = -9223372036854775808", "a = -9223372036854775807", "a < 0.0"),
    *("a > 1.", "a > .5", "a > .", "a > 1.e1", "a > 1e1", "a > 1E-1", "a > 1e", "a > 1e+"),
    *("a > 00.5", "a > 1e400", "a > 1e-400", "a > 4.9e-324", "a > 1.7976931348623157e308"),
    *("a > 1.5.2", "a > 0e1", "3 = 3.0", "3 = 3000000000", "3.0 = 3", "3 < 3.5", "3000000000 > 2"),
    *("9007199254740993 = 9007199254740992.0", "-3 = -3", "- -3 = 3", "+3 = 3", "+ + a = 3"),
    *("+a > 2", "-+-3 = 3", "- 3.5 < a", "a = +3", "a = -3", "-3 BETWEEN -5 AND -1"),
    *("a BETWEEN -5 AND -9", "a BETWEEN 5 AND -9", "a BETWEEN 3 AND 3", "a BETWEEN 1 AND 2.5"),
    *("a BETWEEN 2.5 AND 1", "a BETWEEN 3000000000 AND 3", "a BETWEEN '1' AND '5'"),
    *("a BETWEEN NULL AND 5", "a BETWEEN 1 AND NULL", "a BETWEEN TRUE AND FALSE"),
    *("a BETWEEN b AND f", "a BETWEEN 9007199254740993 AND 9007199254740992.0"),
    *("a NOT BETWEEN b AND f", "5 BETWEEN 1 AND 9"),
    # What does not end, and what stands after the end
    *("", " ", "a", "()", "(a", "a)", "(a))", "((a = 3))", "(a) = (3)", "(a) IN ('3')", "a = 3 b"),
    *("a = 3 4", "a = 3 )", "a = 3 #", "a = 3 x #", "a = 3 NOT", "a = 3 NOT b", "a = 3 IS"),
    *("a = 3 =", "a = 3 AND", "a = 3 b AND c", "a = 3, b = 4", "a = 3 (b = 4)", "a = 3 TRUE"),
    *("a = 3 IN", "= 3", "a =", "AND", "NOT", "a IN ()", "a IN (3)", "a IN ('3'", "a IN ('3',)"),
    *("a IN '3'", "a IN ('3')", "a IN ('3', '3')", "a IN ('1','2','3','4','5','6','3')"),
    *("a IN ('x', NULL)", "a IN (b)", "a NOT ('3')", "a LIKE '3'", "a BETWEEN 1"),
    *("a BETWEEN 1 AND", "a BETWEEN 1 OR 5", "a BETWEEN 1, 5", "a IS", "a IS NOT", "a IS 3"),
    *("a IS TRUE", "IS NULL", "NULL IS NULL", "NULL IS NOT NULL", "3 IS NULL", "'x' IS NULL"),
    *("a CONTAINS", "a CONTAINS 3", "a CONTAINS b", "a CONTAINS ('3')", "a CONTAINS NULL"),
    *("CONTAINS '3'", "now() > 1", "a NOT NOT IN ('3')", "a NOT = 3", "NOT NOT a = 3", "NOT"),
    *("NOT NOT", "NOT TRUE", "NOT NULL", "NOT 3"),
)

BY_TEXT = (
    *("a = 3", "3 = a", "a > 2", "a < 3000000000", "a = 3000000000", "a > 2.5", "a < 2.5"),
    *("2.5 < a", "a >= 3.0", "a <= 3.0", "a = 3.0", "a = TRUE", "a = FALSE", "a > a", "a >= a"),
    *("a = a", "a <> -3", "a = 9007199254740992.0", "a = 9007199254740993"),
    "a > 1.7976931348623157e308",
)


@dataclass(frozen=True, slots=True)
class Block:
    """Some messages, and what each expression says of each of them."""

    messages: Sequence[Mapping[str, str]]
    truth: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Bits:
    """A Bloom filter of RocketMQ: what it is made for, its size, and the bits of some names."""

    error_percent: int
    names_max: int
    hashes: int
    bits: int
    positions: Mapping[str, Sequence[int]]
    bit_map: str
    """That of all the names, in hex."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """All that was said."""

    blocks: Sequence[Block]
    bloom: Sequence[Bits]


NAMES = (
    *("GroupA#TopicTest", "GroupB#TopicTest", "CG1#T1", "#", "g#t", "%RETRY%g#t", "g" * 255 + "#t"),
    *(
        "\u00e9\u4e2d#\U0001f600",
        *(f"{'group'[: n % 5]}-{n}#{'topic' * (n % 4)}" for n in range(24)),
    ),
)
SIZES = ((20, 32), (10, 128), (20, 64), (1, 32), (50, 32), (99, 1), (1, 1), (33, 1000))
"""Error rate in percent, and for how many names."""


def questions() -> dict[str, Any]:
    """Return what the real filter is asked, as `interop/java/SqlTable.java` reads it."""
    expressions = [*dict.fromkeys((*_BY_HAND, *_composed()))]
    blocks = [
        {"messages": MESSAGES, "expressions": expressions},
        {"messages": [{"a": text} for text in TEXTS], "expressions": BY_TEXT},
    ]
    return {"blocks": blocks, "names": NAMES, "sizes": SIZES}


def recorded(asked: Mapping[str, Any], answered: Mapping[str, Any]) -> Recorded:
    """Return questions and answers together."""
    return Recorded(
        [
            Block(block["messages"], dict(zip(block["expressions"], truth, strict=True)))
            for block, truth in zip(asked["blocks"], answered["truth"], strict=True)
        ],
        [
            Bits(error_percent=percent, names_max=count, **found)
            for (percent, count), found in zip(asked["sizes"], answered["bloom"], strict=True)
        ],
    )


def read() -> Recorded:
    """Return the recording."""
    content = json.loads(RECORDING.read_text(encoding="utf-8"))
    return Recorded(
        [Block(one["messages"], one["truth"]) for one in content["blocks"]],
        [Bits(**one) for one in content["bloom"]],
    )


def write(found: Recorded) -> None:
    """Write the recording: a line for each message, expression and filter."""
    blocks = ",\n".join(
        f'{{"messages": [\n{_lines(block.messages)}\n], "truth": {{\n'
        + ",\n".join(f"{json.dumps(one)}: {json.dumps(row)}" for one, row in block.truth.items())
        + "\n}}"
        for block in found.blocks
    )
    bloom = _lines([asdict(one) for one in found.bloom])
    RECORDING.write_text(f'{{"blocks": [\n{blocks}\n], "bloom": [\n{bloom}\n]}}\n')


def _lines(values: Sequence[Mapping[str, Any]]) -> str:
    return ",\n".join(map(json.dumps, values))
