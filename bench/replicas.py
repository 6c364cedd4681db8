"""Pairs of brokers beside pairs of the real RocketMQ 5.3.3, and what a slave costs its master.

`make bench-ha`. All on this machine, each on a new store on the same disk:

* synchronous, with both disks synced: our pair and RocketMQ's take turns under the same load; the
  CPU is that of master and slave together.
* asynchronous: our master with a slave, and one without. Nobody waits for the slave; it is apart.
* catching up: an empty slave gets a log of some GiB, beside `cp` over the same link: a process that
  sends the files of the log over a TCP connection on loopback, and one that writes them and syncs.
  Then a slave that is apart gets it beside senders, of whom the p99 counts.

A slave that is *apart* has a disk of its own, in memory, and no more of the processors than the
others leave (SCHED_IDLE), as it would have a machine of its own: what is measured then is what it
costs its master. It must have all within `KEEPS_UP_SECONDS` after each load.

Exit code 0 if every goal is met, 1 if one is missed, 2 if the bench could not run.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.goals import OURS, THEIRS, Figures, Goal, at_least, at_most
from bench.load import Load, LoadError, Row, Run
from tests.interop import link, peers
from tests.interop.clusters import Cluster

from bench import processes
from sprocket.base.units import GIB, MIB
from sprocket.rocketmq.codec.codes import RequestCode

TOPIC = "Bench"
QUEUES = 4
ROWS = (
    Row(connections=16, outstanding=1),
    Row(connections=64, outstanding=1),
    Row(connections=4, outstanding=32),
)
WARM = Row(connections=4, outstanding=32)
FILL = Row(connections=4, outstanding=4, batch=32)
SENDERS = Row(connections=16, outstanding=1)
WINDOW_SECONDS = 1.0
"""Of senders beside a slave that catches up; several fit into that."""
JVM_HEAP = "1g"

RATE_MIN, CPU_MAX = 2.0, 0.35
"""Ours to RocketMQ's, synchronous."""
ASYNC_RATE_MIN = 0.9
CATCH_UP_MIN = 0.6
"""Bytes/s of a slave to those of `cp`."""
P99_MAX = 1.5
KEEPS_UP_SECONDS = 2.0
"""How long after a load a slave may take to have all of it; half a second is its flush."""
APART = Path("/dev/shm")  # noqa: S108 - a folder of its own is made there

