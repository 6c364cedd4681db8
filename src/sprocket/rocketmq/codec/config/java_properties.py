r"""Java's properties text: RocketMQ's settings files, and the bodies of 25, 26, 318 and 319.

    # comment                 ! comment too
    key=value                 key : value and key value mean the same
    key = one \
          line                a backslash at the end goes on, blanks before the rest are dropped
    key=\u00e9\t\\            escapes; a backslash before any other character is dropped

Keys are case-sensitive; of a key that comes twice the last counts. Source: `java.util.Properties`.
"""

import re
from collections.abc import Mapping

_SPLIT = re.compile(r"((?:[^\\=:\s]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.?))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_TO_ESCAPE = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def read(text: bytes | bytearray | memoryview | str) -> dict[str, str]:
    """Return the values by their keys; any text gives some, as in Java.

    Args:
        text: UTF-8; bytes that are not become U+FFFD.
    """
    whole = text if isinstance(text, str) else str(text, "utf-8", "replace")
    found: dict[str, str] = {}
    for line in _logical_lines(whole):
        match = _SPLIT.match(line)
        assert match is not None, "every part of the pattern may be empty"
        found[_unescaped(match[1])] = _unescaped(line[match.end() :])
    found.pop("", None)
    return found


def write(values: Mapping[str, str]) -> bytes:
    """Return `key=value` lines, in the order of `values`, which `read` and Java take."""
    return "".join(f"{key}={_escaped(value)}\n" for key, value in values.items()).encode()


def _logical_lines(text: str) -> list[str]:
    """Return the lines that say something, joined where a backslash says so."""
    lines: list[str] = []
    open_line: str | None = None
    for natural in re.split(r"\r\n|\n|\r", text):
        line = natural.lstrip(" \t\f")
        if open_line is None and (not line or line[0] in "#!"):
            continue
        whole = line if open_line is None else open_line + line
        backslashes = len(whole) - len(whole.rstrip("\\"))
        if backslashes % 2:
            open_line = whole[:-1]
        else:
            open_line = None
            lines.append(whole)
    if open_line:
        lines.append(open_line)
    return lines


def _unescaped(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2])

    return _ESCAPE.sub(replace, text) if "\\" in text else text


def _escaped(text: str) -> str:
    return "".join(_TO_ESCAPE.get(character, character) for character in text)
