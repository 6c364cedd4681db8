"""The cycle collector of a server: how much it looks at in one go, and what it leaves alone."""

import asyncio
import gc
import weakref

from tests import sockets

from sprocket.rocketmq.codec.command import request
from sprocket.rocketmq.remoting import Connection
from sprocket.runtime import collector, driver
from sprocket.runtime.driver import Peer

GROWTH = 20 * collector.YOUNG_OBJECTS


def test_no_look_is_at_more_than_a_bounded_number_of_objects() -> None:
    """However much a server has, and however much its tables grow while it serves."""
    looks: list[int] = []

    def look(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            ages = range(info["generation"] + 1)
            looks.append(sum(len(gc.get_objects(generation=age)) for age in ages))

    with collector.rare():
        had = [[number] for number in range(GROWTH)]
        collector.keep()
        gc.callbacks.insert(0, look)
        try:
            grown = [[number] for number in range(GROWTH)]
        finally:
            gc.callbacks.remove(look)
    assert len(had) == len(grown)
    assert len(looks) >= GROWTH // collector.YOUNG_OBJECTS - 1
    assert max(looks) <= collector.LOOK_OBJECTS_MAX


def test_cycles_that_die_young_are_still_found() -> None:
    """Who raises and catches errors makes them all the time."""

    class Node:
        other: "Node"

    with collector.rare():
        first = Node()
        first.other = Node()
        first.other.other = first
        gone = weakref.ref(first)
        del first
        kept = [[number] for number in range(2 * collector.YOUNG_OBJECTS)]
        assert gone() is None
    assert kept


def test_afterwards_the_collector_is_as_it_was() -> None:
    """A test, or a program that serves for a while only, has it back."""
    gc.unfreeze()  # what this run of the tests keeps
    before = gc.get_threshold(), gc.get_freeze_count(), list(gc.callbacks)
    with collector.rare():
        collector.keep()
        assert gc.get_threshold() != before[0]
    assert (gc.get_threshold(), gc.get_freeze_count(), gc.callbacks) == before


def test_a_connection_that_closed_needs_no_collector() -> None:
    """What was there at a look is never looked at again, so a cycle of it would be lost memory."""
    served: list[weakref.ref[Peer]] = []

    def serve(peer: Peer, _: object) -> None:
        served.append(weakref.ref(peer))
        peer.close()

    async def connect() -> None:
        server = await sockets.serve(Connection, serve, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.writelines(request(34, 1))
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        await server.close()

    gc.collect()
    gc.disable()
    try:
        driver.run(connect())
        assert [peer() for peer in served] == [None]
    finally:
        gc.enable()
