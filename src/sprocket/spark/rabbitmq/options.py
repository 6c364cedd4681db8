"""Options of the format `rabbitmq`: declared once, read here.

Spark hands options over as text, their names in lower case. An option that is not declared is an
error that names the nearest one. docs/guides/spark-rabbitmq.md lists them.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sprocket.base.errors import SettingsError
from sprocket.base.nearest import hint
from sprocket.base.units import GIB, KIB, MIB
from sprocket.spark.files import PREFIX, local_path
from sprocket.spark.mode import Mode

Pattern: TypeAlias = re.Pattern[str]

_OPTION = "option"
"""Under which name a field of `RabbitOptions` has its `RabbitOption`."""


@dataclasses.dataclass(frozen=True, slots=True)
class RabbitOption:
    """One option.

    Args:
        name: As Spark's users write it.
        read: Makes its value from text; raises ValueError with what was expected.
        note: What it does and costs.
    """

    name: str
    read: Callable[[str], Any]
    note: str


def _bool(text: str) -> bool:
    return _one_of("true", "false")(text) == "true"


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text) or int(text) < 1:
        raise ValueError("must be a whole number from 1")
    return int(text)


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d{1,12})\s*([kmg]?)b?", text.strip().lower())
    if not match or int(match[1]) < 1:
        raise ValueError("must be a size such as 268435456 or 256m")
    return int(match[1]) * {"": 1, "k": KIB, "m": MIB, "g": GIB}[match[2]]


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("must name at least one, commas between")
    return names


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        for choice in choices:
            if text.lower() == choice.lower():
                return choice
        raise ValueError(f"must be one of {', '.join(choices)}")

    return read


def _mode(text: str) -> Mode:
    return Mode(_one_of(*(mode.value for mode in Mode))(text))


def _path(text: str) -> str:
    if not text:
        raise ValueError("must name a folder")
    return local_path(text) or text


def _pattern(text: str) -> Pattern:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"must be a regular expression: {error}") from error


def _option(
    name: str, read: Callable[[str], Any], default: Any, note: str, *, is_secret: bool = False
) -> Any:
    """Declare an option; `default` is its value when it is not given."""
    option = RabbitOption(name, read, note)
    return dataclasses.field(default=default, repr=not is_secret, metadata={_OPTION: option})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RabbitOptions:
    """All options, read."""

    path: str = _option(
        "path",
        _path,
        "",
        "the folder of a virtual host, of all of them, or a node's data; what `load` is given: on "
        "the local disk, or `s3://`, `hdfs://` and the like",
    )
    file_system: tuple[tuple[str, str], ...] = _option(
        "fs.*",
        str,
        (),
        "settings of the file system that `path` is on, such as `fs.endpoint_override`,"
        " `fs.access_key` and `fs.secret_key`",
        is_secret=True,
    )
    vhosts: tuple[str, ...] = _option(
        "vhost", _names, (), "virtual hosts, commas between; all without it"
    )
    queues: tuple[str, ...] = _option("queue", _names, (), "queues, commas between; all without it")
    queue_pattern: Pattern | None = _option(  # noqa: RUF009 - a field, and no value that all share
        "queuePattern", _pattern, None, "instead: a regular expression of their whole names"
    )
    columns: tuple[str, ...] = _option(
        "columns", _names, (), "names of the columns wanted, commas between"
    )
    view: str = _option(
        "view",
        _one_of("full", "meta"),
        "full",
        "`meta` gives what the index of a queue says, and reads no message",
    )
    headers_format: str = _option(
        "headersFormat",
        _one_of("map", "json"),
        "map",
        "`json` makes `headers` text, an object with the same values",
    )
    include_gone: bool = _option(
        "includeGone",
        _bool,
        True,
        "false leaves out what no server would have after a start: acknowledged and transient "
        "messages",
    )
    mode: Mode = _option(  # noqa: RUF009 - as above
        "mode",
        _mode,
        Mode.FAILFAST,
        "damage fails the query; `PERMISSIVE` gives a row with `corruption`, "
        "`DROPMALFORMED` leaves it out",
    )
    partition_bytes_max: int = _option(
        "maxPartitionBytes", _bytes, 64 * MIB, "bytes of files per task, about"
    )
    partitions_min: int = _option(
        "minPartitions",
        _count,
        1,
        "tasks wanted at least; there is one for each segment of a queue at most",
    )

    def names_queue(self, name: str) -> bool:
        """Tell whether a queue is among those named; all are if none is."""
        if self.queues:
            return name in self.queues
        return self.queue_pattern is None or bool(self.queue_pattern.fullmatch(name))


OPTIONS: dict[str, RabbitOption] = {
    field.metadata[_OPTION].name: field.metadata[_OPTION]
    for field in dataclasses.fields(RabbitOptions)
}


def read_options(given: Mapping[str, str]) -> RabbitOptions:
    """Read the options of `spark.read.format("rabbitmq").load(folder)`.

    Raises:
        SettingsError: One is unknown, unreadable or missing.
    """
    options = read_any(given)
    if not options.path:
        raise SettingsError(
            "say which folder to read: .load('<folder>'); of a table that was created with columns "
            "of its own: WITH (path = '<folder>')"
        )
    return options


def read_any(given: Mapping[str, str]) -> RabbitOptions:
    """Do as `read_options`; the folder may be missing, a schema does not depend on it."""
    declared = {
        field.metadata[_OPTION].name.lower(): field for field in dataclasses.fields(RabbitOptions)
    }
    values: dict[str, Any] = {}
    file_system: dict[str, str] = {}
    for name, text in given.items():
        if name.lower().startswith(PREFIX):
            file_system[name[len(PREFIX) :]] = text
            continue
        field = declared.get(name.lower())
        if field is None:
            meant = hint(name, OPTIONS) or f"; there are {', '.join(OPTIONS)}"
            raise SettingsError(f"unknown option {name!r}{meant}")
        option: RabbitOption = field.metadata[_OPTION]
        try:
            values[field.name] = option.read(text)
        except ValueError as error:
            raise SettingsError(f"option {option.name!r} is {text!r}: {error}") from error
    if file_system:
        values["file_system"] = tuple(sorted(file_system.items()))
    if "queues" in values and "queue_pattern" in values:
        raise SettingsError("options queue and queuePattern exclude each other; give one")
    return RabbitOptions(**values)
