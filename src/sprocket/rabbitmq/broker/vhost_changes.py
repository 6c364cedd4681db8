"""Virtual hosts that are made and deleted while others are served.

    make    open the store (disk thread) ── write and begin it, in one turn ── durable
    remove  write and end it, in one turn ── durable ── close the store, remove its folder

Invariants

1. Whoever finds a virtual host finds it whole: with its topology, and a store that is open.
2. One change is under way at a time. What was begun is finished even if nobody waits for it: a
   store is not left open, nor half of a folder.
3. A folder of a virtual host that was deleted is removed before one of that name is made again, at
   the next start if the process dies meanwhile (`RemovedVhost`).
"""

import asyncio
from collections.abc import Callable

from sprocket.base import log
from sprocket.base.errors import StoreError
from sprocket.rabbitmq.broker.definitions import Definitions
from sprocket.rabbitmq.broker.node_folder import NodeFolder
from sprocket.rabbitmq.broker.vhost_broker import VhostBroker, VhostFloor
from sprocket.rabbitmq.codec.definitions import VhostDefinition
from sprocket.runtime.tasks import Tasks

_log = log.get_logger(__name__)


class VhostChanges:
    """See the head of the module.

    Args:
        found: The open folder.
        vhosts: Those that run, by name; kept up to date.
        floor: What they stand on.

    Threads: event loop only.
    """

    def __init__(
        self, found: NodeFolder, vhosts: dict[str, VhostBroker], floor: VhostFloor
    ) -> None:
        self._found = found
        self._definitions: Definitions = found.definitions
        self._vhosts = vhosts
        self._floor = floor
        self._one_by_one = asyncio.Lock()
        self._tasks = Tasks("amqp vhosts")

    async def make(self, given: VhostDefinition) -> bool:
        """Add a virtual host, or change what is said of one; say whether it is new.

        Raises:
            RequestRefused: PRECONDITION_FAILED.
            StoreError: It is not there.
        Durability: it is durable when this returns.
        """
        return await asyncio.shield(self._tasks.spawn(self._make(given), f"make {given.name}"))

    async def remove(self, name: str, ended: Callable[[VhostBroker], None]) -> bool:
        """Delete a virtual host with all that is in it; say whether it was there.

        Args:
            name: Which.
            ended: Is to close its connections; it is in no table any more.

        Raises:
            DiskFull, DiskFailed: All is as before.
            StoreFailed: It is gone, but may be there again after a restart.
        Durability: it is durable when this returns; files may still be there then.
        """
        told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._tasks.spawn(self._remove(name, ended, told), f"remove {name}")
        return await told

    async def durable(self) -> None:
        """Wait until every declaration, and whatever else was changed, is on the disk.

        Raises:
            StoreError: Nobody knows whether it is.
        """
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: StoreError | None) -> None:
            if ended.done():
                return  # whoever waited has gone
            if error is None:
                ended.set_result(None)
            else:
                ended.set_exception(error)

        self._floor.declarations.when_durable(done)
        await ended

    async def settle(self) -> None:
        """Wait for the end of what is under way."""
        while len(self._tasks):
            async with self._one_by_one:
                pass
            await self._floor.turns.pass_turn()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way."""
        return not len(self._tasks)

    async def _make(self, given: VhostDefinition) -> bool:
        async with self._one_by_one:
            if given.name in self._vhosts:
                self._definitions.put_vhost(given)
                await self.durable()
                return False
            self._definitions.check_vhost(given)
            store = await self._floor.thread.run(lambda: self._found.open_store(given.name))
            try:
                topology = self._definitions.put_vhost(given)
                vhost = VhostBroker(topology, store, self._floor)
            except BaseException:
                await self._floor.thread.run(store.close)
                raise
            self._found.stores[given.name] = store
            self._vhosts[given.name] = vhost
            vhost.commits.start()
            await self.durable()
            return True

    async def _remove(
        self, name: str, ended: Callable[[VhostBroker], None], told: "asyncio.Future[bool]"
    ) -> None:
        async with self._one_by_one:
            vhost = self._vhosts.get(name)
            if vhost is None:
                _tell(told, False)
                return
            try:
                self._found.vhosts.remove(name)
            except StoreError as error:
                _tell(told, error)
                return
            del self._vhosts[name]
            ended(vhost)
            vhost.end()
            is_durable = True
            try:
                await self.durable()
            except StoreError as error:
                is_durable = False
                _tell(told, error)
            else:
                _tell(told, True)
            await self._clear(vhost, keeps_files=not is_durable)

    async def _clear(self, vhost: VhostBroker, *, keeps_files: bool) -> None:
        """Close the store of a virtual host that has ended, and remove its folder."""
        thread, sync_thread = self._floor.thread, self._floor.sync_thread
        while not vhost.is_idle:  # each round lets the jobs end that were there
            await thread.run(_nothing)
        for one in (sync_thread, thread):
            await one.run(_nothing)
        store = self._found.stores.pop(vhost.name)
        try:
            await thread.run(store.close)
            if not keeps_files:
                await thread.run(lambda: self._found.remove_folder(vhost.name))
                self._found.vhosts.forget_removed(vhost.name)
        except StoreError as error:
            _log.error(
                "files of a deleted virtual host stay until the next start",
                vhost=vhost.name,
                why=str(error),
            )


def _tell(waiting: "asyncio.Future[bool]", result: bool | StoreError) -> None:
    if waiting.done():
        return  # whoever waited has gone
    if isinstance(result, StoreError):
        waiting.set_exception(result)
    else:
        waiting.set_result(result)


def _nothing() -> None:
    """Do nothing: whoever waits for this waits for what was before it."""
