"""The picture: how the workers went on while they and the broker were killed; then the delays."""

from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

HOURS = range(5, 24)
"""Scheduled departures begin at 5 in New York."""
DEPARTED_MIN = 20
"""A field of fewer departures stays empty: its mean says little."""
DELAY_MINUTES_MAX = 45
STEP_MS = 500
"""Runs are counted in spans of this length."""


def draw(
    runs: pd.DataFrame,
    killed_at_ms: dict[str, int],
    hours: pd.DataFrame,
    airlines: pd.DataFrame,
    path: Path,
) -> None:
    """Write the picture as a PNG file.

    Args:
        runs: Every run of a flight: `ran_at_ms`, `worker`.
        killed_at_ms: When something was killed (ms since 1970), by its name.
        hours: What the chord answered: carrier, hour, departed, delay_minutes.
        airlines: Names of carriers.
        path: The file.
    """
    figure = Figure(figsize=(12, 9), layout="constrained")
    above, below = figure.subplots(2, height_ratios=[2, 3])
    _draw_rate(above, runs, killed_at_ms)
    _draw_delays(figure, below, hours, airlines)
    figure.savefig(path, dpi=110)


def per_second(runs: pd.DataFrame) -> pd.DataFrame:
    """Count the runs of each worker.

    Returns:
        Runs a second: a row a span of `STEP_MS`, by the seconds since the first run; a column a
        worker, its name without the process, so that one that was started again stays the same.
    """
    begun = int(runs["ran_at_ms"].min())
    span = (runs["ran_at_ms"] - begun) // STEP_MS
    worker = runs["worker"].str.replace(r"-\d+$", "", regex=True)
    counts = runs.groupby([span, worker]).size().unstack(fill_value=0)
    counts = counts.reindex(range(int(span.max()) + 1), fill_value=0)
    counts.index = counts.index * (STEP_MS / 1000)
    return counts * (1000 / STEP_MS)


def _draw_rate(axes: Axes, runs: pd.DataFrame, killed_at_ms: dict[str, int]) -> None:
    rates = per_second(runs)
    axes.stackplot(
        rates.index.to_numpy(),
        *(rates[name].to_numpy() for name in rates.columns),
        labels=[name.partition("@")[0] for name in rates.columns],
        colors=["#4c78a8", "#f2a65a", "#72b7b2", "#b279a2"],
        step="post",
    )
    begun = int(runs["ran_at_ms"].min())
    top = axes.get_ylim()[1]
    for what, at_ms in killed_at_ms.items():
        seconds = (at_ms - begun) / 1000
        axes.axvline(seconds, color="black", linestyle="--", linewidth=1)
        axes.text(seconds, top, f" kill -9: {what}", va="top", fontsize=9)
    axes.set_title(f"{len(runs):,} runs of tasks, one a flight, by two Celery workers")
    axes.set_xlabel("seconds")
    axes.set_ylabel("flights/s")
    axes.legend(loc="lower right")
    axes.margins(x=0)


def _draw_delays(figure: Figure, axes: Axes, hours: pd.DataFrame, airlines: pd.DataFrame) -> None:
    departed = hours.pivot(index="carrier", columns="hour", values="departed")
    minutes = hours.pivot(index="carrier", columns="hour", values="delay_minutes")
    means = (minutes / departed.where(departed >= DEPARTED_MIN)).reindex(columns=list(HOURS))
    busiest = departed.sum(axis=1).sort_values(ascending=False).index
    means = means.loc[busiest].astype("float64")
    names = airlines.set_index("carrier")["name"]
    colours = mpl.colormaps["YlOrRd"].with_extremes(bad="#eeeeee")
    image = axes.imshow(
        means.to_numpy(), aspect="auto", cmap=colours, vmin=0, vmax=DELAY_MINUTES_MAX
    )
    axes.set_xticks(range(len(HOURS)), [f"{hour}:00" for hour in HOURS], rotation=45)
    axes.set_yticks(range(len(means)), [f"{names[code]} ({code})" for code in means.index])
    axes.set_title("What the chord computed: mean departure delay in minutes, by hour and carrier")
    axes.set_xlabel("scheduled departure, local time")
    figure.colorbar(image, ax=axes, label="minutes", extend="max")
