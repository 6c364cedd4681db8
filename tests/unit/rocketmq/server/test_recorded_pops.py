"""Every recorded scenario of consumers that pop goes as with RocketMQ, but for what the page names.

The recording is made, and compared with the real broker again, by `tests/interop/test_answers.py`;
the page is `docs/answers.md`.
"""

import functools
from collections.abc import Sequence

import pytest
from tests.answers import popping, recording
from tests.answers.differences import FREE_REMARKS, Difference, differences, rows
from tests.answers.exchange import Exchange, Frames, Told, tell_all
from tests.waits import LONG_SECONDS

from sprocket.base.units import MIB
from sprocket.node.rocketmq import Node
from sprocket.rocketmq.geometry import Geometry, IndexGeometry, LogGeometry, QueueGeometry
from sprocket.rocketmq.settings import PullSettings, ServerSettings, Settings, StoreSettings
from sprocket.runtime import driver
from sprocket.testing import quiet
from sprocket.testing.clock import FakeClock
from sprocket.testing.disk import SimulatedDisk

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("recorded pops"),  # one worker, or each would ask everything
]


async def _ask_our_node() -> list[tuple[Exchange | Frames, list[Told]]]:
    clock = FakeClock()
    node = await Node.start(
        Settings(
            server=ServerSettings(nameserver_port=0, broker_port=0),
            store=StoreSettings(fill_ahead_bytes=0),
            pull=PullSettings(sql_filters=False),  # as RocketMQ, whose defaults were asked
        ),
        "/store",
        disk=SimulatedDisk(),
        clock=clock,
        geometry=Geometry(
            log=LogGeometry(segment_bytes=8 * MIB),
            queue=QueueGeometry(units_per_file=100),
            index=IndexGeometry.small(),
        ),
    )

    async def pass_ms(ms: int) -> None:
        clock.advance(ms)
        await quiet.settle(node, LONG_SECONDS)

    try:
        talk = popping.PopTalk(
            broker=node.addresses.broker, nameserver=node.addresses.nameserver, pass_ms=pass_ms
        )
        return await tell_all(talk, popping.all_steps())
    finally:
        await node.stop()


@functools.cache
def _our_answers() -> Sequence[tuple[Exchange | Frames, list[Told]]]:
    return driver.run(_ask_our_node())


@functools.cache
def _all_differences() -> Sequence[Difference]:
    recorded = recording.read(recording.POPS_FILE)
    return [
        found
        for step, told in _our_answers()
        if told
        for found in differences(step.name, recorded[step.name][1], told)
    ]


def test_the_recording_is_of_these_scenarios() -> None:
    """Whoever adds one, or changes one, records anew."""
    steps = list(popping.all_steps())
    assert len({step.name for step in steps}) == len(steps)
    recorded = recording.read(recording.POPS_FILE)
    assert {name: request for name, (request, _) in recorded.items()} == {
        step.name: recording.as_json(step) for step in steps
    }


@pytest.mark.parametrize("scenario", popping.scenarios())
def test_a_scenario_goes_as_with_rocketmq(scenario: str) -> None:
    """Header, body and records, but for what the page names."""
    named = rows()
    ours = [one for one in _all_differences() if one.name.startswith(f"pop/{scenario}/")]
    assert [one for one in ours if not any(row.covers(one) for row in named)] == []


def test_whatever_the_page_names_does_differ() -> None:
    """A row whose difference is gone goes too."""
    named = [row for row in rows() if row.is_of_pops]
    assert [row for row in named if not any(row.covers(one) for one in _all_differences())] == []


def test_a_refusal_always_says_why() -> None:
    """The words are ours, but there are some."""
    free = [one for one in _all_differences() if one.part == FREE_REMARKS]
    assert [one for one in free if not one.ours.strip()] == []
