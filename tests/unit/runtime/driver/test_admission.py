"""Who may stay: how long somebody may be unknown, and who goes when there is no room."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests import virtual_time

from sprocket.runtime.driver import ConnectionAdmission, PortAdmission, admission
from sprocket.runtime.driver.admission import LOGINS_KEPT


class Caller:
    """A connection; `why` is why it was cut off."""

    def __init__(self) -> None:
        self.why = ""

    def abort(self, reason: str) -> None:
        """Note it."""
        self.why = reason


def arrive(port: PortAdmission, count: int, *, known: bool = False) -> list[Caller]:
    """Have some come who find room."""
    callers = [Caller() for _ in range(count)]
    for caller in callers:
        assert port.arrive(caller) == ""
        assert not known or port.admit(caller)
    return callers


def play(scene: Callable[[], Awaitable[None]]) -> None:
    """Run a test's coroutine, in a time that passes at once."""

    async def main() -> None:
        await scene()

    virtual_time.run(main())


def test_who_is_unknown_for_too_long_is_cut_off() -> None:
    """Each at its own time; who became known, or went, is left alone."""

    async def scene() -> None:
        port = ConnectionAdmission(unknown_seconds_max=10).port("amqp", 100)
        first, known, gone = arrive(port, 3)
        assert port.admit(known)
        port.leave(gone)
        await asyncio.sleep(5)
        (second,) = arrive(port, 1)
        await asyncio.sleep(5.1)
        assert (bool(first.why), known.why, gone.why, second.why) == (True, "", "", "")
        await asyncio.sleep(5)
        assert "10 s" in second.why
        (third,) = arrive(port, 1)
        await asyncio.sleep(10.1)
        assert third.why != ""
        assert port.count == 1

    play(scene)


def test_the_oldest_unknown_one_makes_room() -> None:
    """Of the port that is full; with none left who comes is refused."""

    async def scene() -> None:
        port = ConnectionAdmission().port("amqp", 4)
        kept = arrive(port, 3, known=True)
        first, second = arrive(port, 1) + arrive(port, 1)
        assert (bool(first.why), second.why, port.count) == (True, "", 4)
        port.leave(first)  # as it does once it is gone
        assert port.count == 4
        assert not port.admit(second)  # a place is kept for logins
        (third,) = arrive(port, 1)
        assert (bool(second.why), third.why) == (True, "")
        assert [one.why for one in kept] == [""] * 3
        port.is_shut = True
        assert port.arrive(Caller()) != ""

    play(scene)


def test_each_port_has_its_share() -> None:
    """However many are at another, known ones even; and there is always one more for a login."""

    async def scene() -> None:
        every = ConnectionAdmission(connections_max=400, ports=4)
        flooded, web, *_ = (every.port(name, 10_000) for name in ("amqp", "http", "a", "b"))
        strangers = arrive(flooded, 1000)
        assert flooded.count == 400 - 3 * 50
        assert [bool(one.why) for one in strangers] == [True] * 750 + [False] * 250
        workers = arrive(web, 50 - LOGINS_KEPT, known=True)
        logins = arrive(web, LOGINS_KEPT)
        assert not web.admit(logins[0])
        (administrator,) = arrive(web, 1)  # beyond its share: a stranger elsewhere goes
        assert strangers[750].why != ""
        assert web.admit(administrator)
        assert [one.why for one in workers] == [""] * len(workers)

    play(scene)


def test_known_ones_leave_room_for_logins() -> None:
    """So an administrator gets in when clients with a password have everything."""

    async def scene() -> None:
        every = ConnectionAdmission(connections_max=100, ports=1)
        port = every.port("amqp", 10_000)
        arrive(port, 100 - LOGINS_KEPT, known=True)
        for _ in range(3):
            strangers = arrive(port, LOGINS_KEPT)
        assert port.count == 100
        assert port.arrive(Caller()) == ""
        assert not port.admit(strangers[-1])

    play(scene)


@pytest.mark.parametrize(("limit", "rest"), [(1024, 768), (40, 8), (2, 1), (1 << 20, 1044480)])
def test_descriptors_are_kept_back(monkeypatch: pytest.MonkeyPatch, limit: int, rest: int) -> None:
    """A quarter, at most 4096; those that are accepted and not begun find room in them."""
    monkeypatch.setattr(admission, "descriptor_limit", lambda: limit)
    made = ConnectionAdmission.of_process(6, 10)
    assert made.connections_max == rest
    assert 64 <= made.backlog <= max(64, (limit - rest) // 6)
    monkeypatch.setattr(admission, "descriptor_limit", lambda: None)
    assert ConnectionAdmission.of_process(6, 10).connections_max is None


def test_a_port_that_is_listened_on_anew_has_one_share() -> None:
    """However often it was shut before."""

    async def scene() -> None:
        every = ConnectionAdmission(connections_max=100, ports=2)
        every.port("other", 100)
        for _ in range(10):
            port = every.port("broker", 100)
            callers = arrive(port, 60, known=False)
            port.is_shut = True
            for caller in callers:
                port.leave(caller)

    play(scene)
