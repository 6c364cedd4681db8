"""How a blocking client runs: an awaited one, in a loop that has a thread of its own.

A `Wrapper` stands for one awaited object. Its methods are made of the awaited ones by `calling`,
`beginning` and `doing`, which keep their names, arguments, types and docstrings, so that nothing is
said twice:

    class BlockingPuller(OpenedWrapper[Puller]):
        pull = calling(Puller.pull)

Only what differs is written out.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Sequence
from functools import wraps
from typing import Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from sprocket.base.clock import Clock
from sprocket.base.errors import NotConnected
from sprocket.rocketmq.client.network import Client
from sprocket.rocketmq.client.network import Where as AwaitedWhere
from sprocket.rocketmq.client.settings import ClientSettings
from sprocket.rocketmq.remoting import Connect
from sprocket.runtime.blocking import Portal, ThreadFuture, ThreadLock

P = ParamSpec("P")
T = TypeVar("T")


class Awaited(Protocol):
    """What the awaited clients have in common."""

    async def start(self) -> None:
        """Begin."""

    async def close(self) -> None:
        """End; may be called again."""


A = TypeVar("A", bound=Awaited)
C = TypeVar("C")


class Runner:
    """An awaited client and the loop it runs in, its own or that of a shared runner.

    `what` names the user in errors and threads, such as `producer`.
    """

    def __init__(self, what: str, client: Awaited, shared: "Runner | None" = None) -> None:
        self._what = what
        self._shared = shared
        self.client = client
        self._portal: Portal | None = None
        self._closing = ThreadLock()

    def start(self) -> None:
        """Start the awaited client, in a thread of its own unless it has a shared one.

        What fails to start leaves no thread behind.
        """
        with self._closing:
            assert self._portal is None, f"a {self._what} is started once"
            self._portal = self._shared.portal if self._shared else Portal(f"sprocket-{self._what}")
        try:
            self.call(self.client.start)
        except BaseException:
            self.close()
            raise

    def close(self, end: Callable[[], Coroutine[object, None, None]] | None = None) -> None:
        """End as the awaited client does, then its own thread.

        May be called again, and by several threads: each returns when all has ended. The loop can
        be called until the client has ended, for what a thread has in hand is part of that. `end`
        is awaited in place of the client's `close`.
        """
        if self._portal is not None:
            self._portal.assert_elsewhere()
        with self._closing:
            portal = self._portal
            if portal is None:
                return
            try:
                portal.call(end or self.client.close)
            finally:
                self._portal = None
                if self._shared is None:
                    portal.close()

    @property
    def portal(self) -> Portal:
        """Where it runs. Raises NotConnected while it is not open."""
        if self._portal is None:
            raise NotConnected(f"the {self._what} is not open; use `with` or `start()`")
        return self._portal

    @property
    def is_open(self) -> bool:
        """Whether it was started and not closed."""
        return self._portal is not None

    def call(
        self,
        function: Callable[P, Coroutine[object, None, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run an async function in the loop and wait for what it gives.

        Raises:
            NotConnected: The client is not open.
        """
        return self.portal.call(function, *args, **kwargs)

    def do(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a plain function in the loop, which owns what it touches; return what it gives.

        Raises:
            NotConnected: The client is not open.
        """

        async def run() -> T:
            return function(*args, **kwargs)

        return self.call(run)

    def early(
        self,
        function: Callable[P, Coroutine[object, None, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run an async function that waits for nothing while the client is not open.

        Then it runs in the caller's thread, and the client does not start meanwhile; otherwise in
        the loop, as with `call`.
        """
        if self._portal is None:
            with self._closing:
                if self._portal is None:
                    return _at_once(function(*args, **kwargs))
        return self.call(function, *args, **kwargs)

    def read(self, get: Callable[[], T]) -> T:
        """Return what a function says of the client, which need not be open.

        It runs in the loop while there is one. What the loop itself calls, such as `on_rebalance`,
        may read too.
        """
        portal = self._portal
        if portal is None or portal.is_here:
            return get()
        try:
            return self.do(get)
        except NotConnected:  # the loop has ended meanwhile: nobody else touches what it owned
            return get()

    def iterate(self, make: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        """Give what an asynchronous iterator gives, until it ends or the client is closed.

        Raises:
            NotConnected: The client is not open.
        """
        source = self.do(make)

        async def take() -> tuple[T] | None:
            try:
                return (await anext(source),)
            except StopAsyncIteration:
                return None

        async def leave() -> None:
            if isinstance(source, AsyncGenerator):
                await source.aclose()

        try:
            while (taken := self._call_if_open(take)) is not None:
                yield taken[0]
        finally:
            self._call_if_open(leave)

    def _call_if_open(self, function: Callable[[], Coroutine[object, None, T | None]]) -> T | None:
        """Run an async function in the loop; return None if another thread has closed it."""
        try:
            return self.call(function)
        except NotConnected:
            if self.is_open:
                raise
            return None


class Wrapper(Generic[C]):
    """Stands for an awaited object that lives in the loop of a runner."""

    def __init__(self, run: Runner, awaited: C) -> None:
        self._run = run
        self._awaited = awaited


class OpenedWrapper(Wrapper[A]):
    """Stands for an awaited client, which begins and ends with `with`.

    `make` returns the awaited client for what it is to be given in place of the user's `where`.
    """

    def __init__(self, what: str, where: "Where", make: Callable[[AwaitedWhere], A]) -> None:
        if isinstance(where, BlockingClient):
            client = make(where._awaited)
            super().__init__(Runner(what, client, where._run), client)
        else:
            client = make(where)
            super().__init__(Runner(what, client), client)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Begin; connections are made when they are needed."""
        self._run.start()

    def close(self) -> None:
        """End as the awaited client does; may be called again."""
        self._run.close()


class BlockingClient(OpenedWrapper[Client]):
    """Connections, heartbeats and one thread for several producers and consumers.

        with Client("127.0.0.1:9876") as client:
            with Producer(client, group="orders") as producer, Admin(client) as admin:
                ...

    See `client.Client`. Threads: any.
    """

    def __init__(
        self,
        nameservers: str | Sequence[str],
        *,
        settings: ClientSettings | None = None,
        clock: Clock | None = None,
        connect: Connect | None = None,
    ) -> None:
        client = Client(nameservers, settings=settings, clock=clock, connect=connect)
        super().__init__("client", nameservers, lambda _: client)


Where = str | Sequence[str] | BlockingClient
"""How users say where the brokers are: NameServers for an own client, or a shared client."""


def calling(
    method: Callable[Concatenate[C, P], Coroutine[object, None, T]], *, before_start: bool = False
) -> Callable[Concatenate[Wrapper[C], P], T]:
    """Return the wrapper of an async method: it runs in the loop, and who calls waits for it.

    One that may be called before the start does then as `Runner.early` says.
    """

    @wraps(method)
    def call(self: Wrapper[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        bound: Callable[P, Coroutine[object, None, T]] = getattr(self._awaited, method.__name__)
        run = self._run.early if before_start else self._run.call
        return run(bound, *args, **kwargs)

    return call


def beginning(
    method: Callable[Concatenate[C, P], Coroutine[object, None, T]],
) -> Callable[Concatenate[Wrapper[C], P], ThreadFuture[T]]:
    """Return the wrapper of an async method that does not wait: it gives a future of the result.

    What is begun when the client is closed is cancelled.
    """

    @wraps(method)
    def begin(self: Wrapper[C], /, *args: P.args, **kwargs: P.kwargs) -> ThreadFuture[T]:
        bound: Callable[P, Coroutine[object, None, T]] = getattr(self._awaited, method.__name__)
        return self._run.portal.begin(bound, *args, **kwargs)

    return begin


def doing(method: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[Wrapper[C], P], T]:
    """Return the wrapper of a plain method: it runs in the loop, which owns what it touches."""

    @wraps(method)
    def call(self: Wrapper[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        bound: Callable[P, T] = getattr(self._awaited, method.__name__)
        return self._run.do(bound, *args, **kwargs)

    return call


def _at_once(coroutine: Coroutine[object, None, T]) -> T:
    """Run a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    coroutine.close()
    raise AssertionError("it waits, and there is no loop yet")
