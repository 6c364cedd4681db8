"""Which clients of the ports of a process may stay: how long unidentified, and how many.

Every connection holds a file descriptor, and a process has only so many: some are kept back for
what the products keep on disk, the others are shared by the ports.

    arrives ── unknown ── known (it has logged in, or said something that its protocol takes)
                  │
                  ├── is not known after `unknown_seconds_max`: cut off
                  └── somebody arrives, and there is no room: the one that came first is cut off

Invariants

1. All ports together have no more than `connections_max`, a port no more than its own limit.
2. Each port may always have its share, an equal part of half of them, whatever others have.
3. At each port `LOGINS_KEPT` places are only for those who are not known yet. So whoever has a
   password, an administrator above all, gets in while a stranger holds all that a stranger can.
"""

import asyncio
from typing import Final, Protocol

try:
    import resource
except ImportError:  # as on Windows, where there is no such limit
    resource = None  # type: ignore[assignment]

LOGINS_KEPT: Final = 8
"""Places of a port for those who are about to log in; fewer if it has less than 32."""
KEPT_PART: Final = 4
"""This part of a process's file descriptors is for its files, its log and its own connections."""
KEPT_MIN, KEPT_MAX = 32, 4096
"""The least and the most of them. The stores have bounds: a broker has about 300 files open, a
virtual host about 100."""
BACKLOG = 1024
"""Connections that may wait to be accepted: as many clients come back at once after a restart."""
BACKLOG_MIN: Final = 64
"""However few descriptors there are: a client that finds no place tries again after a second."""


class Stranger(Protocol):
    """One connection."""

    def abort(self, reason: str) -> None:
        """Cut it off; it leaves later."""


def descriptor_limit() -> int | None:
    """Return how many files and connections this process may have open; None without a limit."""
    if resource is None:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def kept_back(limit: int) -> int:
    """Return how many of this many file descriptors are not for connections of clients."""
    return min(max(limit // KEPT_PART, KEPT_MIN), KEPT_MAX, limit - 1)


class PortAdmission:
    """The connections of one port; made by `ConnectionAdmission.port`."""

    def __init__(self, every: "ConnectionAdmission", name: str, connections_max: int) -> None:
        self.is_shut = False
        """Whether nobody may come in any more."""
        self.name = name
        self.connections_max = connections_max
        self._every = every
        self.unknown: dict[Stranger, float] = {}
        """Those of whom nothing is known, the first first, with when they are cut off."""
        self.known: set[Stranger] = set()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.unknown) + len(self.known)

    @property
    def backlog(self) -> int:
        """How many may wait to be accepted; they have descriptors as soon as they are."""
        return self._every.backlog

    def arrive(self, stranger: Stranger) -> str:
        """Take a connection up, cutting off another one if there is no room.

        Returns:
            Why it cannot stay; empty if it can.
        """
        if self.is_shut:
            return "it came while the server closed"  # accepted before, begun after
        if self.count >= self.connections_max and not self._every.cut_off([self]):
            return f"there are {self.connections_max} connections already"
        if self.count >= self._every.room(self) and not self._every.cut_off_for(self):
            return f"there are {self.count} connections already, and no file descriptors for more"
        self._every.note(self, stranger)
        return ""

    def admit(self, stranger: Stranger) -> bool:
        """Note that a connection is known; return False if no more of those can stay."""
        if stranger not in self.unknown:
            return stranger in self.known
        room = min(self.connections_max, self._every.room(self))
        if len(self.known) >= room - min(LOGINS_KEPT, room // 4):
            return False
        del self.unknown[stranger]
        self.known.add(stranger)
        return True

    def leave(self, stranger: Stranger) -> None:
        """Forget a connection that is gone."""
        self.unknown.pop(stranger, None)
        self.known.discard(stranger)


class ConnectionAdmission:
    """See the head of the module.

    Args:
        connections_max: Of all ports together; None for no limit.
        unknown_seconds_max: How long a connection may stay unknown; None for any time.
        ports: How many ports there will be.
        backlog: How many may wait at each port to be accepted.

    Threads: event loop only.
    """

    def __init__(
        self,
        *,
        connections_max: int | None = None,
        unknown_seconds_max: float | None = None,
        ports: int = 1,
        backlog: int = BACKLOG,
    ) -> None:
        self.backlog = backlog
        self.connections_max = connections_max
        self._unknown_seconds_max = unknown_seconds_max
        self._share = 0 if connections_max is None else connections_max // (2 * ports)
        self._ports: list[PortAdmission] = []
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def of_process(cls, ports: int, unknown_seconds_max: float) -> "ConnectionAdmission":
        """Return one that leaves enough file descriptors for everything else."""
        limit = descriptor_limit()
        if limit is None:
            return cls(unknown_seconds_max=unknown_seconds_max, ports=ports)
        kept = kept_back(limit)
        # What was accepted and is not begun yet has descriptors, too: of those kept, as a rule.
        backlog = min(max(kept // max(ports, 1), BACKLOG_MIN), BACKLOG)
        return cls(
            connections_max=limit - kept,
            unknown_seconds_max=unknown_seconds_max,
            ports=max(ports, 1),
            backlog=backlog,
        )

    def port(self, name: str, connections_max: int) -> PortAdmission:
        """Return what keeps the connections of a port, `connections_max` at most.

        A port that is shut and empty has no share any more: it may be listened on anew.
        """
        made = PortAdmission(self, name, connections_max)
        self._ports = [one for one in self._ports if one.count or not one.is_shut] + [made]
        return made

    def room(self, port: PortAdmission) -> int:
        """Return how many a port may have, by what others have and may always have; O(ports)."""
        if self.connections_max is None:
            return port.connections_max
        others = (max(one.count, self._share) for one in self._ports if one is not port)
        return max(self.connections_max - sum(others), 1)

    def cut_off_for(self, port: PortAdmission) -> bool:
        """Make room for one more at a port; False if there is nobody who could go."""
        return self.cut_off([p for p in self._ports if p is port or p.count > self._share])

    def cut_off(self, ports: list[PortAdmission]) -> bool:
        """Cut off the one that is unknown for longest at some ports; False without any."""
        waiting = [one for one in ports if one.unknown]
        if not waiting:
            return False
        port = min(waiting, key=lambda one: next(iter(one.unknown.values())))
        first = next(iter(port.unknown))
        del port.unknown[first]
        first.abort("others want to come in, and it has not said who it is")
        return True

    def note(self, port: PortAdmission, stranger: Stranger) -> None:
        """Take up a connection of which nothing is known."""
        loop = asyncio.get_running_loop()
        wait = self._unknown_seconds_max
        port.unknown[stranger] = loop.time() + (wait or 0)
        if wait is not None and self._timer is None:
            self._timer = loop.call_later(wait, self._look)

    def _look(self) -> None:
        """Cut off those that have been unknown for too long, and look again for the next."""
        self._timer = None
        loop = asyncio.get_running_loop()
        now, soonest = loop.time(), None
        for port in self._ports:
            while port.unknown:
                first, deadline = next(iter(port.unknown.items()))
                if deadline > now:
                    soonest = deadline if soonest is None else min(soonest, deadline)
                    break
                del port.unknown[first]
                first.abort(f"it has not said who it is within {self._unknown_seconds_max:g} s")
        if soonest is not None:
            self._timer = loop.call_at(soonest, self._look)
