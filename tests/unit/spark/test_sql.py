"""`sprocket sql` on Spark: views made when they are named, results for people and scripts."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.unit.spark.damage_by_reader import A_LOST_END, A_WRONG_BYTE, FAILS, ON_STDERR, says
from tests.unit.spark.rocketmq.folder.test_damage import BODY_AT, COUNT, change, closed, logs
from tests.unit.spark.samples import expected, unpack
from typer.testing import CliRunner, Result

from sprocket.cli.main import app
from sprocket.cli.pipe import SparkOptions
from sprocket.spark.jobs import JobFiles, archive

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def store(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A real store; commands take the tests' session, and leave no view in it."""

    @contextmanager
    def session(_options: SparkOptions) -> Iterator[Any]:
        yield spark

    monkeypatch.setattr(SparkOptions, "session", session)
    monkeypatch.delenv("COLUMNS", raising=False)
    yield unpack("02-kill9-load", tmp_path)
    for one in spark.catalog.listTables():
        if one.isTemporary:
            spark.catalog.dropTempView(one.name)


def ask(*words: str, stdin: str = "") -> Result:
    """Run the command."""
    return CliRunner().invoke(app(), ["sql", *words], input=stdin)


def count(topic: str) -> int:
    """How many messages of a topic the store has."""
    return sum(1 for line in expected("02-kill9-load") if line["topic"] == topic)


def test_a_topic_is_a_table(store: str) -> None:
    """By its name, in any spelling; a table for people, JSON for scripts."""
    asked = "select topic, count(*) as n from load0 group by topic"
    assert ask(asked, "--store", store).stdout == f"topic    n\nLoad0  {count('Load0')}\n"
    ended = ask(asked, "--store", store, "--json")
    assert json.loads(ended.stdout) == {"topic": "Load0", "n": count("Load0")}


def test_stores_and_archives_in_one_statement(store: str, spark: Any, tmp_path: Path) -> None:
    """Row for row the same: nothing is left of the one without the other."""
    to = str(tmp_path / "archive")
    archive(spark, store=store, to=to)
    asked = "select count(*) n from (select * from Load1_{a} except all select * from Load1_{b})"
    columns = "msgId, queueOffset, body, storeTimestamp"
    for a, b in (("store", "archive"), ("archive", "store")):
        text = (
            asked.format(a=a, b=b).replace("*  from", "").replace("select *", f"select {columns}")
        )
        assert ask(text, "--store", store, "--archive", to, "--json").stdout == '{"n":0}\n'


def test_a_result_goes_into_one_file(store: str, tmp_path: Path) -> None:
    """That is there already: an error, and it stays as it is."""
    path = str(tmp_path / "out.parquet")
    words = ["select queueOffset, body from Load2", "--store", store, "--parquet", path]
    assert ask(*words).exit_code == 0
    assert pq.read_table(path).num_rows == count("Load2")
    assert ask(*words).stderr == f"sprocket: {path} is there already\n"
    assert [one.name for one in tmp_path.iterdir() if one.name != "store"] == ["out.parquet"]


def test_what_is_not_shown_is_told(store: str) -> None:
    """In a line on stderr."""
    ended = ask("select queueOffset from Load0", "--store", store, "--limit", "3")
    assert len(ended.stdout.splitlines()) == 4
    assert ended.stderr == "sprocket: these are the first 3 rows; --limit 0 shows all\n"


def test_an_empty_result_is_told(store: str) -> None:
    """On stderr: of a table nothing would be seen; of a statement that makes no rows nothing is."""
    asked = ["select tags from Load0 where false", "--store", store]
    ended = ask(*asked)
    assert (ended.stdout, ended.stderr) == ("", "sprocket: no rows\n")
    ended = ask(*asked, "--json")
    assert (ended.stdout, ended.stderr) == ("", "")
    ended = ask("create temporary view nothing as select 1", "--store", store)
    assert (ended.stdout, ended.stderr) == ("", "")


def test_damage_is_an_error_or_told(store: str, tmp_path: Path) -> None:
    """With `--skip-damaged` the rest is answered, and what was left out is told once a store."""
    hurt = closed(tmp_path / "hurt")
    change(logs(hurt)[0], BODY_AT)
    asked = "select count(*) as n from orders"
    failed = ask(asked, "--store", str(hurt))
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert "at physical offset 0: the body does not fit its checksum" in failed.stderr
    ended = ask(asked, "--store", str(hurt), "--no-verify", "--json")
    assert json.loads(ended.stdout)["n"] == COUNT
    words = ["--store", str(hurt), "--skip-damaged", "--json"]
    ended = ask(*words, stdin=f"{asked}; {asked};")
    assert ended.exit_code == 0
    assert [json.loads(line)["n"] for line in ended.stdout.splitlines()] == [COUNT - 1] * 2
    assert ended.stderr.count("left out: ") == 1
    assert f"1 damaged place of {hurt} left out" in ended.stderr
    logs(hurt)[-1].unlink()
    failed = ask(asked, "--store", str(hurt))
    assert "the log ends here, and went to" in failed.stderr
    ended = ask(asked, *words)
    assert json.loads(ended.stdout)["n"] < COUNT - 1
    assert f"2 damaged places of {hurt} left out" in ended.stderr
    assert says("`sprocket sql`", A_WRONG_BYTE) == (FAILS, ON_STDERR)
    assert says("`sprocket sql`", A_LOST_END) == (FAILS, ON_STDERR)


def test_statements_come_from_stdin(store: str) -> None:
    """One after the other; a wrong one ends a script with one line and code 1."""
    ended = ask("--store", store, stdin="show tables; select count(*) n from Load1;")
    assert ended.stdout.split()[:2] == ["table", "source"]
    assert {"Load0", "Load1", "Load2"} < set(ended.stdout.split())
    assert ended.stdout.split()[-1] == str(count("Load1"))
    ended = ask("--store", store, stdin="select nix from Load0; select 1")
    assert ended.exit_code == 1
    assert "`nix` cannot be resolved" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_stores_and_archives_on_s3(
    store: str, spark: Any, tmp_path: Path, object_store: Any
) -> None:
    """As those on the local disk; settings without a folder there are an error."""
    address = object_store.put(store, "asked")
    words = [f"--fs={name}={value}" for name, value in object_store.settings.items()]
    files = JobFiles(fs=[word.removeprefix("--fs=") for word in words])
    archive(spark, store=address, to=f"{address}-archive", files=files)
    places = ["--store", address, "--archive", f"{address}-archive", *words]
    asked = "select (select count(*) from Load1_store) a, (select count(*) from Load1_archive) b"
    ended = ask(asked, *places, "--json")
    assert json.loads(ended.stdout) == {"a": count("Load1"), "b": count("Load1")}
    ended = ask("select 1", "--store", store, *words)
    assert (ended.exit_code, ended.stderr.count("\n")) == (1, 1)
    assert "--fs is for folders on s3:// and the like" in ended.stderr
