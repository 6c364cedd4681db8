"""Options of a data source: declared at the fields of a dataclass, read from text.

Spark hands options over as text, their names in lower case. An option that is not declared is an
error that names the nearest one. A source declares each of its own once, as

    path: str = declare(Option("path", folder, "the folder to read"), "")

and `read_values` reads them all. A name that ends in `*` takes every option that begins so, as
pairs of what stands there instead of the `*`, and its value.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from sprocket.base.errors import SettingsError
from sprocket.base.nearest import hint
from sprocket.base.units import GIB, KIB, MIB
from sprocket.spark.files import PREFIX, local_path
from sprocket.spark.mode import Mode

Pattern: TypeAlias = re.Pattern[str]

FILE_SYSTEM = f"{PREFIX}*"
"""Names all options that go to the file system of a folder as they are."""

_OPTION = "option"
"""Under which name a field has its `Option`."""
_ANY = "*"


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Args:
        name: As Spark's users write it.
        read: Makes its value from text; raises ValueError with what was expected.
        note: What it does and costs.
        where: Which ways of using the source take it, in the source's own terms; None where
            there is but one.
    """

    name: str
    read: Callable[[str], Any]
    note: str
    where: Any = None


def declare(option: Option, default: Any, *, is_secret: bool = False) -> Any:
    """Return the field of an option; `default` is its value when it is not given."""
    return dataclasses.field(default=default, repr=not is_secret, metadata={_OPTION: option})


def declared(options: type) -> dict[str, Option]:
    """Return the options that a dataclass declares, by the names of its fields."""
    return {field.name: field.metadata[_OPTION] for field in dataclasses.fields(options)}


def by_name(options: type) -> dict[str, Option]:
    """Return the options that a dataclass declares, by their own names."""
    return {option.name: option for option in declared(options).values()}


def read_values(
    options: type,
    given: Mapping[str, str],
    *,
    aliases: Mapping[str, str] | None = None,
    check: Callable[[Option], None] | None = None,
) -> dict[str, Any]:
    """Return the values of the options that are given, by the names of their fields.

    Args:
        options: The dataclass that declares them.
        given: As Spark gives them.
        aliases: Further names, in lower case, and what they stand for, in lower case.
        check: Raises SettingsError for an option that does not belong here.

    Raises:
        SettingsError: One is unknown, unreadable, given twice, or does not belong here.
    """
    fields = {option.name.lower(): (name, option) for name, option in declared(options).items()}
    prefixes = [name for name in fields if name.endswith(_ANY)]
    values: dict[str, Any] = {}
    found: dict[str, dict[str, str]] = {}
    for name, text in given.items():
        lower = name.lower()
        prefix = next((one for one in prefixes if lower.startswith(one.removesuffix(_ANY))), None)
        known = fields.get(prefix or (aliases or {}).get(lower, lower))
        if known is None:
            names = by_name(options)
            here = [one for one, option in names.items() if _belongs(option, check)]
            meant = hint(name, names, here) or f"; there are {', '.join(here)}"
            raise SettingsError(f"unknown option {name!r}{meant}")
        field, option = known
        if check is not None:
            check(option)
        if prefix is not None:
            found.setdefault(field, {})[name[len(prefix) - len(_ANY) :]] = text
            continue
        if field in values:
            raise SettingsError(f"option {option.name!r} is given twice, under two names")
        try:
            values[field] = option.read(text)
        except ValueError as error:
            raise SettingsError(f"option {option.name!r} is {text!r}: {error}") from error
    return values | {field: tuple(sorted(pairs.items())) for field, pairs in found.items()}


def _belongs(option: Option, check: Callable[[Option], None] | None) -> bool:
    try:
        if check is not None:
            check(option)
    except SettingsError:
        return False
    return True


def boolean(text: str) -> bool:
    """Read `true` or `false`."""
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"


def count(text: str) -> int:
    """Read a number from 1."""
    if not re.fullmatch(r"\d{1,18}", text) or int(text) < 1:
        raise ValueError("must be a whole number from 1")
    return int(text)


def count_or_none(text: str) -> int:
    """Read a number from 0."""
    return 0 if text == "0" else count(text)


def byte_size(text: str) -> int:
    """Read a number of bytes, such as 256m."""
    match = re.fullmatch(r"(\d{1,12})\s*([kmg]?)b?", text.strip().lower())
    if not match or int(match[1]) < 1:
        raise ValueError("must be a size such as 268435456 or 256m")
    return int(match[1]) * {"": 1, "k": KIB, "m": MIB, "g": GIB}[match[2]]


def duration_ms(text: str) -> int:
    """Read a time such as 15m; return ms."""
    match = re.fullmatch(r"(\d{1,12})\s*(ms|s|m|min|h|d)?", text.strip().lower())
    if not match:
        raise ValueError("must be a time such as 500ms, 30s, 15m or 1h")
    units = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
    return int(match[1]) * units[match[2] or "ms"]


def time_ms(text: str) -> int:
    """Read a moment; return ms since 1970."""
    if re.fullmatch(r"\d{1,15}", text):
        return int(text)
    expected = "must be ms since 1970, or a time with its zone such as 2026-01-31T12:00:00Z"
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(expected) from error
    if found.tzinfo is None or found.timestamp() < 0:
        raise ValueError(expected)
    return round(found.timestamp() * 1000)


def names(text: str) -> tuple[str, ...]:
    """Read names with commas between."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise ValueError("must name at least one, commas between")
    return found


def one_of(*choices: str) -> Callable[[str], str]:
    """Return what reads one of some words, in any spelling."""

    def read(text: str) -> str:
        for choice in choices:
            if text.lower() == choice.lower():
                return choice
        raise ValueError(f"must be one of {', '.join(choices)}")

    return read


def mode(text: str) -> Mode:
    """Read what is done with damage."""
    return Mode(one_of(*(known.value for known in Mode))(text))


def folder(text: str) -> str:
    """Read a folder: a path of the local disk, or `scheme://…`."""
    if not text:
        raise ValueError("must name a folder")
    return local_path(text) or text


def pattern(text: str) -> Pattern:
    """Read a regular expression."""
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"must be a regular expression: {error}") from error
