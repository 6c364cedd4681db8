"""Values as Erlang prints them, for the texts of errors that clients and people match.

Source: Erlang's `io_lib:format` with `~p`, which is what RabbitMQ's texts are made with; unlike it,
a long value is not broken into lines.
"""

from collections.abc import Iterable, Mapping, Sequence

from sprocket.rabbitmq.codec.amqp import binary_text
from sprocket.rabbitmq.model.fields import Field, FieldTable, FieldValue, ScaledInteger


def value_text(value: FieldValue) -> str:
    """Return a typed value: `5`, `<<"text">>`, `[{<<"name">>,longstr,<<"text">>}]`."""
    match value:
        case FieldTable():
            return _list(
                _tuple(_binary(_octets(name)), field.kind.word, value_text(field.value))
                for name, field in value
            )
        case ScaledInteger(scale, unscaled):
            return _tuple(str(scale), str(unscaled))
        case tuple():
            return _list(_item(one) for one in value)
        case bytes():
            return _binary(value)
        case None:
            return "undefined"
        case _:
            return _scalar(value)


def json_text(value: object) -> str:
    """Return a value that was read from JSON: objects are lists of pairs, texts binaries."""
    match value:
        case str():
            return _binary(_octets(value))
        case Mapping():
            return _list(
                _tuple(_binary(_octets(str(name))), json_text(one)) for name, one in value.items()
            )
        case Sequence():
            return _list(json_text(one) for one in value)
        case None:
            return "null"
        case bool() | int() | float():
            return _scalar(value)
        case _:
            raise AssertionError(f"{value!r} was not read from JSON")


def _item(field: Field) -> str:
    return _tuple(field.kind.word, value_text(field.value))


def _scalar(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else _float(value)


def _float(value: float) -> str:
    """Return the shorter of the two notations, the plain one if they are equally long."""
    digits, _, exponent = f"{value!r}".partition("e")
    whole, _, fraction = digits.lstrip("-").partition(".")
    fraction = "" if fraction == "0" else fraction
    power = len(whole) - 1 + int(exponent or 0)
    significant = (whole + fraction).lstrip("0") or "0"
    power -= len(whole + fraction) - len((whole + fraction).lstrip("0")) if value else 0
    significant = significant.rstrip("0") or "0"
    sign = "-" if str(value).startswith("-") else ""
    scientific = f"{sign}{significant[0]}.{significant[1:] or '0'}e{power}"
    plain = f"{value:.{max(1, len(significant) - 1 - power)}f}"
    return plain if len(plain) <= len(scientific) else scientific


def _binary(octets: bytes) -> str:
    return binary_text(octets) if octets else "<<>>"


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _list(items: Iterable[str]) -> str:
    return f"[{','.join(items)}]"


def _tuple(*items: str) -> str:
    return f"{{{','.join(items)}}}"
