"""`make interop-ha`: pairs with the real RocketMQ 5.3.3 in either role, for ten minutes.

Each role gets 100,000 messages while its links are cut at random instants, 200 together, and while
one side after the other is killed; then the logs are equal byte for byte. A seed that is printed
says when: SPROCKET_HA_SEED.
"""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.interop import link, peers
from tests.interop.clusters import Cluster
from tests.interop.forwarder import Forwarder, cut_at_random
from tests.interop.java_client import JavaClient
from tests.interop.peers import wait_until
from tests.interop.replica_pairs import (
    NAME,
    OUR_MASTER,
    OUR_SLAVE,
    REAL_MASTER,
    REAL_SLAVE,
    TOPIC,
    Sends,
    await_equal,
    end_of,
    has_slave,
    knows_topic,
    make_topic,
    queued,
)

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

MESSAGES = int(os.environ.get("SPROCKET_HA_MESSAGES", "100000"))
CUTS = int(os.environ.get("SPROCKET_HA_CUTS", "200"))
REAL_CUTS = CUTS * 3 // 10
"""Of them those of real slaves, which wait 5 s before they connect again."""
KILLS = 2
"""Of each side, in each role."""
REAL_SLAVES = 2
"""Several have their links cut at a time."""
SEED = int(os.environ.get("SPROCKET_HA_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
SIZES = (1, 100, 300, 1500)
ELSEWHERE = "127.0.0.2"
"""Where a forwarder listens in the place of our master, which is known by this address."""


@pytest.fixture
def cluster(tmp_path: Path, jars: Path) -> Iterator[Cluster]:
    """Return an empty cluster; what runs in it at the end is ended."""
    print(f"SPROCKET_HA_SEED={SEED}")
    found = Cluster(tmp_path, jars)
    try:
        yield found
    finally:
        found.close()


class Background:
    """Sends messages on a thread, to a master that may be killed meanwhile.

    Args:
        master: Its address.
        rate: How many a second at most.
    """

    def __init__(self, master: str, rate: float) -> None:
        self._master = master
        self._rate = rate
        self._left = MESSAGES
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sends = Sends(SIZES)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self) -> int:
        """Send the rest as fast as may be; return how many were acknowledged."""
        self._rate = 1e9
        self._thread.join()
        return self.sends.count

    def _run(self) -> None:
        while self._left > 0:
            began, count = time.monotonic(), min(50, self._left)
            before = self.sends.count
            try:
                self.sends.send(self._master, count)
            except (OSError, link.Refused):
                time.sleep(0.2)  # it was killed, or starts
            self._left -= self.sends.count - before
            time.sleep(max(0.0, began + count / self._rate - time.monotonic()))


def kill_by_turns(kills: list[Callable[[], None]]) -> None:
    """Kill and start again one side after the other."""
    for kill in kills * KILLS:
        kill()
        time.sleep(1)


def test_real_slaves_under_our_master(cluster: Cluster, tmp_path: Path) -> None:
    """Links cut, either side killed, and one that comes late; the logs are equal."""
    names = [cluster.nameserver()]
    port = peers.free_port((-2, 0, 1))
    # 5.3.3 does not heed its haMasterAddress: its slaves go where the NameServer says.
    elsewhere = ("--set", f"server.advertised_host={ELSEWHERE}")

    def begin_master() -> str:
        cluster.broker(NAME, names, *OUR_MASTER, *elsewhere, port=port, store="ours")
        return f"{ELSEWHERE}:{port}"

    links = Forwarder(port + 1, ELSEWHERE, port + 1)
    others = [Forwarder(one, ELSEWHERE, one) for one in (port, port - 2)]
    ours = begin_master()
    make_topic(ours)
    ports = [peers.free_port((-2, 0, 1)) for _ in range(REAL_SLAVES)]

    def begin_slave(number: int) -> str:
        given = {**REAL_SLAVE, "brokerId": number + 1}
        return cluster.real_broker(NAME, names, given, store=f"real-{number}", port=ports[number])

    slaves = [begin_slave(number) for number in range(REAL_SLAVES)]
    wait_until(lambda: len(links.open) == REAL_SLAVES, "the slaves to have come")
    background = Background(ours, MESSAGES / (REAL_CUTS / REAL_SLAVES * 5.5))
    background.sends.send(ours, 1)
    for slave in slaves:  # one that has nothing when its link is cut goes on at the last file
        wait_until(lambda: end_of(slave) == end_of(ours), "the first message")  # noqa: B023
    background.start()
    cut_at_random(links, REAL_CUTS, SEED)

    def kill_slave() -> None:
        cluster.kill(slaves[0])
        slaves[0] = begin_slave(0)

    def kill_master() -> None:
        cluster.kill(ours)
        begin_master()

    kill_by_turns([kill_slave, kill_master])
    acknowledged = background.finish()
    for number, slave in enumerate(slaves):
        await_equal(tmp_path, (ours, "ours"), (slave, f"real-{number}"))
        wait_until(lambda: queued(slave) == queued(ours), "the queues of the slave")  # noqa: B023
    assert queued(ours) >= acknowledged >= MESSAGES
    # One of RocketMQ's that is empty begins at the last file that its master has.
    late = cluster.real_broker(NAME, names, {**REAL_SLAVE, "brokerId": 9}, store="late")
    wait_until(lambda: end_of(late) == end_of(ours), "the late slave")
    first = min(int(file.name) for file in (tmp_path / "late/commitlog").iterdir())
    assert await_equal(tmp_path, (ours, "ours"), (late, "late"), start=first) > first > 0
    for one in (links, *others):
        one.close()


def test_our_slaves_under_a_real_master(cluster: Cluster, tmp_path: Path) -> None:
    """Links cut, either side killed, and one that comes late: it gets all of the log."""
    names = [cluster.real_nameserver()]
    port = peers.free_port((-2, 0, 1))
    real = cluster.real_broker(NAME, names, REAL_MASTER, store="real", port=port)
    make_topic(real)
    one = Forwarder(port + 1)
    our_port = peers.free_port((-2, 0))

    def begin_slave() -> str:
        through = ("--set", f"replication.master_address=127.0.0.1:{one.port}")
        return cluster.broker(NAME, names, *OUR_SLAVE, *through, port=our_port, store="ours")

    ours = begin_slave()
    wait_until(lambda: bool(one.open), "the slave to have come")
    background = Background(real, MESSAGES / (CUTS - REAL_CUTS))
    background.start()
    cut_at_random(one, CUTS - REAL_CUTS, SEED)

    def kill_slave() -> None:
        cluster.kill(ours)
        begin_slave()

    def kill_master() -> None:
        cluster.kill(real)
        cluster.real_broker(NAME, names, REAL_MASTER, store="real", port=port)

    kill_by_turns([kill_slave, kill_master])
    acknowledged = background.finish()
    await_equal(tmp_path, (real, "real"), (ours, "ours"))
    wait_until(lambda: queued(ours) == queued(real), "the queues of the slave")
    assert queued(ours) >= acknowledged >= MESSAGES
    late = cluster.broker(NAME, names, *OUR_SLAVE, "--set", "replication.broker_id=2", store="late")
    await_equal(tmp_path, (real, "real"), (late, "late"))
    assert queued(late) == queued(real)


FAR = ("--set", "store.bytes_in_memory=1")
"""Whatever is read counts as far behind the end of the log, so slaves are suggested."""
REAL_FAR = {"slaveReadEnable": "true", "accessMessageInMemoryMaxRatio": 0}
READ = 2000


def served(broker: str) -> int:
    """Return how many messages consumers got from a broker."""
    with link.Link(broker) as connection:
        return int(link.runtime_info(connection)["msgGetTotalTodayNow"])


@pytest.mark.parametrize("version", ["5.3.3", "4.9.8"])
@pytest.mark.parametrize("is_real", [True, False], ids=["real master", "our master"])
def test_the_java_client_reads_from_our_slave(
    cluster: Cluster, java_of: Callable[[str], JavaClient], version: str, is_real: bool
) -> None:
    """Where its master sends it, while that lives; and after its death."""
    client = java_of(version)
    if is_real:
        names = [cluster.real_nameserver()]
        master = cluster.real_broker(NAME, names, {**REAL_MASTER, **REAL_FAR}, store="master")
    else:
        names = [cluster.nameserver()]
        master = cluster.broker(NAME, names, *OUR_MASTER, *FAR, store="master")
    make_topic(master)
    sends = Sends(SIZES)
    sends.send(master, READ)
    slave = cluster.broker(NAME, names, *OUR_SLAVE, *FAR, store="slave")
    wait_until(lambda: has_slave(master), "the slave to have come")
    wait_until(lambda: queued(slave) == READ, "the slave to have all")
    wait_until(lambda: knows_topic(slave), "the slave with the topic")

    def read(group: str) -> None:
        consumer = client.start_consumer(names[0], TOPIC, "*", group=group, count=READ)
        found = consumer.finish()
        assert len({one.properties["UNIQ_KEY"] for one in found}) == READ

    name = f"readers-{version.replace('.', '-')}-{is_real}"
    read(f"{name}-both")
    assert served(slave) > READ * 0.8
    before = served(slave)
    cluster.kill(master)
    read(f"{name}-one")
    assert served(slave) - before >= READ