ALONE, ASYNC = "without a slave", "asynchronous"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Brokers that work together.

    Attributes:
        master: The address that is sent to.
        pids: Of all its processes.
        has_slave: Whether one follows.
    """

    master: str
    pids: Sequence[int]
    has_slave: bool = True


class Bench:
    """The processes.

    Args:
        folder: For all that they write.
        jars: Of RocketMQ; None if only ours is measured.
        seconds: Of load, each time.
    """

    def __init__(self, folder: Path, jars: Path | None, seconds: float) -> None:
        self._cluster = Cluster(folder, jars)
        self._folder = folder
        self._apart = Path(tempfile.mkdtemp(prefix="bench-", dir=APART))
        self._seconds = seconds
        self._groups: dict[str, Group] = {}

    def close(self) -> None:
        """End all of them."""
        for group in self._groups.values():
            _signal(group.pids, signal.SIGCONT)
        self._cluster.close()
        shutil.rmtree(self._apart)

    def begin_ours(self, name: str, role: str, *, with_slave: bool = True) -> None:
        """Start a pair of ours, or a master alone."""
        names = [self._cluster.nameserver()]
        more = ["--set", f"replication.role={role}"]
        if with_slave and role == "async_master":
            more += ["--set", "replication.slaves=true"]
        store = name.replace(" ", "-")
        master = self._cluster.broker(store, names, *more, store=f"{store}-master")
        pids = [self._cluster.pid(master)]
        if with_slave:
            is_apart = role != "sync_master"
            flush = "async" if is_apart else "sync"
            folder = self._apart / store if is_apart else f"{store}-slave"
            slave = self._cluster.broker(
                store, names, *_SLAVE, "--set", f"store.flush={flush}", store=str(folder)
            )
            pids.append(self._cluster.pid(slave))
            if is_apart:
                _yield_processors(pids[-1])
        self._add(name, Group(master=master, pids=pids, has_slave=with_slave))

    def begin_theirs(self) -> None:
        """Start RocketMQ's pair."""
        names = [self._cluster.nameserver()]
        both = {
            "flushDiskType": "SYNC_FLUSH",
            "mappedFileSizeCommitLog": GIB,
            "waitTimeMillsInSendQueue": 5000,
        }
        master = self._cluster.real_broker(
            THEIRS,
            names,
            {**both, "brokerRole": "SYNC_MASTER", "inSyncReplicas": 2},
            store="theirs-master",
            heap=JVM_HEAP,
        )
        slave = self._cluster.real_broker(
            THEIRS,
            names,
            {**both, "brokerRole": "SLAVE", "brokerId": 1},
            store="theirs-slave",
            heap=JVM_HEAP,
        )
        pids = [self._cluster.pid(master), self._cluster.pid(slave)]
        self._add(THEIRS, Group(master=master, pids=pids))

    def _add(self, name: str, group: Group) -> None:
        self._groups[name] = group
        with link.Link(group.master) as connection:
            link.create_topic(connection, TOPIC, QUEUES)
        if group.has_slave:
            peers.wait_until(lambda: not lacks(group.master), f"the slave of {name}")

    @contextmanager
    def _alone(self, name: str) -> Iterator[Group]:
        """Have the machine for one group."""
        group = self._groups[name]
        others = [pid for one in self._groups.values() if one is not group for pid in one.pids]
        _signal(others, signal.SIGSTOP)
        try:
            if group.has_slave:  # it may have lost its master while both were stopped
                peers.wait_until(lambda: not lacks(group.master), f"the slave of {name}")
            yield group
        finally:
            _signal(others, signal.SIGCONT)
            time.sleep(processes.REST_SECONDS)

    def warm(self, messages: int) -> None:
        """Send to each, as a JVM is slow in its first seconds."""
        for name in self._groups:
            print(f"warming {name} with {messages:,} sends", flush=True)
            with self._alone(name) as group, _load(group.master, WARM) as load:
                load.run(messages=messages)

    def in_rounds(self, names: Sequence[str], rounds: int) -> dict[tuple[str, str], list[Figures]]:
        """Return the figures of all rounds, by row and name.

        The groups take turns at each row, as a machine may be another one a minute later.
        """
        found: dict[tuple[str, str], list[Figures]] = {}
        for row in ROWS:
            for turn in range(rounds):
                for name in names[:: 1 if turn % 2 == 0 else -1]:
                    with self._alone(name) as group:
                        figures = self._sends(group, row)
                    found.setdefault((row.name, name), []).append(figures)
                    _say(turn, row.name, name, figures)
        return found

    def _sends(self, group: Group, row: Row) -> Figures:
        with _load(group.master, row) as load:
            load.run(seconds=0.5)
            before = sum(map(processes.cpu_seconds, group.pids))
            run = load.run(seconds=self._seconds)
            time.sleep(processes.REST_SECONDS)
            spent = sum(map(processes.cpu_seconds, group.pids)) - before
        if group.has_slave:
            peers.wait_until(lambda: not lacks(group.master), "the slave", seconds=KEEPS_UP_SECONDS)
        return Figures(
            messages_per_s=run.messages / run.seconds,
            cpu_us_per_message=spent / run.messages * 1e6,
            p50_ms=run.percentile(0.50) * 1e3,
            p99_ms=run.percentile(0.99) * 1e3,
        )

    def catch_up(self, name: str, log_bytes: int) -> list[Goal]:
        """Have empty slaves come to a master with a long log; return what that must show."""
        with self._alone(name) as group:
            master = group.master
            with _load(master, FILL) as load:
                while end_of(master) < log_bytes:
                    load.run(messages=50_000)
            store = self._folder / f"{name.replace(' ', '-')}-master"
            copied = statistics.median(self._copied(store / "commitlog") for _ in range(3))
            speeds = [self._caught_up(master, f"late-{number}") for number in range(3)]
            speed = statistics.median(speeds)
            print(f"catching up {speed / MIB:,.0f} MiB/s, cp {copied / MIB:,.0f} MiB/s", flush=True)
            with _load(master, SENDERS) as load:
                load.run(seconds=WINDOW_SECONDS)
                alone = [load.run(seconds=WINDOW_SECONDS) for _ in range(5)]
                beside: list[Run] = []
                for number in range(3):
                    with self._late_slave(master, str(self._apart / f"{number}")) as slave:
                        _yield_processors(self._cluster.pid(slave))
                        while True:
                            window = load.run(seconds=WINDOW_SECONDS)
                            if lacks(master) < 16 * MIB:
                                break  # it has caught up, perhaps long before the end
                            beside.append(window)
            if not beside:
                raise RuntimeError("the slave caught up in less than a window: --log-mib is more")
            ratio = _p99_ms(beside) / _p99_ms(alone)
            print(
                f"senders: p99 {_p99_ms(alone):.2f} ms, beside {_p99_ms(beside):.2f} ms in "
                f"{len(beside)} windows",
                flush=True,
            )
        return [
            at_least("a slave catches up: bytes/s to cp's", speed / copied, CATCH_UP_MIN),
            at_most("senders beside it: p99 to that alone", ratio, P99_MAX),
        ]

    @contextmanager
    def _late_slave(self, master: str, store: str) -> Iterator[str]:
        """Start an empty slave; it ends, and its folder goes."""
        port = int(master.rpartition(":")[2])
        more = ("--set", f"replication.master_address=127.0.0.1:{port + 1}")
        slave = self._cluster.broker("late", [], *_SLAVE, *more, store=store)
        try:
            peers.wait_until(lambda: slaves_of(master) > 1, "the late slave", every=0.002)
            yield slave
        finally:
            self._cluster.kill(slave)
            peers.wait_until(lambda: slaves_of(master) == 1, "the late slave to be gone")
            shutil.rmtree(self._folder / store)

    def _caught_up(self, master: str, store: str) -> float:
        """Return with how many bytes/s an empty slave gets all, its disk synced."""
        with self._late_slave(master, store):
            lacked, began = lacks(master), time.perf_counter()
            peers.wait_until(lambda: not lacks(master), "the slave to have all", every=0.01)
            return lacked / (time.perf_counter() - began)

    def _copied(self, source: Path) -> float:
        """Return with how many bytes/s files are copied over a connection, and synced."""
        target = self._folder / "copied"
        listener = socket.create_server(("127.0.0.1", 0))
        command = [sys.executable, "-c", _RECEIVE, str(listener.getsockname()[1]), str(target)]
        began = time.perf_counter()
        with subprocess.Popen(command) as receiver:
            connection, _ = listener.accept()
            began = time.perf_counter()
            size = 0
            with connection:
                for file in sorted(source.iterdir()):
                    with file.open("rb") as opened:
                        size += connection.sendfile(opened)
            receiver.wait()
            seconds = time.perf_counter() - began
        listener.close()
        target.unlink()
        return size / seconds


