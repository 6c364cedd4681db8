"""What is answered: JSON, and errors as RabbitMQ has them.

Source: `rabbit_mgmt_util`.
"""

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

import msgspec

from sprocket.rabbitmq.codec.amqp import ReplyCode
from sprocket.rabbitmq.errors import RequestRefused
from sprocket.runtime.http import HttpResponse

Json: TypeAlias = Mapping[str, object]
"""A JSON object, its values plain."""

REALM: Final = 'Basic realm="RabbitMQ Management"'
_HEADERS = {
    "cache-control": "no-cache",
    "content-type": "application/json",
    "vary": "accept, accept-encoding, origin",
}
_encoder = msgspec.json.Encoder()


class ApiError(Exception):
    """A request that is not done.

    Args:
        status: Of HTTP.
        error: What RabbitMQ calls it.
        reason: Why: a text mostly.
        headers: To be sent with it.
    """

    def __init__(
        self,
        status: int,
        error: str,
        reason: object,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{status} {error}: {reason}")
        self.body = {"error": error, "reason": reason}
        self.status = status
        self.headers = headers or {}


def not_found() -> ApiError:
    """Return the error about something that is not there."""
    return ApiError(404, "Object Not Found", "Not Found")


def vhost_not_found() -> ApiError:
    """Return the error about something to be made in a virtual host that is not there."""
    return ApiError(404, "not_found", "vhost_not_found")


def bad_request(reason: object) -> ApiError:
    """Return the error about a request that is wrong."""
    return ApiError(400, "bad_request", reason)


def not_authorised(reason: str) -> ApiError:
    """Return the error about something that this user may not do."""
    return ApiError(401, "not_authorised", reason)


def of_declaration(refusal: RequestRefused) -> ApiError:
    """Return the error about a declaration that was refused."""
    if refusal.code == ReplyCode.ACCESS_REFUSED:
        return not_authorised("Access refused.")
    if refusal.code == ReplyCode.NOT_FOUND:
        return ApiError(404, "not_found", refusal.remark)
    if refusal.code == ReplyCode.COMMAND_INVALID:
        # Only an exchange's type is that, which RabbitMQ words otherwise here.
        return bad_request(refusal.remark.replace("unknown", "invalid", 1))
    return bad_request(refusal.remark)


@contextmanager
def refused_as(error_of: Callable[[RequestRefused], ApiError]) -> Iterator[None]:
    """Answer what is refused inside the block with an error."""
    try:
        yield
    except RequestRefused as refusal:
        raise error_of(refusal) from refusal


def of_publish(refusal: RequestRefused) -> ApiError:
    """Return the error about a message that was refused."""
    code = ReplyCode(refusal.code)
    return bad_request(f"{int(code)} {code.name} - {refusal.remark}")


def of_channel(refusal: RequestRefused) -> ApiError:
    """Return the error about something that was refused to a channel."""
    code = ReplyCode(refusal.code)
    if code is ReplyCode.ACCESS_REFUSED:
        return not_authorised(f"{code.name} - {refusal.remark}")
    if code is ReplyCode.NOT_FOUND:
        return ApiError(404, "not_found", f"{code.name} - {refusal.remark}")
    return bad_request(f"{int(code)} {code.name} - {refusal.remark}")


def json_response(value: object, status: int = 200) -> HttpResponse:
    """Return JSON."""
    return json_pieces([encode(value)], status)


def json_pieces(pieces: Sequence[bytes], status: int = 200) -> HttpResponse:
    """Return JSON that was made in pieces."""
    return HttpResponse(status=status, headers=_HEADERS, body=pieces)


def created() -> HttpResponse:
    """Return the answer that something is there which was not."""
    return HttpResponse(status=201)


def done() -> HttpResponse:
    """Return the answer that says nothing else."""
    return HttpResponse(status=204)


def put(*, is_new: bool) -> HttpResponse:
    """Return the answer to what is there now, for the first time or not."""
    return created() if is_new else done()


def encode(value: object) -> bytes:
    """Return a value as JSON; lone surrogates, which stand for octets, become question marks."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_readable(value))


def body_text(body: bytes) -> tuple[str, str]:
    """Return the body of a message, and its encoding: `string` if it is text."""
    try:
        return body.decode(), "string"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"


def _readable(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case Mapping():
            return {_readable(name): _readable(one) for name, one in value.items()}
        case list() | tuple():
            return [_readable(one) for one in value]
        case _:
            return value
