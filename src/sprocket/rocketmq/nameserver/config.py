"""The settings of a running NameServer, which tools may change (318) and ask for (319).

A change lasts until the NameServer stops; to keep it, put it into the settings file.
"""

from collections.abc import Mapping
from dataclasses import replace

from sprocket.base import log
from sprocket.base.errors import RequestRefused
from sprocket.rocketmq import aliases
from sprocket.rocketmq.codec.codes import ResponseCode
from sprocket.rocketmq.settings import NameServerSettings, ServerSettings

BLACK_LIST = frozenset({"configBlackList", "configStorePath", "kvConfigPath"})
"""What may not be changed over the wire, as RocketMQ has it."""
GROUP = "nameserver."

_log = log.get_logger(__name__)


class NameServerConfig:
    """The settings as they are now.

    Threads: event loop only.
    """

    def __init__(self, settings: NameServerSettings, server: ServerSettings) -> None:
        self.now = settings
        self._server = server

    def update(self, texts: Mapping[str, str]) -> None:
        """Change what can be changed while running; all else is named in the log.

        Raises:
            RequestRefused: NO_PERMISSION; a name is on the black list.
        Source: the real 5.3.3 answers success to whatever it ignores, and takes a text that is
        neither true nor false for false.
        """
        for name in texts:
            if name in BLACK_LIST:
                raise RequestRefused(
                    ResponseCode.NO_PERMISSION, f"Can not update config in black list: {name}"
                )
        for name, text in texts.items():
            alias = aliases.NAMESERVER.get(name)
            if alias is None or not alias.setting.startswith(GROUP):
                _log.warning("a setting cannot be changed while running", name=name)
                continue
            value = text.strip().lower() == "true"
            self.now = replace(self.now, **{alias.setting.removeprefix(GROUP): value})
            _log.info("a setting was changed", name=alias.setting, value=value)

    def told(self) -> dict[str, str]:
        """Return all settings in RocketMQ's words."""
        return aliases.to_nameserver_conf(self.now, self._server)
