"""What the ledger must hold, and what Celery must answer, as pandas computes it from the source."""

from dataclasses import dataclass

import pandas as pd

from examples.flight_tasks import application, sender
from examples.flights.source import Tables

EARLY_MS_MAX = 20
"""Celery's timer counts on another clock than the time of day; the two may differ by so much."""


@dataclass(frozen=True, kw_only=True)
class Worked:
    """What the ledger says of the flights.

    Attributes:
        runs: Lines.
        missing: Flights that nobody has worked on.
        foreign: Runs of what was not sent.
        unequal: Flights that were taken down with other values than they were sent with.
        twice: The further runs of flights that ran more than once, in the order of time.
    """

    runs: int
    missing: int
    foreign: int
    unequal: int
    twice: pd.DataFrame

    @property
    def unmarked(self) -> int:
        """How many further runs the broker had not marked as delivered before."""
        return int((self.twice["redelivered"] == 0).sum())


def of_months(tables: Tables, months: int) -> pd.DataFrame:
    """Return the flights of the year's first months."""
    return tables.flights[tables.flights["month"] <= months]


def worked(runs: pd.DataFrame, flights: pd.DataFrame) -> Worked:
    """Compare the runs with the flights that were sent."""
    names = ["row", "carrier", "month", "hour", "dep_delay", "arr_delay"]
    once = runs.drop_duplicates("row")[names]
    wanted = flights[names].astype(once.dtypes.to_dict())
    both = once.merge(wanted, on="row", suffixes=("", "_sent"))
    is_equal = pd.Series(True, index=both.index)
    for name in names[1:]:
        had, sent = both[name], both[f"{name}_sent"]
        is_equal &= (had.eq(sent) | (had.isna() & sent.isna())).fillna(value=False).astype(bool)
    known = flights[["row", "carrier", "flight", "tailnum", "scheduled_at"]]
    again = runs[runs.duplicated("row")][["row", "redelivered", "worker", "ran_at_ms"]]
    return Worked(
        runs=len(runs),
        missing=len(wanted) - len(both),
        foreign=int((~runs["row"].isin(wanted["row"])).sum()),
        unequal=int((~is_equal).sum()),
        twice=again.merge(known, on="row", how="left"),
    )


def notices_wanted(flights: pd.DataFrame) -> set[int]:
    """Return the rows of flights whose passengers are to be told."""
    late = flights["dep_delay"] > sender.LONG_DELAY_MINUTES
    return set(flights[late.fillna(value=False)]["row"].tolist())


def notices_early(notices: pd.DataFrame) -> int:
    """Count the notices that ran before they were due."""
    return int((notices["ran_at_ms"] < notices["due_at_ms"] - EARLY_MS_MAX).sum())


def months_of_carriers(flights: pd.DataFrame) -> dict[tuple[str, int], dict[str, int]]:
    """Return what `tally` must answer, by carrier and month."""
    return {
        (str(carrier), int(month)): application.sums(rows)
        for (carrier, month), rows in flights.groupby(["carrier", "month"])
    }


def hours_of_carriers(flights: pd.DataFrame) -> pd.DataFrame:
    """Return what the chord must answer: a row a carrier and hour of the day."""
    rows = [
        {"carrier": str(carrier), "hour": int(hour), **application.sums(of_hour)}
        for (carrier, hour), of_hour in flights.groupby(["carrier", "hour"])
    ]
    return pd.DataFrame(rows)
