"""A network of sockets, to stand where a `pipe.PipeNetwork` may: `runtime.driver` in two calls."""

from collections.abc import Callable

from sprocket.runtime import driver
from sprocket.runtime.driver import (
    Carried,
    ConnectionSettings,
    E,
    Greet,
    OnEvent,
    PortPolicy,
    Server,
)

connect = driver.connect


async def serve(
    factory: Callable[[], Carried[E]],
    on_event: OnEvent[E],
    host: str,
    port: int,
    *,
    settings: ConnectionSettings | None = None,
    policy: PortPolicy | None = None,
    greet: Greet | None = None,
) -> Server:
    """Take an address and listen on it at once; see `driver.bind` and `driver.listen`."""
    bound = await driver.bind(host, port)
    return await driver.listen(
        bound, factory, on_event, settings=settings, policy=policy, greet=greet
    )
