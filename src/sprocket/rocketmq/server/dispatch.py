"""Finds what handles a request, and makes an answer of what that returns or raises.

Handlers stand in a table, one `Row` for each code: code, header of its requests, function. The
function is given the request and its header. It returns an `Answer`, or None if it answers later,
by the request's methods, or not at all.

What goes wrong in a handler concerns its request only; the connection goes on:

    Refused                 its remark and the code that `CODES` has for its kind, with ext fields
                            as `REFUSED_FIELDS` has them
    WireError               SYSTEM_ERROR: header or body of this request could not be read
    DiskBusy                SYSTEM_BUSY: it would have had to wait for the disk with too many others
    StoreError              SYSTEM_ERROR, logged; handlers translate those that mean something else
    any other exception     SYSTEM_ERROR with the exception's class, logged with context

Frames that cannot be read never come here: the connection is closed (`runtime.driver`).

Source: `NettyRemotingAbstract.processRequestCommand`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import Struct

from sprocket.base import log
from sprocket.base.audit import Actor
from sprocket.base.errors import DiskBusy, StoreError, WireError
from sprocket.base.units import KIB
from sprocket.rocketmq.broker.messages import OutgoingAnswer
from sprocket.rocketmq.codec.codes import RequestCode, ResponseCode, request_name
from sprocket.rocketmq.codec.command import RESPONSE_FLAG, Command, response
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.codec.frame import FRAME_BYTES_MAX, Buffer
from sprocket.rocketmq.codec.headers import (
    ChangeInvisibleTimeAnswer,
    NoFields,
    NotificationAnswer,
    PollingInfoAnswer,
    PopMessageAnswer,
    QueryMessageAnswer,
    RecallMessageAnswer,
    Region,
)
from sprocket.rocketmq.codec.signature import ACCESS_KEY
from sprocket.rocketmq.errors import Refusal, Refused
from sprocket.rocketmq.model.rights import Action
from sprocket.runtime.cold_reads import ColdReads
from sprocket.runtime.driver import Peer
from sprocket.runtime.slices import Sliced, Slices

_log = log.get_limited_logger(__name__)

H = TypeVar("H", bound=Header)

BODY_BYTES_MAX = FRAME_BYTES_MAX - 64 * KIB
"""The longest body that a frame takes with any header."""

CODES: Mapping[Refusal, ResponseCode] = {
    Refusal.OTHER: ResponseCode.SYSTEM_ERROR,
    Refusal.INVALID_ARGUMENT: ResponseCode.INVALID_PARAMETER,
    Refusal.ILLEGAL_MESSAGE: ResponseCode.MESSAGE_ILLEGAL,
    Refusal.NO_PERMISSION: ResponseCode.NO_PERMISSION,
    Refusal.TOO_LATE: ResponseCode.ILLEGAL_OPERATION,
    Refusal.WRONG_HANDLE: ResponseCode.ILLEGAL_OPERATION,
    Refusal.NO_TOPIC: ResponseCode.TOPIC_NOT_EXIST,
    Refusal.NO_GROUP: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    Refusal.NO_CONSUMER: ResponseCode.CONSUMER_NOT_ONLINE,
    Refusal.NOT_FOUND: ResponseCode.QUERY_NOT_FOUND,
    Refusal.UNREADABLE_SUBSCRIPTION: ResponseCode.SUBSCRIPTION_PARSE_FAILED,
    Refusal.NO_SUBSCRIPTION: ResponseCode.SUBSCRIPTION_NOT_EXIST,
    Refusal.NO_FILTER: ResponseCode.FILTER_DATA_NOT_EXIST,
    Refusal.OLD_FILTER: ResponseCode.FILTER_DATA_NOT_LATEST,
    Refusal.OLD_SUBSCRIPTION: ResponseCode.SUBSCRIPTION_NOT_LATEST,
}
"""What an answer says of a request that the broker declines."""

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
    RequestCode.RECALL_MESSAGE: RecallMessageAnswer(),
    RequestCode.POP_MESSAGE: PopMessageAnswer(),
    RequestCode.PEEK_MESSAGE: PopMessageAnswer(),
    RequestCode.NOTIFICATION: NotificationAnswer(),
    RequestCode.POLLING_INFO: PollingInfoAnswer(),
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: ChangeInvisibleTimeAnswer(),
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


class Request(Struct, gc=False):
    """A request, and who waits for its answer."""

    peer: Peer
    command: Command

    @property
    def body(self) -> bytes:
        """What came after its header."""
        return self.command.body

    def check_topic(self, topic: str, action: Action) -> None:
        """Return if whoever asks may do something to the topic of a message that was found.

        A request that names a message by its place need not say the truth about its topic.

        Raises:
            Refused: They may not.
        """
        if self.command.signer is not None:
            self.command.signer.check_topic(topic, action)

    def answer(self, what: Answer) -> None:
        """Send an answer, unless nobody waits for it."""
        answer(self.peer, self.command, what)

    def fail(self, error: Exception) -> None:
        """Answer what a handler raised, now or in a later turn of the loop."""
        self.answer(failed(self.peer, self.command, error))

    def done(self, error: StoreError | None, what: Answer | None = None) -> None:
        """Answer once the work is done: with `what`, by default a success, or why it is not."""
        if error is None:
            self.answer(what or Answer())
        else:
            self.fail(error)


def encoded(command: Command, what: Answer) -> Sequence[Buffer]:
    """Return the frame of an answer, nothing if the request was one-way: nobody waits for it."""
    if command.is_oneway:
        return ()
    return response(command, what.code, what.header, what.remark, what.body, what.extra)


def sending(peer: Peer, buffers: Sequence[Buffer]) -> OutgoingAnswer | None:
    """Return what sends an answer that is made before its time, None if nobody waits for it."""
    return OutgoingAnswer(peer.send_now, buffers) if buffers else None


def sending_each(answers: Mapping[Peer, Sequence[Buffer]]) -> Callable[[], None]:
    """Return what sends answers to several, that were made before their time."""
    return partial(_send_each, answers)


def _send_each(answers: Mapping[Peer, Sequence[Buffer]]) -> None:
    for peer, buffers in answers.items():
        if buffers:
            peer.send_now(buffers)


def answer(peer: Peer, command: Command, what: Answer) -> None:
    """Send an answer, unless nobody waits for it."""
    buffers = encoded(command, what)
    if buffers:
        peer.send(buffers)


AUDITED: Mapping[int, str] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: "put topic",
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: "put topics",
    RequestCode.DELETE_TOPIC_IN_BROKER: "delete topic",
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: "put group",
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: "put groups",
    RequestCode.DELETE_SUBSCRIPTIONGROUP: "delete group",
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: "forbid group",
    RequestCode.SET_MESSAGE_REQUEST_MODE: "set request mode",
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: "reset offsets",
    RequestCode.CLONE_GROUP_OFFSET: "clone offsets",
    RequestCode.UPDATE_BROKER_CONFIG: "change settings",
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: "begin set",
    RequestCode.CONTROLLER_ELECT_MASTER: "elect master",
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: "clean queues",
    RequestCode.DELETE_EXPIRED_COMMITLOG: "clean log",
    RequestCode.CLEAN_UNUSED_TOPIC: "clean topics",
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: "wipe write permission",
    RequestCode.ADD_WRITE_PERM_OF_BROKER: "add write permission",
    RequestCode.DELETE_TOPIC_IN_NAMESRV: "delete topic of nameserver",
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: "register topic",
    RequestCode.PUT_KV_CONFIG: "put key value",
    RequestCode.DELETE_KV_CONFIG: "delete key value",
    RequestCode.UPDATE_NAMESRV_CONFIG: "change settings of nameserver",
    RequestCode.AUTH_CREATE_USER: "create user",
    RequestCode.AUTH_UPDATE_USER: "change user",
    RequestCode.AUTH_DELETE_USER: "delete user",
    RequestCode.AUTH_CREATE_ACL: "put policies",
    RequestCode.AUTH_UPDATE_ACL: "put policies",
    RequestCode.AUTH_DELETE_ACL: "delete policies",
}
"""What the audit log calls the requests that change something other than messages and progress."""
AUDITED_BODY_BYTES = 1000
"""So much of a body is in the audit log: settings, or what a group is."""
SECRET_BODIES = frozenset({RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER})
"""Requests whose body has a password, so that none of it is in the audit log."""
_SECRETS = re.compile(r"(?im)^([^=\n]*(?:password|credentials|authenticationuser)[^=\n]*=).*")
"""Lines of settings that have one."""


class _AuditedRequest(Request):
    """A request whose success is told to the audit log."""

    header: Header

    def answer(self, what: Answer) -> None:
        """Send an answer, unless nobody waits for it, and tell who has done what."""
        if what.code == ResponseCode.SUCCESS:
            command = self.command
            details: dict[str, object] = {
                name: value
                for name, value in msgspec.structs.asdict(self.header).items()
                if value is not None
            }
            if command.body and command.code not in SECRET_BODIES:
                asked = command.body[:AUDITED_BODY_BYTES].decode("utf-8", "backslashreplace")
                details["asked"] = _SECRETS.sub(r"\1(not shown)", asked)
            user = "" if command.signer is None else command.signer.user.name
            if not user:
                # Nobody has looked at its signature: it is what the client says.
                key = command.ext_map().get(ACCESS_KEY)
                if key is not None:
                    details["access_key"] = key
            actor = Actor(through="remoting", peer=self.peer.told_address, user=user)
            actor.did(AUDITED[command.code], **details)
        answer(self.peer, self.command, what)


Handler = Callable[[Peer, Command], Answer | None]
"""Handles one request, whatever its header is."""


class Row(Struct, frozen=True):
    """A code, what handles its requests, and which header they have."""

    code: RequestCode
    handle: Handler
    kind: type[Header]


def row(
    code: RequestCode,
    kind: type[H],
    function: Callable[[Request, H], Answer | None],
    reads: ColdReads | None = None,
) -> Row:
    """Return a row of the table; the header of requests that have none is `NoFields`.

    A function that reads what may be on the disk only is given with `reads`, since it may end at
    any read and be begun anew by that.
    """

    def handle(peer: Peer, command: Command) -> Answer | None:
        ext = command.ext
        # Hot ones have it already; asking for it costs as much as the rest of this.
        header = ext if type(ext) is kind else command.header(kind)
        return function(Request(peer, command), header)

    def handle_slowly(peer: Peer, command: Command) -> None:
        header = command.header(kind)
        request = Request(peer, command)
        if code in AUDITED:
            request = _AuditedRequest(peer, command, header)

        def work() -> None:
            found = function(request, header)
            if found is not None:
                request.answer(found)

        if reads is None:
            work()
        else:
            reads.run(work, request.fail)

    return Row(code, handle if reads is None and code not in AUDITED else handle_slowly, kind)


def sliced_row(
    code: RequestCode,
    kind: type[H],
    function: Callable[[Request, H], Sliced[Answer]],
    slices: Slices,
) -> Row:
    """Return a row whose answer is about everything there is, and is made in slices."""

    def handle(peer: Peer, command: Command) -> None:
        request = Request(peer, command)
        slices.run(function(request, command.header(kind)), request.answer, request.fail)

    return Row(code, handle, kind)


class Dispatcher:
    """The table.

    Args:
        rows: One for each code.
        answered: Gets answers to requests that this side sent; without it they are dropped.
        unknown: Handles requests whose code is not in the table.

    Threads: event loop only.
    """

    def __init__(
        self,
        rows: Iterable[Row],
        answered: Callable[[Peer, Command], None] | None = None,
        unknown: Handler | None = None,
    ) -> None:
        self._handlers: dict[int, Handler] = {}
        for one in rows:
            assert one.code not in self._handlers, f"two rows for {one.code!r}"
            self._handlers[int(one.code)] = one.handle
        self._answered = answered
        self._unknown = unknown or (lambda _, command: unsupported(command))

    def __call__(self, peer: Peer, command: Command) -> None:
        """Handle one command; what `runtime.driver.listen` wants for its events."""
        if command.flag & RESPONSE_FLAG:
            if self._answered is not None:
                self._answered(peer, command)
            return
        handler = self._handlers.get(command.code, self._unknown)
        try:
            found = handler(peer, command)
            if found is not None:
                answer(peer, command, found)
        except Exception as error:
            answer(peer, command, failed(peer, command, error))


class Body:
    """A body in the making.

    Attributes:
        pieces: What it is made of so far.
    """

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self._bytes = 0

    def add(self, piece: bytes) -> None:
        """Add a piece.

        Raises:
            Refused: No frame takes so much, so no client could read it.
        """
        self.pieces.append(piece)
        self._bytes += len(piece)
        if self._bytes > BODY_BYTES_MAX:
            raise Refused(
                Refusal.OTHER,
                f"the answer is longer than the {FRAME_BYTES_MAX} bytes that a frame may have; "
                "ask about one topic or group at a time",
            )


def body(pieces: Iterator[bytes]) -> Sliced[list[bytes]]:
    """Make a body of pieces, of which each is one call.

    Raises:
        Refused: No frame takes it.
    """
    made = Body()
    while (piece := (yield partial(next, pieces, None))) is not None:
        made.add(piece)
    return made.pieces


def busy() -> DiskBusy:
    """Return the refusal of what would add to what waits for the disk (`runtime.pressure`)."""
    return DiskBusy("the disk is behind and too many messages wait for it")


def unsupported(command: Command) -> Answer:
    """Refuse a request by its number and, if it has one, its name."""
    name = request_name(command.code)
    remark = f" request type {command.code} not supported"
    if name is not None:
        remark += f" ({name})"
    return Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, None, remark)


def _refused(command: Command, refused: Refused) -> Answer:
    """Return the answer to a request that is declined."""
    fields = REFUSED_FIELDS.get(command.code)
    if refused.why is Refusal.OTHER and not isinstance(fields, NoFields):
        fields = None
    return Answer(CODES[refused.why], fields, refused.remark)


def failed(peer: Peer, command: Command, error: Exception) -> Answer:
    """Return the answer to a request whose handler raised, now or in a later turn of the loop."""
    if isinstance(error, Refused):
        return _refused(command, error)
    if isinstance(error, DiskBusy):
        return Answer(ResponseCode.SYSTEM_BUSY, None, f"[OVERLOAD]system busy, {error}")
    context = {
        "peer": peer.told_address,
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
