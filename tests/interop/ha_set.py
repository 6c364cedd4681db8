"""A set of two brokers and three members of the real etcd, each a process; what faults cost.

A sender asks whichever broker takes messages, one after the other, and keeps what was acknowledged.
Between each broker and each member of etcd stands a forwarder, and so does one between the brokers,
so that links can be cut.
"""

import contextlib
import itertools
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.interop import etcd_cluster, link, peers
from tests.interop.clusters import Cluster
from tests.interop.etcd_cluster import EtcdCluster
from tests.interop.forwarder import Forwarder
from tests.waits import LONG_SECONDS

from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.blocking import Admin, LitePullConsumer
from sprocket.rocketmq.codec.bodies import SetReplicas

NAME, TOPIC, QUEUES = "broker-a", "flights", 4
ANSWER_SECONDS = 1.0


class Member:
    """One broker, and the links of it that can be cut."""

    def __init__(self, number: int, cluster: Cluster, etcd: EtcdCluster, nameserver: str) -> None:
        self.number = number
        self.port = peers.free_port((-2, 0, 1))
        self.address = f"127.0.0.1:{self.port}"
        self.store = f"member-{number}"
        self._cluster = cluster
        self._nameserver = nameserver
        self._targets = [one.port for one in etcd.members]
        self._forwarders = [Forwarder(port) for port in self._targets]

    def start(self) -> None:
        """Start it; it is ready when its store is open."""
        etcd = ",".join(f"127.0.0.1:{one.port}" for one in self._forwarders)
        self._cluster.broker(
            NAME,
            [self._nameserver],
            *("--set", f"ha.decider=etcd://{etcd}", "--set", f"ha.member_id={self.number}"),
            store=self.store,
            port=self.port,
        )

    @property
    def pid(self) -> int:
        """Its process."""
        return self._cluster.pid(self.address)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._cluster.kill(self.address)

    def stop(self) -> None:
        """End it with SIGTERM."""
        assert self._cluster.stop(self.address) == 0

    def cut_from_etcd(self) -> None:
        """Cut its connections to etcd, and let none be made."""
        for one in self._forwarders:
            one.close()

    def reach_etcd(self) -> None:
        """Let it reach etcd again."""
        self._forwarders = [
            Forwarder(target, port=one.port)
            for target, one in zip(self._targets, self._forwarders, strict=True)
        ]

    def close(self) -> None:
        """Cut all its links."""
        self.cut_from_etcd()


@dataclass
class Sender:
    """Sends numbers, one after the other, to whichever broker takes them."""

    addresses: list[str]
    acknowledged: dict[str, float] = field(default_factory=dict)
    """Body → when it was acknowledged."""
    sent: int = 0
    is_over: bool = False

    def run(self) -> None:
        """Send until `is_over`."""
        links: dict[str, link.Link] = {}
        places = itertools.cycle(self.addresses)
        address = next(places)
        while not self.is_over:
            body = b"%012d" % self.sent
            try:
                if address not in links:
                    links[address] = link.Link(address, timeout=ANSWER_SECONDS)
                ext = link.send_ext(TOPIC, self.sent % QUEUES, f"KEYS\x01k{self.sent}\x02")
                code = links[address].ask(link.SEND_MESSAGE_V2, ext, body).code
            except OSError:
                code = -1
                links.pop(address, None)
            if code == link.SUCCESS:
                self.acknowledged[body.decode()] = time.monotonic()
            else:
                address = next(places)
                time.sleep(0.02)
            self.sent += 1

    def is_heard_after(self, at: float) -> bool:
        """Say whether anything was acknowledged after a moment."""
        return any(when > at for when in list(self.acknowledged.values())[-5:])


class HaSet:
    """See the head of the module."""

    def __init__(self, folder: Path, etcd: EtcdCluster) -> None:
        self.folder = folder
        self._etcd = etcd
        self._cluster = Cluster(folder)
        nameserver = self._cluster.nameserver()
        self.members = [Member(number, self._cluster, etcd, nameserver) for number in (1, 2)]
        self.admin = Admin(nameserver)
        self.nameserver = nameserver

    def begin(self) -> None:
        """Start both, and have the first one begin."""
        self.admin.start()
        for one in self.members:
            one.start()
        self._wait(lambda: len(self.admin.failover.views(NAME)) == 2, "both members")
        until = time.monotonic() + LONG_SECONDS
        while True:
            try:
                self.admin.failover.begin(NAME, [1])
                break
            except ClientError:
                assert time.monotonic() < until
                time.sleep(0.2)
        self.wait_in_sync()

    def view(self) -> SetReplicas | None:
        """Return what is known of the set; None while nobody says anything."""
        with contextlib.suppress(ClientError):
            return self.admin.failover.master(NAME)
        return None

    def wait_in_sync(self) -> SetReplicas:
        """Wait until there is a master, and both are in sync."""
        found: list[SetReplicas] = []

        def holds() -> bool:
            view = self.view()
            if view is None or len(view.in_sync) != 2 or not all(m.is_alive for m in view.in_sync):
                return False
            found.append(view)
            return True

        self._wait(holds, "a set in sync")
        return found[-1]

    def master(self) -> Member:
        """Return the master."""
        number = self.wait_in_sync().master_broker_id
        return next(one for one in self.members if one.number == number)

    def read(self) -> list[str]:
        """Return the bodies of all messages, in the order of each queue."""
        found: list[str] = []
        with LitePullConsumer(self.nameserver, group="readers") as consumer:
            queues = self.admin.queues(TOPIC)
            consumer.assign(queues)
            consumer.seek_to_begin()
            quiet = 0
            while quiet < 3:
                messages = consumer.poll(timeout_ms=1000)
                quiet = 0 if messages else quiet + 1
                found += [one.body.decode() for one in messages]
        return found

    def logs(self) -> list[bytes]:
        """Return what is in the log of each member, without the zeros after its end."""
        found = []
        for one in self.members:
            files = sorted((self.folder / one.store / "commitlog").iterdir())
            with tempfile.SpooledTemporaryFile() as whole:
                for file in files:
                    with file.open("rb") as part:
                        whole.write(part.read().rstrip(b"\0"))
                whole.seek(0)
                found.append(whole.read())
        return found

    def close(self) -> None:
        """End everything."""
        with contextlib.suppress(ClientError):
            self.admin.close()
        self._cluster.close()
        for one in self.members:
            one.close()

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        def asked() -> bool:
            try:
                return holds()
            except ClientError:
                return False

        peers.wait_until(asked, what, seconds=90, every=0.1)


