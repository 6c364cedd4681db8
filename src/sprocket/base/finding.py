"""What a check of a folder found: a broken rule, its place, what was expected and what is there."""

from enum import Enum
from typing import Generic, TypeVar

from msgspec import Struct

RuleT = TypeVar("RuleT", bound=Enum)


class Finding(Struct, Generic[RuleT], frozen=True):
    """One broken rule.

    Attributes:
        rule: Which.
        path: The file, or the folder if a file is missing.
        position: Bytes into the file.
        expected: What should be there.
        found: What is there.
        record: The place of the record that is concerned, -1 if none is.
    """

    rule: RuleT
    path: str
    position: int
    expected: str
    found: str
    record: int = -1

    def row(self) -> dict[str, object]:
        """Return it as JSON shows it, without the record."""
        return {
            "rule": self.rule.name,
            "file": self.path,
            "position": self.position,
            "expected": self.expected,
            "found": self.found,
        }
