"""`sprocket sql`: questions about topics, store directories and archives, in Spark's SQL.

Each topic is a view of its own name. It is made when a statement names it: a source may have
thousands of topics, and a view costs a fifth of a second.
"""

import os
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import SettingsError
from sprocket.cli.options import AsJson, expanded
from sprocket.cli.pipe import SparkOptions
from sprocket.cli.remote import Remote
from sprocket.cli.terminal import output, tables

if TYPE_CHECKING:
    from sprocket.base.disk import Disk
    from sprocket.spark.rocketmq.folder import LeftOut

ROWS_MAX = 1000
"""Shown without being asked for more."""
DAMAGE_MAX = 20
"""Damaged places of a store that are named; all are counted."""
PROMPT, MORE = "sprocket> ", "      ... "
_HISTORY = "sprocket/sql_history"
_HISTORY_LINES = 10_000
_COMMENT = r"--[^\n]*+|(?>/\*.*?\*/)"
_STATEMENT = re.compile(
    rf"""((?:[^;'"`/-]|-(?!-)|/(?!\*)|{_COMMENT}|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)*);""",
    re.S,
)
"""What stands before a semicolon that is in no text, no name and no comment."""
_ONLY_COMMENTS = re.compile(rf"(?:\s|{_COMMENT})*", re.S)
_NAME = re.compile(r"`([^`]+)`|([\w]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What can be asked about."""

    store: Annotated[
        list[str], typer.Option(metavar="FOLDER", help="A store's folder; may be repeated.")
    ] = ()  # type: ignore[assignment]
    archive: Annotated[
        list[str], typer.Option(metavar="FOLDER", help="An archive; may be repeated.")
    ] = ()  # type: ignore[assignment]
    fs: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUE",
            help="A setting of the file system of `s3://` and the like; may be repeated.",
        ),
    ] = ()  # type: ignore[assignment]
    skip_damaged: Annotated[
        bool,
        typer.Option(
            "--skip-damaged",
            help="Leave out and report what is damaged or lost in a store; else it is an error.",
        ),
    ] = False
    verify: Annotated[bool, typer.Option(help="Compare every record with its checksums.")] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCluster(Remote):
    """A running cluster that can be asked about, too; none without a NameServer."""

    nameserver: Annotated[
        str,
        typer.Option(
            "--nameserver", "--name-server", "-n", metavar="HOST:PORT", help="A running cluster."
        ),
    ] = ""


@dataclass(frozen=True, slots=True)
class View:
    """A table that a statement may name.

    Args:
        name: What it is called.
        source: What it is a part of, as people read it.
        topic: The topic.
        frame: Makes it.
        folder: The store that it is a part of, if something may be left out of this.
        left_out: Returns what that is.
    """

    name: str
    source: str
    topic: str
    frame: Callable[[Any], Any]
    folder: str = ""
    left_out: "Callable[[Any], LeftOut] | None" = None


@expanded
def sql(
    statement: Annotated[
        str, typer.Argument(help="What to ask; without it, statements are read one by one.")
    ] = "",
    parquet: Annotated[
        str, typer.Option(metavar="FILE", help="Write the result to this file instead.")
    ] = "",
    limit: Annotated[int, typer.Option(min=0, help="Rows to show at most; 0 for all.")] = ROWS_MAX,
    as_json: AsJson = False,
    *,
    sources: Sources,
    cluster: AskedCluster,
    where: SparkOptions,
) -> None:
    """Ask topics, stores and archives in SQL; each topic is a table."""
    with output.failing_in_one_line():
        if parquet and not statement:
            raise SettingsError("--parquet needs a statement")
        parquet = _local(parquet)
        views = found(sources, cluster)
        with where.session() as spark:
            responder = SqlResponder(spark, views, limit=limit, as_json=as_json)
            if parquet:
                responder.write(statement, parquet)
            elif statement:
                responder.answer(statement)
            else:
                converse(responder, sys.stdin.isatty())


def _local(path: str) -> str:
    from sprocket.spark.files import local_path

    try:
        local = local_path(path)
    except ValueError as error:
        raise SettingsError(f"--parquet {error}") from error
    if local is None:
        raise SettingsError(f"--parquet writes a file of this machine, not {path}")
    return local


def found(sources: Sources, cluster: AskedCluster) -> dict[str, View]:
    """Return the views of all sources by name.

    A topic that more than one source has gets a name for each: `orders_store`, `orders_archive`.

    Raises:
        SettingsError: No source was named.
        StoreError, ClientError: One cannot be looked at.
    """
    each: list[View] = []
    if sources.fs:
        from sprocket.spark.jobs import JobFiles

        JobFiles(fs=sources.fs).require_use(*sources.store, *sources.archive)
    for folder in sources.store:
        each += _of_store(folder, sources)
    for folder in sources.archive:
        each += _of_archive(folder, sources.fs)
    if cluster.nameserver:
        each += _of_cluster(cluster)
    if not (sources.store or sources.archive or cluster.nameserver):
        raise SettingsError("say what to ask: --store, --archive or --name-server")
    counts: dict[str, int] = {}
    for view in each:
        counts[view.topic] = counts.get(view.topic, 0) + 1
    views: dict[str, View] = {}
    for view in each:
        name = view.topic if counts[view.topic] == 1 else f"{view.topic}_{view.source}"
        number = 2
        while name in views:
            name, number = f"{view.topic}_{view.source}{number}", number + 1
        views[name] = replace(view, name=name)
    return views


