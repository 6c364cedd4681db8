"""Pairs of brokers, one or both the real RocketMQ 5.3.3: settings, sends, comparisons."""

import hashlib
import json
import random
import struct
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from tests.interop import link
from tests.interop.peers import wait_until

from sprocket.base.units import MIB
from sprocket.rocketmq.codec.codes import RequestCode

NAME, TOPIC = "broker-a", "Replicated"
QUEUES = 4
SEGMENT = MIB
HA_DISTANCE = 1
"""How far above a broker's port slaves connect."""
REAL_SLAVE = {"brokerRole": "SLAVE", "brokerId": 1, "mappedFileSizeCommitLog": SEGMENT}
REAL_MASTER = {"brokerRole": "ASYNC_MASTER", "mappedFileSizeCommitLog": SEGMENT}
OUR_LOG = ("--set", f"log.segment_bytes={SEGMENT}")
OUR_MASTER = (*OUR_LOG, "--set", "replication.slaves=true")
OUR_SLAVE = (
    *OUR_LOG,
    *("--set", "replication.role=slave", "--set", "replication.broker_id=1"),
)
SIZES = (1, 100, 1000, 20_000)


class Sends:
    """Sends messages of all sizes, and ends files of the log.

    Attributes:
        count: How many were sent.
    """

    def __init__(self, sizes: Sequence[int] = SIZES) -> None:
        self._numbers = count()
        self._random = random.Random(1)
        self._sizes = sizes
        self.count = 0

    def send(self, master: str, number: int) -> None:
        """Send so many to a broker."""
        with link.Link(master) as connection:
            for _ in range(number):
                key = next(self._numbers)
                size = self._random.choice(self._sizes)
                body = struct.pack(">I", key) * (size // 4 + 1)
                ext = link.send_ext(TOPIC, key % QUEUES, f"UNIQ_KEY\x01K{key}\x02")
                connection.call(link.SEND_MESSAGE_V2, ext, body)
                self.count += 1


def make_topic(master: str) -> None:
    """Make the topic that everything is sent to."""
    with link.Link(master) as connection:
        link.create_topic(connection, TOPIC, QUEUES)


def end_of(address: str) -> int:
    """Return where the log of a broker ends, −1 if it does not answer."""
    try:
        with link.Link(address, timeout=5) as connection:
            return int(link.runtime_info(connection)["commitLogMaxOffset"])
    except OSError:
        return -1


def queued(address: str) -> int:
    """Return how many messages the queues of a broker have."""
    with link.Link(address) as connection:
        return sum(link.queue_end(connection, TOPIC, number) for number in range(QUEUES))


def knows_topic(address: str, topic: str = TOPIC) -> bool:
    """Say whether a slave has the settings of a topic, which it asks for now and then."""
    with link.Link(address) as connection:
        return topic.encode() in connection.call(RequestCode.GET_ALL_TOPIC_CONFIG, {}).body


def has_slave(master: str) -> bool:
    """Say whether a slave is connected to a master."""
    with link.Link(master) as connection:
        said = json.loads(connection.call(RequestCode.GET_BROKER_HA_STATUS, {}).body)
    return bool(said["haConnectionInfo"])


def await_equal(
    folder: Path, master: tuple[str, str], slave: tuple[str, str], *, start: int = 0
) -> int:
    """Wait until a slave has all; compare the logs of both, each an address and a folder.

    Args:
        folder: Where the folders lie.
        master: The one whose log is right.
        slave: The other.
        start: Where the log of the slave begins.

    Returns:
        Where both logs end.
    """
    end = end_of(master[0])
    wanted = content(folder / master[1], start, end)
    wait_until(lambda: end_of(slave[0]) == end, f"the slave to be at {end}")
    # What a slave has taken is in its files some moments later.
    wait_until(lambda: content(folder / slave[1], start, end) == wanted, "equal logs", every=0.5)
    return end


def content(store: Path, start: int, end: int) -> dict[str, str]:
    """Return digests of what the files of a log hold between two places."""
    found = {}
    for file in sorted((store / "commitlog").iterdir()):
        at = int(file.name)
        size = min(file.stat().st_size, end - at)
        if at >= start and size > 0:
            with file.open("rb") as opened:
                found[file.name] = hashlib.sha256(opened.read(size)).hexdigest()
    return found
