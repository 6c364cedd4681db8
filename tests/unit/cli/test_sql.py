"""What of `sprocket sql` needs no Spark: statements, views, values."""

import io
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.running import done
from typer.testing import CliRunner

from sprocket.base.disk import RealDisk
from sprocket.base.errors import ForeignStore, SettingsError
from sprocket.cli import sql
from sprocket.cli.main import app
from sprocket.cli.sql import AskedCluster, Sources
from sprocket.spark.archive import ArchivedFile, ArchiveFolder, Manifest
from sprocket.spark.files import LocalFiles
from sprocket.testing.local_broker import LocalBroker


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["select 1;", "select 2"], ["select 1", "select 2"]),
        (["select 1; select", "2;\n"], ["select 1", "select\n2"]),
        (["select ';', \"a;\", `b;c`;"], ["select ';', \"a;\", `b;c`"]),
        (["select 'it\\';s';"], ["select 'it\\';s'"]),
        ([";;", " ;"], []),
        (["exit", "select 1"], ["exit"]),
        (
            ["-- it's; one", "select 1 -- a; b", "- /* ; ' */ 2;"],
            ["select 1 -- a; b\n- /* ; ' */ 2"],
        ),
        (["select 1; -- it's all"], ["select 1"]),
        (["-- nothing; at all", "/* no", "thing; */;"], []),
        (["select 6/3; select 3-1;"], ["select 6/3", "select 3-1"]),
        (["select 1", None, "select 2;"], ["select 2"]),
        (["select 'a", None, "exit"], ["exit"]),
    ],
)
def test_a_statement_ends_with_a_semicolon(lines: list[str | None], wanted: list[str]) -> None:
    """That stands in no text, name and comment; the last one with the lines. None drops one."""
    assert list(sql.statements(lines)) == wanted


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (b"caf\xc3\xa9", "café"),
        (b"\xff\x00", "base64:/wA="),
        (datetime(2026, 1, 2, 3, 4, 5, 6_000, UTC), "2026-01-02T03:04:05.006Z"),
        (date(2026, 1, 2), "2026-01-02"),
        (Decimal("1.50"), "1.50"),
        ([("a", b"x"), ("b", None)], {"a": "x", "b": None}),
        ([1, [b"y"]], [1, ["y"]]),
        ({"n": b"z"}, {"n": "z"}),
        (None, None),
    ],
)
def test_values_are_what_json_has(value: Any, wanted: Any) -> None:
    """Bytes are text where they can be, times are ISO 8601, maps are objects."""
    assert sql.plain(value) == wanted


def archive_of(folder: Path, *topics: str) -> str:
    """An archive whose manifest names some topics."""
    made = ArchiveFolder(LocalFiles(RealDisk()), str(folder))
    file = ArchivedFile(
        path="data/topics/x",
        bytes=1,
        messages=1,
        topics=dict.fromkeys(topics, 1),
        first_offset=0,
        last_offset=0,
        first_stored_at_ms=0,
        last_stored_at_ms=0,
    )
    with made.locked():
        made.publish(Manifest(version=1, start=0, end=1, topics=[], internal=False, files=[file]))
    return made.path


def test_a_topic_of_two_sources_is_told_apart(tmp_path: Path) -> None:
    """One of a single source has its own name."""
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    for topic in ("orders", "refunds"):
        (tmp_path / "store" / "consumequeue" / topic).mkdir(parents=True)
    archives = [archive_of(tmp_path / name, "orders") for name in ("a", "b")]
    views = sql.found(Sources(store=[str(tmp_path / "store")], archive=archives), AskedCluster())
    assert list(views) == ["orders_store", "refunds", "orders_archive", "orders_archive2"]


@pytest.mark.slow
def test_a_cluster_has_its_topics() -> None:
    """As the NameServer knows them."""
    with LocalBroker() as broker:
        done(broker, "topic", "create", "orders")
        views = sql.found(Sources(), AskedCluster(nameserver=broker.nameserver))
    assert views["orders"].source == "live"


def test_a_source_must_be_named(tmp_path: Path) -> None:
    """And be one."""
    with pytest.raises(SettingsError, match="say what to ask: --store, --archive"):
        sql.found(Sources(), AskedCluster())
    with pytest.raises(ForeignStore, match="is not an archive"):
        sql.found(Sources(archive=[str(tmp_path)]), AskedCluster())
    with pytest.raises(ForeignStore, match="is not a store directory: it has no folder commitlog"):
        sql.found(Sources(store=[str(tmp_path)]), AskedCluster())
    with pytest.raises(ForeignStore, match="is not a store directory: nothing has this name"):
        sql.found(Sources(store=[f"{tmp_path}/gone/"]), AskedCluster())


class FakeResponder:
    """Notes what it is asked, and refuses `bad`."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def answer(self, statement: str) -> None:
        """Note it."""
        self.asked.append(statement)
        if statement == "bad":
            raise SettingsError("no")
        if statement == "long":
            raise KeyboardInterrupt


@pytest.mark.parametrize(("is_terminal", "wanted"), [(True, ["bad", "select 1"]), (False, ["bad"])])
def test_an_error_ends_a_script_and_no_talk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_terminal: bool, wanted: list[str]
) -> None:
    """Who types goes on; a script must not go on as if nothing were wrong."""
    typed: Sequence[str] = ["bad;", "select 1;", "exit", "select 2;"]
    rest = iter(typed)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("builtins.input", lambda _prompt: next(rest))
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(typed)))
    responder: Any = FakeResponder()
    if is_terminal:
        sql.converse(responder, is_terminal)
        assert (tmp_path / "sprocket" / "sql_history").exists()
    else:
        with pytest.raises(SettingsError):
            sql.converse(responder, is_terminal)
    assert responder.asked == wanted


def test_ctrl_c_ends_a_statement_and_no_talk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that runs, and one that is typed: of that nothing is asked."""
    typed: Iterator[str | type[BaseException]] = iter(
        ["long; -- it's", "delete;", "from", KeyboardInterrupt, "'a", KeyboardInterrupt]
    )
    prompts = []

    def type_in(prompt: str) -> str:
        prompts.append(prompt)
        line = next(typed, EOFError)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("builtins.input", type_in)
    responder: Any = FakeResponder()
    sql.converse(responder, True)
    assert responder.asked == ["long", "delete"]
    assert prompts == [
        sql.PROMPT,
        sql.PROMPT,
        sql.PROMPT,
        sql.MORE,
        sql.PROMPT,
        sql.MORE,
        sql.PROMPT,
    ]
    assert capsys.readouterr().err == "sprocket: interrupted\n"


def test_parquet_needs_a_statement() -> None:
    """Before anything is started."""
    ended = CliRunner().invoke(app(), ["sql", "--parquet", "x"])
    assert (ended.exit_code, ended.stderr) == (1, "sprocket: --parquet needs a statement\n")


def test_parquet_is_a_file_of_this_machine() -> None:
    """An address is refused before anything is started; it was taken for a folder `s3:`."""
    ended = CliRunner().invoke(app(), ["sql", "select 1", "--parquet", "s3://b/x.parquet"])
    said = "sprocket: --parquet writes a file of this machine, not s3://b/x.parquet\n"
    assert (ended.exit_code, ended.stderr) == (1, said)
