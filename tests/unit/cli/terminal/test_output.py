"""What all commands share: times, errors in one line, progress."""

import io
import sys

import pytest
import typer
from rich.console import Console

from sprocket.base.errors import ForeignStore, SettingsError
from sprocket.cli.terminal import output


@pytest.mark.parametrize(
    ("typed", "ms"),
    [
        ("0", 0),
        ("1357035300000", 1_357_035_300_000),
        ("2013-01-01", 1_356_998_400_000),
        ("2013-01-01T10:15:00", 1_357_035_300_000),
        ("2013-01-01T10:15:00Z", 1_357_035_300_000),
        ("2013-01-01T05:15:00-05:00", 1_357_035_300_000),
    ],
)
def test_time_ms_reads_what_people_type(typed: str, ms: int) -> None:
    """Milliseconds and ISO 8601 are understood; without a zone it is UTC."""
    assert output.time_ms(typed) == ms


@pytest.mark.parametrize("typed", ["", "yesterday", "-1", "1.5", "2013-13-01"])
def test_time_ms_refuses_the_rest(typed: str) -> None:
    """Anything else is an error that says what was expected."""
    with pytest.raises(SettingsError, match="expected milliseconds"):
        output.time_ms(typed)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-1, "–"),
        (0, "–"),
        (1_357_035_300_001, "2013-01-01 10:15:00.001Z"),
        (2**63 - 1, "9223372036854775807 ms"),
    ],
)
def test_time_text(ms: int, text: str) -> None:
    """A stored time is shown in UTC; any number at all is shown somehow."""
    assert output.time_text(ms) == text


def test_errors_become_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An error of ours ends the command with code 1 and one line on stderr."""
    with pytest.raises(typer.Exit) as ended, output.failing_in_one_line():
        raise ForeignStore("no store here:\n  nothing")
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == "sprocket: no store here: nothing\n"


def test_other_errors_pass() -> None:
    """A mistake of ours stays what it is."""
    with pytest.raises(ZeroDivisionError), output.failing_in_one_line():
        raise ZeroDivisionError


def test_json_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Letters stay letters, nothing is folded."""
    output.write_json({"topic": "flüge", "queue_id": 1})
    assert capsys.readouterr().out == '{"topic":"flüge","queue_id":1}\n'


class Ticks:
    """A clock that advances by a second with each look."""

    def __init__(self) -> None:
        self.looks = 0

    def now_ms(self) -> int:
        """Not asked for."""
        return 0

    def monotonic(self) -> float:
        """One second later than before."""
        self.looks += 1
        return float(self.looks)


def test_progress_passes_everything_through() -> None:
    """Items come out as they went in, bar or no bar."""
    items = list(range(1000))
    assert list(output.with_progress(items, "work", 1000, int, Ticks())) == items


def test_progress_is_shown_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before, and not to what is not a terminal."""
    err = io.StringIO()
    console = Console(file=err, force_terminal=True, width=80)
    monkeypatch.setattr(output, "Console", lambda **_: console)
    with output.progress(Ticks()) as tell:
        tell("checking", 1, 10)
        tell("checking", 5, 10)
    assert "checking" in err.getvalue()
    assert "50%" in err.getvalue()


def test_progress_is_a_line_now_and_then_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As in a log of a scheduler; work that is done soon says nothing."""
    with output.progress(Ticks()) as tell:
        for done in range(70):
            tell("archiving", done, 1000)
    assert capsys.readouterr().err.splitlines() == [
        "sprocket: archiving: 29 of 1,000",
        "sprocket: archiving: 59 of 1,000",
    ]


def test_progress_ends_with_its_reader() -> None:
    """A reader that stops early leaves no bar behind."""
    through = output.with_progress(range(1000), "work", 1000, int, Ticks())
    assert next(through) == 0
    through.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("typed", "place"), [("first", "first"), ("last", "last"), ("1000", 1000)])
def test_place_reads_where_to_begin(typed: str, place: object) -> None:
    """A word for either end, or a time."""
    assert output.place(typed) == place


def test_pairs_reads_names_and_values() -> None:
    """A value may be empty or hold an equals sign; a name may not be missing."""
    assert output.pairs(["a=1=2", "b="], "property") == {"a": "1=2", "b": ""}
    for wrong in ("alone", "=value"):
        with pytest.raises(SettingsError, match="expected NAME=VALUE"):
            output.pairs([wrong], "property")


@pytest.mark.parametrize(
    ("answer", "is_yes"), [("y\n", True), (" YES \n", True), ("n\n", False), ("\n", False)]
)
def test_a_question_is_asked_beside_the_results(
    answer: str,
    is_yes: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On stderr, for stdout is read by scripts; nothing but a yes is one."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    assert output.confirmed("Really?") is is_yes
    assert capsys.readouterr() == ("", "Really? [y/N]: ")


def test_a_question_that_nobody_can_answer_ends_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a script that forgot --yes."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(typer.Abort):
        output.confirmed("Really?")
