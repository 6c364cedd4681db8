"""One route of the API: method and path, the users that may call it, the function that answers."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from sprocket.rabbitmq.server.management.requests.callers import Level
from sprocket.rabbitmq.server.management.requests.calls import Call
from sprocket.runtime.http import HttpResponse

Handler = Callable[[Call], Awaitable[HttpResponse]]


class ApiRoute(NamedTuple):
    """See the head of the module; parts of the path in braces stand for names."""

    method: str
    path: tuple[str, ...]
    level: Level
    handle: Handler
    audit: str = ""
    """What a successful call does, for the log; empty if it changes nothing, or not much."""


def get(path: str, level: Level, handle: Handler) -> ApiRoute:
    """Return a route that shows something; its path is without `/api/`, as that of all."""
    return ApiRoute("GET", tuple(path.split("/")), level, handle)


def put(path: str, level: Level, handle: Handler, audit: str) -> ApiRoute:
    """Return a route that makes or changes something."""
    return ApiRoute("PUT", tuple(path.split("/")), level, handle, audit)


def post(path: str, level: Level, handle: Handler, audit: str = "") -> ApiRoute:
    """Return a route that does something."""
    return ApiRoute("POST", tuple(path.split("/")), level, handle, audit)


def delete(path: str, level: Level, handle: Handler, audit: str) -> ApiRoute:
    """Return a route that deletes something."""
    return ApiRoute("DELETE", tuple(path.split("/")), level, handle, audit)
