"""JSON as RocketMQ's library (fastjson 1.2.83) writes and reads it.

Written: integer keys stand without quotes, an object may be a key, control characters are escaped
and nothing else; a tab a level and no blank after a colon, lists of plain values and maps with
integer keys stay on one line. This is how files are; `declared` writes bodies.

Read, beyond strict JSON: keys that are numbers, names without quotes, objects or arrays; strings in
single quotes; extra commas; comments; numbers with a letter behind; `{"$ref":"$.a[0]"}` for a value
that occurred before. Strict JSON is read by msgspec. So are files and answers that are strict
except for integer keys without quotes: one pass adds the quotes. Limits on depth, on size and on
what references may expand to keep any input from taking long.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from sprocket.base.errors import WireError
from sprocket.base.units import KIB, MIB

JsonValue: TypeAlias = (
    "str | int | float | Sequence[JsonValue]"
    " | Mapping[str, JsonValue] | Mapping[int, JsonValue] | None"
)
"""What `read` returns and `write` takes; a key may be an integer."""

JsonObject: TypeAlias = "dict[str, JsonValue]"
"""An object whose keys are texts."""

Members = dict[str, Any]
"""`JsonObject`, as `read_large` has to be told it."""

DEPTH_MAX = 64
"""Objects and arrays in each other; RocketMQ's own bodies have fewer than ten."""
TOLERANT_BYTES_MAX = 4 * MIB
"""Texts of strangers that are not strict JSON are read up to this size, in Python, some 3 MiB a
second."""
REFERENCED_VALUES_MAX = 1_000_000
"""How many values all references of a text may stand for together."""

