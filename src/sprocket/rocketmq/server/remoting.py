"""Listens for RocketMQ's remoting protocol: connections, frames and handlers put together."""

from sprocket.rocketmq.codec.connection import Connection
from sprocket.rocketmq.codec.frame import FRAME_BYTES_MAX
from sprocket.rocketmq.server.dispatch import Dispatcher
from sprocket.runtime import driver
from sprocket.runtime.driver import ConnectionSettings, Server


async def listen(
    dispatcher: Dispatcher,
    host: str,
    port: int,
    *,
    settings: ConnectionSettings | None = None,
    frame_bytes_max: int = FRAME_BYTES_MAX,
) -> Server:
    """Serve requests at an address.

    Args:
        dispatcher: Handles every command.
        host: Address to listen on.
        port: 0 means any free one; see `Server.port`.
        settings: Limits of the connections.
        frame_bytes_max: Larger frames close their connection.

    Raises:
        OSError: The address cannot be listened on.
    """
    return await driver.serve(
        lambda: Connection(frame_bytes_max=frame_bytes_max),
        dispatcher,
        host,
        port,
        settings=settings,
    )
