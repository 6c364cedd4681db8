"""Who did what: a line at INFO of the logger `sprocket.audit` for each change that was requested.

What was refused for want of a right has a line too, at WARNING. Anybody can cause those, so that
they go through a limited logger.

Each has the event, `through` (the protocol), `peer`, `user` where there are users, and what
it was done to: `vhost`, `name` and more. A request that changes nothing, such as the declaration of
a queue that exists, has no line. What the broker does by itself, such as the deletion of an unused
queue, has none either.
"""

from dataclasses import dataclass
from typing import Any, Final

from sprocket.base import log

NAME: Final = "sprocket.audit"

_log = log.get_logger(NAME)
_limited_log = log.get_limited_logger(NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Somebody who changes something."""

    through: str
    """The protocol."""
    peer: str
    """The address; of one that is only claimed, see `Peer.told_address`."""
    user: str = ""
    """Empty where there are no users."""

    def did(self, event: str, **what: Any) -> None:
        """Tell what they have done, once it is done."""
        user = {"user": self.user} if self.user else {}
        _log.info(event, logger=NAME, **user, **what, through=self.through, peer=self.peer)

    def was_refused(self, request: str, why: str) -> None:
        """Tell what they asked for and may not do; `user` is who they say they are."""
        user = {"user": self.user} if self.user else {}
        _limited_log.warning(
            "refused",
            logger=NAME,
            **user,
            request=request,
            why=why,
            through=self.through,
            peer=self.peer,
        )
