"""The sender: a task for each flight, and one with a time for each that left very late.

Every task is confirmed by the broker before the next one of the same thread is sent. Several
threads send, so that they share what a confirm costs: one sync of the disk.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Event
from typing import Any, TypeAlias

from examples.flight_tasks import application
from examples.flights.source import COLUMNS, MINUTE, Tables

THREADS = 24
"""Each waits for its confirm; three times as many as 8 send half as many more a second."""
LONG_DELAY_MINUTES = 180
"""Passengers of such a flight are notified of it."""
NOTICE_SECONDS = 5.0
"""How long after its flight a notice is due. At a kill, workers hold some of them."""
TOLD_EVERY = 100
"""Tasks between two reports of a thread."""

Flight: TypeAlias = dict[str, Any]


def flights_of(tables: Tables, months: int) -> list[Flight]:
    """Return the flights of the year's first months in time order, as tasks take them."""
    table = tables.flights[tables.flights["month"] <= months]
    minutes = table["scheduled_at"].dt.strftime(MINUTE)
    table = table.assign(scheduled_at=minutes).astype(object)
    columns = [table[name].where(table[name].notna(), None).tolist() for name in COLUMNS]
    return [dict(zip(COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]


def is_very_late(flight: Flight) -> bool:
    """Tell whether passengers are to be told."""
    return (flight["dep_delay"] or 0) > LONG_DELAY_MINUTES


def send(flights: Sequence[Flight], confirmed: Callable[[int], None]) -> float:
    """Send all tasks, and wait until each is confirmed.

    Args:
        flights: In the order in which they are sent, thread by thread in turn.
        confirmed: Called with how many more flights are confirmed; from any thread.

    Returns:
        Seconds.

    Raises:
        kombu.exceptions.OperationalError: The broker did not come back.
    """
    began = time.monotonic()
    is_over = Event()
    with ThreadPoolExecutor(THREADS) as threads:
        shares = [flights[start::THREADS] for start in range(THREADS)]
        try:
            for sent in [threads.submit(_send, share, confirmed, is_over) for share in shares]:
                sent.result()
        finally:
            is_over.set()  # after Ctrl-C, or if one failed, the others end, too
    return time.monotonic() - began


def _send(share: Sequence[Flight], confirmed: Callable[[int], None], is_over: Event) -> None:
    with application.flights.producer_or_acquire() as producer:
        for number, flight in enumerate(share, 1):
            if is_over.is_set():
                return
            row = flight["row"]
            application.flight.apply_async((flight,), task_id=f"flight-{row}", producer=producer)
            if is_very_late(flight):
                due_at_ms = application.now_ms() + round(NOTICE_SECONDS * 1000)
                application.notice.apply_async(
                    (row, due_at_ms),
                    eta=datetime.fromtimestamp(due_at_ms / 1000, UTC),
                    task_id=f"notice-{row}",
                    producer=producer,
                )
            if number % TOLD_EVERY == 0:
                confirmed(TOLD_EVERY)
    confirmed(len(share) % TOLD_EVERY)
