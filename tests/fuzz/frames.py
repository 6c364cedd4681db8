"""Frames that a peer might send, and how they go wrong: for fuzzing whatever reads them.

Everything follows from a seed, so a number is enough to see the same bytes again.
"""

import json
import random
import re
from collections.abc import Iterator

import msgspec

from sprocket.rocketmq.codec import bodies, command, headers, registration_body
from sprocket.rocketmq.codec.bodies import ConsumerData, HeartbeatData, LockBatch
from sprocket.rocketmq.codec.codes import RequestCode
from sprocket.rocketmq.codec.config import DataVersion
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.codec.registration_body import RegisterBrokerBody
from sprocket.rocketmq.model.group import Subscription
from sprocket.rocketmq.model.internal import RETRY_PREFIX
from sprocket.rocketmq.model.route import MessageQueue, QueueData, TopicRoute
from sprocket.rocketmq.model.topic import TopicConfig

KINDS: dict[RequestCode, type[Header]] = {
    RequestCode(int(number)): kind
    for kind in vars(headers).values()
    if isinstance(kind, type) and not kind.__name__.endswith("Answer")
    for number in re.findall(r"\b[A-Z][A-Z0-9_]+ (\d+)", kind.__doc__ or "")
}
"""The header of each request that has one: the codes that its docstring names."""

_WITHOUT_HEADER = (
    RequestCode.HEART_BEAT,
    RequestCode.CHECK_CLIENT_CONFIG,
    RequestCode.LOCK_BATCH_MQ,
    RequestCode.UNLOCK_BATCH_MQ,
    RequestCode.GET_BROKER_RUNTIME_INFO,
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    RequestCode.UPDATE_NAMESRV_CONFIG,
    RequestCode.GET_NAMESRV_CONFIG,
    RequestCode.POP_MESSAGE,
)
_EDGES = (0, 1, 2, 4, 7, 8, 11, 12, 127, 128, 255, 256, 32767, 32768, 1 << 24, (1 << 31) - 1)
_TEXTS = (
    b'"',
    b"\\",
    b"\\ud800",
    b"\x00",
    b"\xff\xfe",
    b"null",
    b"true",
    b"-1",
    b"9" * 400,
    b"1e400",
    b"[" * 300,
    b"{}",
    b",",
    b"'",
    b"/*",
    b'{"$ref":"$"}',
    b"\x01",
    b"\x02",
)
_VALUES: tuple[object, ...] = (
    "",
    "0",
    "-1",
    "-2147483648",
    "2147483647",
    "9223372036854775807",
    "99999999999999999999",
    "1.5",
    "true",
    "TBW102",
    RETRY_PREFIX + "name",
    "SCHEDULE_TOPIC_XXXX",
    "x" * 300,
    "x" * 40_000,
    "../../etc",
    "\x00\x01\x02",
    "KEYS\x01a b\x02TAGS\x01",
    "\U0001f680",
    None,
    7,
    -1,
    1 << 70,
    1.5,
    True,
    [],
    {"a": [1]},
)
"""What stands in a field where something sensible should."""


def good_frames() -> list[bytes]:
    """Return one valid frame for each request, with both forms of the header."""
    found = []
    for serialize in (0, 1):
        for opaque, code in enumerate([*KINDS, *_WITHOUT_HEADER]):
            header = _sample(KINDS[code]) if code in KINDS else None
            number = code & 0x7FFF if serialize else code
            buffers = command.request(number, opaque, header, _body(code), serialize=serialize)
            found.append(b"".join(buffers))
    found.append(b"".join(command.response(command.Command(310, 5), 0)))
    return found


def mutated_frames(seed: int, count: int) -> Iterator[bytes]:
    """Give frames that were changed in one to four places each.

    Args:
        seed: The same one gives the same frames.
        count: How many to give.
    """
    chance = random.Random(seed)
    corpus = good_frames()
    for _ in range(count):
        frame = bytearray(chance.choice(corpus))
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            _change(chance, frame, corpus)
        yield bytes(frame)


