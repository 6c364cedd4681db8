"""Two machines and a hub between them, as network namespaces of this one; needs root.

    one ──eth0── c1 ┐                 ┌ c2 ──eth0── two      brokers: clients are in the hub
                    ├ hub (forwards) ─┤
    one ──eth1── e1 ┘  third of etcd  └ e2 ──eth1── two      etcd, a member in each

Brokers reach each other, and members of etcd each other, through the hub: it forwards nothing from
`c1` and `c2`, or sets `e1` down, and a link is cut without anybody being told. Nothing of this is
in the namespace that this machine uses; all of it goes with the namespaces.
"""

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.interop.etcd_cluster import EtcdCluster, Seat
from tests.interop.ha_set import Ground, Place, Wires

PREFIX = "sprocket-ha-"
MACHINES = ("one", "two")
BROKER_PORT, ETCD_PORT = 10911, 2379
_FOLDER = Path("/run/netns")
_HUB, _HUB_ETCD = "10.77.1.1", "10.77.13.1"


class NoNamespaces(Exception):
    """There can be none here; the text says why."""


class Namespaces:
    """Makes them, and removes them whatever happens.

    Raises:
        NoNamespaces: At `__enter__`; nothing is left then.
    """

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix or f"{PREFIX}{os.getpid()}-"

    def __enter__(self) -> Self:
        if os.geteuid():
            raise NoNamespaces("not root")
        remove_left_over()
        try:
            self._make()
        except (OSError, subprocess.CalledProcessError) as error:
            self.remove()
            told = getattr(error, "stderr", "") or str(error)
            raise NoNamespaces(told.strip()) from error
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @property
    def hub(self) -> Sequence[str]:
        """What a command begins with that runs in the hub."""
        return self.inside("hub")

    def inside(self, machine: str) -> Sequence[str]:
        """Return what a command begins with that runs in one of them."""
        return ("ip", "netns", "exec", self.prefix + machine)

    def remove(self) -> None:
        """End every process in them, and remove them."""
        for machine in ("hub", *MACHINES):
            _remove(self.prefix + machine)

    def _make(self) -> None:
        for machine in ("hub", *MACHINES):
            _ip("netns", "add", self.prefix + machine)
            _ip("-n", self.prefix + machine, "link", "set", "lo", "up")
        hub = self.prefix + "hub"
        _ip("-n", hub, "address", "add", f"{_HUB_ETCD}/32", "dev", "lo")
        for number, machine in enumerate(MACHINES, 1):
            for end, inner, net in (("c", "eth0", number), ("e", "eth1", 10 + number)):
                self._join(f"{end}{number}", self.prefix + machine, inner, net)
        for number, machine in enumerate(MACHINES, 1):
            other = 3 - number
            for net, via in ((other, number), (10 + other, 10 + number), (13, 10 + number)):
                route = ("route", "add", f"10.77.{net}.0/24", "via", f"10.77.{via}.1")
                _ip("-n", self.prefix + machine, *route)
        self.forward(("c1", "c2", "e1", "e2"), True)

    def _join(self, outer: str, machine: str, inner: str, net: int) -> None:
        """Connect a machine with the hub."""
        hub = self.prefix + "hub"
        pair = ("type", "veth", "peer", "name", inner, "netns", machine)
        _ip("-n", hub, "link", "add", outer, *pair)
        _ip("-n", hub, "address", "add", f"10.77.{net}.1/24", "dev", outer)
        _ip("-n", machine, "address", "add", f"10.77.{net}.2/24", "dev", inner)
        _ip("-n", hub, "link", "set", outer, "up")
        _ip("-n", machine, "link", "set", inner, "up")

    def forward(self, ends: Sequence[str], does: bool) -> None:
        """Have the hub forward what comes from some of its ends, or not."""
        for end in ends:
            path = f"/proc/sys/net/ipv4/conf/{end}/forwarding"
            _run(*self.hub, "sh", "-c", f"echo {int(does)} > {path}")

    def set(self, end: str, state: str) -> None:
        """Set an end of the hub `up` or `down`."""
        _ip("-n", self.prefix + "hub", "link", "set", end, state)

    def seats(self) -> list[Seat]:
        """Return where the members of etcd run."""
        found = [
            Seat(f"10.77.{10 + number}.2", ETCD_PORT, ETCD_PORT + 1, self.inside(machine))
            for number, machine in enumerate(MACHINES, 1)
        ]
        return [*found, Seat(_HUB_ETCD, ETCD_PORT, ETCD_PORT + 1)]

    def ground(self, etcd: EtcdCluster) -> Ground[Wires]:
        """Return where brokers and the NameServer run."""
        places = [
            Place(
                own_address=f"10.77.{number}.2:{BROKER_PORT}",
                address=f"10.77.{number}.2:{BROKER_PORT}",
                options=(
                    *("--set", "server.host=0.0.0.0"),
                    *("--set", f"server.advertised_host=10.77.{number}.2"),
                ),
                etcd=[f"{one.host}:{one.port}" for one in etcd.members],
                to_etcd=_Link(self, f"e{number}"),
                to_it=_Forwarding(self, f"c{number}"),
                wrapper=self.inside(machine),
            )
            for number, machine in enumerate(MACHINES, 1)
        ]
        at = ("--set", "server.host=0.0.0.0", "--set", f"server.advertised_host={_HUB}")
        return Ground(places=places, nameserver=at)


class _Link:
    """An end of the hub, as `Wires`."""

    def __init__(self, spaces: Namespaces, end: str) -> None:
        self._spaces = spaces
        self._end = end

    def cut(self) -> None:
        self._spaces.set(self._end, "down")

    def heal(self) -> None:
        self._spaces.set(self._end, "up")


class _Forwarding:
    """What the hub forwards from an end, as `Wires`."""

    def __init__(self, spaces: Namespaces, end: str) -> None:
        self._spaces = spaces
        self._end = end

    def cut(self) -> None:
        self._spaces.forward([self._end], False)

    def heal(self) -> None:
        self._spaces.forward([self._end], True)


def remove_left_over() -> None:
    """Remove namespaces of processes that were killed."""
    for path in _FOLDER.glob(f"{PREFIX}*") if _FOLDER.is_dir() else ():
        found = re.fullmatch(rf"{PREFIX}(\d+)-.*", path.name)
        if found is not None and not Path(f"/proc/{found[1]}").exists():
            _remove(path.name)


def _remove(name: str) -> None:
    """End all processes in a namespace, and remove it, if it is there."""
    if not (_FOLDER / name).exists():
        return
    told = subprocess.run(
        ["ip", "netns", "pids", name], capture_output=True, text=True, check=False
    )
    for pid in told.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    subprocess.run(["ip", "netns", "delete", name], check=False)


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, text=True, check=True)
