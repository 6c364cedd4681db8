"""What commands answer: to people, or to scripts that ask by `--json`."""

from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner

from sprocket.cli.terminal import CommandAnswer, answer, answering, output


def test_rows_for_people_and_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    """One object a line, or a table; nothing is an empty output for scripts."""
    rows = answer.table([{"name": "a", "count": 1000}, {"name": "b", "count": 2}])
    rows.write(as_json=True)
    assert capsys.readouterr().out == '{"name":"a","count":1000}\n{"name":"b","count":2}\n'
    rows.write(as_json=False)
    assert "1,000" in capsys.readouterr().out
    answer.table([]).write(as_json=True)
    assert capsys.readouterr().out == ""


def test_a_sentence_is_for_people() -> None:
    """On stderr, so that stdout is empty; what scripts get is not even asked for."""

    def ask() -> Iterator[dict[str, str]]:
        yield {"asked": "for nothing"}

    asked = ask()
    told = CliRunner().invoke(command(answer.sentence(asked, "it is gone")))
    assert (told.stdout, told.stderr) == ("", "sprocket: it is gone\n")
    assert next(asked) == {"asked": "for nothing"}


def test_a_comment_stands_behind_either() -> None:
    """On stderr."""
    full = CommandAnswer([{"name": "a"}], lambda: output.write_line("a"), "that is all")
    for words, out in (([], "a\n"), (["--json"], '{"name":"a"}\n')):
        told = CliRunner().invoke(command(full), words)
        assert (told.stdout, told.stderr) == (out, "sprocket: that is all\n")


def command(told: CommandAnswer) -> typer.Typer:
    """Return a command that answers so."""
    app = typer.Typer()

    @app.command()
    @answering
    def run() -> CommandAnswer:
        return told

    return app
