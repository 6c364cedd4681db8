"""Finds the handler of a request, and makes an answer of what the handler returns or raises.

A handler is a plain function. It returns an `Answer`, or None if it answers later or not at all;
then it keeps the request and calls `answer` when the time has come.

What goes wrong in a handler concerns its request only; the connection goes on:

    RequestRefused          its code and remark; ext fields as `REFUSED_FIELDS` has them
    WireError               SYSTEM_ERROR: the body of this request could not be read
    DiskBusy                SYSTEM_BUSY: it would have had to wait for the disk with too many others
    StoreError              SYSTEM_ERROR, logged; handlers translate those that mean something else
    any other exception     SYSTEM_ERROR with the exception's class, logged with context

Frames that cannot be read never come here: the connection is closed (`runtime.driver`).

Source: `NettyRemotingAbstract.processRequestCommand`.
"""

from collections.abc import Callable, Container, Mapping, Sequence

from msgspec import Struct

from sprocket.base import log
from sprocket.base.errors import DiskBusy, RequestRefused, StoreError, WireError
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode, request_name
from sprocket.rocketmq.codec.command import RESPONSE_FLAG, Command, response
from sprocket.rocketmq.codec.frame import Buffer
from sprocket.rocketmq.codec.headers import (
    FieldUnreadable,
    Header,
    NoFields,
    QueryMessageAnswer,
    Region,
)
from sprocket.runtime.driver import Peer

_log = log.get_logger(__name__)


REFUSED_FIELDS: Mapping[int, Header] = {
    **dict.fromkeys(
        (
            RequestCode.SEND_MESSAGE,
            RequestCode.SEND_MESSAGE_V2,
            RequestCode.SEND_BATCH_MESSAGE,
            RequestCode.SEND_REPLY_MESSAGE,
            RequestCode.SEND_REPLY_MESSAGE_V2,
        ),
        Region(),
    ),
    **dict.fromkeys(
        (
            RequestCode.PULL_MESSAGE,
            RequestCode.LITE_PULL_MESSAGE,
            RequestCode.QUERY_CONSUMER_OFFSET,
            RequestCode.UPDATE_CONSUMER_OFFSET,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            RequestCode.GET_KV_CONFIG,
            RequestCode.REGISTER_BROKER,
        ),
        NoFields(),
    ),
    RequestCode.QUERY_MESSAGE: QueryMessageAnswer(
        index_last_update_timestamp=0, index_last_update_phyoffset=0
    ),
}
"""Codes whose refusals have ext fields, and which; requests that cannot be read get none, and
what RocketMQ answers without looking at the header has none either (`_refused`)."""


class Answer(Struct, gc=False):
    """What to answer: arguments as for `codec.command.response`."""

    code: int = ResponseCode.SUCCESS
    header: Header | None = None
    remark: str | None = None
    body: Sequence[Buffer] = ()
    extra: Mapping[str, str] | None = None


Handler = Callable[[Peer, Command], Answer | None]
"""Handles one request; None means that it is answered later, with `answer`, or never."""


def encoded(request: Command, what: Answer) -> Sequence[Buffer]:
    """Return the frame of an answer, nothing if the request was one-way: nobody waits for it."""
    if request.is_oneway:
        return ()
    return response(request, what.code, what.header, what.remark, what.body, what.extra)


def answer(peer: Peer, request: Command, what: Answer) -> None:
    """Send an answer, unless nobody waits for it."""
    buffers = encoded(request, what)
    if buffers:
        peer.send(buffers)


def answering(
    peer: Peer, request: Command, what: Answer | None = None
) -> Callable[[StoreError | None], None]:
    """Return what answers a request once its work is done, with why it could not be done.

    Args:
        peer: Who asked.
        request: What for.
        what: The answer to work that was done; None: that it was.
    """

    def done(error: StoreError | None) -> None:
        found = (what or Answer()) if error is None else failed(peer, request, error)
        answer(peer, request, found)

    return done


class Dispatcher:
    """A table of handlers by request code.

    Args:
        handlers: Code → handler.
        on_response: Gets answers to requests that this side sent; without it they are dropped,
            as are answers that nobody waits for.

    Threads: event loop only.
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        on_response: Callable[[Peer, Command], None] | None = None,
    ) -> None:
        self._handlers = {int(code): handler for code, handler in handlers.items()}
        self._on_response = on_response

    def add(self, handlers: Mapping[int, Handler]) -> None:
        """Add handlers, or replace them: for a server whose port must be known to its parts."""
        self._handlers.update({int(code): handler for code, handler in handlers.items()})

    def without(self, codes: Container[int]) -> dict[int, Handler]:
        """Return the table as it is now, less some codes."""
        return {code: one for code, one in self._handlers.items() if code not in codes}

    def __call__(self, peer: Peer, command: Command) -> None:
        """Handle one command; what `runtime.driver.serve` wants for its events."""
        if command.flag & RESPONSE_FLAG:
            if self._on_response is not None:
                self._on_response(peer, command)
            return
        handler = self._handlers.get(command.code)
        try:
            found = unsupported(command) if handler is None else handler(peer, command)
            if found is not None:
                answer(peer, command, found)
        except Exception as error:
            answer(peer, command, failed(peer, command, error))


def busy() -> RequestRefused:
    """Return the refusal of what would add to what waits for the disk (`runtime.pressure`)."""
    return RequestRefused(
        ResponseCode.SYSTEM_BUSY,
        "[OVERLOAD]system busy, the disk is behind and too many messages wait for it",
    )


def unsupported(command: Command) -> Answer:
    """Refuse a request by its number and, if it has one, its name."""
    name = request_name(command.code)
    remark = f" request type {command.code} not supported"
    if name is not None:
        remark += f" ({name})"
    return Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, None, remark)


def _refused(command: Command, refused: RequestRefused) -> Answer:
    """Return the answer to a request that is declined."""
    fields = REFUSED_FIELDS.get(command.code)
    is_empty = isinstance(fields, NoFields)
    is_failure = refused.code == ResponseCode.SYSTEM_ERROR and not is_empty
    is_busy = refused.code == ResponseCode.SYSTEM_BUSY
    if is_failure or is_busy or isinstance(refused, FieldUnreadable):
        fields = None
    return Answer(refused.code, fields, refused.remark)


def failed(peer: Peer, command: Command, error: Exception) -> Answer:
    """Return the answer to a request whose handler raised, now or in a later turn of the loop."""
    if isinstance(error, RequestRefused):
        return _refused(command, error)
    if isinstance(error, DiskBusy):
        return Answer(ResponseCode.SYSTEM_BUSY, None, f"[OVERLOAD]system busy, {error}")
    context = {
        "peer": peer.address,
        "code": command.code,
        "request": request_name(command.code),
        "opaque": command.opaque,
        "version": command.version,
        "language": command.language,
    }
    if isinstance(error, WireError):
        _log.info("a request could not be read", error=str(error), **context)
        return Answer(ResponseCode.SYSTEM_ERROR, None, str(error))
    if isinstance(error, StoreError):
        _log.error("a request failed in the store", error=str(error), **context)
        return Answer(ResponseCode.SYSTEM_ERROR, None, str(error))
    _log.error("a request failed unexpectedly", exc_info=error, **context)
    return Answer(ResponseCode.SYSTEM_ERROR, None, f"{type(error).__name__}: {error}")
