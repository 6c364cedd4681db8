"""The main job's own parts: the source, the answers, the comparison, the picture."""

import json
from pathlib import Path

import pandas as pd
import pytest
from tests.waits import LONG_SECONDS

from examples.flights import answers, picture, source
from examples.flights.processes import Children, Failed, free_port


@pytest.fixture(scope="module")
def tables() -> source.Tables:
    """The tables of the installed package."""
    return source.load()


@pytest.mark.slow
def test_source_is_whole_and_in_time_order(tables: source.Tables) -> None:
    """All 336,776 flights, by scheduled departure; the hour in UTC and in New York agree."""
    flights = tables.flights
    assert len(flights) == source.FLIGHTS
    assert flights["scheduled_at"].is_monotonic_increasing
    local = flights["scheduled_at"].dt.tz_convert("America/New_York")
    assert (local.dt.hour == flights["hour"]).all()


@pytest.mark.slow
def test_events_hold_every_column(tables: source.Tables) -> None:
    """A body is a JSON object with the flight's own values; a missing one is null."""
    few = tables.flights.iloc[:200]
    for event, row in zip(source.events(few), few.itertuples(index=False), strict=True):
        body = json.loads(event.body)
        assert list(body) == source.COLUMNS
        for name in [*source.NUMBERS, *source.TEXTS]:
            value = getattr(row, name)
            assert body[name] == (None if pd.isna(value) else value)
        assert event.carrier == row.carrier
        assert event.shard == (event.tail or event.carrier)


@pytest.mark.slow
def test_its_answers_are_the_known_figures(tables: source.Tables) -> None:
    """Known figures of this famous table."""
    carriers = answers.by_carrier(tables)
    assert carriers["flights"].sum() == source.FLIGHTS
    assert carriers.iloc[0]["name"] == "Frontier Airlines Inc."
    assert answers.worst_routes(tables).iloc[0]["dest"] == "TYS"
    day = answers.busiest_plane_day(tables)
    assert len(answers.plane_day(tables, day)) == 5
    assert answers.windows(tables)["flights"].sum() == source.FLIGHTS


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({"a": [1, 2], "b": [0.1 + 0.2, None]}, ""),
        ({"a": [1, 3], "b": [0.3, None]}, "row 1, a: 3 instead of 2"),
        ({"a": [1, 2], "b": [0.3, 1.0]}, "row 1, b: 1.0 instead of None"),
        ({"a": [1], "b": [0.3]}, "1 rows instead of 2"),
        ({"b": [0.3, None], "a": [1, 2]}, "columns ['b', 'a'] instead of ['a', 'b']"),
    ],
)
def test_difference_names_the_first(found: dict[str, list[object]], problem: str) -> None:
    """Equal but for rounding is not a difference; all else is named."""
    expected = pd.DataFrame({"a": [1, 2], "b": [0.3, None]})
    assert answers.difference(pd.DataFrame(found), expected) == problem


def test_picture_is_drawn(tmp_path: Path) -> None:
    """Windows in UTC become hours of New York's day; the file is a PNG."""
    hours = pd.to_datetime(["2013-01-01T10:00Z", "2013-07-01T09:00Z"], utc=True)
    windows = pd.DataFrame(
        {"hour": hours, "carrier": "UA", "departed": [30, 10], "delay_minutes": [60, 20]}
    )
    departed, means = picture.by_hour(windows)
    assert departed.loc["UA", 5] == 40
    assert means.loc["UA", 5] == 2.0
    airlines = pd.DataFrame({"carrier": ["UA"], "name": ["United Air Lines Inc."]})
    path = tmp_path / "delays.png"
    picture.draw(windows, airlines, path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_no_process_outlives_the_job(tmp_path: Path) -> None:
    """`end` kills what runs; output is read by line."""
    held = Children()
    child = held.start("a shell", ["sh", "-c", "echo ready; exec sleep 60"], tmp_path / "log")
    assert child.wait_for(lambda lines: lines[0] if lines else None, LONG_SECONDS) == "ready"
    assert child.is_running
    held.end()
    assert not child.is_running


def test_a_process_that_ends_early_is_the_reason(tmp_path: Path) -> None:
    """Its last line and its exit code are in the error."""
    child = Children().start("a shell", ["sh", "-c", "echo no luck; exit 3"], tmp_path / "log")
    with pytest.raises(Failed, match=r"a shell ended \(3\): no luck"):
        child.wait_for(lambda _lines: None, LONG_SECONDS)


def test_free_port_can_be_bound() -> None:
    """It stays out of the range that outgoing connections use."""
    assert 20_000 <= free_port(20_000) < 32_768
