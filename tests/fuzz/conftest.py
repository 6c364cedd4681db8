"""What servers complain of while they are attacked."""

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
import structlog


@pytest.fixture
def failures() -> Iterator[list[Any]]:
    """Keep what is logged as an error, and drop the rest: refusals would be most of the time."""
    found: list[Any] = []

    def keep(_: Any, name: str, entry: MutableMapping[str, Any]) -> Any:
        if name in ("error", "exception", "critical") or "exc_info" in entry:
            found.append(entry)
        raise structlog.DropEvent

    structlog.configure(processors=[keep])
    yield found
    structlog.reset_defaults()
