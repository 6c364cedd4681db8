"""Whether brokers deliver a message at the time that it names; asked before any is sent.

One whose timers are switched off refuses such a message; one before RocketMQ 5 does not know the
property, and delivers at once.
"""

from collections.abc import Callable, Mapping, Sequence

from sprocket.base import log
from sprocket.base.errors import ClientError, SettingsError
from sprocket.rocketmq.model.route import MessageQueue

_log = log.get_logger(__name__)

COLUMN = "deliverAt"
_SETTING = "timerWheelEnable"


class BrokerTimers:
    """The brokers that are known to deliver at a time.

    Args:
        config: Returns the settings of a broker, by its name.
    """

    def __init__(self, config: Callable[[str], Mapping[str, str]]) -> None:
        self._config = config
        self._known: set[str] = set()

    def require(self, queues: Sequence[MessageQueue]) -> None:
        """Check the brokers of some queues; each is asked once.

        A broker that does not answer, or not without a login, is not checked: it refuses the
        message itself.

        Raises:
            SettingsError: One does not deliver at a time.
        """
        for broker in sorted({queue.broker_name for queue in queues} - self._known):
            self._known.add(broker)
            try:
                found = self._config(broker).get(_SETTING)
            except ClientError as error:
                _log.warning("a broker does not tell its settings", broker=broker, error=str(error))
                continue
            if found != "true":
                why = (
                    "is before RocketMQ 5, and" if found is None else f"has {_SETTING}={found}, and"
                )
                raise SettingsError(
                    f"broker {broker!r} {why} delivers nothing at the time of the column"
                    f" {COLUMN!r}: give delayLevel instead, or leave the column away"
                )
