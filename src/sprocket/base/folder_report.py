"""What a tool has done to a folder: counts, and lists of what it found there."""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec


class FolderReport(msgspec.Struct, frozen=True, kw_only=True):
    """Values by name.

    Attributes:
        TABLES: Lists that people see as tables, and what stands above each.
        HIDDEN: Values that only JSON shows.
        SENTENCES: What stands above sentences in a table.
    """

    TABLES: ClassVar[Sequence[tuple[str, str]]] = ()
    HIDDEN: ClassVar[Sequence[str]] = ()
    SENTENCES: ClassVar[str] = "what"

    def row(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found
