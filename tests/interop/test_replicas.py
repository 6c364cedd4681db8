"""Replicas with the real RocketMQ 5.3.3 in either role: the logs are equal byte for byte."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop import peers
from tests.interop.clusters import Cluster
from tests.interop.peers import wait_until
from tests.interop.replica_pairs import (
    NAME,
    OUR_MASTER,
    OUR_SLAVE,
    REAL_MASTER,
    REAL_SLAVE,
    SEGMENT,
    Sends,
    await_equal,
    has_slave,
    make_topic,
    queued,
)


@pytest.fixture
def cluster(tmp_path: Path, jars: Path) -> Iterator[Cluster]:
    """Return an empty cluster; what runs in it at the end is ended."""
    found = Cluster(tmp_path, jars)
    try:
        yield found
    finally:
        found.close()


@pytest.mark.slow
def test_a_real_slave_under_our_master(cluster: Cluster, tmp_path: Path) -> None:
    """It has the same bytes, also after either of both was killed."""
    sends = Sends()
    names = [cluster.nameserver()]
    port = peers.free_port((-2, 0, 1))
    ours = cluster.broker(NAME, names, *OUR_MASTER, port=port, store="ours")
    make_topic(ours)
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
    wait_until(lambda: queued(real) == 2400, "the queues of the slave")


@pytest.mark.slow
def test_our_slave_under_a_real_master(cluster: Cluster, tmp_path: Path) -> None:
    """It comes late, gets all from the first byte on, and has the same bytes after kills too."""
    sends = Sends()
    names = [cluster.real_nameserver()]
    port = peers.free_port((-2, 0, 1))
    real = cluster.real_broker(NAME, names, REAL_MASTER, store="real", port=port)
    make_topic(real)
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
    assert queued(ours) == 2400
