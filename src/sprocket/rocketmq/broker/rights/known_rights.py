"""What a guard needs of rights: from users and policies, or from rules of RocketMQ 4."""

from collections.abc import Callable
from typing import Protocol

from sprocket.rocketmq.broker.rights.authorizer import Authorizer
from sprocket.rocketmq.errors import Refusal
from sprocket.rocketmq.model.rights import AclUser


class KnownRights(Protocol):
    """Users, and who decides what they may do.

    Threads: event loop only.
    """

    @property
    def authorizer(self) -> Authorizer:
        """Decides by what is known now."""

    @property
    def refusal(self) -> Refusal:
        """How requests are refused."""

    def who(self, name: str) -> AclUser:
        """Return the user that a request says it is from.

        Raises:
            Refused: The user is unknown, or disabled.
        """

    def is_trusted(self, name: str, address: str) -> bool:
        """Tell whether a request that names a user need not be signed, by where it is from."""

    def when_changed(self, callback: Callable[[], None]) -> None:
        """Have something called whenever rights may be others, before anybody uses them."""
