"""Bodies of what a broker collects from its clients or works out for them.

Those of 223, 308, 353 and 400 to 402.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from msgspec import Struct, field

from sprocket.rocketmq.codec.config import AS_GIVEN, REQUIRED
from sprocket.rocketmq.model.route import MessageQueue

PULL = "PULL"


class AssignmentQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of QUERY_ASSIGNMENT 400; it need not name client and strategy."""

    what: ClassVar = "a query for an assignment"
    topic: Annotated[str, REQUIRED]
    group: Annotated[str, REQUIRED] = field(name="consumerGroup")
    client_id: str
    strategy: str = field(name="strategyName")
    message_model: Annotated[str, REQUIRED]


class AssignedQueue(Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue of an assignment, and how its messages are to be got."""

    message_queue: MessageQueue
    mode: str = PULL


class QueueAssignment(Struct, frozen=True):
    """The answer of QUERY_ASSIGNMENT 400; None leaves the client with what it has."""

    queues: Sequence[AssignedQueue] | None = field(name="messageQueueAssignments", default=None)

    @classmethod
    def of(cls, queues: Sequence[MessageQueue] | None) -> "QueueAssignment":
        """Return that of queues, all to be pulled from."""
        return cls(None if queues is None else [AssignedQueue(message_queue=q) for q in queues])


class RequestMode(Struct, frozen=True, kw_only=True):
    """How a group gets the messages of a topic: the body of SET_MESSAGE_REQUEST_MODE 401."""

    what: ClassVar = "a request mode"
    group: Annotated[str, REQUIRED] = field(name="consumerGroup")
    mode: str = PULL
    pop_share_queues: int = field(name="popShareQueueNum", default=0)
    topic: Annotated[str, REQUIRED]


class RequestModeTable(Struct, frozen=True):
    """All modes, by topic and group, as the file and the answer of 402 have them."""

    modes: Mapping[str, Mapping[str, RequestMode]] = field(name="messageRequestModeMap")


class ConsumerStatuses(Struct, frozen=True):
    """The answer of INVOKE_BROKER_TO_GET_CONSUMER_STATUS 223: offsets by client id."""

    written: ClassVar[Mapping[str, object]] = {"messageQueueTable": {}}
    clients: Mapping[str, Mapping[MessageQueue, int]] = field(name="consumerTable")


class Corrections(Struct, frozen=True):
    """The answer of QUERY_CORRECTION_OFFSET 308: offsets by queue id."""

    offsets: Annotated[Mapping[int, int], AS_GIVEN] = field(name="correctionOffsets")


class Permission(Struct, frozen=True, kw_only=True):
    """The answer of UPDATE_AND_GET_GROUP_FORBIDDEN 353."""

    group: str
    topic: str
    is_readable: bool = field(name="readable")
