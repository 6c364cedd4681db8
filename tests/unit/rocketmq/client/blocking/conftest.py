"""The fake cluster over real sockets, for clients that have threads."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests import sockets

from sprocket.runtime.blocking import Portal


@pytest.fixture
def names(world: Any) -> Iterator[str]:
    """Serve the cluster over real sockets in a thread; return the NameServer's address."""
    cluster = world.cluster
    cluster.serve = sockets.serve
    with Portal() as portal:
        world.portal = portal

        async def start() -> None:
            for name in ("names_address", "broker_address"):
                setattr(cluster, name, "127.0.0.1:0")
                await cluster.start_one("127.0.0.1:0")
                setattr(cluster, name, f"127.0.0.1:{cluster.servers[-1].port}")

        portal.call(start)
        yield cluster.names_address
        portal.call(cluster.stop)
