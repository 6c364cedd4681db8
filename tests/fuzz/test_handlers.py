"""Any fields and any bodies in whole requests, for every code, at the real handlers.

Invariant: each request is answered once, within seconds, on a connection that goes on; what a
handler raises is a WireError, a StoreError or a Refused, never anything else; and afterwards
the broker stores and gives back a message as if nothing had been.
"""

import contextlib
import json
import os
import random
import re
import socket
from typing import Any

import pytest
from tests.waits import LONG_SECONDS

from sprocket.rocketmq.client import Message, blocking
from sprocket.rocketmq.codec import headers
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.remoting import Connection
from sprocket.testing.local_broker import LocalBroker

SEED = int(os.environ.get("SPROCKET_FUZZ_SEED", "20260117"))
SILENT = "a broker has been silent too long"
COUNT = 200_000
"""Requests by night; a fiftieth of them in every run."""
UNEXPECTED = re.compile(r"^[A-Z]\w*(Error|Exception|Exit|Warning): ")
"""How `server.dispatch` begins the remark for an exception that no handler should let out."""

LONGEST = "2147483648"
VALUES = (
    *("", "0", "-1", "1", "3", "1.5", "true", "null", "NaN", "\0", "\u00e9", "\u0661", "x" * 300),
    *("99999999999999999999", "9223372036854775807", "-9223372036854775808", LONGEST),
    *("t", "g", "a@b", "*", "a||b", "TBW102", "%RETRY%g", "SCHEDULE_TOPIC_XXXX", "broker-a"),
    *(
        "../x",
        "..",
        "a/b",
        "[]",
        "{}",
        '{"a":',
        "KEYS\x01k\x02",
        "DELAY\x013\x02",
        "REAL_QID\x01x\x02",
    ),
    "7F00000100002A9F0000000000000000",
)
MEMBERS = (
    *("topic", "topicName", "clientID", "consumerGroup", "group", "groupName", "queueId"),
    *("consumerDataSet", "producerDataSet", "subscriptionDataSet", "mqSet", "brokerName"),
    *("messageModel", "strategyName", "topicConfigTable", "topicConfigSerializeWrapper"),
    *("dataVersion", "offsetTable", "subString", "tagsSet", "expressionType", "mode", "perm"),
    *("topicConfigList", "groupConfigList", "readQueueNums", "writeQueueNums", "attributes"),
    *("subscriptionData", "heartbeatFingerprint", "isWithoutSub", "counter", "timestamp"),
)


def field_names() -> list[str]:
    """Return the wire name of every field of every header, `extFields` as they come."""
    found: set[str] = set()
    for one in vars(headers).values():
        if isinstance(one, type) and issubclass(one, Header):
            found.update(one.__struct_encode_fields__)
    return sorted(found)


class Requests:
    """Draws requests that nearly make sense."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._fields = field_names()
        self._codes = sorted(int(code) for code in RequestCode)

    def next(self, opaque: int) -> bytes:
        """Return the frame of a request."""
        draw = self._draw
        names = draw.sample(self._fields, draw.randrange(len(self._fields)))
        fields = {name: draw.choice(VALUES) for name in names}
        if draw.random() < 0.7:
            fields |= {"topic": draw.choice("tu"), "consumerGroup": "g", "group": "g"}
            fields |= {"queueId": draw.choice(("0", "7")), "a": "g", "b": "t", "c": "TBW102"}
            fields |= {"d": "4", "e": "0", "f": draw.choice("07"), "g": "1", "h": "0"}
        fields["suspendTimeoutMillis"] = "10"
        if fields.get("pollTime") == LONGEST:  # as it asks for 25 days, they would be waited for
            fields["pollTime"] = "10"
        head = {
            "code": draw.choice(self._codes),
            "language": "JAVA",
            "version": 479,
            "opaque": opaque,
            "flag": 0,
            "extFields": fields,
        }
        header, body = json.dumps(head).encode(), self._body()
        size = 4 + len(header) + len(body)
        return size.to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body

    def _body(self) -> bytes:
        draw = self._draw
        match draw.randrange(8):
            case 0:
                return b""
            case 1:
                return draw.randbytes(draw.randrange(60))
            case 2:
                return b"a=b\nbrokerPermission=x\ndefaultTopicQueueNums=-9\n\\u12"
        return json.dumps(self._value(0)).encode()

    def _value(self, depth: int) -> Any:
        draw = self._draw
        kind = draw.randrange(8) if depth else 7
        if depth > 3 or kind < 5:
            return draw.choice((None, True, 0, -1, 1 << 31, 1 << 63, 1.5, *VALUES))
        if kind == 5:
            return [self._value(depth + 1) for _ in range(draw.randrange(3))]
        return {draw.choice(MEMBERS): self._value(depth + 1) for _ in range(draw.randrange(7))}


class Closed(Exception):
    """The server closed the connection."""


def answer(link: socket.socket, connection: Connection, opaque: int) -> Any:
    """Return the answer to a request, past what the server asks by itself."""
    while True:
        data = link.recv(1 << 16)
        if not data:
            raise Closed
        for found in connection.receive(data):
            if found.is_response and found.opaque == opaque:
                return found


@pytest.mark.parametrize(
    "share",
    [
        pytest.param(100, id="hundredth", marks=pytest.mark.slow),
        pytest.param(1, id="whole", marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
    ],
)
@pytest.mark.parametrize("server", ["broker", "nameserver"])
def test_every_request_is_answered(
    server: str, share: int, caplog: pytest.LogCaptureFixture
) -> None:
    """With a code of RocketMQ's, and the broker is as good as before.

    A NameServer closes the connection of a broker that it has not heard of for as long as the
    broker itself had said, which some of these requests do; nothing else may close one.
    """
    requests = Requests(SEED)
    with LocalBroker() as broker:
        host, _, port = (broker.address if server == "broker" else broker.nameserver).rpartition(
            ":"
        )
        count, answered, lost = COUNT // share, 0, 0
        numbers = iter(range(count))
        while answered + lost < count:
            caplog.clear()
            with (
                contextlib.suppress(Closed, ConnectionError),
                socket.create_connection((host, int(port)), timeout=LONG_SECONDS) as link,
            ):
                connection = Connection()
                for opaque in numbers:
                    link.sendall(requests.next(opaque))
                    remark = answer(link, connection, opaque).remark or ""
                    place = f"request {opaque} of seed {SEED}"
                    assert not UNEXPECTED.match(remark), f"{place}: {remark}"
                    answered += 1
            if answered + lost < count:
                lost += 1
                assert SILENT in caplog.text, f"after {place}: the connection was closed"
        broker.restart()
        with blocking.Producer(broker.nameserver, group="after") as producer:
            assert producer.send(Message("after", b"x")).queue_offset == 0
