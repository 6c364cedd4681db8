"""The other members of a set that an operator decides about, asked what they know."""

import ssl
from collections.abc import Sequence

from sprocket.base.clock import Clock
from sprocket.base.errors import ClientError, WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import SetReplicasTable
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.headers import NoFields
from sprocket.rocketmq.failover.operator import Notice, decode_notice
from sprocket.rocketmq.remoting import Channel, MakeRequest, open_channel


class OtherMembers:
    """Asks them, each on a connection that is kept.

    Args:
        addresses: Of their brokers.
        broker: The name that all have.
        clock: For time limits.
        seconds: How long one may take for an answer.
        make_request: Makes the frames.
        tls: Encrypts connections; None if they are plain.

    Threads: event loop only.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        broker: str,
        clock: Clock,
        seconds: float,
        make_request: MakeRequest,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._addresses = addresses
        self._broker = broker
        self._clock = clock
        self._seconds = seconds
        self._make_request = make_request
        self._tls = tls
        self._channels: dict[str, Channel] = {}

    async def ask(self) -> list[Notice]:
        """Return what those say that answer, asked one after the other: mostly there is one."""
        found = [await self._notice(address) for address in self._addresses]
        return [one for one in found if one is not None]

    async def _notice(self, address: str) -> Notice | None:
        try:
            return await self._asked(address)
        except (ClientError, WireError):
            channel = self._channels.pop(address, None)
            if channel is not None:
                channel.close()
            return None

    async def _asked(self, address: str) -> Notice | None:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = await open_channel(
                address,
                self._clock,
                timeout_seconds=self._seconds,
                tls=self._tls,
                make_request=self._make_request,
            )
        code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
        answer = await channel.ask(code, NoFields(), timeout_ms=round(self._seconds * 1000))
        if answer.code != ResponseCode.SUCCESS:
            return None
        view = bodies.decode(SetReplicasTable, answer.body).sets.get(self._broker)
        if view is None or view.answered_by is None or not view.answered_by.notice:
            return None
        return decode_notice(view.answered_by.notice)

    def close(self) -> None:
        """Close the connections."""
        while self._channels:
            _, channel = self._channels.popitem()
            channel.close()
