"""A set of two brokers and three members of the real etcd, each a process; its links can be cut.

    senders ─► own address ─► broker 1 ◄─ forwarders ─► broker 2
                                 └──── forwarders ─► etcd ×3 ◄──┘

Each broker tells others an address of this machine at which forwarders listen, for its own port and
for that of slaves; and each has forwarders of its own to the members of etcd.
"""

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from tests.interop import etcd_cluster, peers
from tests.interop.clusters import PROGRAM, Cluster, Run
from tests.interop.etcd_cluster import EtcdCluster
from tests.interop.forwarder import Forwarder, Look, Way
from tests.interop.peers import ROOT

from sprocket.base.errors import ClientError
from sprocket.rocketmq.client.blocking import Admin

NAME = "broker-a"
KEYS = f"/sprocket/DefaultCluster/{NAME}/"
"""What the keys of the set begin with."""
SETTLED_SECONDS = 90.0
"""How long a set may take until both members are in sync again, whatever has happened."""


class Wires(Protocol):
    """Links that are cut together."""

    def cut(self) -> None:
        """Let nothing through."""

    def heal(self) -> None:
        """Let everything through again."""


class Links:
    """Forwarders as `Wires`; they can do more than cut."""

    def __init__(self, forwarders: Sequence[Forwarder]) -> None:
        self.all = list(forwarders)

    def cut(self) -> None:
        """Cut connections, and let none be made."""
        for one in self.all:
            one.close()

    def silence(self, *ways: Way) -> None:
        """Have nothing get through these ways, although connections stay."""
        for one in self.all:
            one.stop(*ways)

    def heal(self) -> None:
        """See `Wires`."""
        self.all = [one.again() if one.is_closed else one for one in self.all]
        for one in self.all:
            one.look = None
            one.go_on()

    def look(self, look: Look) -> None:
        """Have somebody decide what becomes of what is sent there."""
        for one in self.all:
            one.look = look


W = TypeVar("W", bound=Wires, covariant=True)


@dataclass(frozen=True, kw_only=True)
class Place(Generic[W]):
    """Where a member runs, and what leads there.

    Attributes:
        own_address: Where senders reach it, whatever is cut.
        address: Where others reach it.
        options: Of the broker, so that it listens there.
        etcd: Where it reaches the members of etcd, `host:port` each.
        to_etcd: That can be cut.
        to_it: What leads from its slave to it, and to its master.
        stays: What else leads to it, and is cut in the end.
        wrapper: What its command begins with.
    """

    own_address: str
    address: str
    options: Sequence[str]
    etcd: Sequence[str]
    to_etcd: W
    to_it: W
    stays: W | None = None
    wrapper: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Ground(Generic[W]):
    """Where a set is.

    Attributes:
        places: Of both members.
        nameserver: Options of the NameServer, so that all reach it.
    """

    places: Sequence[Place[W]]
    nameserver: Sequence[str] = ()


def on_loopback(etcd: EtcdCluster, *, cuts_clients: bool) -> Ground[Links]:
    """Return two places on this machine, each with an address of its own.

    Args:
        etcd: Decides.
        cuts_clients: Whether who is cut off from the other member is cut off from everybody who
            knows its address, and not at its own one.
    """
    found = []
    for number in (1, 2):
        port, host = peers.free_port((-2, 0, 1)), f"127.0.0.{number + 1}"
        to_etcd = Links([Forwarder(one.port) for one in etcd.members])
        to_clients, to_slaves = (Forwarder(one, host, one) for one in (port, port + 1))
        found.append(
            Place(
                own_address=f"127.0.0.1:{port}",
                address=f"{host}:{port}",
                options=("--set", f"server.advertised_host={host}"),
                etcd=[f"127.0.0.1:{one.port}" for one in to_etcd.all],
                to_etcd=to_etcd,
                to_it=Links([to_slaves, to_clients] if cuts_clients else [to_slaves]),
                stays=Links([] if cuts_clients else [to_clients]),
            )
        )
    return Ground(places=found)


