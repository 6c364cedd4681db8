"""Giving messages that could not be consumed back to the broker, which delivers them later."""

from collections.abc import Sequence

from sprocket.base import log
from sprocket.base.errors import BrokerRefused, ClientError
from sprocket.rocketmq.client.connections import Connections
from sprocket.rocketmq.client.held import Held
from sprocket.rocketmq.client.received import ReceivedMessage
from sprocket.rocketmq.client.routes import Routes
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.headers import SendMessageBack

_TIMEOUT_MS = 5_000
_DELIVERIES_MAX = 16
_BROKER_DECIDES = 0
"""Delay level: the more often a message failed, the later it comes again."""

_log = log.get_logger(__name__)


class SendBack:
    """Sends failed messages to the group's retry topic, where the broker can do that.

    Args:
        group: The consumer group.
        connections: Carry the requests.
        routes: Say where the broker lives.
    """

    def __init__(self, group: str, connections: Connections, routes: Routes) -> None:
        self._group = group
        self._connections = connections
        self._routes = routes
        self._unable: set[str] = set()

    async def __call__(
        self, held: Held, messages: Sequence[ReceivedMessage]
    ) -> list[ReceivedMessage]:
        """Give messages of one queue back; return those that the broker did not take."""
        broker_name = held.queue.broker_name
        if broker_name in self._unable:
            return list(messages)
        rest: list[ReceivedMessage] = []
        for message in messages:
            if rest or not await self._send(broker_name, message):
                rest.append(message)
        return rest

    async def _send(self, broker_name: str, message: ReceivedMessage) -> bool:
        header = SendMessageBack(
            offset=message.stored.physical_offset,
            group=self._group,
            delay_level=_BROKER_DECIDES,
            origin_msg_id=message.message_id,
            origin_topic=message.topic,
            max_reconsume_times=_DELIVERIES_MAX,
        )
        try:
            await self._connections.call(
                self._routes.require_master(broker_name),
                RequestCode.CONSUMER_SEND_MSG_BACK,
                header,
                timeout_ms=_TIMEOUT_MS,
            )
        except BrokerRefused as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                self._unable.add(broker_name)
            else:
                _log.warning("message not taken back", broker=broker_name, error=str(error))
            return False
        except ClientError as error:
            _log.warning("message not taken back", broker=broker_name, error=str(error))
            return False
        return True
