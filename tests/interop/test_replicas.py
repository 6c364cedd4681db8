"""Replicas with the real RocketMQ 5.3.3 in either role: the logs are equal byte for byte."""

import json
import random
import struct
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.interop import link, peers
from tests.interop.clusters import Cluster
from tests.interop.peers import wait_until

from sprocket.base.units import MIB
from sprocket.rocketmq.codec.codes import RequestCode

NAME, TOPIC = "broker-a", "Replicated"
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


@pytest.fixture
def cluster(tmp_path: Path, jars: Path) -> Iterator[Cluster]:
    """Return an empty cluster; what runs in it at the end is ended."""
    found = Cluster(tmp_path, jars)
    try:
        yield found
    finally:
        found.close()


class Sends:
    """Sends messages of all sizes, and ends files of the log."""

    def __init__(self) -> None:
        self._numbers = count()
        self._random = random.Random(1)

    def send(self, master: str, number: int) -> None:
        """Send so many to a broker."""
        with link.Link(master) as connection:
            for _ in range(number):
                key = next(self._numbers)
                size = self._random.choice((1, 100, 1000, 20_000))
                body = struct.pack(">I", key) * (size // 4 + 1)
                ext = link.send_ext(TOPIC, key % 4, f"UNIQ_KEY\x01K{key}\x02")
                connection.call(link.SEND_MESSAGE_V2, ext, body)


def end_of(address: str) -> int:
    """Return where the log of a broker ends, −1 if it does not answer."""
    try:
        with link.Link(address, timeout=5) as connection:
            return int(link.runtime_info(connection)["commitLogMaxOffset"])
    except OSError:
        return -1


def has_slave(master: str) -> bool:
    """Say whether a slave is connected to a master."""
    with link.Link(master) as connection:
        said = json.loads(connection.call(RequestCode.GET_BROKER_HA_STATUS, {}).body)
    return bool(said["haConnectionInfo"])


def await_equal(folder: Path, master: tuple[str, str], slave: tuple[str, str]) -> int:
    """Wait until a slave has all; compare the logs of both, each an address and a folder."""
    end = end_of(master[0])
    wanted = content(folder / master[1], end)
    wait_until(lambda: end_of(slave[0]) == end, f"the slave to be at {end}")
    # What a slave has taken is in its files some moments later.
    wait_until(lambda: content(folder / slave[1], end) == wanted, "equal logs", every=0.5)
    return end


def content(store: Path, end: int) -> dict[str, bytes]:
    """Return what the files of a log hold before its end."""
    found = {}
    for file in sorted((store / "commitlog").iterdir()):
        data = file.read_bytes()[: max(0, end - int(file.name))]
        if data:
            found[file.name] = data
    return found


@pytest.mark.slow
def test_a_real_slave_under_our_master(cluster: Cluster, tmp_path: Path) -> None:
    """It has the same bytes, also after either of both was killed."""
    sends = Sends()
    names = [cluster.nameserver()]
    port = peers.free_port((-2, 0, 1))
    ours = cluster.broker(NAME, names, *OUR_MASTER, port=port, store="ours")
    with link.Link(ours) as connection:
        link.create_topic(connection, TOPIC, 4)
    real_port = peers.free_port((-2, 0, 1))
    real = cluster.real_broker(NAME, names, REAL_SLAVE, store="real", port=real_port)
    # One that comes later begins at the last file that the master has by then.
    wait_until(lambda: has_slave(ours), "the slave to have come")
    sends.send(ours, 1500)
    assert await_equal(tmp_path, (ours, "ours"), (real, "real")) > 2 * SEGMENT
    cluster.kill(real)
    sends.send(ours, 300)
    real = cluster.real_broker(NAME, names, REAL_SLAVE, store="real", port=real_port)
    sends.send(ours, 300)
    await_equal(tmp_path, (ours, "ours"), (real, "real"))
    cluster.kill(ours)
    ours = cluster.broker(NAME, names, *OUR_MASTER, port=port, store="ours")
    sends.send(ours, 300)
    await_equal(tmp_path, (ours, "ours"), (real, "real"))
    with link.Link(real) as connection:
        wait_until(
            lambda: sum(link.queue_end(connection, TOPIC, n) for n in range(4)) == 2400,
            "the queues of the slave",
        )


@pytest.mark.slow
def test_our_slave_under_a_real_master(cluster: Cluster, tmp_path: Path) -> None:
    """It comes late, gets all from the first byte on, and has the same bytes after kills too."""
    sends = Sends()
    names = [cluster.real_nameserver()]
    port = peers.free_port((-2, 0, 1))
    real = cluster.real_broker(NAME, names, REAL_MASTER, store="real", port=port)
    with link.Link(real) as connection:
        link.create_topic(connection, TOPIC, 4)
    sends.send(real, 1500)
    our_port = peers.free_port((-2, 0))
    ours = cluster.broker(NAME, names, *OUR_SLAVE, port=our_port, store="ours")
    assert await_equal(tmp_path, (real, "real"), (ours, "ours")) > 2 * SEGMENT
    assert (tmp_path / "ours/commitlog" / ("0" * 20)).exists()
    cluster.kill(ours)
    sends.send(real, 300)
    ours = cluster.broker(NAME, names, *OUR_SLAVE, port=our_port, store="ours")
    sends.send(real, 300)
    await_equal(tmp_path, (real, "real"), (ours, "ours"))
    cluster.kill(real)
    real = cluster.real_broker(NAME, names, REAL_MASTER, store="real", port=port)
    sends.send(real, 300)
    await_equal(tmp_path, (real, "real"), (ours, "ours"))
    with link.Link(ours) as connection:
        assert sum(link.queue_end(connection, TOPIC, n) for n in range(4)) == 2400
