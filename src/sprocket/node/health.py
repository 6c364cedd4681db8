"""The health of a process, reported over HTTP to whatever monitors it.

    GET /health/live      its event loop runs, or nobody would answer
        /health/ready     clients are let in
        /health/stores    what they send is stored
        /health           all three

The answer is 200 if it is so, else 503, and says why in JSON: `{"status": "failed", "checks":
{"stores": ["broker broker-a: the disk is 93 % full, more than 90 %"]}}`. The port is open before
anything else, so that a recovery that takes long is seen to be alive, and until all is closed.
It needs no login, and reports nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from sprocket.runtime.driver import Peer
    from sprocket.runtime.http import HttpRequest, HttpResponse

PATH: Final = "/health"
LIVE, READY, STORES = "live", "ready", "stores"
CHECKS: Final = (LIVE, READY, STORES)
"""In the order in which they are reported."""

_HEADERS = {"content-type": "application/json", "cache-control": "no-cache"}

Checked = Mapping[str, Sequence[str]]
"""Why a check fails, by its name; nothing if it does not."""


class Health:
    """See the head of the module.

    Threads: event loop only.
    """

    def __init__(self) -> None:
        self._why_not_ready = "it starts"
        self._refusals: Callable[[], Sequence[str]] = tuple

    def begin(self, refusals: Callable[[], Sequence[str]]) -> None:
        """Say that clients are let in, and from whom to hear what stores nothing."""
        self._why_not_ready = ""
        self._refusals = refusals

    def end(self) -> None:
        """Say that they are not any more."""
        self._why_not_ready = "it stops"

    def check(self) -> Checked:
        """Return the result of every check."""
        unready = [self._why_not_ready] if self._why_not_ready else []
        return {LIVE: [], READY: unready, STORES: [*unready, *self._refusals()]}

    async def handle(self, request: "HttpRequest", peer: "Peer") -> "HttpResponse":
        """Answer a request; see `runtime.http.HttpServer`."""
        from sprocket.runtime.http import HttpResponse

        peer.admit()  # who asks has no password
        path, _, name = request.target.partition("?")[0].rstrip("/").rpartition("/")
        wanted: Sequence[str] = (name,) if path == PATH and name in CHECKS else ()
        if f"{path}/{name}" == PATH:
            wanted = CHECKS
        if not wanted:
            return HttpResponse(status=404)
        if request.method not in ("GET", "HEAD"):
            return HttpResponse(status=405, headers={"allow": "GET, HEAD"})
        checked = self.check()
        found = {one: checked[one] for one in wanted}
        is_failed = any(found.values())
        body = {"status": "failed" if is_failed else "ok", "checks": found}
        return HttpResponse(
            status=503 if is_failed else 200, headers=_HEADERS, body=[msgspec.json.encode(body)]
        )
