"""The NameServer's requests about what it keeps for tools: key-value pairs and its own settings.

Codes 100 to 102, 219, 318 and 319.

Source: RocketMQ `DefaultRequestProcessor` of the NameServer.
"""

from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.codec.bodies import broker_bodies
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.config import java_properties
from sprocket.rocketmq.codec.headers import Key, KeyValue, Namespace, ValueAnswer
from sprocket.rocketmq.nameserver.config import NameServerConfig
from sprocket.rocketmq.nameserver.key_values import KeyValues
from sprocket.rocketmq.remoting import Answer, Handler
from sprocket.runtime.driver import Peer


class NameConfigHandlers:
    """Key-value pairs and settings."""

    def __init__(self, key_values: KeyValues, config: NameServerConfig) -> None:
        self._key_values = key_values
        self._config = config

    def table(self) -> dict[int, Handler]:
        """Return the handler of each code."""
        return {
            RequestCode.PUT_KV_CONFIG: self.put,
            RequestCode.GET_KV_CONFIG: self.get,
            RequestCode.DELETE_KV_CONFIG: self.delete,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self.namespace,
            RequestCode.UPDATE_NAMESRV_CONFIG: self.update,
            RequestCode.GET_NAMESRV_CONFIG: self.told,
        }

    def put(self, _: Peer, request: Command) -> Answer:
        """Keep a value."""
        header = request.header(KeyValue)
        self._key_values.put(header.namespace, header.key, header.value)
        return Answer()

    def get(self, _: Peer, request: Command) -> Answer:
        """Answer a value."""
        header = request.header(Key)
        value = self._key_values.get(header.namespace, header.key)
        if value is None:
            raise RequestRefused(
                ResponseCode.QUERY_NOT_FOUND,
                f"No config item, Namespace: {header.namespace} Key: {header.key}",
            )
        return Answer(header=ValueAnswer(value=value))

    def delete(self, _: Peer, request: Command) -> Answer:
        """Forget a value."""
        header = request.header(Key)
        self._key_values.delete(header.namespace, header.key)
        return Answer()

    def namespace(self, _: Peer, request: Command) -> Answer:
        """Answer all values of a namespace."""
        name = request.header(Namespace).namespace
        texts = self._key_values.namespace(name)
        if texts is None:
            raise RequestRefused(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {name}")
        return Answer(body=(broker_bodies.encode_key_values(texts),))

    def update(self, _: Peer, request: Command) -> Answer:
        """Change settings."""
        self._config.update(java_properties.read(request.body))
        return Answer()

    def told(self, _: Peer, _request: Command) -> Answer:
        """Answer all settings."""
        return Answer(body=(java_properties.write(self._config.told()),))
