"""Listening for the protocol."""

import asyncio

from sprocket.rocketmq.codec import command
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.codec.connection import Connection
from sprocket.rocketmq.server import remoting
from sprocket.rocketmq.server.dispatch import Dispatcher
from sprocket.runtime import driver
from sprocket.runtime.driver import ConnectionSettings


def test_a_free_port_is_found_and_requests_are_answered() -> None:
    """Port 0 means any; with limits of one's own."""

    async def main() -> None:
        settings = ConnectionSettings(connections_max=1)
        server = await remoting.listen(Dispatcher({}), "127.0.0.1", 0, settings=settings)
        assert server.port > 0
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.writelines(command.request(99, 1))
        (answer,) = Connection().receive(await reader.read(1000))
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        writer.close()
        await server.close()

    driver.run(main())
