"""How often a slave tries to reach a master that is not there."""

import asyncio
from typing import cast

import pytest
from tests import virtual_time
from tests.virtual_time import LoopClock

from sprocket.rocketmq.replication import FollowingLog, MasterLink, MasterPlace


@pytest.mark.parametrize(("given", "expected"), [({}, 5), ({"retry_seconds": 0.5}, 20)])
def test_tries_get_rarer_up_to_a_limit(given: dict[str, float], expected: int) -> None:
    """In ten seconds: after 0.5 s, 1 s, 2 s, 4 s at first; or each half second."""
    tries = 0

    async def find() -> MasterPlace | None:
        nonlocal tries
        tries += 1
        return None

    async def main() -> None:
        log = cast("FollowingLog", None)  # nothing is brought to it
        link = MasterLink(log, find, LoopClock(), heartbeat_seconds=5, silence_seconds=20, **given)
        link.start()
        await asyncio.sleep(9.9)
        await link.stop()

    virtual_time.run(main())
    assert tries == expected
