"""The main job: `python -m examples.flights`, from the project's folder.

Ends with 0 if everything that was to be shown was shown and verified, with 1 and one reason if
not, with 130 on Ctrl-C.
"""

import asyncio
import calendar
import json
import logging
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession

from examples.flights import answers, offline, picture, pipeline, session, source
from examples.flights.consumer import GROUP, MEMBERS
from examples.flights.processes import Broker, Child, Children, Failed, children
from examples.flights.producer import make_topic, replay
from examples.flights.report import Report, unequal
from examples.flights.source import FLIGHTS, TOPIC, Event, Tables
from examples.flights.stream import Stream
from sprocket.base.errors import SprocketError

FOLDER = Path("flights-data")
CATCH_UP_SECONDS = 240.0


class Flights:
    """One run. The steps are methods, in their order; `run` calls them."""

    def __init__(self, report: Report, held: Children, folder: Path) -> None:
        self.report = report
        self.held = held
        self.folder = folder
        self.store = folder / "store"
        self.broker = Broker(held, self.store, folder / "broker.log")
        self.acknowledged = 0
        self.is_over = False
        self.tables: Tables
        self.events: Sequence[Event]
        self.stream: Stream
        self.spark: SparkSession
        self.watch: Child
        self.watched: dict[str, Any] = {}
        self.archived = self.archived_again = 0
        self.asked: Child

    def prepare(self) -> None:
        """Start the broker and Spark, read the source, let the readers begin."""
        self.report.step(f"starting Sprocket, data in {self.store}")
        self.report.note(self.broker.start())
        self.report.step("starting Spark and reading the source")
        with ThreadPoolExecutor(1) as beside:
            spark: Future[SparkSession] = beside.submit(
                session.start, self.folder, self.folder / "spark.log"
            )
            self.tables = source.load()
            self.events = source.events(self.tables.flights)
            self.spark = spark.result()
        days = self.tables.flights["scheduled_at"]
        self.report.step(
            f"{len(self.events):,} flights from {days.iloc[0]:%d %B %Y} to {days.iloc[-1]:%d %B %Y}"
        )

    def begin_reading(self) -> None:
        """Create the topic, start the stream and the consumer group."""
        asyncio.run(make_topic(self.broker.nameserver))
        self.stream = Stream(self.spark, self.broker.nameserver, self.folder)
        self.stream.start()
        command = [sys.executable, "-m", "examples.flights.consumer", self.broker.nameserver]
        self.watch = self.held.start("the consumer group", command, self.folder / "consumer.log")
        tags = " || ".join(answers.GROUP_CARRIERS)
        self.report.step(f"reading: group {GROUP} ({MEMBERS} members, tags {tags}); Spark stream")

    def send(self) -> None:
        """Replay the flights, and kill the broker in the middle."""
        self.report.step(f"replaying into topic {TOPIC}: tag carrier, key and order tail number")
        with self.report.progress() as bar:
            task = bar.add_task("acknowledged", total=len(self.events))

            def acknowledged(count: int) -> None:
                self.acknowledged += count
                bar.update(task, completed=self.acknowledged)
                if self.acknowledged >= len(self.events) // 2:
                    middle.set()

            async def replay_and_crash() -> float:
                try:
                    async with asyncio.TaskGroup() as both:
                        both.create_task(asyncio.to_thread(self.crash, middle))
                        sent = both.create_task(
                            replay(self.broker.nameserver, self.events, acknowledged)
                        )
                finally:
                    self.is_over = True  # the thread need not wait for the middle any more
                    middle.set()
                return sent.result()

            middle = threading.Event()
            seconds = asyncio.run(replay_and_crash())
        rate = self.acknowledged / seconds
        self.report.step(
            f"{self.acknowledged:,} acknowledged in {seconds:.1f} s: {rate:,.0f} messages/s,"
            " outage included; acknowledged means on disk"
        )

    def crash(self, middle: threading.Event) -> None:
        """Kill the broker with -9 while sends are under way, and start it on the same ports."""
        middle.wait()
        if self.is_over:
            return
        self.broker.kill()
        killed = time.monotonic()
        said = self.broker.start()
        gone = time.monotonic() - killed
        self.report.step(f"[bold]killed the broker with -9[/]; ready again after {gone:.1f} s")
        self.report.note(said)

    def finish_reading(self) -> None:
        """Let the readers catch up, then stop everything but Spark."""
        self.report.step("waiting for the readers to catch up")
        expected = sum(answers.group_counts(self.tables).values())

        def is_through(lines: list[str]) -> str | None:
            seen = [line for line in lines if line.startswith("{")]
            is_there = seen and json.loads(seen[-1])["received"] >= expected
            return seen[-1] if is_there else None

        self.stream.drain(CATCH_UP_SECONDS)
        self.watch.wait_for(is_through, CATCH_UP_SECONDS)
        self.watch.stop()
        self.watched = json.loads(self.watch.lines()[-1])
        self.report.step(f"writing late flights from Spark into topic {pipeline.LATE_TOPIC}")
        pipeline.tell_late(self.spark, self.stream.archive, self.broker.nameserver)
        self.broker.stop()
        self.report.step("the broker is stopped; what follows reads its folder")

    def verify_streamed(self) -> pd.DataFrame:
        """Check what the group, the windows and the archive hold; return the windows."""
        report = self.report
        report.check(
            f"{FLIGHTS:,} flights sent and acknowledged", unequal(self.acknowledged, FLIGHTS)
        )
        expected = answers.group_counts(self.tables)
        wrong = "" if self.watched["counts"] == expected else f"{self.watched['counts']}"
        wrong = wrong or unequal(self.watched["foreign"], 0)
        named = ", ".join(f"{count:,} {tag}" for tag, count in expected.items())
        report.check(f"the group received every flight of its tags: {named}", wrong)
        report.check(
            "the group saw each plane's flights in time order",
            unequal(self.watched["out_of_order"], 0),
        )
        windows = self.stream.window_table()
        wanted = answers.windows(self.tables)
        report.check(
            f"streamed: {int(windows['flights'].sum()):,} flights in {len(windows):,} windows of"
            " carrier and hour, each equal to the source",
            answers.difference(windows[list(wanted.columns)], wanted),
        )
        archived = self.stream.archive_table()
        once = archived.drop_duplicates("msgId").sort_values(
            ["scheduled_at", "row"], ignore_index=True
        )
        report.check(
            f"archived: {len(archived):,} rows of Parquet, {len(once):,} unique keys, every column"
            " equal to the source",
            answers.difference(once[source.COLUMNS], self.tables.flights),
        )
        return windows

    def verify_stored(self) -> None:
        """Read the store as a DataFrame, and check it against what was sent."""
        found = offline.audit(offline.read(self.spark, self.store), self.events)
        more = found.records - found.unique_keys
        self.report.check(
            f"read offline: {found.records:,} records, {found.unique_keys:,} unique keys"
            f" ({more:,} stored twice because of the kill)",
            unequal(found.unique_keys, FLIGHTS),
        )
        self.report.check(
            "none lost: every flight is in the log, byte for byte", unequal(found.missing, 0)
        )
        self.report.check(
            "none twice once the unique key is taken into account, none that was not sent",
            unequal(found.foreign, 0) or unequal(found.unique_keys, FLIGHTS),
        )
        self.report.check(
            "each plane's flights lie in time order; queue offsets without gaps",
            unequal(found.out_of_order, 0) or unequal(found.gaps, 0),
        )
        late, keys = pipeline.late(self.tables), pipeline.late_keys(self.spark, self.store)
        self.report.check(
            f"{late:,} flights that left more than {pipeline.LATE_MINUTES} minutes late came from"
            " Spark into the topic of their own",
            unequal(len(set(keys)), late),
        )
        self.report.check(
            f"archived the log: {self.archived:,} messages as Parquet; run again, nothing was new",
            unequal(self.archived, found.records + len(keys)) or unequal(self.archived_again, 0),
        )

    def archive_log(self) -> None:
        """Archive the log by a job, twice, and ask the archive in SQL; the answer comes later."""
        to = self.folder / "log-archive"
        self.archived, self.archived_again = pipeline.archive_log(self.spark, self.store, to)
        self.asked = pipeline.ask(self.held, to, self.folder / "sql.log")

    def verify_archived(self) -> None:
        """Check what `sprocket sql` has answered."""
        self.report.check(
            "`sprocket sql` counts each carrier's flights in the archive as pandas does in the"
            " source",
            answers.difference(
                pipeline.flights_by_carrier(self.asked), pipeline.expected_by_carrier(self.tables)
            ),
        )

    def ask(self) -> None:
        """Print the three tables, each checked against pandas."""
        all_flights = offline.once(offline.read(self.spark, self.store))
        day = answers.busiest_plane_day(self.tables)
        carriers = offline.by_carrier(all_flights, self.tables)
        routes = offline.worst_routes(all_flights, self.tables)
        plane = offline.plane_day(self.store, day)
        all_flights.unpersist()
        self.report.table("Delays by carrier", carriers)
        self.report.table("Routes with the worst delays on arrival", routes)
        on = f"{day.day} {calendar.month_name[day.month]} 2013"
        shown = plane.drop(columns="row").assign(sched_dep_time=plane["sched_dep_time"].map(clock))
        self.report.table(f"Plane {day.tail} on {on}, found by its key through the index", shown)
        wrong = answers.difference(carriers, answers.by_carrier(self.tables))
        self.report.check("delays by carrier equal what pandas computes from the source", wrong)
        wrong = answers.difference(routes, answers.worst_routes(self.tables))
        self.report.check("worst routes equal what pandas computes from the source", wrong)
        wrong = answers.difference(plane, answers.plane_day(self.tables, day))
        self.report.check(f"the day of plane {day.tail} equals the source", wrong)


