"""Scrapes as Prometheus reads them, and as much of PromQL as dashboards of brokers are written in.

    value := selector | rate(selector[time]) | sum(value) [by (names)] | (value)
           | value + value | value - value | value * [on (names) group_left (names)] value

A value is a vector: what is told of each set of labels. What Prometheus refuses raises ValueError:
labels that stand for several on both sides of an operator, names that are nowhere.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

Labels = frozenset[tuple[str, str]]
Vector = Mapping[Labels, float]

_PART = re.compile("(_bucket|_count|_sum)?")
_LINE = re.compile(r"(?P<name>[a-z_]+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([A-Za-z_][A-Za-z0-9_]*)|(\d+s)|(.))')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


class Family(NamedTuple):
    """What is told under one name."""

    kind: str
    series: Vector


class Scrape(NamedTuple):
    """One answer, and what Prometheus adds to each series of it."""

    families: Mapping[str, Family]

    @classmethod
    def of(cls, text: str, **target: str) -> "Scrape":
        """Read an answer; `target` are the labels that all series get, such as `instance`.

        Raises:
            ValueError: It is not what Prometheus reads: a line that is neither, a family that is
                told twice or without its type and help, a series that is there twice.
        """
        families: dict[str, Family] = {}
        kinds: dict[str, str] = {}
        helped: set[str] = set()
        last = ""
        for line in filter(None, text.splitlines()):
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                _check(name not in kinds, f"{name} is told twice")
                kinds[name], last = kind, name
                continue
            if line.startswith("# HELP "):
                helped.add(line.split(" ")[2])
                continue
            found = _LINE.fullmatch(line)
            _check(found is not None, f"no line of metrics: {line}")
            assert found is not None
            name = found["name"]
            if kinds.get(last) in ("summary", "histogram") and _PART.fullmatch(name, len(last)):
                continue  # no board asks for these
            _check(name == last and name in helped, f"{name} is not under its type and help")
            told = {**_labels(found["labels"] or ""), **target}
            family = families.setdefault(name, Family(kinds[name], {}))
            labels = frozenset(told.items())
            _check(labels not in family.series, f"{name} {told} is there twice")
            assert isinstance(family.series, dict)
            family.series[labels] = float(found["value"])
        return cls(families)

    def value(self, name: str, **labels: str) -> float:
        """Return one series, by all of its labels."""
        return self.families[name].series[frozenset(labels.items())]

    def counters(self) -> Mapping[tuple[str, Labels], float]:
        """Return every series that must never fall."""
        return {
            (name, labels): value
            for name, family in self.families.items()
            if family.kind == "counter"
            for labels, value in family.series.items()
        }


def evaluate(text: str, scrapes: Sequence[Scrape], seconds: float) -> Vector:
    """Return what an expression is at the time of the last scrape.

    Args:
        text: The expression.
        scrapes: The first and the last of the time that rates are of.
        seconds: How long that is.
    """
    reader = _Reader(text, scrapes, seconds)
    found = reader.sum_of_products()
    reader.expect("")
    return found


class _Reader:
    """Evaluates an expression while it reads it."""

    def __init__(self, text: str, scrapes: Sequence[Scrape], seconds: float) -> None:
        self._tokens = [next(filter(None, one)) for one in _TOKEN.findall(text.strip())] + [""]
        self._scrapes = scrapes
        self._seconds = seconds

    def expect(self, token: str) -> None:
        found = self._tokens.pop(0)
        _check(found == token, f"{token!r} expected, {found!r} found")

    def _takes(self, token: str) -> bool:
        if self._tokens[0] != token:
            return False
        self._tokens.pop(0)
        return True

    def sum_of_products(self) -> Vector:
        found = self._product()
        while self._tokens[0] in ("+", "-"):
            sign = 1 if self._tokens.pop(0) == "+" else -1
            other = self._product()
            _check(
                len(found) == len(other) == 0 or bool(found.keys() & other.keys()),
                "the sides have no labels in common",
            )
            found = {one: found[one] + sign * other[one] for one in found if one in other}
        return found

    def _product(self) -> Vector:
        found = self._operand()
        while self._takes("*"):
            on = self._names() if self._takes("on") else None
            taken = self._names() if self._takes("group_left") else ()
            _check(on is not None, "a product without a join is not read here")
            assert on is not None
            found = _joined(found, self._operand(), on, taken)
        return found

    def _operand(self) -> Vector:
        if self._takes("("):
            found = self.sum_of_products()
            self.expect(")")
            return found
        if self._takes("sum"):
            self.expect("(")
            found = self.sum_of_products()
            self.expect(")")
            return _summed(found, self._names() if self._takes("by") else ())
        if self._takes("rate"):
            self.expect("(")
            name, wanted = self._selector()
            for token in ("[", f"{self._seconds:g}s", "]", ")"):
                self.expect(token)
            first, last = (_selected(one, name, wanted) for one in self._scrapes)
            _check(self._scrapes[-1].families[name].kind == "counter", f"{name} is not a counter")
            return {one: (last[one] - first[one]) / self._seconds for one in last if one in first}
        name, wanted = self._selector()
        return _selected(self._scrapes[-1], name, wanted)

    def _selector(self) -> tuple[str, Mapping[str, str]]:
        name, wanted = self._tokens.pop(0), {}
        if self._takes("{"):
            while not self._takes("}"):
                label = self._tokens.pop(0)
                self.expect("=")
                wanted[label] = self._tokens.pop(0)[1:-1]
                self._takes(",")
        return name, wanted

    def _names(self) -> Sequence[str]:
        self.expect("(")
        found = []
        while not self._takes(")"):
            found.append(self._tokens.pop(0))
            self._takes(",")
        return found


def _selected(scrape: Scrape, name: str, wanted: Mapping[str, str]) -> Vector:
    """Return the series that a selector fits; a label that is missing counts as empty."""
    _check(name in scrape.families, f"there is no {name}")
    found = scrape.families[name].series
    return {
        labels: value
        for labels, value in found.items()
        if all(dict(labels).get(label, "") == text for label, text in wanted.items())
    }


def _joined(many: Vector, one: Vector, on: Sequence[str], taken: Sequence[str]) -> Vector:
    by_key: dict[Labels, tuple[Labels, float]] = {}
    for labels, value in one.items():
        key = _some(labels, on)
        _check(key not in by_key, f"several on the side of one have {dict(key)}")
        by_key[key] = labels, value
    found: dict[Labels, float] = {}
    for labels, value in many.items():
        partner = by_key.get(_some(labels, on))
        if partner is None:
            continue
        others, factor = partner
        brought = _some(others, taken)
        _check(len(brought) == len(taken), f"{taken} are not all in {dict(others)}")
        kept = frozenset(pair for pair in labels if pair[0] not in taken)
        found[kept | brought] = value * factor
    return found


def _summed(vector: Vector, by: Sequence[str]) -> Vector:
    found: dict[Labels, float] = {}
    for labels, value in vector.items():
        key = _some(labels, by)
        _check(len(key) == len(by), f"{by} are not all in {dict(labels)}")
        found[key] = found.get(key, 0) + value
    return found


def _some(labels: Labels, wanted: Sequence[str]) -> Labels:
    return frozenset(pair for pair in labels if pair[0] in wanted)


def _labels(text: str) -> Mapping[str, str]:
    rest = _LABEL.sub("", text).replace(",", "")
    _check(not rest, f"no labels: {text}")
    return dict(_pairs(text))


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for name, value in _LABEL.findall(text):
        yield name, re.sub(r"\\[\\n\"]", lambda one: _ESCAPES[one[0]], value)


def _check(holds: bool, why: str) -> None:
    if not holds:
        raise ValueError(why)
