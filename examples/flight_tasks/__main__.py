"""Flights by Celery: `python -m examples.flight_tasks`, from the project's folder.

Ends with 0 if everything that was to be shown was shown and verified, with 1 and one reason if
not, with 130 on Ctrl-C. The variable `MONTHS` says how many months of the year are sent.
"""

import logging
import os
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from examples.flight_tasks.broker import Broker
from examples.flights.answers import difference
from examples.flights.processes import Child, Children, Failed, children
from examples.flights.report import Report, unequal
from sprocket.base.errors import SprocketError

FOLDER = Path("flight-tasks-data")
MONTHS = 3
WORKERS = 2
START_SECONDS_MAX = 120.0
CATCH_UP_SECONDS = 240.0
SHOWN_MAX = 8
"""Of what ran twice; all of it is in a file."""


class FlightTasks:
    """One run. The steps are methods, in their order; `run` calls them."""

    def __init__(self, report: Report, held: Children, folder: Path, months: int) -> None:
        self.report = report
        self.held = held
        self.folder = folder
        self.months = months
        self.ledger = folder / "ledger"
        self.broker = Broker(held, folder / "store", folder / "broker.log")
        self.workers: list[Child] = []
        self.confirmed = 0
        self.killed_at_ms: dict[str, int] = {}
        self.is_over = False

    def prepare(self) -> None:
        """Start the broker and the workers, and read the source."""
        # Only now: the application takes these from the environment, here and in the workers.
        os.environ["CELERY_BROKER_URL"] = self.broker.url
        os.environ["FLIGHT_TASKS_LEDGER"] = str(self.ledger.absolute())
        os.environ["FLIGHT_TASKS_RESULTS"] = str((self.folder / "results").absolute())
        from examples.flight_tasks import answers, sender
        from examples.flights import source

        self.report.step(f"starting Sprocket, data in {self.folder / 'store'}")
        self.report.note(self.broker.start())
        self.report.step("starting Celery's workers and reading the source")
        self.workers = [self.start_worker(number) for number in range(WORKERS)]
        self.reporter = self.start_worker_of("reports", "reporter")
        self.tables = source.load()
        self.table = answers.of_months(self.tables, self.months)
        self.flights: Sequence[dict[str, Any]] = sender.flights_of(self.tables, self.months)
        for worker in [*self.workers, self.reporter]:
            worker.wait_for(is_ready, START_SECONDS_MAX)
        days = self.table["scheduled_at"]
        self.report.step(
            f"{len(self.flights):,} flights, {days.iloc[0]:%d %B %Y} to {days.iloc[-1]:%d %B %Y}"
        )

    def start_worker(self, number: int) -> Child:
        """Start a worker for flights."""
        return self.start_worker_of("flights", f"worker-{number + 1}")

    def start_worker_of(self, application: str, name: str) -> Child:
        """Start a Celery worker, as anybody would."""
        command = [sys.executable, "-m", "celery"]
        command += ["-A", f"examples.flight_tasks.application:{application}", "worker"]
        command += ["--hostname", f"{name}@flights", "--pool", "solo", "--loglevel", "info"]
        return self.held.start(name, command, self.folder / f"{name}.log")

    def work(self) -> None:
        """Send the flights, and kill a worker and the broker while both sides are busy."""
        from examples.flight_tasks import ledger, sender

        self.report.step("sending: one task a flight, a queue for each carrier")
        with self.report.progress() as bar:
            sent = bar.add_task("confirmed", total=len(self.flights))
            done = bar.add_task("worked on", total=len(self.flights))
            thirds = [threading.Event(), threading.Event()]
            lock = threading.Lock()

            def confirmed(count: int) -> None:
                with lock:
                    self.confirmed += count
                    bar.update(sent, completed=self.confirmed)
                    bar.update(done, completed=ledger.count(self.ledger))
                    for number, third in enumerate(thirds, 1):
                        if self.confirmed >= len(self.flights) * number // 3:
                            third.set()

            killer = threading.Thread(target=self.kill, args=thirds)
            killer.start()
            try:
                seconds = sender.send(self.flights, confirmed)
            finally:
                self.is_over = True  # the thread need not wait for its thirds any more
                for third in thirds:
                    third.set()
                killer.join()
            rate = self.confirmed / seconds
            self.report.step(
                f"{self.confirmed:,} confirmed in {seconds:.1f} s: {rate:,.0f} tasks/s, outages"
                " included; confirmed means on disk"
            )
            self.catch_up(lambda count: bar.update(done, completed=count))

    def kill(self, first: threading.Event, second: threading.Event) -> None:
        """Kill a worker with -9 and start it again, then the broker."""
        first.wait()
        if self.is_over:
            return
        self.killed_at_ms["a worker"] = time.time_ns() // 1_000_000
        self.workers[0].kill()
        self.workers[0] = self.start_worker(0)
        self.report.step("[bold]killed a worker with -9[/] and started it again")
        second.wait()
        if self.is_over:
            return
        self.killed_at_ms["the broker"] = time.time_ns() // 1_000_000
        self.broker.kill()
        killed = time.monotonic()
        said = self.broker.start()
        gone = time.monotonic() - killed
        self.report.step(f"[bold]killed the broker with -9[/]; ready again after {gone:.1f} s")
        self.report.note(said)

    def catch_up(self, seen: Any) -> None:
        """Wait until every flight and every notice was worked on, and all queues are empty."""
        from examples.flight_tasks import answers, ledger

        wanted = answers.notices_wanted(self.table)
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while True:
            for worker in self.workers:
                if not worker.is_running:
                    raise Failed(f"{worker.name} has ended; see {worker.log}")
            count = ledger.count(self.ledger)
            seen(count)
            if (
                count >= len(self.flights)
                and not self.waiting()
                and wanted <= set(ledger.notices(self.ledger)["row"])
            ):
                return
            if time.monotonic() > deadline:
                raise Failed(f"not all was worked on within {CATCH_UP_SECONDS:.0f} s")
            time.sleep(0.25)

    def waiting(self) -> int:
        """Return how many tasks lie in the queues of flights and notices."""
        from examples.flight_tasks import application

        with application.flights.connection_for_read() as connection:
            channel = connection.default_channel
            found = [
                channel.queue_declare(queue.name, passive=True).message_count
                for queue in application.flights.amqp.queues.values()
            ]
        return int(sum(found))

    def ask(self) -> None:
        """Ask for tallies, whose results come by rpc://, and for a chord."""
        from celery import chord, group

        from examples.flight_tasks import answers, application

        self.wanted = answers.months_of_carriers(self.table)
        self.report.step(f"asking for {len(self.wanted)} tallies by rpc://, and for a chord")
        asked = group(application.tally.s(*of) for of in self.wanted).apply_async()
        carriers = sorted({carrier for carrier, _ in self.wanted})
        whole = chord(
            (application.by_hour.s(carrier) for carrier in carriers),
            application.put_together.s(),
        ).apply_async()
        self.tallies = asked.get(timeout=CATCH_UP_SECONDS)
        self.hours = pd.DataFrame(whole.get(timeout=CATCH_UP_SECONDS, interval=0.1))
        for worker in [*self.workers, self.reporter]:
            worker.stop()
        self.broker.stop()
        self.report.step("workers and broker are stopped")

    def verify(self) -> None:
        """Check ledger and answers against the source."""
        from examples.flight_tasks import answers, ledger, sender

        report, runs = self.report, ledger.runs(self.ledger)
        found = answers.worked(runs, self.table)
        self.runs = runs
        report.check(
            f"{self.confirmed:,} flights sent as tasks, each confirmed",
            unequal(self.confirmed, len(self.flights)),
        )
        report.check(
            "none lost: each flight was worked on at least once, none that was not sent",
            unequal(found.missing, 0) or unequal(found.foreign, 0),
        )
        report.check("each was taken down as it was sent", unequal(found.unequal, 0))
        twice = found.twice.assign(
            why=found.twice["redelivered"].map({1: "delivered again", 0: "sent again"})
        )
        columns = ["scheduled_at", "carrier", "flight", "tailnum", "why", "worker"]
        twice[["row", *columns]].to_csv(self.folder / "twice.csv", index=False)
        report.check(
            f"{len(twice):,} ran a second time, {found.unmarked} of them because their confirm was"
            " lost with the broker; the broker had marked all others as delivered before",
            "" if found.unmarked <= sender.THREADS else f"{found.unmarked} were not marked",
        )
        notices = ledger.notices(self.ledger)
        wanted = answers.notices_wanted(self.table)
        report.check(
            f"{len(wanted):,} notices with an ETA ran, none before its time",
            unequal(len(wanted ^ set(notices["row"])), 0)
            or unequal(answers.notices_early(notices), 0),
        )
        wrong = [
            of
            for of, told in zip(self.wanted, self.tallies, strict=True)
            if told != self.wanted[of]
        ]
        report.check(
            f"{len(self.tallies)} tallies of carrier and month came by rpc://, sums equal to the"
            " source",
            f"{wrong[0]} differs" if wrong else "",
        )
        report.check(
            f"the chord put {len(self.hours)} hours of {self.hours['carrier'].nunique()} carriers"
            " together, each equal to the source",
            difference(self.hours, answers.hours_of_carriers(self.table)),
        )
        if len(twice):
            shown = twice[columns].head(SHOWN_MAX)
            shown = shown.assign(scheduled_at=shown["scheduled_at"].dt.strftime("%d %b %H:%MZ"))
            report.table(f"What ran twice (of {len(twice)}; all in twice.csv)", shown)


