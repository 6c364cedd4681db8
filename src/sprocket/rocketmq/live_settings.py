"""The settings of a running broker or NameServer, which tools may change and ask for.

A change lasts until the server stops; to keep it, put it into the settings file.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial

import msgspec

from sprocket.base import log
from sprocket.base.clock import Clock
from sprocket.rocketmq import aliases
from sprocket.rocketmq.aliases import Alias
from sprocket.rocketmq.codec.config import DataVersion
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.settings import Settings

_log = log.get_logger(__name__)
_limited_log = log.get_limited_logger(__name__)

Users = Mapping[str, Callable[[Settings], None]]
"""By the name of a group of settings, what takes it up when it has changed; the other groups cannot
be changed while the server runs."""


@dataclass(frozen=True, slots=True)
class _Server:
    """What broker and NameServer have each of its own."""

    rows: Mapping[str, Alias]
    texts: Callable[[Settings], dict[str, str]]
    refusal: str
    """What a change of a name on the black list is refused with."""


def of_broker(settings: Settings, folder: str, clock: Clock, users: Users) -> "LiveSettings":
    """Return those that a broker was started with: requests 25 and 26.

    `folder` is that of its store.
    """
    texts = partial(aliases.to_broker_conf, folder=folder)
    server = _Server(aliases.BROKER, texts, "Can not update config in black list.")
    return LiveSettings(settings, clock, users, server)


def of_nameserver(settings: Settings, clock: Clock) -> "LiveSettings":
    """Return those that a NameServer was started with: requests 318 and 319.

    Whoever uses its group `nameserver` reads it from here each time.
    """
    refusal = "Can not update config in black list: {name}"
    server = _Server(aliases.NAMESERVER, aliases.to_nameserver_conf, refusal)
    return LiveSettings(settings, clock, {"nameserver": lambda _: None}, server)


class LiveSettings:
    """The settings as they are now.

    Attributes:
        now: All groups.
        version: Rises with each change.

    Threads: event loop only.
    """

    def __init__(self, settings: Settings, clock: Clock, users: Users, server: _Server) -> None:
        self.now = settings
        self.version = DataVersion.new(clock.now_ms())
        self._clock = clock
        self._users = users
        self._server = server

    def texts(self) -> dict[str, str]:
        """Return all settings in RocketMQ's words."""
        return self._server.texts(self.now)

    def update(self, texts: Mapping[str, str]) -> None:
        """Change what can be changed while running; all else is named in the log.

        Args:
            texts: By RocketMQ's name, in its units, or by ours, such as `pull.hold_count_max`.

        Raises:
            Refused: A name is on RocketMQ's black list.
        Source: the real 5.3.3 answers success to whatever it ignores, and takes a text that is
        neither true nor false for false.
        """
        black_list = self.texts()["configBlackList"].split(";")
        for name in texts:
            if name in black_list:
                raise Refused(Refusal.NO_PERMISSION, self._server.refusal.format(name=name))
        for name, text in texts.items():
            self._change(name, text)

    def _change(self, name: str, text: str) -> None:
        alias = self._server.rows.get(name)
        setting = name if alias is None else alias.setting
        group, _, member = setting.partition(".")
        members = asdict(getattr(self.now, group)) if group in self._users else {}
        if member not in members:
            _limited_log.warning("a setting cannot be changed while running", name=name)
            return
        try:
            if isinstance(members[member], bool):
                value: object = text.strip().lower() == "true"
            else:
                value = text.strip() if alias is None else alias.read(text)
            kind = type(getattr(self.now, group))
            new = msgspec.convert({**members, member: value}, kind, strict=alias is not None)
        except ValueError as error:
            _limited_log.warning("a setting was not changed", name=name, value=text, why=str(error))
            return
        changed = replace(self.now, **{group: new})
        self._users[group](changed)
        self.now = changed
        self.version = self.version.next(self._clock.now_ms())
        _log.info("a setting was changed", name=setting, value=value)
