"""A set in network namespaces that are there, or on loopback."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.interop import etcd_cluster, ha_set
from tests.interop.etcd_cluster import EtcdCluster
from tests.interop.ha_namespaces import Namespaces
from tests.interop.ha_set import HaSet, Wires


@contextmanager
def running(folder: Path, network: str, options: Sequence[str]) -> Iterator[HaSet[Wires]]:
    """Give a set of which the first member is master, and both are in sync.

    Args:
        folder: Holds all that the processes write.
        network: What the names of the namespaces begin with; empty for loopback.
        options: Of the brokers.

    Raises:
        PeerMissing: There is no etcd.
    """
    if not network:
        with ha_set.running(folder, options) as ha:
            yield ha
        return
    spaces = Namespaces(network)
    etcd = EtcdCluster(etcd_cluster.program(), folder / "etcd", seats=spaces.seats())
    made: HaSet[Wires] | None = None
    try:
        made = HaSet(folder, etcd.start(), spaces.ground(etcd), options)
        made.begin()
        yield made
    finally:
        if made is not None:
            made.close()
        etcd.stop()
