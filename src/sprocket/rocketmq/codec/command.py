"""One command, request or answer: what a frame's header says, and its body.

The ext fields of a JSON header become typed fields in one step. For the codes of `HOT_HEADERS` this
happens together with the rest of the header; for all others it happens when a caller says which
header they are (`Command.header`), and until then they stay bytes.

A hot header takes 1.05 µs, another one 1.8, and one in another dialect 8.9; see
docs/decisions/0038-fast-ways.md.

Reading is as tolerant as RocketMQ's own reader (fastjson): what the fast decoder refuses — member
names in another case, numbers for texts, unknown members — is read again by the slow one. So is the
one thing that the fast decoder accepts and RocketMQ does not, a whole number written as a fraction,
`1.0`. This is not done for hot codes, where looking for it would cost more than a hundredth of a
message.

Source: `RemotingCommand`; docs/formats/remoting-frame.md.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from sprocket.base.errors import WireError
from sprocket.base.units import KIB
from sprocket.rocketmq.codec import binary_header, frame
from sprocket.rocketmq.codec.codes import (
    LANGUAGE,
    LANGUAGES,
    OTHER_LANGUAGE,
    VERSION,
    Language,
    RequestCode,
)
from sprocket.rocketmq.codec.config import fastjson, values
from sprocket.rocketmq.codec.ext import Header, codec
from sprocket.rocketmq.codec.frame import BINARY, JSON, Buffer
from sprocket.rocketmq.codec.headers import EndTransaction, PullMessage, SendMessageV2
from sprocket.rocketmq.model.integers import Int32
from sprocket.rocketmq.model.rights import AclUser, Action

RESPONSE_FLAG = 1
ONEWAY_FLAG = 2
REMARK_CHARACTERS_MAX = 4096
"""A remark may quote what the peer sent; it must not grow with it."""
SLOW_BYTES_MAX = 256 * KIB
"""Largest JSON header that is read slowly, which takes some 0.1 s of everybody's time; one that
official clients write is read in microseconds however long it is, and has 40 KiB at the most."""

HOT_HEADERS: Mapping[RequestCode, type[Header]] = {
    RequestCode.SEND_MESSAGE_V2: SendMessageV2,
    RequestCode.SEND_BATCH_MESSAGE: SendMessageV2,
    RequestCode.PULL_MESSAGE: PullMessage,
    RequestCode.END_TRANSACTION: EndTransaction,
}
"""Requests that come by the ten thousand a second, and what their ext fields are."""

H = TypeVar("H", bound=Header)
_UNSET = msgspec.UNSET


class Signer(Protocol):
    """Who signed a request, where a server looks at that."""

    @property
    def user(self) -> AclUser:
        """Whose signature it is."""

    def check_topic(self, topic: str, action: Action) -> None:
        """Return if they may do something to a topic. Raises Refused."""


class Command(msgspec.Struct, gc=False):
    """A request or an answer as it came.

    `code` is the request's or the answer's code; `body` is b"" for none; `serialize` is the type of
    the header it came with; `ext` holds its ext fields, typed already if the code is a hot one
    (`raw` then keeps the header's bytes), else as raw JSON until they are asked for. `signer` is
    who signed it, where a server has looked at that, and it is neither a send nor a pull.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    language: str = OTHER_LANGUAGE
    version: int = 0
    remark: str | None = None
    body: bytes = b""
    serialize: int = JSON
    ext: Header | msgspec.Raw | dict[str, str] | None = None
    raw: bytes = b""
    signer: Signer | None = None

    @property
    def is_response(self) -> bool:
        """Whether this answers a request of ours."""
        return self.flag & RESPONSE_FLAG != 0

    @property
    def is_oneway(self) -> bool:
        """Whether the sender wants no answer, not even an error."""
        return self.flag & ONEWAY_FLAG != 0

    def header(self, kind: type[H]) -> H:
        """Read the ext fields as a declared header; unknown fields are ignored.

        Raises:
            FieldUnreadable: A required field is missing, or a number cannot be read.
        """
        ext = self.ext
        if type(ext) is kind:
            return ext
        chosen = codec(kind)
        if isinstance(ext, msgspec.Raw):
            try:
                return chosen.decode(ext)
            except (ValueError, RecursionError):
                pass
        return chosen.read(self.ext_map())

    def ext_map(self) -> dict[str, str]:
        """Return all ext fields as texts; numbers and booleans as Java would write them."""
        ext = self.ext
        if isinstance(ext, Header):
            try:
                return _decode_texts(self.raw).ext
            except (ValueError, RecursionError):
                return _decode_slow(self.raw, b"", int).ext_map()
        if isinstance(ext, msgspec.Raw):
            ext = self.ext = _raw_texts(ext)
        return ext or {}


def decode(serialize: int, header: bytes, body: bytes, next_opaque: Callable[[], int]) -> Command:
    """Read the header of one frame.

    Args:
        serialize: The frame's type byte; it decides, whatever the header says of itself.
        header: The header's bytes; JSON may be followed by white space.
        body: Kept as it is.
        next_opaque: Gives an opaque to a header that has none; 0 is not taken, which is what the
            sender's own first request may have.

    Raises:
        WireError: The header cannot be read, so the connection cannot go on.
    """
    if serialize == JSON:
        try:
            fast = _HOT_DECODERS.get(header[:_HOT_BYTES], _decode_any)(header)
        except (ValueError, RecursionError):
            try:
                fast = _decode_any(header)
            except (ValueError, RecursionError):
                return _decode_slow(header, body, next_opaque)
        ext = fast.ext
        if type(ext) is _Raw and not _is_readable(ext, header):
            return _decode_slow(header, body, next_opaque)
        return Command(
            fast.code,
            fast.opaque,
            fast.flag,
            fast.language,
            fast.version,
            fast.remark,
            body,
            JSON,
            None if ext is _ABSENT else ext,
            header,
        )
    if serialize == BINARY:
        code, language, version, opaque, flag, remark, fields = binary_header.decode(header)
        return Command(code, opaque, flag, language, version, remark, body, BINARY, fields)
    raise WireError(f"serialize type {serialize}, expected 0 (JSON) or 1 (ROCKETMQ)")


def request(
    code: int,
    opaque: int,
    header: Header | None = None,
    body: Buffer = b"",
    *,
    oneway: bool = False,
    serialize: int = JSON,
    extra: Mapping[str, str] | None = None,
) -> list[Buffer]:
    """Return the buffers of one request's frame, of which one is `body`, not a copy of it.

    A one-way request asks for no answer; `serialize` is 0 for JSON and 1 for the binary form; what
    is absent in the header is not sent, what is in `extra` is sent as well.
    """
    flag = ONEWAY_FLAG if oneway else 0
    own = _OwnHeader(code, _fields(header, extra or None), flag, LANGUAGE, opaque)
    parts = (body,) if len(body) else ()
    return frame.join(serialize, _ENCODERS[serialize](own), parts)


def response(
    request: Command,
    code: int,
    header: Header | None = None,
    remark: str | None = None,
    body: Sequence[Buffer] = (),
    extra: Mapping[str, str] | None = None,
) -> list[Buffer]:
    """Return the buffers of the frame that answers `request`, in the form of its header.

    Args:
        request: Whose opaque and serialize type are echoed.
        code: One of `codes.ResponseCode`.
        header: `NoFields` for ext fields that hold nothing; without one there are none at all.
        remark: For a person; cut at 4096 characters.
        body: Buffers in order, passed on without a copy.
        extra: More ext fields; those of another answer that is passed on.
    """
    own = _OwnHeader(code, _fields(header, extra), RESPONSE_FLAG, LANGUAGE, request.opaque)
    if remark is not None:
        own.remark = values.without_surrogates(remark[:REMARK_CHARACTERS_MAX])
    return frame.join(request.serialize, _ENCODERS[request.serialize](own), body)


class _OwnHeader(msgspec.Struct, gc=False):
    """A header of ours, its members in the order of their names, as RocketMQ writes them."""

    code: int
    extFields: msgspec.Struct | dict[str, str] | msgspec.UnsetType  # noqa: N815 - the name on the wire
    flag: int
    language: str
    opaque: int
    remark: str | msgspec.UnsetType = _UNSET
    serializeTypeCurrentRPC: str = "JSON"  # noqa: N815
    version: int = VERSION


def _encode_binary(own: _OwnHeader) -> bytes:
    ext = {} if own.extFields is _UNSET else msgspec.to_builtins(own.extFields)
    return binary_header.encode(own.code, own.opaque, own.flag, own.remark or None, ext)


_ENCODERS: Mapping[int, Callable[[_OwnHeader], bytes]] = {
    JSON: msgspec.json.Encoder().encode,
    BINARY: _encode_binary,
}


E = TypeVar("E")
_ABSENT: Any = msgspec.Raw(b"")


class _FastHeader(msgspec.Struct, Generic[E], gc=False, forbid_unknown_fields=True):
    """A JSON header as official clients write it; anything else fails and is read slowly."""

    code: Int32
    flag: Int32
    language: Language
    opaque: Int32
    version: Int32
    ext: E = msgspec.field(name="extFields", default=_ABSENT)
    remark: str | None = None
    serialize: str = msgspec.field(name="serializeTypeCurrentRPC", default="")


_Raw = msgspec.Raw
_OBJECT = b'"extFields":{'
"""How ext fields begin that official clients write."""
_FRACTION = re.compile(rb'[:"\s][+-]?[0-9]+\.0+"?\s*[,}]')
"""The fast decoder refuses every other fraction by itself."""
_decode_any = msgspec.json.Decoder(_FastHeader[msgspec.Raw]).decode
_decode_ext = msgspec.json.Decoder(dict[str, str]).decode
_decode_texts = msgspec.json.Decoder(_FastHeader[dict[str, str]]).decode
_HOT_BYTES = 12
"""Enough to tell a code at the head of a header, where fastjson's order of members puts it."""
_HOT_DECODERS: dict[bytes, Callable[[bytes], _FastHeader[Header]]] = {
    (b'{"code":%d,"' % code)[:_HOT_BYTES]: msgspec.json.Decoder(
        _FastHeader[kind],  # type: ignore[valid-type]
        strict=False,
    ).decode
    for code, kind in HOT_HEADERS.items()
}


def _is_readable(ext: msgspec.Raw, header: bytes) -> bool:
    """Tell whether ext fields that nobody has looked at may be read later.

    They must be an object, in UTF-8, without numbers such as 1.0.
    """
    if ext is _ABSENT:
        return True
    if b"." in header and _FRACTION.search(header):
        return False
    if header.isascii() and _OBJECT in header:
        return True
    try:
        header.decode()
    except UnicodeDecodeError:
        return False
    return bytes(ext)[:1] == b"{"


def _decode_slow(header: bytes, body: bytes, next_opaque: Callable[[], int]) -> Command:
    """Read a JSON header as tolerantly as RocketMQ does."""
    found = _read_json(header)
    if not isinstance(found, dict):
        raise WireError("a JSON header that is not an object")
    members = {values.text(name).lower(): member for name, member in found.items()}
    _check_serialize(members.get("serializetypecurrentrpc"))
    opaque = members.get("opaque")
    remark = members.get("remark")
    ext = members.get("extfields")
    return Command(
        code=_int32(members, "code"),
        opaque=(next_opaque() or next_opaque()) if opaque is None else _int32(members, "opaque"),
        flag=_int32(members, "flag"),
        language=_language(members.get("language")),
        version=_int32(members, "version"),
        remark=None if remark is None else values.text(remark),
        body=body,
        ext=None if ext is None else _ext_texts(ext),
    )


def _read_json(data: bytes) -> Any:
    """Read JSON in fastjson's dialect, in UTF-8 and nothing else. Raises WireError."""
    if len(data) > SLOW_BYTES_MAX:
        raise WireError(
            f"an unusual header of {len(data)} bytes, {SLOW_BYTES_MAX} are the most that is read"
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise WireError(f"a header that is not UTF-8: {error}") from error
    return fastjson.read(text)


def _int32(members: Mapping[str, object], name: str) -> int:
    value = members.get(name)
    return 0 if value is None else values.integer(value, name, bits=32)


def _language(value: object) -> str:
    """Return the name of a language; unknown names count as OTHER, all else is refused."""
    if value is None:
        return OTHER_LANGUAGE
    if isinstance(value, str):
        name = value.upper()
        return name if name in LANGUAGES else OTHER_LANGUAGE
    if isinstance(value, bool) or not isinstance(value, int):
        raise WireError(f"language is a {type(value).__name__}, expected a name or its number")
    if not 0 <= value < len(LANGUAGES):
        raise WireError(f"language {value}, expected 0 to {len(LANGUAGES) - 1}")
    return LANGUAGES[value]


def _check_serialize(value: object) -> None:
    """Refuse what cannot name a serialize type; which one it names is not looked at."""
    is_number = isinstance(value, int) and not isinstance(value, bool) and value in (JSON, BINARY)
    if not (value is None or isinstance(value, str) or is_number):
        raise WireError(f"serializeTypeCurrentRPC is {value!r}, expected a name, 0 or 1")


def _raw_texts(ext: msgspec.Raw) -> dict[str, str]:
    """Return ext fields as texts that are JSON yet. Raises WireError."""
    try:
        return _decode_ext(ext)
    except (ValueError, RecursionError):
        return _ext_texts(_read_json(bytes(ext)))


def _ext_texts(ext: object) -> dict[str, str]:
    """Return ext fields as texts; null counts as absent."""
    found = values.mapping(ext, "extFields")
    return {
        values.text(name): values.text(value) for name, value in found.items() if value is not None
    }


def _fields(
    header: Header | None, extra: Mapping[str, str] | None
) -> msgspec.Struct | dict[str, str] | msgspec.UnsetType:
    """Return the texts of ext fields, unset if there is neither a header nor anything more."""
    if extra is None:
        return _UNSET if header is None else codec(header.__class__).texts(header)
    return {**({} if header is None else codec(header.__class__).write(header)), **extra}
