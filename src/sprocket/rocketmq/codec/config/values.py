"""Values in JSON that other programs wrote, read as tolerantly as RocketMQ reads them.

RocketMQ's reader accepts numbers for texts and texts for numbers, and members may be missing. These
functions do the same after `codec.fastjson` has read the text. A value that does not fit even so is
a WireError that names the member.
"""

from typing import Any

import msgspec

from sprocket.base.errors import WireError


def mapping(value: Any, name: str) -> dict[Any, Any]:
    """Return an object; an absent one is empty."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise WireError(f"{name} is a {type(value).__name__}, expected an object")
    return value


def sequence(value: Any, name: str) -> list[Any]:
    """Return an array; an absent one is empty."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise WireError(f"{name} is a {type(value).__name__}, expected an array")
    return value


def integer(value: Any, name: str, *, bits: int = 64) -> int:
    """Return a number, or a text that is one, as an integer that fits `bits` with sign."""
    try:
        number = value if isinstance(value, int) else int(value)
    except (TypeError, ValueError, OverflowError) as wrong:
        raise WireError(f"{name} is not a number") from wrong
    if isinstance(value, bool) or not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise WireError(f"{name} is not a number of {bits} bits")
    return number


def fraction(value: Any, name: str) -> float:
    """Return a number that may have a fraction, or a text that is one; 0 for an absent one."""
    try:
        return 0.0 if value is None else float(value)
    except (TypeError, ValueError, OverflowError) as wrong:
        raise WireError(f"{name} is not a number") from wrong


def boolean(value: Any, *, default: bool) -> bool:
    """Return a boolean: of texts "true" in any case is true, of numbers 1."""
    if value is None:
        return default
    return value.lower() == "true" if isinstance(value, str) else value == 1


def text(value: Any) -> str:
    """Return a value as the text that Java's `toString` would give; "" for an absent one."""
    if isinstance(value, str):
        return without_surrogates(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        return str(value) if isinstance(value, int | float) else msgspec.json.encode(value).decode()
    except (ValueError, TypeError, RecursionError) as wrong:
        raise WireError(f"a value that cannot be a text: {wrong}") from wrong


def without_surrogates(value: str) -> str:
    """Replace lone surrogates, which could not be written as UTF-8 later."""
    if value.isascii():
        return value
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
