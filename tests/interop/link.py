"""A blocking RocketMQ connection of our own, so that neither client of Sprocket judges Sprocket.

It knows the frame (length, type and header length, JSON header, body), one request at a time, and
nothing else: no retries, no routes, no typed headers.
"""

import hashlib
import hmac
import json
import socket
import struct
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

SEND_MESSAGE = 10
PULL_MESSAGE = 11
QUERY_MESSAGE = 12
QUERY_CONSUMER_OFFSET = 14
UPDATE_CONSUMER_OFFSET = 15
CREATE_TOPIC = 17
BROKER_RUNTIME_INFO = 28
GET_MAX_OFFSET = 30
GET_MIN_OFFSET = 31
VIEW_MESSAGE_BY_ID = 33
END_TRANSACTION = 37
GET_ROUTE = 105
CLUSTER_INFO = 106
SEND_MESSAGE_V2 = 310
SEND_BATCH_MESSAGE = 320

ONE_WAY = 2
"""The flag of a request that is not answered."""
SUCCESS = 0
NOT_FOUND = 22
"""The code for "nothing found" of queries by key and of an offset never committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One response frame."""

    code: int
    opaque: int
    remark: str | None
    ext: Mapping[str, str]
    body: bytes


class Refused(AssertionError):
    """The server answered with another code than 0; the text says which and its remark."""


def encode(
    code: int, opaque: int, ext: Mapping[str, object], body: bytes = b"", *, flag: int = 0
) -> bytes:
    """Return one request frame with a JSON header, its members in the order that Java writes."""
    header = json.dumps(
        {
            "code": code,
            "extFields": {name: _text(value) for name, value in sorted(ext.items())},
            "flag": flag,
            "language": "JAVA",
            "opaque": opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": 479,
        },
        separators=(",", ":"),
    ).encode()
    length = 4 + len(header) + len(body)
    return length.to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body


def signed(ext: Mapping[str, object], body: bytes, name: str, secret: str) -> dict[str, object]:
    """Return ext fields with who sends them and the signature, as clients with rights do."""
    named = {**ext, "AccessKey": name}
    data = signed_text(named).encode() + body
    signature = hmac.digest(secret.encode(), data, hashlib.sha1)
    return {**named, "Signature": b64encode(signature).decode()}


def signed_text(ext: Mapping[str, object]) -> str:
    """Return what is signed of ext fields: their texts, in the order of their names."""
    return "".join(_text(ext[name]) for name in sorted(ext))


def decode(frame: bytes | memoryview) -> Answer:
    """Return what `frame`, without its first four bytes, says."""
    word = int.from_bytes(frame[:4], "big")
    size = word & 0xFFFFFF
    assert word >> 24 == 0, "an answer to a JSON header has a JSON header"
    header = json.loads(bytes(frame[4 : 4 + size]))
    return Answer(
        code=header["code"],
        opaque=header["opaque"],
        remark=header.get("remark"),
        ext=header.get("extFields") or {},
        body=bytes(frame[4 + size :]),
    )


class Link:
    """One TCP connection to `address` ("host:port"); requests go one at a time."""

    def __init__(
        self, address: str, *, timeout: float = 30.0, credentials: tuple[str, str] | None = None
    ) -> None:
        """Connect within `timeout` seconds; each answer may take as long.

        With `credentials`, a name and a secret, each request is signed.
        """
        self._credentials = credentials
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._opaque = 0
        self._data = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def ask(self, code: int, ext: Mapping[str, object], body: bytes = b"") -> Answer:
        """Send one request and return its answer; what the server asks meanwhile is skipped."""
        self._opaque += 1
        if self._credentials is not None:
            ext = signed(ext, body, *self._credentials)
        self.socket.sendall(encode(code, self._opaque, ext, body))
        while True:
            answer = decode(self._frame())
            if answer.opaque == self._opaque:
                return answer

    def call(self, code: int, ext: Mapping[str, object], body: bytes = b"") -> Answer:
        """Do as `ask` does, and raise `Refused` unless the code of the answer is 0."""
        answer = self.ask(code, ext, body)
        if answer.code != SUCCESS:
            raise Refused(f"request {code} {dict(ext)}: code {answer.code}, {answer.remark}")
        return answer

    def _frame(self) -> bytes:
        while len(self._data) < 4 or len(self._data) < 4 + int.from_bytes(self._data[:4], "big"):
            data = self.socket.recv(1 << 18)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._data += data
        end = 4 + int.from_bytes(self._data[:4], "big")
        frame = bytes(self._data[4:end])
        del self._data[:end]
        return frame


def create_topic(link: Link, topic: str, queues: int) -> None:
    """Create `topic` with as many queues for reading as for writing."""
    link.call(
        CREATE_TOPIC,
        {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
        },
    )


def send_ext(topic: str, queue_id: int, properties: str, **more: object) -> dict[str, object]:
    """Return the fields of SEND_MESSAGE_V2 as the Java client sends them; `more` replaces some."""
    return {
        "a": "link_producer",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": queue_id,
        "f": 0,
        "g": 1_700_000_000_000,
        "h": 0,
        "i": properties,
        "j": 0,
        "k": False,
        "m": False,
        **more,
    }


def batch_part(body: bytes, properties: str) -> bytes:
    """Return one message as the body of a batch holds it."""
    text = properties.encode()
    size = 22 + len(body) + len(text)
    head = struct.pack(">iiiii", size, 0, 0, 0, len(body))
    return head + body + struct.pack(">h", len(text)) + text


def runtime_info(link: Link) -> Mapping[str, str]:
    """Return what the broker says of itself, as `mqadmin brokerStatus` prints it."""
    table: Mapping[str, str] = json.loads(link.call(BROKER_RUNTIME_INFO, {}).body)["table"]
    return table


def queue_end(link: Link, topic: str, queue_id: int) -> int:
    """Return the queue offset that the next message will get."""
    answer = link.call(GET_MAX_OFFSET, {"topic": topic, "queueId": queue_id})
    return int(answer.ext["offset"])


def pull(link: Link, topic: str, queue_id: int, offset: int, *, group: str = "link") -> Answer:
    """Pull up to 32 messages of any tag from `offset` on, without waiting for new ones."""
    return link.ask(PULL_MESSAGE, pull_ext(topic, queue_id, offset, group=group))


def pull_ext(topic: str, queue_id: int, offset: int, *, group: str) -> dict[str, object]:
    """Return the fields of such a pull."""
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue_id,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subVersion": 0,
        "subscription": "*",
        "expressionType": "TAG",
    }


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
