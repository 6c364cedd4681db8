"""Text files of Erlang terms: `.config` and `clean.dot`.

    file = *(term ".")                   ; blanks, and comments from "%" to the end of the line
    term = integer | atom | '"' text '"' | "<<" bytes ">>" | "[" terms "]" | "{" terms "}"

Integers, atoms, lists, tuples and binaries are what they are in `terms`; text is a list of
numbers. Text with a backslash is not read: no such file has any. Source: Erlang/OTP `file:consult`.
"""

import re
from collections.abc import Iterator

from sprocket.base.errors import CorruptRecord
from sprocket.rabbitmq.codec.terms import DEPTH_MAX, Atom, Term

TEXT_BYTES_MAX = 64 << 20
"""A million queues that used the store take 60 MB of `clean.dot`."""
_TOKEN = re.compile(
    r"\s+|%[^\n]*|(?P<integer>-?[0-9]+)|(?P<atom>[a-z][A-Za-z0-9_@]*|'[^'\\]*')"
    r'|"(?P<text>[^"\\]*)"|(?P<sign><<|>>|[][{},.])'
)
_DIGITS_MAX = 600
_CLOSING = {"[": "]", "{": "}", "<<": ">>"}


def decode(data: bytes) -> list[Term]:
    """Return the terms of a file.

    Raises:
        CorruptRecord: It is not such a file.
    """
    if len(data) > TEXT_BYTES_MAX:
        raise CorruptRecord(f"a file of terms has {len(data)} bytes, more than {TEXT_BYTES_MAX}")
    tokens = _tokens(data.decode("latin-1"))
    found: list[Term] = []
    for token in tokens:
        found.append(_term(token, tokens, 0))
        if next(tokens, ("", ""))[1] != ".":
            raise CorruptRecord("a term does not end with a full stop")
    return found


_Token = tuple[str, str]


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise CorruptRecord(f"no term begins with {text[at : at + 20]!r}, at byte {at}")
        at = match.end()
        if match.lastgroup is not None:
            yield match.lastgroup, match[match.lastgroup]


def _term(token: _Token, tokens: Iterator[_Token], depth: int) -> Term:
    kind, text = token
    if kind == "integer":
        if len(text) > _DIGITS_MAX:
            raise CorruptRecord(f"a number has {len(text)} digits, more than {_DIGITS_MAX}")
        return int(text)
    if kind == "atom":
        return Atom(text.strip("'"))
    if kind == "text":
        return list(text.encode("latin-1"))
    closing = _CLOSING.get(text)
    if closing is None or depth >= DEPTH_MAX:
        raise CorruptRecord(f"expected a term, found {text!r}")
    terms = list(_terms_to(closing, tokens, depth + 1))
    if closing == "]":
        return terms
    return tuple(terms) if closing == "}" else _binary(terms)


def _terms_to(closing: str, tokens: Iterator[_Token], depth: int) -> Iterator[Term]:
    """Give what stands between commas, up to the sign that closes it."""
    token = next(tokens, ("", "the end"))
    while token != ("sign", closing):
        yield _term(token, tokens, depth)
        token = next(tokens, ("", "the end"))
        if token == ("sign", ","):
            token = next(tokens, ("", "the end"))
        elif token != ("sign", closing):
            raise CorruptRecord(f"expected a comma or {closing!r}, found {token[1]!r}")


def _binary(terms: list[Term]) -> bytes:
    """Return the binary that consists of bytes and texts."""
    parts = []
    for one in terms:
        numbers = one if isinstance(one, list) else [one]
        for number in numbers:
            if not isinstance(number, int) or not 0 <= number <= 255:
                raise CorruptRecord(f"a byte is a number from 0 to 255, found {number!r:.40}")
            parts.append(number)
    return bytes(parts)


def encode(term: Term) -> str:
    """Return a term as RabbitMQ writes it, without the full stop; of the kinds that it writes."""
    match term:
        case Atom():
            return str(term)
        case bytes():
            return f"<<{','.join(map(str, term))}>>"
        case list():
            return f"[{','.join(map(encode, term))}]"
        case tuple():
            return f"{{{','.join(map(encode, term))}}}"
    assert isinstance(term, int), "nothing else is written"
    return str(term)
