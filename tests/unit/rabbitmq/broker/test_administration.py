"""Definitions that come while what had their names still goes."""

import asyncio
import json
from typing import Any, cast

from tests.rabbit_topology import Declarations
from tests.waits import LONG_SECONDS

from sprocket.base.clock import SystemClock
from sprocket.rabbitmq.broker.administration import Administration
from sprocket.rabbitmq.codec import definitions
from sprocket.rabbitmq.model.binding import Destination
from sprocket.rabbitmq.model.resource import ResourceKind
from sprocket.runtime.slices import Slicer
from sprocket.runtime.turns import Turns

LATER = Destination(ResourceKind.EXCHANGE, "later")


class GoingVhost:
    """A virtual host one of whose exchanges still goes."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    async def until_gone(self, what: Destination) -> None:
        """Wait for that one."""
        if what == LATER:
            await self.gone.wait()


class NothingToSync:
    """Changes that are durable at once."""

    async def durable(self) -> None:
        """Wait for nothing."""


async def taken() -> None:
    """Take definitions of an exchange before and after the old one has gone."""
    declarations, vhost = Declarations(), GoingVhost()
    unused = cast("Any", None)
    administration = Administration(
        unused,
        declarations.users,
        unused,
        declarations.definitions,
        cast("Any", {"/": vhost}),
        cast("Any", NothingToSync()),
        unused,
        Slicer(Turns(asyncio.get_running_loop()), SystemClock()),
    )
    exchange = {
        "name": LATER.name,
        "vhost": "/",
        "type": "x-delayed-message",
        "durable": True,
        "auto_delete": False,
        "arguments": {"x-delayed-type": "fanout"},
    }
    file = definitions.decode(json.dumps({"exchanges": [exchange]}).encode())
    taking = asyncio.create_task(administration.take(file))
    for _ in range(9):
        await asyncio.sleep(0)
    assert declarations.vhost().find_exchange(LATER.name) is None
    vhost.gone.set()
    report = await taking
    assert report.taken["exchanges"] == 1
    assert declarations.vhost().find_exchange(LATER.name) is not None


def test_an_exchange_comes_when_its_predecessor_has_gone() -> None:
    """What a deleted delayed exchange has kept cannot come back under the new one's name."""
    asyncio.run(asyncio.wait_for(taken(), LONG_SECONDS))
