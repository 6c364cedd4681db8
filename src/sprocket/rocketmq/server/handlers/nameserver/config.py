"""The NameServer's requests about what it keeps for tools: key-value pairs and its own settings.

Codes 100 to 102, 219, 318 and 319.

Source: RocketMQ `DefaultRequestProcessor` of the NameServer.
"""

from dataclasses import dataclass

from sprocket.base.errors import RequestRefused
from sprocket.rocketmq.codec.bodies import broker_bodies
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode
from sprocket.rocketmq.codec.config import java_properties
from sprocket.rocketmq.codec.headers import Key, KeyValue, Namespace, NoFields, ValueAnswer
from sprocket.rocketmq.nameserver.config import NameServerConfig
from sprocket.rocketmq.nameserver.key_values import KeyValues
from sprocket.rocketmq.remoting import Answer, Request, Row, row


@dataclass(frozen=True, slots=True)
class NameConfigHandlers:
    """Key-value pairs and settings."""

    _key_values: KeyValues
    _config: NameServerConfig

    def rows(self) -> list[Row]:
        """Return the table."""
        return [
            row(RequestCode.PUT_KV_CONFIG, KeyValue, self.put),
            row(RequestCode.GET_KV_CONFIG, Key, self.get),
            row(RequestCode.DELETE_KV_CONFIG, Key, self.delete),
            row(RequestCode.GET_KVLIST_BY_NAMESPACE, Namespace, self.namespace),
            row(RequestCode.UPDATE_NAMESRV_CONFIG, NoFields, self.update),
            row(RequestCode.GET_NAMESRV_CONFIG, NoFields, self.told),
        ]

    def put(self, _: Request, header: KeyValue) -> Answer:
        """Keep a value."""
        self._key_values.put(header.namespace, header.key, header.value)
        return Answer()

    def get(self, _: Request, header: Key) -> Answer:
        """Answer a value."""
        value = self._key_values.get(header.namespace, header.key)
        if value is None:
            raise RequestRefused(
                ResponseCode.QUERY_NOT_FOUND,
                f"No config item, Namespace: {header.namespace} Key: {header.key}",
            )
        return Answer(header=ValueAnswer(value=value))

    def delete(self, _: Request, header: Key) -> Answer:
        """Forget a value."""
        self._key_values.delete(header.namespace, header.key)
        return Answer()

    def namespace(self, _: Request, header: Namespace) -> Answer:
        """Answer all values of a namespace."""
        name = header.namespace
        texts = self._key_values.namespace(name)
        if texts is None:
            raise RequestRefused(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {name}")
        return Answer(body=(broker_bodies.encode_key_values(texts),))

    def update(self, request: Request, _header: NoFields) -> Answer:
        """Change settings."""
        self._config.update(java_properties.read(request.body))
        return Answer()

    def told(self, _: Request, _header: NoFields) -> Answer:
        """Answer all settings."""
        return Answer(body=(java_properties.write(self._config.told()),))
