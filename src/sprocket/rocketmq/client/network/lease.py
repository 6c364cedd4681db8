"""What several producers and consumers may share, and how each of them uses its share.

Java keeps a table of instances by client id in each process, and by default gives every producer
and consumer an id of its own, so that they share nothing. Here nothing is shared unless the user
says so, with a `Client`; a table of the process would outlive event loops, and hand one test the
connections of another. Sharing saves a connection and a heartbeat for each broker.
"""

from collections.abc import Callable, Sequence
from typing import Self, TypedDict, TypeVar

from sprocket.base.clock import Clock
from sprocket.base.errors import NotConnected, SettingsError
from sprocket.rocketmq.client.network.client_instance import ClientInstance, JoinedGroup
from sprocket.rocketmq.client.settings import ClientSettings
from sprocket.rocketmq.remoting import Connect
from sprocket.runtime import driver
from sprocket.runtime.tasks import Tasks

H = TypeVar("H")


class Client:
    """Connections, routes and heartbeats for several producers and consumers.

        async with Client("127.0.0.1:9876") as client:
            async with Producer(client, group="orders") as producer, Admin(client) as admin:
                ...

    It holds each group once for each kind: a second producer of a group is refused, and so is a
    second consumer. It is closed after those that use it.

    Args:
        nameservers: `host:port`, several joined by `;`, or a sequence of them.
        settings: Timeouts and intervals of the connections.
        clock: For tests.
        connect: For tests.

    Threads: event loop only; see `client.blocking` for programs without one.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str],
        *,
        settings: ClientSettings | None = None,
        clock: Clock | None = None,
        connect: Connect | None = None,
    ) -> None:
        self._make: Callable[[], ClientInstance] = lambda: ClientInstance(
            nameservers, settings, clock=clock, connect=connect or driver.connect
        )
        self._instance: ClientInstance | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Begin; connections are made when they are needed."""
        self._begin()

    def _begin(self) -> None:
        assert self._instance is None, "a client is started once"
        self._instance = self._make()

    async def close(self) -> None:
        """Take leave of the brokers and close all connections; may be called again."""
        instance, self._instance = self._instance, None
        if instance is not None:
            await instance.close()

    @property
    def instance(self) -> ClientInstance:
        """What is shared. Raises NotConnected while the client is not open."""
        if self._instance is None:
            raise NotConnected("the client is not open; use `async with` or `await start()`")
        return self._instance


Where = str | Sequence[str] | Client
"""How users say where the brokers are: NameServers for an own client, or a shared client."""


class ClientOptions(TypedDict, total=False):
    """Arguments for a client that is not shared; a shared `Client` has its own."""

    client: ClientSettings | None
    """Timeouts and intervals of the connections."""
    clock: Clock | None
    """For tests."""
    connect: Connect
    """For tests."""


class Lease:
    """One user's hold on an instance, its own or a shared one, from `begin` to `end`.

    `what` names the user in errors, such as `producer`. The options are for an own instance.

    Raises:
        SettingsError: There are options, and a shared client has its own; or one is unknown.
    """

    def __init__(self, what: str, where: Where, options: ClientOptions) -> None:
        given = ", ".join(name for name, value in options.items() if value is not None)
        if isinstance(where, Client) and given:
            raise SettingsError(f"{given}: say it of the shared Client, not of its {what}")
        unknown = sorted(options.keys() - ClientOptions.__annotations__.keys())
        if unknown:
            raise SettingsError(f"a {what} takes no argument {', '.join(unknown)}")
        self._what = what
        self._is_shared = isinstance(where, Client)
        self.client = where if isinstance(where, Client) else _own_client(where, options)
        """What has the instance, for those that are to share it with this user."""
        self._instance: ClientInstance | None = None
        self._tasks: Tasks | None = None
        self._undo: list[Callable[[], None]] = []
        self._joined: dict[str, str] = {}
        """The groups that were joined by it, by what it is of each."""

    def begin(self) -> ClientInstance:
        """Return the instance; from now on it is `instance`.

        Raises:
            NotConnected: The client to share is not open.
        """
        assert self._instance is None, f"a {self._what} is started once"
        if not self._is_shared:
            self.client._begin()
        self._instance = self.client.instance
        self._tasks = Tasks(f"{self._what} {self._instance.client_id}")
        return self._instance

    @property
    def instance(self) -> ClientInstance:
        """The instance. Raises NotConnected while the user is not open."""
        if self._instance is None:
            raise NotConnected(f"the {self._what} is not open; use `async with` or `await start()`")
        return self._instance

    @property
    def tasks(self) -> Tasks:
        """The user's own tasks, which end with the lease."""
        assert self._tasks is not None, "the lease has not begun"
        return self._tasks

    def watch(self, hooks: list[H], hook: H) -> None:
        """Add a hook to a list of the instance, until the end."""
        hooks.append(hook)
        self._undo.append(lambda: hooks.remove(hook))

    def join_as_producer(self, group: str) -> None:
        """Join a producer group, until the end. Raises ClientError if it is there already."""
        self.instance.join_as_producer(group)
        self._joined["producer"] = group

    def join_as_consumer(self, group: str, consumer: JoinedGroup) -> None:
        """Join a consumer group, until the end. Raises ClientError if it is there already."""
        self.instance.join_as_consumer(group, consumer)
        self._joined["consumer"] = group

    async def end(self) -> None:
        """Take everything back; close an instance that is not shared. May be called again."""
        instance, self._instance = self._instance, None
        if instance is None:
            return
        for undo in self._undo:
            undo()
        self._undo.clear()
        await self.tasks.close()
        if not self._is_shared:
            await self.client.close()
            return
        if self._joined:
            await instance.leave(**self._joined)


def _own_client(where: str | Sequence[str], options: ClientOptions) -> Client:
    return Client(
        where,
        settings=options.get("client"),
        clock=options.get("clock"),
        connect=options.get("connect"),
    )
