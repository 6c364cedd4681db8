"""Why a broker declines a correct request; a server has a code of its protocol for each kind."""

from enum import Enum

from sprocket.base.errors import SprocketError


class Refusal(Enum):
    """The kinds of reasons."""

    OTHER = "only the remark says why"
    INVALID_ARGUMENT = "a name or a number is not one that may be given"
    ILLEGAL_MESSAGE = "the message breaks a rule of where it is to go"
    NO_PERMISSION = "settings close the broker, a topic or a group to it"
    NO_TOPIC = "there is no such topic"
    NO_GROUP = "there is no such group"
    NO_MESSAGE = "nothing is found"
    UNREADABLE_SUBSCRIPTION = "the subscription cannot be parsed"
    NO_SUBSCRIPTION = "nobody of the group is connected and subscribed"
    OLD_SUBSCRIPTION = "the broker does not know the latest subscription of the group yet"


class Refused(SprocketError):
    """A correct request that the broker declines.

    `remark` is one sentence for the person who reads it.
    """

    def __init__(self, why: Refusal, remark: str) -> None:
        super().__init__(f"{remark} ({why.name})")
        self.why = why
        self.remark = remark
