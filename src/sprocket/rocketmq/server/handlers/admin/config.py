"""Requests about the broker's settings: 25 and 26."""

import msgspec

from sprocket.rocketmq.broker.admin import BrokerConfig
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.config import java_properties
from sprocket.rocketmq.codec.headers import BrokerConfigAnswer
from sprocket.rocketmq.remoting import Answer, Handler
from sprocket.runtime.driver import Peer


class ConfigHandlers:
    """Settings, in RocketMQ's words."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    def table(self) -> dict[int, Handler]:
        """Return the handler of each code."""
        return {
            RequestCode.UPDATE_BROKER_CONFIG: self.update,
            RequestCode.GET_BROKER_CONFIG: self.told,
        }

    def update(self, _: Peer, request: Command) -> Answer:
        """Change settings; no body is a success, as in RocketMQ."""
        self._config.update(java_properties.read(request.body))
        return Answer()

    def told(self, _: Peer, _request: Command) -> Answer:
        """Answer all settings."""
        version = msgspec.json.encode(self._config.version.to_json()).decode()
        return Answer(
            header=BrokerConfigAnswer(version=version),
            body=(java_properties.write(self._config.told()),),
        )