_TOKEN = re.compile(
    r"""[\s\ufeff]*(?:
      (?P<mark>[{}\[\]:,])
    | "(?P<double>[^"\\]*(?:\\.[^"\\]*)*)"
    | '(?P<single>[^'\\]*(?:\\.[^'\\]*)*)'
    | (?P<number>-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)[LSBFDlsbfd]?(?![\w$])
    | (?P<name>[\w$]+(?:[.\-@%][\w$]+)*)
    | (?P<comment>//[^\n]*|/\*.*?\*/)
    )""",
    re.VERBOSE | re.DOTALL,
)
_QUOTED = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")', re.DOTALL)
_INT_KEY = re.compile(r"(?<=[{, \t\r\n])(0|-?[1-9][0-9]*)(?=[ \t\r\n]*:)")
_INT_MAP = re.compile(r"\{([0-9][0-9:,]*+)(?=[ \t\r\n]*\})")
_LEADING_ZERO = re.compile(r"(?:^|[,\x01])0[0-9]")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v"}
_WORDS = {"true": True, "false": False, "null": None}
_TO_ESCAPE = re.compile('[\x00-\x1f"\\\\\x7f-\x9f\u2028\u2029]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}
_INT_BITS_MAX = 128


class ObjectKey(dict[str, Any]):
    """An object that is a key, as RocketMQ writes maps by message queue; not to be changed."""

    def __hash__(self) -> int:  # type: ignore[override]
        """Hash the plain members; equal objects have equal ones."""
        plain = (str, int, float, type(None))
        return hash(frozenset(item for item in self.items() if isinstance(item[1], plain)))


def read(data: bytes | bytearray | memoryview | str, *, bytes_max: int = TOLERANT_BYTES_MAX) -> Any:
    """Read a text in this dialect.

    Args:
        data: The text; bytes that are not UTF-8 become U+FFFD.
        bytes_max: Largest text that is read if it is not strict JSON.

    Returns:
        Python values. A key that is an integer without quotes is an int, an object an `ObjectKey`,
        an array a tuple, anything else a str.

    Raises:
        WireError: It is not even this dialect, or beyond a limit.
    """
    text = data if isinstance(data, str) else str(data, "utf-8", "replace")
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        if len(text) > bytes_max:
            raise WireError(f"{len(text)} characters are not strict JSON, or too deep") from None
        value = _Reader(text).whole()
    else:
        if text.count("[") + text.count("{") > DEPTH_MAX:
            _check_depth(value)
    return _resolved(value) if '$ref"' in text or "$ref'" in text else value


def read_large(data: bytes, shape: Any = Any) -> Any:
    """Read what was asked for, a file or an answer, which may be of any size.

    Some 45 MB a second where it is strict JSON except for integer keys without quotes, 3 MB a
    second where it makes use of the rest of the dialect.

    Args:
        data: The text; bytes that are not UTF-8 become U+FFFD.
        shape: The type to return, as msgspec knows types.

    Returns:
        A value of that type. Where it does not say more, a key that is a number is a str.

    Raises:
        WireError: It is not this dialect, or not of this type.
    """
    text = str(data, "utf-8", "replace")
    if '$ref"' not in text:
        for form in (str, with_quoted_keys):
            try:
                value = msgspec.json.decode(form(text), type=shape)
            except (ValueError, RecursionError):
                continue
            if shape is Any and text.count("[") + text.count("{") > DEPTH_MAX:
                _check_depth(value)
            return value
    value = read(text, bytes_max=len(text))
    if shape is Any:
        return value
    try:
        return msgspec.json.decode(msgspec.json.encode(value), type=shape, strict=False)
    except (ValueError, TypeError) as error:
        raise WireError(str(error)) from error


def with_quoted_keys(text: str) -> str:
    """Return a text with quotes around integer keys that have none.

    Raises:
        ValueError: It is not JSON.
    """
    parts = _QUOTED.split(text)  # what is in quotes lies between what is not
    parts[::2] = _changed(parts[::2], "\0", _quoted_outside)
    return "".join(parts)


def _quoted_outside(text: str) -> str:
    """Do so for a text without strings; maps from integers to integers are mostly all of it."""
    if '"' in text:  # it would end a string that begins with a quote of ours
        raise ValueError("a string has no end")
    parts = _INT_MAP.split(text)
    parts[::2] = _changed(parts[::2], "\1", lambda rest: '"'.join(_INT_KEY.split(rest)))
    parts[1::2] = _changed(parts[1::2], "\1", _quoted_maps)
    return "".join(parts)


def _quoted_maps(text: str) -> str:
    """Do so for what follows the braces that open maps, with a mark between; add the braces."""
    if ",:" in text or "::" in text:
        raise ValueError("a key or a value is missing")
    if _LEADING_ZERO.search(text):
        raise ValueError("as a text it would be another key")
    marked = text.replace(":", '":').replace(",", ',"').replace("\1", '\1{"')
    return '{"' + marked


def _changed(parts: list[str], mark: str, change: Callable[[str], str]) -> list[str]:
    """Change all parts in one go, with a mark between them that JSON has nowhere."""
    changed = change(mark.join(parts)).split(mark) if parts else []
    if len(changed) != len(parts):
        raise ValueError("it has control characters")
    return changed


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level:
        if depth > DEPTH_MAX:
            raise WireError(f"JSON is nested deeper than {DEPTH_MAX}")
        depth += 1
        inner: list[Any] = []
        for one in level:
            if type(one) is dict:
                inner += [part for part in one.values() if type(part) in (dict, list)]
            elif type(one) is list:
                inner += [part for part in one if type(part) in (dict, list)]
        level = inner


class _Reader:
    """Reads one text, token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._token: re.Match[str] | None = None

    def whole(self) -> Any:
        """Return the value that the text is."""
        self._next()
        value = self._value(0)
        if self._token is not None or self._text[self._position :].strip("\0 \t\r\n"):
            raise self._wrong("text behind the value")
        return value

    def _wrong(self, what: str) -> WireError:
        return WireError(f"JSON that cannot be read at character {self._position}: {what}")

    def _next(self) -> None:
        """Go to the next token; None at the end or where no token is."""
        while True:
            match = _TOKEN.match(self._text, self._position)
            if match is not None:
                self._position = match.end()
                if match.lastgroup == "comment":
                    continue
            self._token = match
            return

    def _at(self, mark: str) -> bool:
        return self._token is not None and self._token["mark"] == mark

    def _value(self, depth: int) -> Any:
        """Return the value at the token and go behind it."""
        if depth > DEPTH_MAX:
            raise WireError(f"JSON is nested deeper than {DEPTH_MAX}")
        token = self._token
        if token is None:
            raise self._wrong("a value was expected")
        if token["mark"] == "{":
            return self._object(depth)
        if token["mark"] == "[":
            return self._array(depth)
        if token["mark"] is not None:
            raise self._wrong(f"{token['mark']!r} where a value was expected")
        self._next()
        if token["name"] is not None:
            if token["name"] not in _WORDS:
                raise self._wrong(f"the word {token['name'][:40]!r}")
            return _WORDS[token["name"]]
        return self._scalar(token)

    def _scalar(self, token: re.Match[str]) -> Any:
        kind = token.lastgroup or ""
        if kind != "number":
            return _unescaped(token[kind])
        digits = token["number"]
        if len(digits) > _INT_BITS_MAX:
            raise self._wrong("a number of too many digits")
        return int(digits) if digits.lstrip("-").isdigit() else float(digits)

    def _array(self, depth: int) -> list[Any]:
        return [self._value(depth + 1) for _ in self._until("]")]

    def _object(self, depth: int) -> dict[Any, Any]:
        members: dict[Any, Any] = {}
        for _ in self._until("}"):
            key = self._key(depth + 1)
            if not self._at(":"):
                raise self._wrong("expected :")
            self._next()
            members[key] = self._value(depth + 1)
        return members

    def _until(self, end: str) -> Iterator[None]:
        """Stop at each member of an object or array, for the caller to read; go behind its end."""
        self._next()
        while not self._at(end):
            if self._at(","):
                self._next()
                continue
            yield
            if not self._at(",") and not self._at(end):
                raise self._wrong(f"expected , or {end}")
        self._next()

    def _key(self, depth: int) -> Any:
        token = self._token
        if token is not None and token["name"] is not None:
            self._next()
            return token["name"]
        key = self._value(depth)
        if isinstance(key, float):
            return repr(key)
        return _as_key(key)


def _as_key(value: Any) -> Any:
    if isinstance(value, dict):
        return ObjectKey(value)
    return tuple(map(_as_key, value)) if isinstance(value, list) else value


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_unescape, text) if "\\" in text else text


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code:
        return chr(int(code, 16))
    return _ESCAPES.get(match[3], match[3])


# References.


class _References:
    """Puts in place of each reference what it stands for."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = REFERENCED_VALUES_MAX
        self._sizes: dict[int, int] = {}

    def resolve(self, value: Any, above: tuple[Any, ...]) -> Any:
        """Return `value` with its references resolved; `above` are the values around it."""
        if isinstance(value, dict):
            if len(value) == 1 and isinstance(value.get("$ref"), str):
                return self._target(value["$ref"], above)
            around = (*above, value)
            for key in value:
                value[key] = self.resolve(value[key], around)
        elif isinstance(value, list):
            around = (*above, value)
            value[:] = [self.resolve(one, around) for one in value]
        return value

    def _target(self, path: str, above: tuple[Any, ...]) -> Any:
        target = _followed(self._root, path)
        if any(target is one for one in above):
            raise WireError(f"reference {path[:80]!r} leads to a value that it is part of")
        size = self._sizes.get(id(target))
        if size is None:
            size = self._sizes[id(target)] = _size(target, self._left)
        self._left -= size
        if self._left < 0:
            raise WireError("references stand for too many values")
        return target


def _resolved(value: Any) -> Any:
    return _References(value).resolve(value, ())


def _followed(root: Any, path: str) -> Any:
    """Return the value at a path such as `$.brokers[0].name`; `..` is always a value around it."""
    value = root
    steps = re.findall(r"\.([^.\[\]]+)|\[(\d{1,9})\]", path)
    if (
        not path.startswith("$")
        or "".join(f".{n}" if n else f"[{i}]" for n, i in steps) != path[1:]
    ):
        raise WireError(f"reference {path[:80]!r} cannot be followed")
    for name, index in steps:
        try:
            value = value[int(index)] if index else value[name]
        except (KeyError, IndexError, TypeError) as error:
            raise WireError(f"reference {path[:80]!r} leads nowhere") from error
    return value


def _size(target: Any, size_max: int) -> int:
    """Return how many values are in `target`, at most one more than `size_max`.

    A reference that is not resolved yet may not be among them, so no value can hold itself.
    """
    count, waiting = 0, [target]
    while waiting and count <= size_max:
        one = waiting.pop()
        count += 1
        if isinstance(one, dict):
            if "$ref" in one:
                raise WireError("a reference leads to a value that holds one")
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return count


# Writing.


def write(value: Any) -> bytes:
    """Write a value as RocketMQ writes its files, members in the order they have.

    Args:
        value: Mappings, lists, tuples, sets, str, int, float, bool, None; members that are None
            are left out. A key may be an int or, for maps by message queue, a mapping.
    """
    return _text(value, 0).encode("utf-8", "replace")


PIECE_BYTES = 16 * KIB
"""How long a piece of `write_pieces` is at least: some 1 to 2 ms of work."""


def write_pieces(members: Mapping[str, Any]) -> Iterator[bytes]:
    """Write an object as `write` does, in pieces.

    Args:
        members: A value that is an iterator gives the entries of an object, each as `entry` or
            `int_map_entry` writes it; they are asked for when their piece is.
    """
    return coalesced((text.encode("utf-8", "replace") for text in _texts(members)), PIECE_BYTES)


def coalesced(pieces: Iterable[bytes], bytes_min: int) -> Iterator[bytes]:
    """Join small pieces to larger ones, each a fair bit of work.

    Args:
        pieces: An empty one ends what is joined: it says that much was done though little was
            written.
        bytes_min: How long each is at least, but for the last and those that such a one ends.
    """
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size >= bytes_min or not piece:
            yield b"".join(parts)
            parts.clear()
            size = 0
    yield b"".join(parts)


def _texts(members: Mapping[str, Any]) -> Iterator[str]:
    mark = "{"
    for name, value in members.items():
        if value is None:
            continue
        yield f"{mark}\n\t{quoted(name)}:"
        mark = ","
        if not isinstance(value, Iterator):
            yield _text(value, 1)
            continue
        inner = "{"
        for text in value:
            yield inner + text
            inner = ","
        yield "{}" if inner == "{" else "\n\t}"
    yield "{}" if mark == "{" else "\n}"


def entry(key: str, value: Any) -> str:
    """Return an entry of a table for `write_pieces`."""
    return f"\n\t\t{quoted(key)}:{_text(value, 2)}"


def int_map_entry(key: str, values: Mapping[int, int]) -> str:
    """Return what `entry` does, for integers by integers, in a sixth of the time."""
    end = "\n\t\t}" if values else "}"
    return f"\n\t\t{quoted(key)}:{int_map(values)[:-1]}{end}"


def int_map(values: Mapping[int, int]) -> str:
    """Return integers by integers on one line."""
    return msgspec.json.encode(values).decode().replace('"', "")


def _text(value: Any, depth: int) -> str:
    """Return the text of a value whose lines begin with `depth` tabs."""
    if isinstance(value, Mapping):
        return _object_text(value, depth)
    if isinstance(value, list | tuple | set | frozenset):
        return _array_text(value, depth)
    return _scalar(value)


def _object_text(members: Mapping[Any, Any], depth: int) -> str:
    """Return an object; a key that is not a text stays on the line of what is before it."""
    entries = []
    for key, value in members.items():
        if value is None:
            continue
        if isinstance(key, Mapping):
            name = _object_text(key, depth + 1)
        elif isinstance(key, int):
            name = str(int(key))
        else:
            name = _line(depth + 1) + quoted(str(key))
        entries.append(f"{name}:{_text(value, depth + 1)}")
    return "{" + ",".join(entries) + _line(depth) + "}" if entries else "{}"


def _array_text(values: Collection[Any], depth: int) -> str:
    """Return a list; only one that holds objects or lists goes over several lines."""
    texts = [_text(value, depth + 1) for value in values]
    if not any(isinstance(value, Mapping | list | tuple) for value in values):
        return f"[{','.join(texts)}]"
    line = _line(depth + 1)
    return f"[{line}{f',{line}'.join(texts)}{_line(depth)}]"


def _line(depth: int) -> str:
    return "\n" + "\t" * depth


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if value - value == 0 else "null"
    return str(int(value))


def quoted(text: str) -> str:
    """Return a string as JSON: control characters, quotes and backslashes escaped, no others."""
    return '"' + _TO_ESCAPE.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return _SHORT.get(character) or f"\\u{ord(character):04X}"