def _of_store(folder: str, sources: Sources) -> Iterator[View]:
    from sprocket.spark.files import local_path, open_files
    from sprocket.spark.jobs import JobFiles, left_out, reading
    from sprocket.spark.rocketmq.folder import require_store, topics_of

    lies = JobFiles(fs=sources.fs)
    about_damage = reading(skip_damaged=sources.skip_damaged, verify=sources.verify)

    def damage(spark: Any) -> "LeftOut":
        return left_out(spark, folder, lies, verify=sources.verify)

    def frame(topic: str, spark: Any) -> Any:
        source = spark.read.format("rocketmq").options(**lies.options(folder), **about_damage)
        return source.option("subscribe", topic).load(folder)

    files = open_files(folder, lies.settings(folder))
    root = (local_path(folder) or folder).rstrip("/") or "/"
    require_store(files, root)
    told = damage if sources.skip_damaged else None
    for topic in sorted(topics_of(files, root)):
        yield View(topic, "store", topic, partial(frame, topic), folder, told)


def _of_archive(folder: str, settings: list[str]) -> Iterator[View]:
    from sprocket.spark.archive import read_archive, topics_archived
    from sprocket.spark.jobs import JobFiles

    given = JobFiles(fs=settings).settings(folder)

    def frame(topic: str, spark: Any) -> Any:
        return read_archive(spark, folder, [topic], given)

    for topic in topics_archived(folder, given):
        yield View(topic, "archive", topic, partial(frame, topic))


def _of_cluster(cluster: AskedCluster) -> Iterator[View]:
    from sprocket.spark.jobs import JobCluster

    options = JobCluster(
        name_server=cluster.nameserver,
        tls=cluster.tls,
        tls_trust=cluster.tls_trust,
        tls_cert=cluster.tls_cert,
        tls_key=cluster.tls_key,
        tls_key_password=cluster.tls_key_password,
        access_key=cluster.access_key,
        secret_key=cluster.secret_key,
        credentials=cluster.credentials,
    ).options

    def frame(topic: str, spark: Any) -> Any:
        source = spark.read.format("rocketmq").options(**options)
        return source.option("subscribe", topic).load()

    with cluster.opened:
        topics = sorted(cluster.admin().topic.names())
    for topic in topics:
        yield View(topic, "live", topic, partial(frame, topic))


class SqlResponder:
    """Answers statements.

    Args:
        spark: The SparkSession.
        views: What they may name.
        limit: Rows to show at most; 0 for all.
        as_json: Whether for scripts.
    """

    def __init__(self, spark: Any, views: Mapping[str, View], *, limit: int, as_json: bool) -> None:
        self._spark = spark
        self._views = views
        self._limit = limit
        self._as_json = as_json
        self._made: set[str] = set()
        self._told: set[str] = set()

    def answer(self, statement: str) -> None:
        """Show the result of a statement.

        Raises:
            QueryFailed: It is wrong, or failed.
        """
        if statement.strip().lower() in ("show tables", "show views"):
            from sprocket.rocketmq.model.internal import clusters_among, is_internal_topic

            clusters = clusters_among(one.topic for one in self._views.values())
            shown = (
                one for one in self._views.values() if not is_internal_topic(one.topic, clusters)
            )
            self._show([{"table": one.name, "source": one.source} for one in shown])
            return
        from sprocket.spark import in_one_line

        with in_one_line():
            frame = self._frame(statement)
            asked = frame.limit(self._limit + 1) if self._limit else frame
            result = asked.toArrow()
        rows = result.to_pylist()
        shown = rows[: self._limit] if self._limit else rows
        self._show([{name: plain(value) for name, value in row.items()} for row in shown])
        self._tell_damage()
        if result.num_columns and not rows and not self._as_json:
            output.say("no rows")
        if len(shown) < len(rows):
            output.say(f"these are the first {len(shown):,} rows; --limit 0 shows all")

    def write(self, statement: str, path: str) -> None:
        """Write the result of a statement to a Parquet file.

        Raises:
            QueryFailed: As `answer`.
            SettingsError: There is something of that name.
        """
        from sprocket.base.disk import RealDisk
        from sprocket.spark import in_one_line

        disk: Disk = RealDisk()
        if disk.exists(path):
            raise SettingsError(f"{path} is there already")
        folder = f"{os.path.abspath(path)}.parts"
        try:
            with in_one_line():
                self._frame(statement).coalesce(1).write.mode("overwrite").parquet(folder)
            (part,) = (one for one in disk.list(folder) if one.endswith(".parquet"))
            disk.rename(f"{folder}/{part}", path)
            self._tell_damage()
        finally:
            disk.remove_tree(folder)

    def _frame(self, statement: str) -> Any:
        """Return the DataFrame of a statement, with the views that it names."""
        lower = {name.lower(): view for name, view in self._views.items()}
        for quoted, word in _NAME.findall(statement):
            view = lower.get((quoted or word).lower())
            if view is not None and view.name not in self._made:
                view.frame(self._spark).createOrReplaceTempView(f"`{view.name}`")
                self._made.add(view.name)
        from sprocket.spark import sql as asked

        return asked(statement, spark=self._spark)

    def _tell_damage(self) -> None:
        """Say what was left out of the stores that were asked, of each store once."""
        for name in sorted(self._made):
            view = self._views[name]
            if view.left_out is None or view.folder in self._told:
                continue
            self._told.add(view.folder)
            found = view.left_out(self._spark)
            for one in found.named[:DAMAGE_MAX]:
                output.say(f"left out: {one}")
            if found.count:
                places = f"{found.count:,} damaged place{'s' if found.count > 1 else ''}"
                output.say(f"{places} of {view.folder} left out, {found.bytes:,} bytes")

    def _show(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if self._as_json:
            for row in rows:
                output.write_json(row)
        elif rows:
            shown = [{name: _text(value) for name, value in row.items()} for row in rows]
            tables.write_table("", shown)


def plain(value: Any) -> Any:
    """Return a value as JSON has it: times in ISO 8601, bytes as text if they are UTF-8."""
    if isinstance(value, datetime):
        at = value.astimezone(UTC) if value.tzinfo else value
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"base64:{b64encode(value).decode()}"
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        is_map = value and all(isinstance(one, tuple) and len(one) == 2 for one in value)
        if is_map:
            return {str(name): plain(one) for name, one in value}
        return [plain(one) for one in value]
    return value


def _text(value: Any) -> Any:
    """Return a plain value as it stands in a cell."""
    if value is None:
        return "–"
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in value.items())
    return round(value, 6) if isinstance(value, float) else value


