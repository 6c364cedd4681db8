"""A year of flights is sent to a pair of which the master fails in one way after the other.

    make ha-run

`ha_set` has the pair, and three members of etcd. What was lost is printed (nothing), what is there
twice, and how long nobody was answered.
"""

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.interop import ha_network, peers
from tests.interop.ha_check import Logs, bodies
from tests.interop.ha_namespaces import Namespaces, NoNamespaces
from tests.interop.ha_set import NAME, HaSet, Member, Wires

from examples.flights import source
from sprocket.rocketmq.client import Admin, Message, Producer, Puller, SendResult, SendStatus

TOPIC, QUEUES = source.TOPIC, 8
SECONDS = 120.0
"""In which all flights are sent, as long as somebody takes them; faults happen in less."""
TICK_SECONDS = 0.02
UNANSWERED_MAX = 4_000
TIMEOUT_MS = 60_000
_NAMED_MAX = 10


@dataclass(frozen=True)
class Flight:
    """What is sent of one flight."""

    row: int
    body: bytes
    shard: str


@dataclass(frozen=True)
class Sent:
    """A flight that was acknowledged."""

    row: int
    at: float


class Sending:
    """Sends flights in a thread of its own, in time order; a plane's stay in theirs.

    Args:
        nameserver: Where the brokers are found.
        flights: All of them.

    Attributes:
        acknowledged: In the order of the answers.
        failed: Why it ended before all were sent.
    """

    def __init__(self, nameserver: str, flights: Sequence[Flight]) -> None:
        self.acknowledged: list[Sent] = []
        self.failed: BaseException | None = None
        self._nameserver = nameserver
        self._flights = flights
        self._hurries = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """Send the rest as fast as it goes. Raises TimeoutError: it takes longer."""
        self._hurries.set()
        self._thread.join(seconds)
        if self.failed is not None:
            raise self.failed
        if self._thread.is_alive():
            raise TimeoutError(f"{len(self.acknowledged)} of {len(self._flights)} are sent")

    @property
    def is_over(self) -> bool:
        """Whether all were sent, or it has failed."""
        return not self._thread.is_alive()

    def last_at(self) -> float:
        """Return when a message was acknowledged last."""
        return self.acknowledged[-1].at if self.acknowledged else 0.0

    def silence_after(self, at: float) -> float:
        """Return the longest time without an acknowledgement from a moment on."""
        late = itertools.takewhile(lambda one: one.at > at, reversed(self.acknowledged))
        times = [*(one.at for one in late), at]
        gaps = [later - earlier for later, earlier in itertools.pairwise(times)]
        return max(gaps, default=0.0)

    def _run(self) -> None:
        try:
            asyncio.run(self._send())
        except BaseException as error:  # told by `finish`
            self.failed = error

    async def _send(self) -> None:
        pending: set[asyncio.Future[None]] = set()
        begun, rate = time.monotonic(), len(self._flights) / SECONDS
        async with Producer(self._nameserver, group="flights") as producer:
            for number, one in enumerate(self._flights):
                while not self._hurries.is_set() and number > (time.monotonic() - begun) * rate:
                    await asyncio.sleep(TICK_SECONDS)
                while len(pending) >= UNANSWERED_MAX:
                    await asyncio.sleep(TICK_SECONDS)
                message = Message(TOPIC, one.body, keys=[str(one.row)])
                sent = producer.send_soon(message, sharding_key=one.shard, timeout_ms=TIMEOUT_MS)
                task = asyncio.ensure_future(self._note(one, sent, producer))
                pending.add(task)
                task.add_done_callback(pending.discard)
                if number % 64 == 0:
                    await asyncio.sleep(0)
            await asyncio.gather(*pending)

    async def _note(
        self, flight: Flight, sent: "asyncio.Future[SendResult]", producer: Producer
    ) -> None:
        """Note that a flight was acknowledged; one that is stored by the master alone is not."""
        while (await sent).status is not SendStatus.OK:
            message = Message(TOPIC, flight.body, keys=[str(flight.row)])
            sent = producer.send_soon(message, sharding_key=flight.shard, timeout_ms=TIMEOUT_MS)
        self.acknowledged.append(Sent(flight.row, time.monotonic()))


def year(count: int = source.FLIGHTS) -> list[Flight]:
    """Return the first flights of the year."""
    tables = source.load().flights.head(count)
    rows = tables["row"].tolist()
    events = source.events(tables)
    return [Flight(row, one.body, one.shard) for row, one in zip(rows, events, strict=True)]


# Faults: each returns what heals it.

Heal = Callable[[], None]


def handed_over(ha: HaSet[Wires], _: Member[Wires]) -> Heal:
    """An operator hands over."""
    ha.admin.failover.hand_over(NAME)
    return lambda: None


def killed(_: HaSet[Wires], master: Member[Wires]) -> Heal:
    """The master is killed, and started again later."""
    master.kill()
    return master.start


def stopped(_: HaSet[Wires], master: Member[Wires]) -> Heal:
    """The master stands still, for longer than its lease lives."""
    master.freeze()
    return master.thaw


def cut_from_etcd(_: HaSet[Wires], master: Member[Wires]) -> Heal:
    """The master does not reach etcd."""
    master.to_etcd.cut()
    return master.to_etcd.heal


def cut_from_slave(ha: HaSet[Wires], _: Member[Wires]) -> Heal:
    """Master and slave do not reach each other: the master goes on alone after a while."""
    for one in ha.members:
        one.to_it.cut()

    def heal() -> None:
        for one in ha.members:
            one.to_it.heal()

    return heal


