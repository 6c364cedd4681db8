"""The Celery application, as anybody would write it: queues, tasks, and two result backends.

Celery reads the broker's address from `CELERY_BROKER_URL`. Results come back by `rpc://`. That
backend has no chords, by Celery's own rule, so chords have an application of their own, whose
results lie in a folder.
"""

import logging
import os
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
from celery import Celery
from kombu import Exchange, Queue

from examples.flight_tasks import ledger
from examples.flight_tasks.ledger import NOTICES, RUNS, Book

CARRIERS = (
    *("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL"),
    *("HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV"),
)
FLIGHTS_QUEUE = "flights."
"""Begins the name of each carrier's queue."""
FLIGHTS_QUEUES = tuple(FLIGHTS_QUEUE + carrier for carrier in CARRIERS)
NOTICES_QUEUE, TALLIES_QUEUE, REPORTS_QUEUE = "notices", "tallies", "reports"
RESULTS = "FLIGHT_TASKS_RESULTS"
"""The variable that names the folder for the results of chords."""
UNACKED_MAX = 64
"""Tasks that a worker holds. More would be quicker by little, and more would run twice."""


def queue_of(name: str, args: Any, *_: Any, **__: Any) -> Any:
    """Send a flight to its carrier's queue; Celery calls this for each task that is sent."""
    return {"queue": FLIGHTS_QUEUE + args[0]["carrier"]} if name == "flight" else None


RELIABLE = {
    "broker_transport_options": {"confirm_publish": True},
    "broker_connection_retry_on_startup": True,
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "task_publish_retry_policy": {
        "max_retries": 300,
        "interval_start": 0.1,
        "interval_step": 0.1,
        "interval_max": 0.3,
    },
    "worker_prefetch_multiplier": UNACKED_MAX,
    "worker_hijack_root_logger": False,
}
"""What makes Celery keep its tasks when a worker or a broker is killed; see the guide."""

flights = Celery("flights", backend="rpc://", set_as_current=False)
flights.conf.update(
    RELIABLE,
    broker_pool_limit=32,
    task_queues=[
        Queue(name, Exchange("flights"), name)
        for name in (*FLIGHTS_QUEUES, NOTICES_QUEUE, TALLIES_QUEUE)
    ],
    task_routes=[
        queue_of,
        {"notice": {"queue": NOTICES_QUEUE}, "tally": {"queue": TALLIES_QUEUE}},
    ],
)

reports = Celery("reports", set_as_current=False)
reports.conf.update(
    RELIABLE,
    result_backend=Path(os.environ.get(RESULTS, "/nonexistent")).as_uri(),
    task_queues=[Queue(REPORTS_QUEUE, Exchange("reports"), REPORTS_QUEUE)],
    task_default_queue=REPORTS_QUEUE,
)

for chatty in ("celery.worker.strategy", "celery.app.trace"):  # two lines a task
    logging.getLogger(chatty).setLevel(logging.WARNING)

_runs = Book("runs", RUNS)
_notices = Book("notices", NOTICES)


def work_on_flight(task: Any, flight: dict[str, Any]) -> None:
    """Take down a flight."""
    own = [flight["row"], flight["carrier"], flight["month"], flight["hour"]]
    delays = [flight["dep_delay"], flight["arr_delay"]]
    _runs.write([*own, *delays, was_delivered_before(task), now_ms()], task.request.hostname)


def tell_of_delay(task: Any, row: int, due_at_ms: int) -> None:
    """Tell passengers of a long delay, when it is due."""
    _notices.write([row, due_at_ms, was_delivered_before(task), now_ms()], task.request.hostname)


def was_delivered_before(task: Any) -> int:
    """Return 1 if the broker says so, else 0."""
    return int(task.request.delivery_info["redelivered"])


def now_ms() -> int:
    """Return the time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def tally_month(carrier: str, month: int) -> dict[str, int]:
    """Count a carrier's flights of a month, and sum their delays."""
    mine = once(carrier)
    mine = mine[mine["month"] == month]
    return sums(mine)


def delays_by_hour(carrier: str) -> dict[str, Any]:
    """Count a carrier's flights by the hour of the day, and sum their delays."""
    hours = once(carrier).groupby("hour")
    return {"carrier": carrier, "hours": {str(hour): sums(rows) for hour, rows in hours}}


def all_carriers(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put what was counted of each carrier together: a row a carrier and hour."""
    return [
        {"carrier": one["carrier"], "hour": int(hour), **counted}
        for one in sorted(found, key=lambda one: str(one["carrier"]))
        for hour, counted in one["hours"].items()
    ]


def once(carrier: str) -> pd.DataFrame:
    """Return a carrier's flights as the workers took them down, each once."""
    folder = Path(os.environ[ledger.VARIABLE])
    found = _distinct(folder, ledger.count(folder))
    return found[found["carrier"] == carrier]


@lru_cache(maxsize=1)
def _distinct(folder: Path, _count: int) -> pd.DataFrame:
    """Read the ledger; once as long as it has so many lines."""
    return ledger.runs(folder).drop_duplicates("row")


def sums(rows: pd.DataFrame) -> dict[str, int]:
    """Return flights, those that departed, and their delay in minutes."""
    return {
        "flights": len(rows),
        "departed": int(rows["dep_delay"].count()),
        "delay_minutes": int(rows["dep_delay"].sum()),
    }


flight = flights.task(name="flight", bind=True, ignore_result=True)(work_on_flight)
notice = flights.task(name="notice", bind=True, ignore_result=True)(tell_of_delay)
tally = flights.task(name="tally")(tally_month)
by_hour = reports.task(name="by_hour")(delays_by_hour)
put_together = reports.task(name="put_together")(all_carriers)