def _change(chance: random.Random, frame: bytearray, corpus: list[bytes]) -> None:
    """Change one place; sizes and the header more often than the body."""
    if not frame:
        frame += chance.choice(corpus)
    position = min(chance.choice((chance.randrange(12), chance.randrange(len(frame)))), len(frame))
    match chance.randrange(14):
        case 0:
            frame[position : position + 1] = bytes([chance.randrange(256)])
        case 1:
            bit = 1 << chance.randrange(8)
            frame[position : position + 1] = bytes(
                [byte ^ bit for byte in frame[position : position + 1]]
            )
        case 2:
            size = chance.choice(_EDGES) * chance.choice((1, -1))
            frame[position : position + 4] = (size & 0xFFFFFFFF).to_bytes(4, "big")
        case 3:
            del frame[position : position + chance.choice((1, 2, 4, 100))]
        case 4:
            frame[position:position] = chance.randbytes(chance.choice((1, 2, 4, 100)))
        case 5:
            _rewrite_header(chance, frame)
        case 6:
            other = chance.choice(corpus)
            frame[position:] = other[chance.randrange(len(other)) :]
        case 7:
            del frame[position:]
        case 8:
            _rewrite_header(chance, frame)
        case _:
            _odd_value(chance, frame)


def _odd_value(chance: random.Random, frame: bytearray) -> None:
    """Give a member or a field of a JSON header another value: it gets to the handlers."""
    try:
        header = msgspec.json.decode(frame[8 : 8 + int.from_bytes(frame[5:8], "big")])
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or not header:
        _rewrite_header(chance, frame)
        return
    fields = header.get("extFields")
    if isinstance(fields, dict) and fields and chance.random() < 0.9:
        fields[chance.choice(sorted(fields))] = chance.choice(_VALUES)
    else:
        header[chance.choice(sorted(header))] = chance.choice(_VALUES)
    _replace_header(frame, json.dumps(header).encode(), frame[4])


def _rewrite_header(chance: random.Random, frame: bytearray) -> None:
    """Put something odd into the header and make the sizes fit again: it gets to the parsers."""
    if len(frame) < 8:
        return
    header = frame[8 : 8 + int.from_bytes(frame[5:8], "big")]
    position = chance.randrange(len(header) + 1)
    header[position : position + chance.choice((0, 0, 1, 4))] = chance.choice(_TEXTS)
    _replace_header(frame, bytes(header), chance.choice((0, 0, 0, 1, 2)))


def _replace_header(frame: bytearray, header: bytes, serialize: int) -> None:
    """Put another header into a frame and make the sizes fit."""
    body = bytes(frame[8 + int.from_bytes(frame[5:8], "big") :])
    frame[:] = (4 + len(header) + len(body)).to_bytes(4, "big")
    frame += bytes([serialize]) + len(header).to_bytes(3, "big") + header + body


def _sample(kind: type[Header]) -> Header:
    """Return a header with something in every field."""
    values: dict[str, object] = {}
    for one in msgspec.structs.fields(kind):
        declared = str(one.type)
        values[one.name] = False if "bool" in declared else 1 if "int" in declared else "name"
    return kind(**values)


def _body(code: RequestCode) -> bytes:
    """Return the body that belongs to a request."""
    queues = [MessageQueue("topic", "broker", 0)]
    match code:
        case RequestCode.HEART_BEAT:
            consumer = ConsumerData(group="g", subscriptions=[Subscription.parse("t", "a || b")])
            return bodies.encode(
                HeartbeatData(client_id="c", producers=["p"], consumers=[consumer])
            )
        case RequestCode.CHECK_CLIENT_CONFIG:
            return b'{"clientId":"c","group":"g","subscriptionData":{"topic":"t","subString":"*"}}'
        case RequestCode.LOCK_BATCH_MQ | RequestCode.UNLOCK_BATCH_MQ:
            return bodies.encode(LockBatch(group="g", client_id="c", queues=queues))
        case RequestCode.REGISTER_BROKER:
            return registration_body.encode(
                RegisterBrokerBody(version=DataVersion(1, 2), topics=[TopicConfig(name="t")])
            )
        case RequestCode.QUERY_DATA_VERSION:
            return bodies.encode(DataVersion(1, 2))
        case RequestCode.REGISTER_TOPIC_IN_NAMESRV:
            queue = QueueData(broker_name="name", read_queues=1, write_queues=1, perm=6)
            return bodies.encode(TopicRoute(queues=[queue], brokers=[]))
        case RequestCode.UPDATE_NAMESRV_CONFIG:
            return b"orderMessageEnable=true\nlistenPort=1\n"
        case RequestCode.SEND_MESSAGE | RequestCode.SEND_MESSAGE_V2:
            return b"body"
        case RequestCode.SEND_BATCH_MESSAGE:
            return bytes.fromhex("00000016 00000000 00000000 00000000 00000000 0000") * 2
        case _:
            return b""