def cut_from_both(ha: HaSet[Wires], master: Member[Wires]) -> Heal:
    """The master reaches neither."""
    heals = [cut_from_etcd(ha, master), cut_from_slave(ha, master)]

    def heal() -> None:
        for one in heals:
            one()

    return heal


FAULTS: Mapping[str, Callable[[HaSet[Wires], Member[Wires]], Heal]] = {
    "handed over": handed_over,
    "killed (-9)": killed,
    "stopped (SIGSTOP)": stopped,
    "cut off from etcd": cut_from_etcd,
    "cut off from its slave": cut_from_slave,
    "cut off from both": cut_from_both,
}
STAYS = "cut off from its slave"
"""The fault after which the master stays who it is."""


@dataclass(frozen=True)
class Outcome:
    """What faults have cost.

    Attributes:
        seconds: Of each fault the longest time without an acknowledgement after it.
        acknowledged: How many flights were.
        lost: Rows of flights that were acknowledged and are not there.
        doubled: Rows of those that are there more than once.
        epochs: How many masters there were.
    """

    seconds: Mapping[str, float]
    acknowledged: int
    lost: Sequence[int]
    doubled: Sequence[int]
    epochs: int


def play(ha: HaSet[Wires], flights: Sequence[Flight], say: Callable[[str], None]) -> Outcome:
    """Send flights while one fault after the other happens; then read everything.

    Raises:
        Broken: The logs differ in the end.
        TimeoutError: Nobody is answered any more.
    """
    seconds: dict[str, float] = {}
    asyncio.run(_make_topic(ha.nameserver))
    sending = Sending(ha.nameserver, flights)
    peers.wait_until(lambda: len(sending.acknowledged) > 100, "flights", seconds=60)
    for what, fault in FAULTS.items():
        master = ha.wait_settled()
        epoch = ha.epoch
        peers.pause(0.5)
        at = time.monotonic()
        heal = fault(ha, master)
        if what == STAYS:
            ha.wait_alone(master)
        else:
            ha.wait_led_after(epoch)
        led = time.monotonic()
        peers.wait_until(
            lambda led=led: sending.is_over or sending.last_at() > led,  # type: ignore[misc]
            "an answer",
        )
        seconds[what] = sending.silence_after(at)
        say(f"the master is {what}: {seconds[what]:.2f} s without an answer")
        heal()
    ha.wait_settled()
    sending.finish(120)
    ha.wait_settled()
    Logs([one.store / "commitlog" for one in ha.members]).wait_until_equal()
    found = Counter(asyncio.run(_rows(ha.nameserver)))
    rows = [one.row for one in sending.acknowledged]
    return Outcome(
        seconds=seconds,
        acknowledged=len(rows),
        lost=sorted(set(rows) - set(found)),
        doubled=sorted(row for row, count in found.items() if count > 1),
        epochs=ha.epoch,
    )


async def _make_topic(nameserver: str) -> None:
    async with Admin(nameserver) as admin:
        await admin.create_topic(TOPIC, queues=QUEUES)


async def _rows(nameserver: str) -> list[int]:
    """Return the row of each message that is stored."""
    found: list[int] = []
    async with Puller(nameserver, group="ha-run") as puller:
        for queue in await puller.queues(TOPIC):
            offset, end = await puller.min_offset(queue), await puller.max_offset(queue)
            while offset < end:
                pulled = await puller.pull(queue, offset)
                found += [json.loads(body)["row"] for body in bodies(pulled.body)]
                offset = pulled.next_offset
    return found


def told(outcome: Outcome, flights: Sequence[Flight]) -> str:
    """Return what was lost, and what is there twice, for people."""
    bodies = {one.row: json.loads(one.body) for one in flights}

    def named(rows: Sequence[int]) -> str:
        names = [
            "{carrier} {flight} {scheduled_at}".format(**bodies[row]) for row in rows[:_NAMED_MAX]
        ]
        more = f" and {len(rows) - _NAMED_MAX:,} more" if len(rows) > _NAMED_MAX else ""
        return f"{len(rows):,}" + (f" ({', '.join(names)}{more})" if rows else "")

    return (
        f"{outcome.acknowledged:,} flights acknowledged in {outcome.epochs} epochs\n"
        f"lost: {named(outcome.lost)}\n"
        f"doubled, as they were sent again: {named(outcome.doubled)}\n"
        "logs equal byte for byte"
    )


OPTIONS = ("--set", f"log.segment_bytes={64 << 20}")


def run(folder: Path, network: str) -> int:
    """Play the year in this process, in namespaces that are there or on loopback; print all."""
    flights = year(int(os.environ.get("FLIGHTS") or source.FLIGHTS))
    say = partial(print, flush=True)
    with ha_network.running(folder, network, OPTIONS) as ha:
        outcome = play(ha, flights, say)
    say(told(outcome, flights))
    return 1 if outcome.lost or outcome.acknowledged < len(flights) else 0


def main(arguments: Sequence[str]) -> int:
    """Do what the head of the module says, in namespaces of its own if there can be any."""
    with tempfile.TemporaryDirectory(prefix="sprocket-ha-") as folder:
        if arguments:
            return run(Path(folder), arguments[0])
        try:
            with Namespaces() as spaces:
                print("two machines and a hub, as network namespaces", flush=True)
                command = [*spaces.hub, sys.executable, "-m", "tests.interop.ha_run", spaces.prefix]
                return subprocess.run(command, check=False).returncode
        except NoNamespaces as error:
            print(f"on loopback: no network namespaces ({error})", flush=True)
        return run(Path(folder), "")


def _end(number: int, _: object) -> None:
    raise KeyboardInterrupt(f"signal {number}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)  # so that all that was made is removed
    try:
        sys.exit(main(sys.argv[1:]))
    except peers.PeerMissing as missing:
        sys.exit(str(missing))