def is_ready(lines: list[str]) -> str | None:
    """Return the line by which a Celery worker says that it works."""
    return next((line for line in lines if " ready." in line), None)


def run(report: Report, held: Children, folder: Path, months: int) -> None:
    """Run the whole job.

    Raises:
        Failed: It cannot go on, or a check failed.
    """
    from examples.flight_tasks import picture

    if folder.exists():
        shutil.rmtree(folder)
    for one in (folder, folder / "ledger", folder / "results"):
        one.mkdir()
    logging.basicConfig(filename=folder / "client.log", level=logging.WARNING)
    job = FlightTasks(report, held, folder, months)
    job.prepare()
    job.work()
    job.ask()
    report.step("verifying")
    job.verify()
    airlines = job.tables.airlines
    picture.draw(job.runs, job.killed_at_ms, job.hours, airlines, folder / "tasks.png")
    report.verdict()
    say_goodbye(report, folder)


def say_goodbye(report: Report, folder: Path) -> None:
    """Say where everything lies and how to go on."""
    report.step("[bold green]all verified[/]")
    sprocket = Path(".venv") / "bin" / "sprocket"
    report.console.print(
        f"""
  picture   {folder}/tasks.png
  ledger    {folder}/ledger, a line for each run of a task
  twice     {folder}/twice.csv, what ran twice
  store     {folder}/store, the queues in RabbitMQ's files
  logs      {folder}/broker.log, worker-1.log, worker-2.log, reporter.log

Go on:
  MONTHS=12 make rabbit-run       the whole year
  {sprocket} rabbit-store ls {folder}/store/rabbitmq
  {sprocket} up --no-rocketmq --data {folder}/store      serves it again""",
        markup=False,
    )


def main() -> int:
    """Run the job and translate its end into an exit code."""
    report = Report()
    try:
        months = int(os.environ.get("MONTHS", MONTHS))
        if not 1 <= months <= 12:
            raise Failed(f"MONTHS={months}: expected 1 to 12")
        with children() as held:
            run(report, held, FOLDER, months)
    except (Failed, SprocketError, ValueError) as error:
        report.console.print(f"[bold red]failed:[/] {error}")
        return 1
    except KeyboardInterrupt:
        report.console.print("interrupted; everything that was started has ended")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
