"""What every blocking client is: an awaited one, in a loop that has a thread of its own."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from sprocket.runtime.blocking import Portal


class Blocking:
    """A client in a portal; begins with `with` or `start`, ends with `close`."""

    _client: Any

    def __init__(self) -> None:
        self._portal: Portal | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Begin; connections are made when they are needed."""
        assert self._portal is None, "a client is started once"
        self._portal = Portal(f"sprocket-{type(self).__name__.lower()}")
        self._call(self._client.start)

    def close(self) -> None:
        """End as the awaited client does, then the thread; may be called again."""
        if self._portal is not None:
            try:
                self._portal.call(self._client.close)
            finally:
                self._portal.close()
                self._portal = None

    def _call(self, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        assert self._portal is not None, "use `with` or start() first"
        return self._portal.call(function, *args, **named)
