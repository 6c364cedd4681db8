"""The way of a request: its route, its user, what answers it.

Source: `rabbit_mgmt_dispatcher`; the order of checks is that of cowboy_rest: the path, the method,
the user, then what the request says.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from sprocket.base import log
from sprocket.base.audit import Actor
from sprocket.base.errors import StoreError
from sprocket.base.units import KIB, MIB
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.rabbitmq.server.management.metrics import Metrics, Scrape
from sprocket.rabbitmq.server.management.requests import (
    REALM,
    ApiError,
    ApiRoute,
    Call,
    Callers,
    Level,
    Unnamed,
    answers,
    split_target,
)
from sprocket.rabbitmq.server.management.resources import (
    AccessRoutes,
    ConnectionRoutes,
    ExchangeRoutes,
    NodeRoutes,
    PolicyRoutes,
    QueueRoutes,
)
from sprocket.rabbitmq.server.management.services import NodeServices
from sprocket.runtime.driver import Peer
from sprocket.runtime.http import HttpRequest, HttpResponse

BODY_BYTES_MAX: Final = 64 * MIB
"""Definitions of 100,000 queues have 20 MB."""
STRANGERS_BODY_BYTES_MAX: Final = 64 * KIB
"""Of clients that have not sent a right password."""
PREFIX: Final = "api"

RABBITMQADMIN: Final = "/cli/rabbitmqadmin"
"""Where RabbitMQ has a program for people to fetch."""

_WHERE_IT_IS = b"""\
#!/usr/bin/env python3
# This is not rabbitmqadmin, which belongs to RabbitMQ and is not part of Sprocket.
import sys

