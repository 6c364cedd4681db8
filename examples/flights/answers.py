"""The questions that the main job asks, answered by pandas from the source tables alone.

Each answer that Spark gives is compared with the one from here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

import pandas as pd

from examples.flights.source import Tables

LATE_MINUTES = 15
"""A departure later than this counts as late, as the US Bureau of Transportation counts."""
ROUTE_FLIGHTS_MIN = 100
"""Arrivals that a route needs to be ranked: fewer say little about it."""
ROUTES = 10
GROUP_CARRIERS = ("AA", "DL")
"""Tags that the consumer group asks for."""


@dataclass(frozen=True, kw_only=True)
class PlaneDay:
    """One plane on one day of New York's calendar."""

    tail: str
    month: int
    day: int


def by_carrier(tables: Tables) -> pd.DataFrame:
    """Delays by carrier, the worst first."""
    flights = tables.flights
    asked = flights.assign(
        is_cancelled=flights["dep_time"].isna(),
        is_late=(flights["dep_delay"] > LATE_MINUTES).fillna(value=False),
    )
    grouped = asked.groupby("carrier")
    answer = grouped.agg(
        flights=("row", "size"),
        cancelled=("is_cancelled", "sum"),
        late=("is_late", "sum"),
        departed=("dep_delay", "count"),
        departure_minutes=("dep_delay", "mean"),
        arrival_minutes=("arr_delay", "mean"),
    ).reset_index()
    answer["late_percent"] = 100.0 * answer["late"] / answer["departed"]
    named = answer.merge(tables.airlines, on="carrier", how="left")
    columns = ["carrier", "name", "flights", "cancelled", "departure_minutes", "late_percent"]
    named = named.sort_values(["departure_minutes", "carrier"], ascending=[False, True])
    return named[[*columns, "arrival_minutes"]].reset_index(drop=True)


def worst_routes(tables: Tables) -> pd.DataFrame:
    """Routes with the greatest mean delay on arrival, airports by their names."""
    arrived = tables.flights.dropna(subset=["arr_delay"])
    grouped = arrived.groupby(["origin", "dest"])["arr_delay"]
    answer = grouped.agg(flights="size", mean_minutes="mean", worst_minutes="max").reset_index()
    answer = answer[answer["flights"] >= ROUTE_FLIGHTS_MIN]
    names = tables.airports[["faa", "name"]]
    answer = answer.merge(
        names.rename(columns={"faa": "origin", "name": "origin_name"}), how="left"
    )
    answer = answer.merge(names.rename(columns={"faa": "dest", "name": "dest_name"}), how="left")
    answer = answer.sort_values(
        ["mean_minutes", "origin", "dest"], ascending=[False, True, True]
    ).head(ROUTES)
    columns = ["origin", "origin_name", "dest", "dest_name", "flights", "mean_minutes"]
    return answer[[*columns, "worst_minutes"]].reset_index(drop=True)


def busiest_plane_day(tables: Tables) -> PlaneDay:
    """The plane with most departures on one day; among equals the one that flew farthest."""
    flown = tables.flights.dropna(subset=["tailnum", "dep_time"])
    grouped = flown.groupby(["tailnum", "month", "day"])["distance"].agg(["size", "sum"])
    ranked = grouped.reset_index().sort_values(
        ["size", "sum", "tailnum", "month", "day"], ascending=[False, False, True, True, True]
    )
    first = ranked.iloc[0]
    return PlaneDay(tail=str(first["tailnum"]), month=int(first["month"]), day=int(first["day"]))


def plane_day(tables: Tables, asked: PlaneDay) -> pd.DataFrame:
    """That plane's flights of that day, in time order."""
    flights = tables.flights
    mine = flights[
        (flights["tailnum"] == asked.tail)
        & (flights["month"] == asked.month)
        & (flights["day"] == asked.day)
    ]
    columns = ["row", "flight", "origin", "dest", "sched_dep_time", "dep_delay", "arr_delay"]
    return mine[columns].reset_index(drop=True)


def windows(tables: Tables) -> pd.DataFrame:
    """Departure delays per carrier and hour of the year, as the stream keeps them."""
    flights = tables.flights
    grouped = flights.groupby([flights["scheduled_at"].dt.floor("h"), flights["carrier"]])
    answer = grouped.agg(
        flights=("row", "size"),
        departed=("dep_delay", "count"),
        delay_minutes=("dep_delay", "sum"),
    ).reset_index()
    return answer.rename(columns={"scheduled_at": "hour"})


def group_counts(tables: Tables) -> dict[str, int]:
    """Flights of each carrier that the consumer group asks for."""
    counts = tables.flights["carrier"].value_counts()
    return {carrier: int(counts[carrier]) for carrier in GROUP_CARRIERS}


def difference(found: pd.DataFrame, expected: pd.DataFrame) -> str:
    """Compare two answers, rows in order; floats may differ in the last digits.

    Returns:
        One line naming the first difference, an empty string if there is none.
    """
    if list(found.columns) != list(expected.columns):
        return f"columns {list(found.columns)} instead of {list(expected.columns)}"
    if len(found) != len(expected):
        return f"{len(found)} rows instead of {len(expected)}"
    for column in expected.columns:
        wanted, got = plain(expected[column]), plain(found[column])
        if wanted == got:
            continue
        for row, (want, have) in enumerate(zip(wanted, got, strict=True)):
            if not same(want, have):
                return f"row {row}, {column}: {have!r} instead of {want!r}"
    return ""


def plain(column: "pd.Series[Any]") -> list[Any]:
    """The values as Python has them; whatever stands for a missing one becomes None."""
    return [None if pd.isna(value) else value for value in column.tolist()]


def same(want: Any, have: Any) -> bool:
    """Equal, or floats that differ by rounding only."""
    if isinstance(want, float) and isinstance(have, float | int):
        return isclose(want, have, rel_tol=1e-9, abs_tol=1e-9)
    return bool(want == have)


def in_time_order(rows: Sequence[tuple[str, str]]) -> str:
    """Check that each plane's events come in time order.

    Args:
        rows: Tail number and time of each event (ISO texts, which sort as instants do).

    Returns:
        The first tail number that is out of order, an empty string if none is.
    """
    latest: dict[str, str] = {}
    for tail, at in rows:
        if at < latest.get(tail, ""):
            return tail
        latest[tail] = at
    return ""
