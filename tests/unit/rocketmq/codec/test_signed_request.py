"""Requests that are signed: the same fields as without, a name, and a signature over all."""

import pytest

from sprocket.rocketmq.codec import command, frame
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.frame import Buffer
from sprocket.rocketmq.codec.headers import TopicOnly
from sprocket.rocketmq.codec.signature import SigningKey
from sprocket.rocketmq.codec.signed_request import SignedRequests
from sprocket.rocketmq.model.rights import SessionCredentials

KEY = SigningKey("alice-pass")


def read(buffers: list[Buffer]) -> Command:
    """Return the command of a frame."""
    data = b"".join(buffers)
    _, mark = frame.PREFIX.unpack_from(data)
    end = frame.PREFIX_BYTES + (mark & frame.HEADER_BYTES_MAX)
    return command.decode(mark >> 24, data[frame.PREFIX_BYTES : end], data[end:], int)


@pytest.mark.parametrize("serialize", [frame.JSON, frame.BINARY])
@pytest.mark.parametrize("body", [b"", "ä".encode()])
def test_a_request_is_signed(body: bytes, serialize: int) -> None:
    """In both forms of headers, with and without a body."""
    make = SignedRequests(SessionCredentials("alice", "alice-pass"))
    header = TopicOnly(topic="täglich")
    found = read(make(RequestCode.GET_TOPIC_CONFIG, 7, header, body, serialize=serialize))
    ext = found.ext_map()
    assert (found.code, found.opaque, found.body, found.is_oneway) == (351, 7, body, False)
    assert found.header(TopicOnly) == header
    assert ext.keys() == {"topic", "AccessKey", "Signature"}
    assert KEY.is_right(ext["Signature"], ext, body)


def test_a_request_without_a_header_is_signed() -> None:
    """One-way ones too."""
    make = SignedRequests(SessionCredentials("alice", "alice-pass"))
    found = read(make(RequestCode.HEART_BEAT, 7, None, b"{}", oneway=True))
    ext = found.ext_map()
    assert found.is_oneway
    assert ext.keys() == {"AccessKey", "Signature"}
    assert KEY.is_right(ext["Signature"], ext, b"{}")


def test_a_security_token_is_signed_too() -> None:
    """As Java's client does it."""
    make = SignedRequests(SessionCredentials("alice", "alice-pass", "token"))
    ext = read(make(RequestCode.HEART_BEAT, 7)).ext_map()
    assert ext["SecurityToken"] == "token"
    assert KEY.is_right(ext["Signature"], ext, b"")
    assert not KEY.is_right(ext["Signature"], ext | {"SecurityToken": "other"}, b"")
