"""The picture: mean departure delay by carrier and hour of the day, from the stream's windows."""

from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

HOURS = range(5, 24)
"""Scheduled departures begin at 5 in New York."""
DEPARTED_MIN = 20
"""A field of fewer departures stays empty: its mean says little."""
DELAY_MINUTES_MAX = 45


def by_hour(windows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Fold the hours of the year into the hours of New York's day.

    Args:
        windows: One row a carrier and hour: `hour` (UTC), `carrier`, `departed`, `delay_minutes`.

    Returns:
        Departures, and their mean delay in minutes: a row a carrier, a column an hour of the day.
    """
    local = windows.assign(of_day=windows["hour"].dt.tz_convert("America/New_York").dt.hour)
    sums = local.groupby(["carrier", "of_day"])[["departed", "delay_minutes"]].sum()
    departed = sums["departed"].unstack("of_day").reindex(columns=list(HOURS)).astype("float64")
    minutes = sums["delay_minutes"].unstack("of_day").reindex(columns=list(HOURS))
    return departed, minutes.astype("float64") / departed


def draw(windows: pd.DataFrame, airlines: pd.DataFrame, path: Path) -> None:
    """Write the picture as a PNG file."""
    departed, means = by_hour(windows)
    means = means.where(departed >= DEPARTED_MIN)
    names = airlines.set_index("carrier")["name"]
    busiest = departed.sum(axis=1).sort_values(ascending=False).index
    means = means.loc[busiest]
    figure = Figure(figsize=(12, 6.5), layout="constrained")
    axes = figure.subplots()
    colours = mpl.colormaps["YlOrRd"].with_extremes(bad="#eeeeee")
    image = axes.imshow(
        means.to_numpy(), aspect="auto", cmap=colours, vmin=0, vmax=DELAY_MINUTES_MAX
    )
    axes.set_xticks(range(len(HOURS)), [f"{hour}:00" for hour in HOURS], rotation=45)
    axes.set_yticks(range(len(means)), [f"{names[code]} ({code})" for code in means.index])
    for row, carrier in enumerate(means.index):
        for column, hour in enumerate(HOURS):
            mean = means.loc[carrier, hour]
            if not pd.isna(mean):
                colour = "white" if mean > 0.6 * DELAY_MINUTES_MAX else "black"
                text = axes.text(column, row, f"{round(mean)}", ha="center", va="center")
                text.set(fontsize=8, color=colour)
    axes.set_title("Mean departure delay in minutes, New York City 2013, by hour and carrier")
    axes.set_xlabel("scheduled departure, local time")
    figure.colorbar(image, ax=axes, label="minutes", extend="max")
    figure.savefig(path, dpi=110)
