"""An event loop is what the broker's parts take for one."""

import asyncio

from sprocket.runtime import driver
from sprocket.runtime.timers import Timers


def test_a_loop_has_what_is_asked_for() -> None:
    """Calls come in a later turn and after a time, and can be cancelled."""
    made: list[str] = []

    async def main() -> None:
        timers: Timers = asyncio.get_running_loop()
        timers.call_soon(lambda: made.append("soon"))
        timers.call_later(0.0, lambda: made.append("later"))
        timers.call_later(0.0, lambda: made.append("never")).cancel()
        assert made == []
        while len(made) < 2:
            await asyncio.sleep(0)

    driver.run(main())
    assert sorted(made) == ["later", "soon"]