# Faults: each returns what heals it.


def handed_over(ha: HaSet, _: Member) -> Callable[[], None]:
    """An operator hands over."""
    ha.admin.failover.hand_over(NAME)
    return lambda: None


def killed(_: HaSet, master: Member) -> Callable[[], None]:
    """The master is killed, and started again later."""
    master.kill()
    return master.start


def stopped(_: HaSet, master: Member) -> Callable[[], None]:
    """The master stands still, for longer than its lease lives."""
    os.kill(master.pid, signal.SIGSTOP)
    return lambda: os.kill(master.pid, signal.SIGCONT)


def cut_from_etcd(_: HaSet, master: Member) -> Callable[[], None]:
    """The master does not reach etcd."""
    master.cut_from_etcd()
    return master.reach_etcd


FAULTS: dict[str, Callable[[HaSet, Member], Callable[[], None]]] = {
    "handed over": handed_over,
    "killed (-9)": killed,
    "stopped (SIGSTOP)": stopped,
    "cut off from etcd": cut_from_etcd,
}


@contextmanager
def running(folder: Path) -> Iterator[HaSet]:
    """Give a set of which the first member is master, and both are in sync. Raises PeerMissing."""
    etcd = EtcdCluster(etcd_cluster.program(), folder / "etcd")
    ha: HaSet | None = None
    try:
        ha = HaSet(folder, etcd.start())
        ha.begin()
        yield ha
    finally:
        if ha is not None:
            ha.close()
        etcd.stop()


@dataclass(frozen=True)
class Outcome:
    """What faults have cost."""

    seconds: dict[str, float]
    """From each fault to the first message that was acknowledged after it."""
    acknowledged: int
    lost: list[str]
    doubled: list[str]
    are_equal: bool
    """Whether both logs are the same, as far as the shorter one goes."""
    epochs: int


def play(folder: Path, rounds: int = 1, say: Callable[[str], None] = lambda _: None) -> Outcome:
    """Send while one fault after the other happens; then read everything. Raises PeerMissing."""
    seconds: dict[str, float] = {}
    with running(folder) as ha:
        sender = Sender([one.address for one in ha.members])
        thread = threading.Thread(target=sender.run, daemon=True)
        thread.start()
        peers.wait_until(lambda: len(sender.acknowledged) > 20, "messages", seconds=60)
        for number, (what, fault) in itertools.product(range(rounds), FAULTS.items()):
            master = ha.master()
            before = ha.wait_in_sync().master_epoch
            peers.pause(0.5)
            at = time.monotonic()
            heal = fault(ha, master)

            def switched(before: int = before) -> bool:
                view = ha.view()
                return view is not None and view.master_epoch > before

            peers.wait_until(switched, "another master", seconds=60, every=0.02)
            peers.wait_until(partial(sender.is_heard_after, time.monotonic()), "an ack")
            took = _gap(sender, at)
            seconds[f"{what} {number + 1}" if rounds > 1 else what] = took
            say(f"{what}: {took:.2f} s")
            heal()
            ha.wait_in_sync()
        sender.is_over = True
        thread.join(30)
        epochs = ha.wait_in_sync().master_epoch
        found = ha.read()
        for one in ha.members:
            with contextlib.suppress(KeyError):
                one.kill()
        logs = ha.logs()
    length = min(map(len, logs))
    counts: dict[str, int] = {}
    for body in found:
        counts[body] = counts.get(body, 0) + 1
    return Outcome(
        seconds=seconds,
        acknowledged=len(sender.acknowledged),
        lost=sorted(set(sender.acknowledged) - set(found)),
        doubled=sorted(body for body, count in counts.items() if count > 1),
        are_equal=logs[0][:length] == logs[1][:length],
        epochs=epochs,
    )


def _gap(sender: Sender, at: float) -> float:
    """Return the longest time without an acknowledgement that ends after a moment, from it on."""
    times = sorted(when for when in list(sender.acknowledged.values()) if when > at - 1)
    gaps = [(b - max(a, at)) for a, b in itertools.pairwise(times) if b > at]
    return max(gaps, default=0.0)


def main() -> int:
    """Print what each fault costs."""
    rounds = int(os.environ.get("ROUNDS", "1"))
    with tempfile.TemporaryDirectory(prefix="sprocket-ha-") as made:
        folder = os.environ.get("FOLDER", made)
        try:
            outcome = play(Path(folder), rounds, lambda text: print(text, flush=True))
        except peers.PeerMissing as missing:
            print(missing, file=sys.stderr)
            return 1
    print(
        f"{outcome.acknowledged} messages acknowledged, {len(outcome.lost)} lost, "
        f"{len(outcome.doubled)} doubled, {outcome.epochs} epochs; logs "
        f"{'equal' if outcome.are_equal else 'DIFFER'}"
    )
    return 1 if outcome.lost or not outcome.are_equal else 0


if __name__ == "__main__":
    sys.exit(main())
