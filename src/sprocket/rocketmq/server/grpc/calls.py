"""One call of a client: its request, who makes it, and the ways of answering it.

Whatever a handler raises becomes the status of its answer; a wrong request is not an error of gRPC.

    Declined                its code and text
    Refused                 the code that `CODES` has for its kind
    StoreError              the code that `STORE_CODES` has for what became of the message
    any other exception     INTERNAL_SERVER_ERROR, logged with context

Source: RocketMQ `ResponseBuilder`, `GrpcMessagingApplication`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from google.protobuf.message import Message
from msgspec import Struct

from sprocket.base import log
from sprocket.base.errors import StoreError, WireError
from sprocket.rocketmq.codec.grpc.messages import Status
from sprocket.rocketmq.codec.grpc.resource_names import NamedResource, full_name
from sprocket.rocketmq.codec.grpc.status import Code, Declined
from sprocket.rocketmq.errors import NotStored, Refusal, Refused, not_stored
from sprocket.runtime.driver import Peer
from sprocket.runtime.grpc import GrpcCall, StatusCode

Q = TypeVar("Q")
A = TypeVar("A", bound=Message)

Buffer = bytes | bytearray | memoryview

CLIENT_ID: Final = "x-mq-client-id"
NAMESPACE: Final = "x-mq-namespace"
LANGUAGE: Final = "x-mq-language"
CLIENT_VERSION: Final = "x-mq-client-version"

CODES: Final[Mapping[Refusal, Code]] = {
    Refusal.OTHER: Code.INTERNAL_SERVER_ERROR,
    Refusal.INVALID_ARGUMENT: Code.BAD_REQUEST,
    Refusal.ILLEGAL_MESSAGE: Code.MESSAGE_CORRUPTED,
    Refusal.NO_PERMISSION: Code.FORBIDDEN,
    Refusal.TOO_LATE: Code.INTERNAL_SERVER_ERROR,
    Refusal.WRONG_HANDLE: Code.INTERNAL_SERVER_ERROR,
    Refusal.NO_TOPIC: Code.TOPIC_NOT_FOUND,
    Refusal.NO_GROUP: Code.CONSUMER_GROUP_NOT_FOUND,
    Refusal.NO_CONSUMER: Code.INTERNAL_SERVER_ERROR,
    Refusal.NOT_FOUND: Code.NOT_FOUND,
    Refusal.UNREADABLE_SUBSCRIPTION: Code.ILLEGAL_FILTER_EXPRESSION,
    Refusal.NO_SUBSCRIPTION: Code.INTERNAL_SERVER_ERROR,
    Refusal.NO_FILTER: Code.INTERNAL_SERVER_ERROR,
    Refusal.OLD_FILTER: Code.INTERNAL_SERVER_ERROR,
    Refusal.OLD_SUBSCRIPTION: Code.INTERNAL_SERVER_ERROR,
}
"""What a status says of a request that the broker declines."""

STORE_CODES: Final[Mapping[NotStored, Code]] = {
    NotStored.SYNC_LATE: Code.MASTER_PERSISTENCE_TIMEOUT,
    NotStored.REPLICA_LATE: Code.SLAVE_PERSISTENCE_TIMEOUT,
    NotStored.REPLICA_MISSING: Code.HA_NOT_AVAILABLE,
    NotStored.ILLEGAL: Code.MESSAGE_CORRUPTED,
    NotStored.BUSY: Code.TOO_MANY_REQUESTS,
    NotStored.UNAVAILABLE: Code.INTERNAL_SERVER_ERROR,
    NotStored.OTHER: Code.INTERNAL_SERVER_ERROR,
}
"""The status code for a message that was not stored as requested."""

OK: Final = Status(code=Code.OK, message=Code.OK.name)

_log = log.get_limited_logger(__name__)


def status(code: Code, why: str = "") -> Status:
    """Return a status; its text is the name of the code unless another is given."""
    return Status(code=code, message=why or code.name)


def store_status(error: StoreError) -> Status:
    """Return the status that tells what the store says."""
    return status(STORE_CODES[not_stored(error)], str(error))


def status_of(error: Exception) -> Status:
    """Return the status that tells of an error; what nobody expected is logged."""
    if isinstance(error, Declined):
        return status(error.code, error.why)
    if isinstance(error, Refused):
        return status(CODES[error.why], error.remark)
    if isinstance(error, StoreError):
        return store_status(error)
    if isinstance(error, WireError):
        return status(Code.INTERNAL_SERVER_ERROR, str(error))
    _log.error("a call failed unexpectedly", exc_info=error)
    return status(Code.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")


class ClientCall(Struct, Generic[Q, A], eq=False):
    """One call of a method that takes one request, or any number of them.

    It is a `broker.groups.Link`: what waits for it waits for this call alone, since several clients
    may share a connection.

    Whoever makes one lets the call of the codec find it (`GrpcCall.context`).

    Attributes:
        peer: The connection.
        request: What is asked; of a method that takes any number, the first has not come yet.
        on_left: Called once if the client does not wait any more, or is gone.
    """

    peer: Peer
    _rpc: GrpcCall
    request: Q
    _failing: Callable[[Status], Sequence[A]]
    on_left: Callable[[], None] | None = None

    @property
    def client_id(self) -> str:
        """Who calls, as they say."""
        return self._rpc.metadata.get(CLIENT_ID, "")

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the client says beside its request."""
        return self._rpc.metadata

    @property
    def method_name(self) -> str:
        """What is called, without its package."""
        return self._rpc.method.path.rpartition("/")[2]

    @property
    def authority(self) -> str:
        """The name by which the client asked for this server."""
        return self._rpc.authority

    @property
    def timeout_seconds(self) -> float | None:
        """How long the client will wait, from the beginning of the call."""
        return self._rpc.timeout_seconds

    @property
    def address(self) -> str:
        """Where the client is, `host:port`."""
        return self.peer.address

    @property
    def proxy_address(self) -> str:
        """See `broker.groups.Link`."""
        return self.peer.proxy_address

    @property
    def is_open(self) -> bool:
        """Whether the client waits for anything."""
        return self._rpc.is_open and self.peer.is_open

    def close(self) -> None:
        """End the call, as if all was said."""
        self.end()

    def name(self, of: NamedResource) -> str:
        """Return the name of a topic or group at the broker."""
        return full_name(of, self._rpc.metadata.get(NAMESPACE, ""))

    def answer(self, answer: A) -> None:
        """Answer, and end the call."""
        self._say(answer.SerializeToString(), is_last=True)

    def answer_encoded(self, *data: bytes) -> None:
        """Send answers that are encoded already, and end the call."""
        self._say(*data, is_last=True)

    def give(self, answer: A) -> None:
        """Send one of several answers."""
        self._say(answer.SerializeToString(), is_last=False)

    def give_encoded(self, data: bytes) -> None:
        """Send one of several answers, which is encoded already."""
        self._say(data, is_last=False)

    def give_all(self, answers: Sequence[A]) -> None:
        """Send several answers, and end the call."""
        self._say(*[one.SerializeToString() for one in answers], is_last=True)

    def end(self, code: StatusCode = StatusCode.OK, why: str = "") -> None:
        """End the call with a status of gRPC."""
        buffers = self._rpc.end(code, why)
        if buffers:
            self.peer.send(buffers)
        self.leave()

    def leave(self) -> None:
        """Tell whoever waits for it that its client does not wait any more; once."""
        if self.on_left is not None:
            on_left, self.on_left = self.on_left, None
            on_left()

    def fail(self, error: Exception) -> None:
        """Answer what a handler raised, now or in a later turn of the loop."""
        self.give_all(self._failing(status_of(error)))

    def encoded(self, *data: bytes, is_last: bool = True) -> list[Buffer]:
        """Return what sends answers that are encoded already; a client that reads none is cut off.

        Nothing may be sent between this and what it returns.
        """
        rpc = self._rpc
        try:
            if is_last and len(data) == 1:
                return rpc.answer(data[0])
            if is_last:
                rpc.let_go()
            buffers = [part for one in data for part in rpc.message(one)]
        except WireError as error:
            self.peer.abort(str(error))
            return []
        return buffers + rpc.end() if is_last else buffers

    def _say(self, *data: bytes, is_last: bool) -> None:
        buffers = self.encoded(*data, is_last=is_last)
        if buffers:
            self.peer.send(buffers)