_SLAVE = ("--set", "replication.role=slave", "--set", "replication.broker_id=1")
_RECEIVE = """
import os, socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
file = os.open(sys.argv[2], os.O_CREAT | os.O_WRONLY)
buffer = memoryview(bytearray(1 << 20))
while size := connection.recv_into(buffer):
    os.write(file, buffer[:size])
os.fdatasync(file)
"""


def _yield_processors(pid: int) -> None:
    """Let a process have what the others leave."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setscheduler(int(thread), os.SCHED_IDLE, os.sched_param(0))


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


def _load(address: str, row: Row) -> Load:
    return Load(address, TOPIC, row, queues=QUEUES)


def _said(master: str) -> Mapping[str, object]:
    with link.Link(master) as connection:
        body = connection.call(RequestCode.GET_BROKER_HA_STATUS, {}).body
    said: Mapping[str, object] = json.loads(body)
    return said


def _connections(master: str) -> list[dict[str, int]]:
    found = _said(master)["haConnectionInfo"]
    assert isinstance(found, list)
    return found


def slaves_of(master: str) -> int:
    """Return how many slaves a master has."""
    return len(_connections(master))


def lacks(master: str) -> int:
    """Return how many bytes the slave lacks that lacks most; very many without one."""
    return max((one["diff"] for one in _connections(master)), default=1 << 62)


def end_of(master: str) -> int:
    """Return where the log of a master ends."""
    end = _said(master)["masterCommitLogMaxOffset"]
    assert isinstance(end, int)
    return end


def _p99_ms(runs: Sequence[Run]) -> float:
    return statistics.median(run.percentile(0.99) for run in runs) * 1e3


def _ratio(
    figure: Callable[[Figures], float], ours: Sequence[Figures], theirs: Sequence[Figures]
) -> float:
    """Return the median of what was measured one after the other, to each other."""
    pairs = zip(map(figure, ours), map(figure, theirs), strict=True)
    return statistics.median(one / other for one, other in pairs)


def _rate(figures: Figures) -> float:
    return figures.messages_per_s


def _cpu(figures: Figures) -> float:
    return figures.cpu_us_per_message


def _say(turn: int, row: str, name: str, figures: Figures) -> None:
    print(
        f"round {turn + 1}  {row:8} {name:16} {figures.messages_per_s:9,.0f}/s"
        f" {figures.cpu_us_per_message:7.1f} µs CPU  p50 {figures.p50_ms:.2f} ms"
        f"  p99 {figures.p99_ms:.2f} ms",
        flush=True,
    )


def _synchronous(folder: Path, options: argparse.Namespace) -> list[Goal]:
    """Hold our pair against RocketMQ's."""
    jars = None if options.ours else peers.library()
    bench = Bench(folder, jars, options.seconds)
    try:
        bench.begin_ours(OURS, "sync_master")
        names = [OURS]
        if jars is not None:
            bench.begin_theirs()
            names.append(THEIRS)
        bench.warm(options.warm)
        found = bench.in_rounds(names, options.rounds)
    finally:
        bench.close()
    goals = []
    for row in ROWS if jars is not None else ():
        pair = found[row.name, OURS], found[row.name, THEIRS]
        rate, cpu = _ratio(_rate, *pair), _ratio(_cpu, *pair)
        goals.append(at_least(f"{row.name} synchronous: messages/s", rate, RATE_MIN))
        goals.append(at_most(f"{row.name} synchronous: CPU of both", cpu, CPU_MAX))
    return goals


