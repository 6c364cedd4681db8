"""Where the master of a slave is, and where its log begins.

The NameServers tell a slave at each registration; a setting may name the place where it waits for
slaves. Where its log begins it is asked itself, since to an empty slave it does not say so.

Source: RocketMQ `BrokerController.doRegisterBrokerAll`, `SlaveSynchronize`.
"""

import contextlib
import ssl
from dataclasses import dataclass

from sprocket.base.clock import Clock
from sprocket.base.errors import ClientError, WireError
from sprocket.rocketmq.codec import bodies
from sprocket.rocketmq.codec.bodies import KeyValueTable
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.headers import NoFields
from sprocket.rocketmq.remoting import Channel, MakeRequest, open_channel, split_address
from sprocket.rocketmq.replication import MasterPlace
from sprocket.rocketmq.server.nameservers import Registration

ANSWER_MS = 3_000
"""How long the master may take to answer."""

_FIRST = "commitLogMinOffset"


@dataclass(frozen=True, slots=True)
class MasterPlaces:
    """Finds the master.

    Args:
        given: Where it waits for slaves, `host:port`; empty: the NameServers know.
        registration: Learns it from them.
        clock: For time limits.
        make_request: Makes the frames of what it is asked.
        tls: Encrypts that; None if it is plain.
    """

    given: str
    registration: Registration
    clock: Clock
    make_request: MakeRequest
    tls: ssl.SSLContext | None = None

    async def find(self) -> MasterPlace | None:
        """Return where the master waits for slaves, None if nobody knows.

        Raises:
            NotConnected: What the setting or a NameServer says is not an address.
        """
        known = self.registration.master
        address = self.given or (known.slaves if known is not None else "")
        if not address:
            return None
        host, port = split_address(address)
        first = None if known is None else await self._first(known.broker)
        return MasterPlace(host, port, first)

    async def _first(self, address: str) -> int | None:
        """Ask the master where its log begins; None if it does not say."""
        with contextlib.suppress(ClientError, WireError, ValueError):
            channel = await self.open(address)
            try:
                code = RequestCode.GET_BROKER_RUNTIME_INFO
                answer = await channel.ask(code, NoFields(), timeout_ms=ANSWER_MS)
            finally:
                channel.close()
            if answer.code == ResponseCode.SUCCESS:
                table = bodies.decode(KeyValueTable, answer.body).table
                return int(table[_FIRST]) if _FIRST in table else None
        return None

    async def open(self, address: str) -> Channel:
        """Connect to the master as to any broker. Raises NotConnected."""
        return await open_channel(address, self.clock, tls=self.tls, make_request=self.make_request)
