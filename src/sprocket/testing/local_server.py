"""What servers inside the test process have in common: they start, end and wait in the same ways.

Under `with` and `async with` alike, the server runs from the first line to the last.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Generic, Self, TypeVar

from sprocket.node.process import Stoppable
from sprocket.testing.clock import FakeClock
from sprocket.testing.local_process import Begin, LocalProcess

SETTLE_SECONDS = 10.0
"""How long a server may take to become quiet; a consumer that hangs is told of by then."""

N = TypeVar("N", bound=Stoppable)
R = TypeVar("R")


class LocalServer(ABC, Generic[N, R]):
    """See the head of the module; `N` is what runs, `R` is what a start finds.

    Args:
        name: Of its thread.
        begin: Starts it on a disk, in a folder.
        settle: Waits until it is quiet, at most this many seconds; raises NotQuiet.
        folder: Where its files lie; by default a temporary folder, gone when it stops.
        now_ms: What its clock shows first; by default the machine's time.

    Threads: any but the server's own, one at a time.
    """

    def __init__(
        self,
        name: str,
        begin: Begin[N],
        settle: Callable[[N, float], Coroutine[object, None, None]],
        folder: str | None,
        now_ms: int | None,
    ) -> None:
        self._process = LocalProcess(name, begin, folder, now_ms)
        self._settle = settle

    @property
    def folder(self) -> str:
        """Where its files lie, which other programs may read."""
        return self._process.folder

    @property
    def clock(self) -> FakeClock:
        """Read it; `advance` moves it."""
        return self._process.clock

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def start(self) -> R:
        """Start it, again on its ports if it ran before; return what was found.

        Raises:
            StoreError: The folder is another's, locked or damaged.
            SettingsError: The settings do not fit together, or a port is in use.
        """

    def stop(self) -> None:
        """Stop it cleanly, as SIGTERM does; folder, ports and clock stay for `start`."""
        self._process.stop()

    def restart(self) -> R:
        """Stop it cleanly and start it again."""
        self.stop()
        return self.start()

    def crash(self) -> R:
        """Kill it as `kill -9` does and start it again; return what was found.

        What it had in memory only is gone, what it had written is there, synced or not. Nothing
        that waited is answered: clients see their connections break.
        """
        self._process.kill()
        return self.start()

    def power_cut(self, seed: int | None = None) -> R:
        """Cut the power and start again; return what was found.

        Args:
            seed: See `LocalProcess.cut_power`.
        """
        self._process.cut_power(seed)
        return self.start()

    def advance(self, ms: int = 0, *, seconds: float = 0) -> None:
        """Move the server's clock, and let all happen that is due by then.

        What becomes due is done when this returns; clients hear of it a moment later, so wait for
        what should arrive.
        """
        self._process.advance(ms + round(seconds * 1000))

    def settle(self, *, seconds: float = SETTLE_SECONDS) -> None:
        """Wait until nothing more happens by itself.

        Clients of the calling thread's event loop cannot go on meanwhile; a coroutine awaits
        `asettle`.

        Args:
            seconds: How long at most, of the machine's time; a consumer may never answer.

        Raises:
            NotQuiet: Something was still going on then; the text says what.
        """
        refuse_in_a_loop("settle", "asettle")
        self._process.call(self._settle, self._process.node, seconds)

    async def asettle(self, *, seconds: float = SETTLE_SECONDS) -> None:
        """Do what `settle` does, while the calling event loop continues."""
        process = self._process
        await asyncio.wrap_future(process.portal.begin(self._settle, process.node, seconds))

    def close(self) -> None:
        """Stop it permanently; a temporary folder is removed. May be called again."""
        self._process.close()


def refuse_in_a_loop(name: str, instead: str) -> None:
    """Raise RuntimeError in a coroutine: its clients could not answer while it waits."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{name} waits for clients of this event loop too: await {instead}")
