"""The settings of a running broker, which tools may change (25) and ask for (26).

A change lasts until the broker stops; to keep it, put it into the settings file.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace

import msgspec

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.base.errors import RequestRefused
from sprocket.rocketmq import aliases
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.codec.config import DataVersion
from sprocket.rocketmq.settings import Settings

BLACK_LIST = frozenset({"configBlackList", "brokerConfigPath", "rocketmqHome"})
"""What may not be changed over the wire, as RocketMQ has it."""

_log = log.get_logger(__name__)


class BrokerConfig:
    """The settings as they are now.

    Args:
        settings: As the broker was started with.
        folder: Of the store.
        clock: For the version.
        users: By the name of a group of settings, what takes it up when it has changed; the other
            groups cannot be changed while the broker runs.
    Threads: event loop only.
    """

    def __init__(
        self,
        settings: Settings,
        folder: str,
        clock: Clock,
        users: Mapping[str, Callable[[Settings], None]],
    ) -> None:
        self.now = settings
        self.version = DataVersion.new(clock.now_ms())
        self._folder = folder
        self._clock = clock
        self._users = users

    def update(self, texts: Mapping[str, str]) -> None:
        """Change what can be changed while running; all else is named in the log.

        Args:
            texts: By RocketMQ's name, in its units, or by ours, such as `pull.hold_count_max`.

        Raises:
            RequestRefused: NO_PERMISSION; a name is on the black list.
        Source: the real 5.3.3 answers success to whatever it ignores, and takes a text that is
        neither true nor false for false.
        """
        for name in texts:
            if name in BLACK_LIST:
                raise RequestRefused(
                    ResponseCode.NO_PERMISSION, "Can not update config in black list."
                )
        for name, text in texts.items():
            self._change(name, text)

    def told(self) -> dict[str, str]:
        """Return all settings in RocketMQ's words."""
        return aliases.to_broker_conf(self.now, folder=self._folder)

    def _change(self, name: str, text: str) -> None:
        alias = aliases.BROKER.get(name)
        setting = name if alias is None else alias.setting
        group, _, member = setting.partition(".")
        members = asdict(getattr(self.now, group)) if group in self._users else {}
        if member not in members:
            _log.warning("a setting cannot be changed while running", name=name)
            return
        try:
            if isinstance(members[member], bool):
                value: object = text.strip().lower() == "true"
            else:
                value = text.strip() if alias is None else alias.read(text)
            kind = type(getattr(self.now, group))
            new = msgspec.convert({**members, member: value}, kind, strict=alias is not None)
        except ValueError as error:
            _log.warning("a setting was not changed", name=name, value=text, why=str(error))
            return
        changed = replace(self.now, **{group: new})
        self._users[group](changed)
        self.now = changed
        self.version = self.version.next(self._clock.now_ms())
        _log.info("a setting was changed", name=setting, value=value)