def converse(responder: SqlResponder, is_terminal: bool) -> None:
    """Answer statements from stdin, each up to a semicolon, until it ends.

    At a terminal lines can be edited, and are kept for the next time; an error ends nothing there.
    """
    from sprocket.base.errors import SprocketError

    lines: Iterator[str | None] = _typed() if is_terminal else iter(sys.stdin)
    for statement in statements(lines):
        if statement.lower() in ("exit", "quit"):
            break
        try:
            responder.answer(statement)
        except SprocketError as error:
            if not is_terminal:
                raise
            output.say(str(error))
        except KeyboardInterrupt:  # Spark has cancelled the statement's tasks
            if not is_terminal:
                raise
            output.say("interrupted")


def statements(lines: Iterable[str | None]) -> Iterator[str]:
    """Give the statements of some lines: each ends with a semicolon, the last one with the lines.

    `exit` and `quit` need none. None instead of a line drops what of a statement came before.
    """
    text = ""
    for line in lines:
        found, text = ([], "") if line is None else _parted(f"{text}{line}")
        yield from found
        if text.strip().lower() in ("exit", "quit"):
            yield text.strip()
            return
    if text:
        yield text.strip()


def _parted(text: str) -> tuple[list[str], str]:
    """Return the statements of a text, and what has begun of the next one, with its line's end."""
    found = []
    text = text if text.endswith("\n") else f"{text}\n"
    while (match := _STATEMENT.match(text)) is not None:
        text = text[match.end() :].lstrip()
        if not _ONLY_COMMENTS.fullmatch(match[1]):
            found.append(match[1].strip())
    return found, "" if _ONLY_COMMENTS.fullmatch(text) else text


def _typed() -> Iterator[str | None]:
    """Give the lines that are typed, None where Ctrl-C says to begin anew."""
    try:
        import readline
    except ImportError:  # as on Windows: lines cannot be edited
        readline = None  # type: ignore[assignment]
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    history = os.path.join(home, _HISTORY)
    if readline is not None:
        _remembered(readline, history)
    begun = ""
    try:
        while True:
            try:
                line = input(MORE if begun else PROMPT)
            except EOFError:
                sys.stdout.write("\n")
                return
            except KeyboardInterrupt:
                sys.stdout.write("\n")
                yield None
                begun = ""
                continue
            yield line
            begun = _parted(f"{begun}{line}")[1]
    finally:
        if readline is not None:
            _remember(readline, history)


def _remembered(readline: Any, path: str) -> None:
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(_HISTORY_LINES)


def _remember(readline: Any, path: str) -> None:
    from sprocket.base.disk import RealDisk
    from sprocket.base.errors import StoreError

    with suppress(OSError, StoreError):  # a history that cannot be kept harms nobody
        RealDisk().make_folder(os.path.dirname(path))
        readline.write_history_file(path)
