"""The parts of `make rabbit-run`: the ledger, what it is compared with, the picture."""

from pathlib import Path

import pandas as pd
import pytest

from examples.flight_tasks import answers, application, ledger, picture, sender
from examples.flights.source import COLUMNS, Tables

AT_MS = 1_700_000_000_000


def table(rows: list[dict[str, object]]) -> pd.DataFrame:
    """Return flights as the source has them."""
    whole = pd.DataFrame([dict.fromkeys(COLUMNS) | row for row in rows])
    whole["scheduled_at"] = pd.to_datetime("2013-01-01T10:15Z")
    numbers = ["row", "month", "hour", "dep_delay", "arr_delay", "flight"]
    return whole.astype(dict.fromkeys(numbers, "Int64") | {"carrier": "string"})


@pytest.fixture
def flights() -> pd.DataFrame:
    """Three flights: one on time, one very late, one cancelled."""
    late = {"dep_delay": 200, "arr_delay": -7}
    return table(
        [
            {"row": 0, "carrier": "UA", "month": 1, "hour": 5, "dep_delay": 0, "arr_delay": 3},
            {"row": 1, "carrier": "AA", "month": 1, "hour": 6, **late},
            {"row": 2, "carrier": "UA", "month": 2, "hour": 5},
        ]
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ledger's folder, as the environment names it."""
    monkeypatch.setenv(ledger.VARIABLE, str(tmp_path))
    return tmp_path


def write_runs(flights: pd.DataFrame, rows: list[int], *, redelivered: int = 0) -> None:
    """Take down flights as a worker does."""
    book = ledger.Book("runs", ledger.RUNS)
    names = ["row", "carrier", "month", "hour", "dep_delay", "arr_delay"]
    for row in rows:
        own = [None if pd.isna(one) else one for one in flights.iloc[row][names]]
        book.write([*own, redelivered, AT_MS + row], "w@host")


def test_what_was_written_is_read(folder: Path, flights: pd.DataFrame) -> None:
    """Numbers, negative ones and none; the count is known from the sizes of the files."""
    write_runs(flights, [0, 1, 2])
    assert ledger.count(folder) == 3
    runs = ledger.runs(folder)
    assert runs["dep_delay"].fillna(-999).tolist() == [0, 200, -999]
    assert runs["arr_delay"].fillna(-999).tolist() == [3, -7, -999]
    assert runs["carrier"].tolist() == ["UA", "AA", "UA"]
    found = answers.worked(runs, flights)
    assert (found.missing, found.foreign, found.unequal, len(found.twice)) == (0, 0, 0, 0)


def test_an_empty_ledger_has_no_runs(folder: Path) -> None:
    """It has the columns, though."""
    assert ledger.count(folder) == 0
    assert list(ledger.runs(folder)) == list(ledger.RUNS)
    assert list(ledger.notices(folder)) == list(ledger.NOTICES)


def test_what_is_wrong_is_counted(folder: Path, flights: pd.DataFrame) -> None:
    """A flight that is missing, one with another delay, one that was not sent, one run twice."""
    write_runs(flights, [0, 1])
    write_runs(flights, [1], redelivered=1)
    sent = flights.assign(row=[0, 1, 9], dep_delay=flights["dep_delay"].replace(0, 1))
    found = answers.worked(ledger.runs(folder), sent)
    assert (found.runs, found.missing, found.foreign, found.unequal) == (3, 1, 0, 1)
    assert (found.twice["row"].tolist(), found.unmarked) == ([1], 0)
    fewer = answers.worked(ledger.runs(folder), flights.iloc[:1])
    assert (fewer.missing, fewer.foreign) == (0, 2)


def test_the_tasks_answer_what_pandas_computes(folder: Path, flights: pd.DataFrame) -> None:
    """Tallies and hours, of a ledger in which a flight stands twice."""
    write_runs(flights, [0, 1, 2, 1])
    tallies = {of: application.tally_month(*of) for of in [("UA", 1), ("UA", 2), ("AA", 1)]}
    assert tallies == answers.months_of_carriers(flights)
    hours = [application.delays_by_hour(carrier) for carrier in ("UA", "AA")]
    together = pd.DataFrame(application.all_carriers(hours))
    assert together.to_dict() == answers.hours_of_carriers(flights).to_dict()
    assert together.iloc[0].tolist() == ["AA", 6, 1, 1, 200]


def test_only_long_delays_are_told_of(flights: pd.DataFrame) -> None:
    """The sender and the check agree on which those are."""
    tables = Tables(**dict.fromkeys(["airlines", "airports", "planes", "weather"]), flights=flights)
    sent = sender.flights_of(tables, 2)
    assert [flight["row"] for flight in sent if sender.is_very_late(flight)] == [1]
    assert answers.notices_wanted(flights) == {1}
    assert sent[2]["dep_delay"] is None
    assert sent[0]["scheduled_at"] == "2013-01-01T10:15:00Z"
    assert [flight["row"] for flight in sender.flights_of(tables, 1)] == [0, 1]


def test_a_notice_may_not_come_early() -> None:
    """But for what the two clocks differ by."""
    due = [AT_MS, AT_MS, AT_MS]
    ran = [AT_MS, AT_MS - answers.EARLY_MS_MAX, AT_MS - answers.EARLY_MS_MAX - 1]
    assert answers.notices_early(pd.DataFrame({"due_at_ms": due, "ran_at_ms": ran})) == 1


def test_each_carrier_has_its_queue() -> None:
    """A flight goes to that of its carrier; other tasks go where their own routes say."""
    assert application.queue_of("flight", ({"carrier": "UA"},), {}, {}) == {"queue": "flights.UA"}
    assert application.queue_of("notice", (1, 2), {}, {}) is None


@pytest.mark.slow
def test_picture_is_drawn(tmp_path: Path, flights: pd.DataFrame) -> None:
    """A worker that was started again is the same worker; the file is a PNG."""
    runs = pd.DataFrame(
        {
            "ran_at_ms": [AT_MS, AT_MS + 600, AT_MS + 1700],
            "worker": ["worker-1@flights-17", "worker-2@flights-18", "worker-1@flights-20"],
        }
    )
    rates = picture.per_second(runs)
    assert rates["worker-1@flights"].tolist() == [2.0, 0.0, 0.0, 2.0]
    assert rates["worker-2@flights"].tolist() == [0.0, 2.0, 0.0, 0.0]
    hours = answers.hours_of_carriers(flights)
    airlines = pd.DataFrame({"carrier": ["UA", "AA"], "name": ["United", "American"]})
    path = tmp_path / "tasks.png"
    picture.draw(runs, {"the broker": AT_MS + 1000}, hours, airlines, path)
    assert path.read_bytes().startswith(b"\x89PNG")