def clock(hour_and_minute: int) -> str:
    """Write a time as the source has it (1305) in the usual way (13:05)."""
    return f"{hour_and_minute // 100:02d}:{hour_and_minute % 100:02d}"


def run(report: Report, held: Children, folder: Path) -> None:
    """Run the whole job.

    Raises:
        Failed: It cannot go on, or a check failed.
    """
    session.check_java()
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    logging.basicConfig(filename=folder / "client.log", level=logging.WARNING)
    job = Flights(report, held, folder)
    try:
        job.prepare()
        job.begin_reading()
        job.send()
        job.finish_reading()
        report.step("archiving the log by a job, and asking the archive in SQL")
        job.archive_log()
        report.step("verifying")
        windows = job.verify_streamed()
        job.verify_stored()
        job.ask()
        job.verify_archived()
        picture.draw(windows, job.tables.airlines, folder / "delays.png")
    finally:
        if hasattr(job, "spark"):
            session.stop(job.spark, folder / "spark.log")
    report.verdict()
    say_goodbye(report, folder)


def say_goodbye(report: Report, folder: Path) -> None:
    """Say where everything lies and how to go on."""
    report.step("[bold green]all verified[/]")
    sprocket = Path(".venv") / "bin" / "sprocket"
    report.console.print(
        f"""
  picture   {folder}/delays.png
  store     {folder}/store      the log, its queues and its index
  archive   {folder}/archive    every event as Parquet, by the stream
            {folder}/log-archive, the whole log, by a job
  logs      {folder}/broker.log, client.log, consumer.log, spark.log, sql.log

Go on:
  {sprocket} store ls {folder}/store
  {sprocket} store find {folder}/store --topic {TOPIC} --key N346JB
  {sprocket} sql --archive {folder}/log-archive
  {sprocket} pipe stats {folder}/store --by tag
  {sprocket} up --data {folder}/store      serves it again""",
        markup=False,
    )


def main() -> int:
    """Run the job and translate its end into an exit code."""
    report = Report()
    try:
        with children() as held:
            run(report, held, FOLDER)
    except (Failed, SprocketError) as error:
        report.console.print(f"[bold red]failed:[/] {error}")
        return 1
    except KeyboardInterrupt:
        report.console.print("interrupted; everything that was started has ended")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
