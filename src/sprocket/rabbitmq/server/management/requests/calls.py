"""One request of the API: what it names, asks for and brings."""

from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote

import msgspec

from sprocket.rabbitmq.server.management.requests.answers import bad_request
from sprocket.rabbitmq.server.management.requests.callers import Caller
from sprocket.runtime.http import HttpRequest


class Call:
    """A request whose route is found, and whose user may ask it.

    Args:
        request: As it came.
        caller: The user that asks; None where no login is needed.
        named: The parts of the path that stand for names, by what they stand for.
        query: What stands after the path.
    """

    def __init__(
        self,
        request: HttpRequest,
        caller: Caller | None,
        named: Mapping[str, str],
        query: Mapping[str, str],
    ) -> None:
        self.method = request.method
        self.headers = request.headers
        self.query = query
        self._request = request
        self._caller = caller
        self._named = named
        self.details: dict[str, object] = {}
        """What the audit log gets besides the names in the path."""
        self.is_change = True
        """Whether something is not what it was before."""
        self.has_begun = False
        """Whether something may be changed even if the call fails."""

    @property
    def caller(self) -> Caller:
        """The user that asks."""
        assert self._caller is not None, "anybody may ask this"
        return self._caller

    @property
    def names(self) -> Mapping[str, str]:
        """The parts of the path that stand for names."""
        return self._named

    def name(self, what: str) -> str:
        """Return a part of the path."""
        return self._named[what]

    @property
    def vhost(self) -> str | None:
        """The virtual host that the path names."""
        return self._named.get("vhost")

    def flag(self, name: str) -> bool:
        """Whether the query has something set."""
        return self.query.get(name) == "true"

    def raw(self) -> bytes:
        """Return the body."""
        return self._request.body

    def body(self, *needed: str) -> Mapping[str, object]:
        """Return the body, an object; nothing counts as an empty one.

        Args:
            needed: Members that must be there.

        Raises:
            ApiError: 400; it is not an object, or a member is missing.
        """
        try:
            found: object = msgspec.json.decode(self._request.body or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_request("not_json") from error
        if isinstance(found, list) and not found:
            found = {}
        if not isinstance(found, dict):
            raise bad_request("not_json")
        missing = [f"{{key_missing,{name}}}" for name in needed if name not in found]
        if missing:
            raise bad_request(f"[{','.join(missing)}]")
        return found


def split_target(target: str) -> tuple[list[str], dict[str, str]]:
    """Return the parts of a path, decoded, and its query; one slash at the end counts as none."""
    path, _, query = target.partition("?")
    path = path.removesuffix("/")
    parts = [unquote(part, errors="surrogateescape") for part in path.split("/")[1:]]
    return parts, dict(parse_qsl(query, keep_blank_values=True, errors="surrogateescape"))


def boolean(body: Mapping[str, object], name: str, default: bool = False) -> bool:
    """Return a member that is true or false, perhaps as a text. Raises ApiError."""
    match body.get(name, default):
        case bool(found):
            return found
        case "true":
            return True
        case "false":
            return False
        case other:
            raise bad_request(["not_boolean", other])


def members(body: Mapping[str, object], name: str) -> Mapping[str, object]:
    """Return a member that is an object; nothing and an empty list count as an empty one."""
    found = body.get(name, {})
    if isinstance(found, dict):
        return found
    if isinstance(found, list) and not found:
        return {}
    raise bad_request(["not_an_object", name])


def text(body: Mapping[str, object], name: str, default: str = "") -> str:
    """Return a member that is a text. Raises ApiError."""
    found = body.get(name, default)
    if not isinstance(found, str):
        raise bad_request(["not_a_string", name])
    return found
