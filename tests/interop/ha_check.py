"""What must hold of a set after each fault, whatever it was.

1. Every message that was acknowledged is in the queues of the master, at the offset that was told,
   and those of one sender are in the order in which they were acknowledged.
2. No offset was acknowledged for two messages.
3. The logs of both members are the same, byte for byte.
4. An epoch has one master, as the whole history of the leader's key says.
"""

import struct
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.interop import link, peers
from tests.interop.ha_load import QUEUES, TOPIC, Ack, Acks
from tests.interop.ha_set import KEYS, HaSet, Wires

_EQUAL_SECONDS = 60.0
_READ_SECONDS = 60.0
_NOTHING_YET = frozenset({19, 20})
"""Codes of a pull that finds nothing where it reads, or nothing of what it looks for."""


class Broken(AssertionError):
    """What must hold does not."""


class Logs:
    """The logs of members that run.

    Args:
        folders: Of their files.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._same: set[str] = set()

    def forget(self) -> None:
        """Compare all anew."""
        self._same.clear()

    def wait_until_equal(self) -> None:
        """Wait until all are, as slaves may be some moments late. Raises Broken: they differ."""
        until = time.monotonic() + _EQUAL_SECONDS
        while differs := self._difference():
            if time.monotonic() > until:
                raise Broken(f"the logs differ: {differs}")
            peers.pause(0.05)

    def _difference(self) -> str:
        """Return where two logs differ, empty if nowhere; complete files are compared once."""
        names = sorted({one.name for folder in self._folders for one in folder.iterdir()})
        for name in names:
            if name in self._same:
                continue
            one, other = (_content(folder / name).rstrip(b"\0") for folder in self._folders)
            if one != other:
                pairs = enumerate(zip(one, other, strict=False))
                at = next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))
                return f"{name} from {at} on, of {len(one)} and {len(other)} bytes"
            if name != names[-1]:
                self._same.add(name)
        return ""


class Check:
    """See the head of the module.

    What is complete is read once only, until `everything` reads all anew.

    Args:
        ha: The set.
        acks: What was acknowledged.
    """

    def __init__(self, ha: HaSet[Wires], acks: Acks) -> None:
        self._ha = ha
        self._acks = acks
        self._logs = Logs([one.store / "commitlog" for one in ha.members])
        self._checked = 0
        self._stored: list[list[str]] = [[] for _ in range(QUEUES)]
        self._orders: dict[tuple[str, int], int] = {}
        self._masters: dict[int, tuple[str, str]] = {}

    @property
    def epochs(self) -> int:
        """How many epochs there were."""
        return len(self._masters)

    @property
    def doubled(self) -> list[str]:
        """Messages that are there more than once, as their senders sent them again."""
        found = Counter(key for queue in self._stored for key in queue)
        return sorted(key for key, count in found.items() if count > 1)

    def epochs_have_one_master(self) -> None:
        """See 4; to be asked before etcd forgets anything. Raises Broken."""
        for one in self._ha.etcd.values(KEYS + "leader"):
            told = one["member"], one["attempt"]
            known = self._masters.setdefault(one["epoch"], told)
            if known != told:
                raise Broken(f"epoch {one['epoch']} has two masters: {known} and {told}")

    def now(self) -> None:
        """Check everything of a set that is settled, and to which nobody sends. Raises Broken."""
        master = self._ha.wait_settled()
        self._logs.wait_until_equal()
        self.epochs_have_one_master()
        self._read(master.own_address)
        self._compare()

    def everything(self) -> None:
        """Do so as though nothing had been checked before. Raises Broken."""
        self._checked = 0
        self._stored = [[] for _ in range(QUEUES)]
        self._orders.clear()
        self._logs.forget()
        self.now()

    # Queues.

    def _read(self, address: str) -> None:
        """Read what the queues of the master have got since this was done last."""
        for queue, stored in enumerate(self._stored):
            with link.Link(address) as connection:
                end = link.queue_end(connection, TOPIC, queue)
                if end < len(stored):
                    raise Broken(f"queue {queue} ends at {end}, it had {len(stored)} messages")
                until = time.monotonic() + _READ_SECONDS
                while len(stored) < end:
                    answer = link.pull(connection, TOPIC, queue, len(stored))
                    if answer.code == link.SUCCESS:
                        self._take(queue, answer.body)
                    elif answer.code in _NOTHING_YET and time.monotonic() < until:
                        peers.pause(0.05)
                    else:
                        raise Broken(
                            f"queue {queue} ends at {end}, and cannot be read at {len(stored)}: "
                            f"code {answer.code}, {answer.remark}"
                        )

    def _take(self, queue: int, body: bytes) -> None:
        stored = self._stored[queue]
        for offset, key in records(body):
            if offset != len(stored):
                raise Broken(f"queue {queue} gives offset {offset}, not {len(stored)}")
            stored.append(key)

    def _compare(self) -> None:
        """Compare with what was acknowledged since this was done last."""
        if self._acks.wrong:
            raise Broken(f"acknowledged twice, differently: {self._acks.wrong[:5]}")
        found = self._acks.all[self._checked :]
        lost = [one for one in found if not self._has(one)]
        if lost:
            raise Broken(f"{len(lost)} acknowledged messages are lost, the first: {lost[:3]}")
        for one in found:
            sender = one.key.partition("-")[0], one.queue
            if self._orders.get(sender, -1) >= one.offset:
                raise Broken(f"{one} was acknowledged after one that follows it")
            self._orders[sender] = one.offset
        self._checked += len(found)

    def _has(self, ack: Ack) -> bool:
        stored = self._stored[ack.queue]
        return ack.offset < len(stored) and stored[ack.offset] == ack.key


def _content(path: Path) -> bytes:
    """Return what a file has; nothing if there is none yet."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def records(data: bytes) -> Iterator[tuple[int, str]]:
    """Give the queue offset and the key of each message in the body of a pull's answer."""
    for offset, body in _pairs(data):
        yield offset, body.partition(b" ")[0].decode()


def bodies(data: bytes) -> Iterator[bytes]:
    """Give the body of each message in the body of a pull's answer."""
    for _, body in _pairs(data):
        yield body


def _pairs(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Give the queue offset and the body of each record.

    Source: the record with addresses of IPv4 (`docs/formats/record.md`).
    """
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        (offset,) = struct.unpack_from(">q", data, at + 20)
        (body_size,) = struct.unpack_from(">i", data, at + 84)
        yield offset, data[at + 88 : at + 88 + body_size]
        at += size
