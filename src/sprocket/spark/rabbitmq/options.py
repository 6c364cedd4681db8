"""Options of the format `rabbitmq`: declared once, read here.

Spark hands options over as text, their names in lower case. An option that is not declared is an
error that names the nearest one. docs/guides/spark-rabbitmq.md lists them.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from sprocket.base.errors import SettingsError
from sprocket.base.units import MIB
from sprocket.spark.filters import RABBITMQ, FilteredColumns, Limits
from sprocket.spark.mode import Mode
from sprocket.spark.source_options import (
    FILE_SYSTEM,
    Option,
    Pattern,
    boolean,
    by_name,
    byte_size,
    count,
    declare,
    folder,
    mode,
    names,
    one_of,
    pattern,
    read_values,
)


def _option(
    name: str, read: Callable[[str], Any], default: Any, note: str, *, is_secret: bool = False
) -> Any:
    """Declare an option; `default` is its value when it is not given."""
    return declare(Option(name, read, note), default, is_secret=is_secret)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RabbitOptions:
    """All options, read."""

    path: str = _option(
        "path",
        folder,
        "",
        "the folder of a virtual host, of all of them, or a node's data; what `load` is given: on "
        "the local disk, or `s3://`, `hdfs://` and the like",
    )
    file_system: tuple[tuple[str, str], ...] = _option(
        FILE_SYSTEM,
        str,
        (),
        "settings of the file system that `path` is on, such as `fs.endpoint_override`,"
        " `fs.access_key` and `fs.secret_key`",
        is_secret=True,
    )
    vhosts: tuple[str, ...] = _option(
        "vhost", names, (), "virtual hosts, commas between; all without it"
    )
    queues: tuple[str, ...] = _option("queue", names, (), "queues, commas between; all without it")
    queue_pattern: Pattern | None = _option(  # noqa: RUF009 - a field, and no value that all share
        "queuePattern", pattern, None, "instead: a regular expression of their whole names"
    )
    columns: tuple[str, ...] = _option(
        "columns", names, (), "names of the columns wanted, commas between"
    )
    filters: Limits | None = _option(  # noqa: RUF009 - as above
        FilteredColumns.OPTION,
        RABBITMQ.read,
        None,
        "what a query's filters say of `vhost` and `queue`; set by `pruned` and `sql`",
    )
    view: str = _option(
        "view",
        one_of("full", "meta"),
        "full",
        "`meta` gives what the index of a queue says, and reads no message",
    )
    headers_format: str = _option(
        "headersFormat",
        one_of("map", "json"),
        "map",
        "`json` makes `headers` text, an object with the same values",
    )
    include_gone: bool = _option(
        "includeGone",
        boolean,
        True,
        "false leaves out what no server would have after a start: acknowledged and transient "
        "messages",
    )
    verify_crc: bool | None = _option(
        "verifyCrc",
        boolean,
        None,
        "compare messages with the checksums that there are, 1 to 2 µs each, and the index of a"
        " queue with its own; by default where messages are read, with `true` everywhere, with"
        " `false` nowhere",
    )
    mode: Mode = _option(  # noqa: RUF009 - as above
        "mode",
        mode,
        Mode.FAILFAST,
        "damage fails the query; `PERMISSIVE` gives a row with `corruption`, "
        "`DROPMALFORMED` leaves it out",
    )
    partition_bytes_max: int = _option(
        "maxPartitionBytes", byte_size, 64 * MIB, "bytes of files per task, about"
    )
    partitions_min: int = _option(
        "minPartitions",
        count,
        1,
        "tasks wanted at least; there is one for each segment of a queue at most",
    )

    @property
    def compares_sums(self) -> bool:
        """Whether what is read is compared with its checksums."""
        return self.verify_crc is not False

    def names_queue(self, name: str) -> bool:
        """Tell whether a queue is among those named; all are if none is."""
        if self.queues:
            return name in self.queues
        return self.queue_pattern is None or bool(self.queue_pattern.fullmatch(name))

    def may_pass(self, vhost: str, queue: str) -> bool:
        """Tell whether messages of a queue may pass the query's filters; names as in columns."""
        filters = self.filters or {}
        return vhost in filters.get("vhost", (vhost,)) and queue in filters.get("queue", (queue,))


OPTIONS = by_name(RabbitOptions)


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
    values = read_values(RabbitOptions, given)
    if "queues" in values and "queue_pattern" in values:
        raise SettingsError("options queue and queuePattern exclude each other; give one")
    return RabbitOptions(**values)