sys.exit(
    "rabbitmqadmin is not served here. It works with this broker; it is one file of RabbitMQ:\\n"
    "  https://raw.githubusercontent.com/rabbitmq/rabbitmq-server/v3.10.8/"
    "deps/rabbitmq_management/bin/rabbitmqadmin\\n"
    "What it does, 'sprocket rabbit' does as well: sprocket rabbit --help"
)
"""
"""For those who fetch it, make it executable and run it, all by a script."""

_METHODS = ("HEAD", "GET", "PUT", "POST", "DELETE", "OPTIONS")
_AUDIT_NAMES = dict.fromkeys(("queue", "exchange", "user", "connection"), "name")
"""What parts of a path are in the audit log, if not what they are in the path."""
_log = log.get_limited_logger(__name__)


class ManagementApi:
    """See the head of the module.

    Args:
        services: Of the node that is shown and changed.

    Threads: event loop only.
    """

    def __init__(self, services: NodeServices) -> None:
        self._callers = Callers(services.users, services.topologies)
        self._metrics = Metrics(services, self._callers)
        self._routes = _Routes(
            [
                *NodeRoutes(services).routes(),
                *ConnectionRoutes(services).routes(),
                *ExchangeRoutes(services).routes(),
                *QueueRoutes(services).routes(),
                *AccessRoutes(services).routes(),
                *PolicyRoutes(services).routes(),
            ]
        )

    def body_limit(self, headers: Mapping[str, str]) -> int:
        """Return how large a body may be; see `HttpConnection`."""
        return BODY_BYTES_MAX if self._callers.is_known(headers) else STRANGERS_BODY_BYTES_MAX

    def is_known(self, headers: Mapping[str, str], peer: Peer) -> bool:
        """Return whether a request has a right name and password, and comes from where it may."""
        return self._callers.is_known(headers, is_local=peer.is_local)

    async def handle(self, request: HttpRequest, peer: Peer) -> HttpResponse:
        """Answer a request."""
        return await self._handle(request, peer, is_for_scrapers=False)

    async def handle_scraper(self, request: HttpRequest, peer: Peer) -> HttpResponse:
        """Answer a request at the port for metrics: they need no login there, names included."""
        return await self._handle(request, peer, is_for_scrapers=True)

    async def _handle(
        self, request: HttpRequest, peer: Peer, *, is_for_scrapers: bool
    ) -> HttpResponse:
        scrape = Scrape.of(request.target) if request.method in ("GET", "HEAD") else None
        try:
            if scrape is None:
                return await self._answer(request, peer)
            if scrape.names_objects and not is_for_scrapers:
                caller = self._callers.find(request.headers, peer)
                peer.admit()
                caller.check(Level.MONITOR, None)
            peer.admit()  # who scrapes has no password
            return await self._metrics.response(scrape)
        except ApiError as error:
            found = answers.json_response(error.body, error.status)
            return _with(found, error.headers)
        except Unnamed:
            return HttpResponse(status=401, headers={"www-authenticate": REALM})
        except RequestRefused as refusal:
            return answers.json_response(answers.bad_request(refusal.remark).body, 400)
        except StoreError as error:
            _log.error("a request failed", target=request.target, why=str(error))
            return answers.json_response({"error": "internal_error", "reason": str(error)}, 500)

    async def _answer(self, request: HttpRequest, peer: Peer) -> HttpResponse:
        parts, query = split_target(request.target)
        if request.method in ("GET", "HEAD") and request.target.partition("?")[0] == RABBITMQADMIN:
            text = {"content-type": "text/plain; charset=utf-8"}
            return HttpResponse(status=200, headers=text, body=[_WHERE_IT_IS])
        found = self._routes.find(parts[1:]) if parts and parts[0] == PREFIX else None
        if found is None:
            raise answers.not_found()
        by_method, named = found
        method = "GET" if request.method == "HEAD" else request.method
        route = by_method.get(method)
        if route is None:
            allowed = {"OPTIONS", *by_method} | ({"HEAD"} if "GET" in by_method else set())
            status = 200 if method == "OPTIONS" else 405
            told = ", ".join(one for one in _METHODS if one in allowed)
            return HttpResponse(status=status, headers={"allow": told})
        caller = None
        if route.level is not Level.ANYBODY:
            caller = self._callers.find(request.headers, peer)
            peer.admit()  # if there is no place any more, it is answered all the same
            caller.check(route.level, named.get("vhost"))
        call = Call(request, caller, named, query)
        try:
            response = await route.handle(call)
        except (ApiError, RequestRefused, StoreError):
            if call.has_begun:
                _audit(route, call, peer, is_whole=False)
            raise
        if route.audit and call.is_change:
            _audit(route, call, peer)
        return response


def _audit(route: ApiRoute, call: Call, peer: Peer, *, is_whole: bool = True) -> None:
    """Tell the audit log what a call has changed, or that only some of it was done."""
    actor = Actor(through="http", peer=peer.told_address, user=call.caller.name)
    what = {_AUDIT_NAMES.get(one, one): text for one, text in call.names.items()}
    actor.did(route.audit, **what, **call.details, **({} if is_whole else {"failed": True}))


class _Routes:
    """Finds routes by paths.

    Args:
        routes: All of them; where several fit the first counts.
    """

    def __init__(self, routes: Sequence[ApiRoute]) -> None:
        self._by_path: dict[tuple[str, ...], dict[str, ApiRoute]] = {}
        for route in routes:
            self._by_path.setdefault(route.path, {})[route.method] = route
        self._by_start: dict[tuple[int, str], list[tuple[str, ...]]] = {}
        for path in self._by_path:
            self._by_start.setdefault((len(path), path[0]), []).append(path)

    def find(
        self, parts: Sequence[str]
    ) -> "tuple[Mapping[str, ApiRoute], Mapping[str, str]] | None":
        """Return the routes of a path by method, and the names in it; None if there are none."""
        if not parts:
            return None
        for path in self._by_start.get((len(parts), parts[0]), ()):
            named: dict[str, str] = {}
            for wanted, part in zip(path, parts, strict=True):
                if wanted.startswith("{"):
                    named[wanted[1:-1]] = part
                elif wanted != part:
                    break
            else:
                return self._by_path[path], named
        return None


def _with(response: HttpResponse, headers: Mapping[str, str]) -> HttpResponse:
    return HttpResponse(
        status=response.status, headers={**response.headers, **headers}, body=response.body
    )
