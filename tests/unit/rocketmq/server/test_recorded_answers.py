"""Every recorded request is answered as RocketMQ answered it, but for what `docs/answers.md` names.

The recording is made, and compared with the real broker again, by `tests/interop/test_answers.py`.
"""

import functools
from collections.abc import Sequence

import pytest
from tests.answers import recording, requests
from tests.answers.differences import FREE_REMARKS, Difference, differences, rows
from tests.answers.exchange import Exchange, Frames, Talk, Told, tell_all

from sprocket.base.units import MIB
from sprocket.node.rocketmq import Node
from sprocket.rocketmq.geometry import Geometry, IndexGeometry, LogGeometry, QueueGeometry
from sprocket.rocketmq.settings import (
    PullSettings,
    ServerSettings,
    Settings,
    StoreSettings,
    TimerSettings,
)
from sprocket.runtime import driver
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("recorded answers"),  # one worker, or each would ask everything
]


async def _ask_our_node() -> list[tuple[Exchange | Frames, list[Told]]]:
    node = await Node.start(
        Settings(
            server=ServerSettings(nameserver_port=0, broker_port=0),
            store=StoreSettings(fill_ahead_bytes=0),
            pull=PullSettings(sql_filters=False),  # as RocketMQ, whose defaults were asked
            timers=TimerSettings(recall=False),
        ),
        "/store",
        disk=SimulatedDisk(),
        clock=FakeClock(),
        geometry=Geometry(
            log=LogGeometry(segment_bytes=8 * MIB),
            queue=QueueGeometry.small(),
            index=IndexGeometry.small(),
        ),
    )
    try:
        talk = Talk(broker=node.addresses.broker, nameserver=node.addresses.nameserver)
        return await tell_all(talk, requests.all_steps())
    finally:
        await node.stop()


@functools.cache
def _our_answers() -> Sequence[tuple[Exchange | Frames, list[Told]]]:
    return driver.run(_ask_our_node())


@functools.cache
def _all_differences() -> Sequence[Difference]:
    recorded = recording.read()
    return [
        found
        for step, told in _our_answers()
        for found in differences(step.name, recorded[step.name][1], told)
    ]


def test_the_recording_is_of_these_requests() -> None:
    """Whoever adds a request, or changes one, records anew."""
    steps = list(requests.all_steps())
    assert len({step.name for step in steps}) == len(steps)
    recorded = {name: request for name, (request, _) in recording.read().items()}
    assert recorded == {step.name: recording.as_json(step) for step in steps}


def test_answers_differ_in_what_the_page_names_only() -> None:
    """Header and body, field for field."""
    named = rows()
    unnamed = [one for one in _all_differences() if not any(row.covers(one) for row in named)]
    assert unnamed == []


def test_whatever_the_page_names_does_differ() -> None:
    """A row whose difference is gone goes too."""
    found = _all_differences()
    named = [row for row in rows() if not row.is_of_pops]
    assert [row for row in named if not any(row.covers(one) for one in found)] == []


def test_a_refusal_always_says_why() -> None:
    """The words are ours, but there are some."""
    free = [one for one in _all_differences() if one.part == FREE_REMARKS]
    assert [one for one in free if not one.ours.strip()] == []