class Member(Generic[W]):
    """One broker, and the links of it.

    Args:
        number: Its own, from 1.
        place: Where it runs.
        cluster: Starts it.
        nameserver: Where it registers.
        options: More of its options.
    """

    def __init__(
        self,
        number: int,
        place: Place[W],
        cluster: Cluster,
        nameserver: str,
        options: Sequence[str] = (),
    ) -> None:
        self.number = number
        self.place = place
        self.own_address, self.address = place.own_address, place.address
        self.to_etcd, self.to_it = place.to_etcd, place.to_it
        self.store = cluster.folder / f"member-{number}"
        self.is_running = False
        self._cluster = cluster
        self._nameserver = nameserver
        self._options = (*options, *place.options)

    def start(self, program: Sequence[str] = PROGRAM) -> None:
        """Start it; it is ready when its store is open."""
        decider = f"etcd://{','.join(self.place.etcd)}"
        self._cluster.broker(
            NAME,
            [self._nameserver],
            *("--set", f"ha.decider={decider}", "--set", f"ha.member_id={self.number}"),
            *self._options,
            store=self.store.name,
            port=int(self.own_address.rpartition(":")[2]),
            run=Run(program, self.place.wrapper),
        )
        self.is_running = True

    @property
    def pid(self) -> int:
        """Its process."""
        return self._cluster.pid(self.address)

    @property
    def is_over(self) -> bool:
        """Whether its process has ended by itself."""
        return self._cluster.is_over(self.address)

    @property
    def name(self) -> str:
        """What etcd calls it: its number, and what its disk says."""
        incarnation, _, _ = (self.store / "config/incarnation").read_text().partition(" ")
        return f"{self.number}/{incarnation}"

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.is_running = False
        self._cluster.kill(self.address)

    def stop(self) -> None:
        """End it with SIGTERM."""
        self.is_running = False
        assert self._cluster.stop(self.address) == 0

    def freeze(self) -> None:
        """Have it stand still."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def empty(self) -> None:
        """Empty its disk; it does not run."""
        assert not self.is_running
        shutil.rmtree(self.store)

    def close(self) -> None:
        """Cut all its links."""
        self.to_etcd.cut()
        self.to_it.cut()
        if self.place.stays is not None:
            self.place.stays.cut()


class HaSet(Generic[W]):
    """See the head of the module.

    Args:
        folder: Holds all that the processes write.
        etcd: Runs.
        ground: Where it is.
        options: More options of the brokers.
        source: The folder with the package of ours that is run.
    """

    def __init__(
        self,
        folder: Path,
        etcd: EtcdCluster,
        ground: Ground[W],
        options: Sequence[str] = (),
        source: Path = ROOT / "src",
    ) -> None:
        self.etcd = etcd
        self._cluster = Cluster(folder, source=source)
        self.nameserver = self._cluster.nameserver(*ground.nameserver)
        self.members = [
            Member(number, place, self._cluster, self.nameserver, options)
            for number, place in enumerate(ground.places, 1)
        ]
        self.admin = Admin(self.nameserver)

    def begin(self) -> None:
        """Start both, and have the first one begin."""
        self.admin.start()
        for one in self.members:
            one.start()
        self.init(1)
        self.wait_settled()

    def init(self, number: int) -> None:
        """Have a set begin with one member, as an operator does."""

        def begun() -> bool:
            if self.state() is not None:  # an answer was lost
                return True
            self.admin.failover.begin(NAME, [number])
            return True

        self._wait(begun, "a set that begins")

    # What etcd says.

    def leader(self) -> dict[str, Any] | None:
        """Return what etcd says of the master; None if there is none."""
        return self.etcd.value(KEYS + "leader")

    def state(self) -> dict[str, Any] | None:
        """Return what etcd says of the set; None before it has begun."""
        return self.etcd.value(KEYS + "state")

    @property
    def epoch(self) -> int:
        """Of the last master; 0 before the first one."""
        state = self.state()
        return 0 if state is None else int(state["epoch"])

    def wait_settled(self) -> Member[W]:
        """Wait until there is a master, and both are in sync; return it."""
        found: list[Member[W]] = []

        def holds() -> bool:
            leader, state = self.leader(), self.state()
            if leader is None or state is None or not all(one.is_running for one in self.members):
                return False
            if set(state["isr"]) != {one.name for one in self.members}:
                return False
            found[:] = [one for one in self.members if one.name == leader["member"]]
            return bool(found)

        self._wait(holds, "a master, and both in sync")
        return found[0]

    def wait_led_after(self, epoch: int) -> None:
        """Wait until there is a master of a later epoch."""

        def holds() -> bool:
            leader = self.leader()
            return leader is not None and leader["epoch"] > epoch

        self._wait(holds, "another master")

    def wait_alone(self, member: Member[W]) -> None:
        """Wait until only one member is in sync."""

        def holds() -> bool:
            state = self.state()
            return state is not None and state["isr"] == [member.name]

        self._wait(holds, "a master that is alone")

    def other(self, member: Member[W]) -> Member[W]:
        """Return the one of both that is not this one."""
        return next(one for one in self.members if one is not member)

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
            except (AssertionError, ClientError, OSError):  # etcd, or nobody, answers
                return False

        peers.wait_until(asked, what, seconds=SETTLED_SECONDS, every=0.05)


@contextmanager
def running(
    folder: Path,
    options: Sequence[str] = (),
    source: Path = ROOT / "src",
    *,
    cuts_clients: bool = False,
) -> Iterator[HaSet[Links]]:
    """Give a set of which the first member is master, and both are in sync.

    Args:
        folder: Holds all that the processes write.
        options: Of the brokers.
        source: The folder with the package of ours that is run.
        cuts_clients: See `on_loopback`.

    Raises:
        PeerMissing: There is no etcd.
    """
    etcd = EtcdCluster(etcd_cluster.program(), folder / "etcd")
    ha: HaSet[Links] | None = None
    try:
        ha = HaSet(
            folder, etcd.start(), on_loopback(etcd, cuts_clients=cuts_clients), options, source
        )
        ha.begin()
        yield ha
    finally:
        if ha is not None:
            ha.close()
        etcd.stop()
