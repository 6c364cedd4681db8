"""A watched connection is reported once, when it has closed."""

import asyncio
from typing import Any

from sprocket.rocketmq.remoting import Connection
from sprocket.rocketmq.server.watch import Watch
from sprocket.runtime import driver


def test_each_closed_connection_is_reported_once() -> None:
    """However often it was watched; others are not reported."""

    async def main() -> None:
        gone: list[Any] = []
        watch = Watch(gone.append)
        server = await driver.serve(Connection, lambda _peer, _event: None, "127.0.0.1", 0)
        first = await driver.connect(Connection, lambda _p, _e: None, "127.0.0.1", server.port)
        second = await driver.connect(Connection, lambda _p, _e: None, "127.0.0.1", server.port)
        watch(first)
        watch(first)
        watch(second)
        first.close()
        while not gone:
            await asyncio.sleep(0)
        assert gone == [first]
        second.close()
        await server.close()

    driver.run(main())
