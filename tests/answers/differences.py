"""What differs between two recordings, and which differences `docs/answers.md` names."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.answers.exchange import Told

PAGE = Path(__file__).parents[2] / "docs/answers.md"
FREE_REMARKS = "text of a refusal"
"""The part of a row that lets the remarks of refusals differ in their words."""
SAID_BY_CODE = frozenset({0, 10, 11, 12, 19, 20, 21})
"""Codes that refuse nothing: their remarks are equal to the letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the page.

    Attributes:
        requests: Patterns of the names of requests.
        part: What of the answer differs: see `differences`.
        theirs: What RocketMQ says; of codes and connections exactly.
        ours: What we say.
    """

    requests: tuple[str, ...]
    part: str
    theirs: str
    ours: str

    @property
    def is_of_pops(self) -> bool:
        """Whether it is of scenarios of `popping` only."""
        return all(pattern.startswith("pop/") for pattern in self.requests)

    def covers(self, found: "Difference") -> bool:
        """Tell whether this row names a difference."""
        if self.part != found.part:
            return False
        if not any(fnmatchcase(found.name, pattern) for pattern in self.requests):
            return False
        is_exact = self.part in ("code", "connection", "language")
        return not is_exact or (self.theirs, self.ours) == (found.theirs, found.ours)


@dataclass(frozen=True, slots=True)
class Difference:
    """One part of one answer that is not equal."""

    name: str
    part: str
    theirs: str
    ours: str


def rows() -> list[Row]:
    """Return the rows of the page's tables."""
    found = []
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `") and len(cells) == 5:
            patterns = re.findall(r"`([^`]+)`", cells[0])
            found.append(
                Row(
                    requests=tuple(patterns),
                    part=cells[1],
                    theirs=cells[2].strip("`"),
                    ours=cells[3].strip("`"),
                )
            )
    return found


def differences(name: str, theirs: Sequence[Told], ours: Sequence[Told]) -> Iterator[Difference]:
    """Give what is not equal in the answers to one request.

    If the codes differ, nothing else of the answer is looked at. Headers are compared as text, so
    that the order of their members counts.
    """
    ends = [_end(theirs), _end(ours)]
    if ends[0] != ends[1] or len(theirs) != len(ours):
        yield Difference(name, "connection", *ends)
        return
    for their, our in zip(theirs, ours, strict=True):
        if their.header in ("open", "closed"):
            continue
        a, b = json.loads(their.header), json.loads(our.header)
        if a["code"] != b["code"]:
            yield Difference(name, "code", str(a["code"]), str(b["code"]))
            continue
        if a["language"] != b["language"]:
            yield Difference(name, "language", a["language"], b["language"])
        if a.get("remark") != b.get("remark"):
            is_said = a["code"] in SAID_BY_CODE or None in (a.get("remark"), b.get("remark"))
            part = "remark" if is_said else FREE_REMARKS
            yield Difference(name, part, str(a.get("remark")), str(b.get("remark")))
        a_text, b_text = (_without_words(one) for one in (their.header, our.header))
        if a_text != b_text:
            yield Difference(name, "header", a_text, b_text)
        if their.body != our.body:
            yield Difference(name, "body", *(_text(one.body) for one in (their, our)))


def _end(told: Sequence[Told]) -> str:
    if told[-1].header in ("open", "closed"):
        return f"{len(told) - 1} answers, then {told[-1].header}"
    return "answered"


def _without_words(header: str) -> str:
    """Return a header without its language and its remark, which are compared by themselves."""
    header = re.sub(r'"language": ?"\w+"', '"language":"$"', header)
    return re.sub(r',? ?"remark": ?(null|"([^"\\]|\\.)*")', "", header)


def _text(body: Any) -> str:
    return json.dumps(body, sort_keys=True, ensure_ascii=False)
