"""Every decider does the same: one in memory, and etcd's, which a server of ours plays here.

`tests/interop/test_etcd.py` runs it with the real etcd.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests import virtual_time
from tests.decider_contract import CONTRACT, TTL_SECONDS
from tests.fake_etcd import FakeEtcd
from tests.memory_decider import MemoryDecider, MemoryStore

from sprocket.base.clock import SystemClock
from sprocket.rocketmq.failover import Decider
from sprocket.rocketmq.failover.etcd import EtcdClient, EtcdDecider

Rule = Callable[[Decider], Awaitable[None]]


@pytest.mark.parametrize("rule", CONTRACT, ids=lambda rule: rule.__name__)
def test_in_memory(rule: Rule) -> None:
    """What other tests stand on."""

    async def main() -> None:
        await rule(MemoryDecider(MemoryStore(None, TTL_SECONDS)))

    virtual_time.run(main())


@pytest.mark.parametrize("rule", CONTRACT, ids=lambda rule: rule.__name__)
def test_etcd(rule: Rule) -> None:
    """Over its gateway."""

    async def main() -> None:
        etcd = FakeEtcd()
        await etcd.start()
        client = EtcdClient([("127.0.0.1", etcd.port)], SystemClock(), seconds=5)
        decider = EtcdDecider(client, "c", "s", TTL_SECONDS)
        try:
            await rule(decider)
        finally:
            await decider.close()
            await etcd.stop()

    asyncio.run(main())