def _asynchronous(folder: Path, options: argparse.Namespace) -> list[Goal]:
    """Hold a master with a slave against one without, and a late slave against `cp`."""
    bench = Bench(folder, None, options.seconds)
    try:
        bench.begin_ours(ASYNC, "async_master")
        bench.begin_ours(ALONE, "async_master", with_slave=False)
        bench.warm(options.warm)
        found = bench.in_rounds([ASYNC, ALONE], options.rounds)
        goals = [
            at_least(
                f"{row.name} asynchronous: messages/s",
                _ratio(_rate, found[row.name, ASYNC], found[row.name, ALONE]),
                ASYNC_RATE_MIN,
            )
            for row in ROWS
        ]
        return goals + bench.catch_up(ASYNC, options.log_mib * MIB)
    finally:
        bench.close()


PARTS: Mapping[str, Callable[[Path, argparse.Namespace], list[Goal]]] = {
    "synchronous": _synchronous,
    "asynchronous": _asynchronous,
}


def main() -> int:
    """Run the bench and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.replicas", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of load, each time")
    parser.add_argument("--warm", type=int, default=100_000, help="sends before the first")
    parser.add_argument("--log-mib", type=int, default=2048, help="what a late slave gets")
    parser.add_argument("--ours", action="store_true", help="no RocketMQ, none of its goals")
    parser.add_argument("--only", choices=list(PARTS), help="one part")
    parser.add_argument("--json", type=Path, default=peers.ROOT / "build/bench-ha.json")
    options = parser.parse_args()
    build = peers.ROOT / "build"
    build.mkdir(exist_ok=True)
    goals: list[Goal] = []
    for name, part in PARTS.items():
        if options.only not in (None, name):
            continue
        folder = Path(tempfile.mkdtemp(prefix="bench-", dir=build))  # on the disk, never in memory
        try:
            goals += part(folder, options)
        except (peers.PeerMissing, LoadError, RuntimeError, TimeoutError) as error:
            print(f"bench-ha could not run: {error}", file=sys.stderr)
            return 2
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print("\nGoals; ratios to RocketMQ's pair, to ours without a slave, to `cp`, to senders alone")
    for goal in goals:
        print(goal)
    told = {"machine": processes.machine(), "goals": [asdict(goal) for goal in goals]}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    return 0 if all(goal.is_met for goal in goals) else 1


if __name__ == "__main__":
    sys.exit(main())
