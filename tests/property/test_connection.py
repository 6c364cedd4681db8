"""Connections and commands under any bytes, in any pieces."""

import itertools
from functools import partial
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sprocket.base.errors import WireError
from sprocket.rocketmq.codec import bodies, command, headers, registration_body
from sprocket.rocketmq.codec.bodies import (
    ClientCheck,
    ConsumerIds,
    KeyValueTable,
    LockedQueues,
    TopicNames,
)
from sprocket.rocketmq.codec.command import Command
from sprocket.rocketmq.codec.ext import Header
from sprocket.rocketmq.model.route import ClusterInfo, TopicRoute
from sprocket.rocketmq.model.topic import TopicConfig
from sprocket.rocketmq.remoting import Connection

KINDS = [
    kind
    for kind in vars(headers).values()
    if isinstance(kind, type) and issubclass(kind, Header) and kind is not Header
]

Event = tuple[Any, ...]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
int32s = st.integers(-(1 << 31), (1 << 31) - 1)
ext_fields = st.dictionaries(texts.filter(bool), texts.filter(bool), max_size=5)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Draw a frame that we ourselves would send."""
    serialize = draw(st.sampled_from([0, 1]))
    code = draw(st.integers(-(1 << 15), (1 << 15) - 1) if serialize else int32s)
    return b"".join(
        command.request(
            code,
            draw(int32s),
            None,
            draw(st.binary(max_size=40)),
            oneway=draw(st.booleans()),
            serialize=serialize,
            extra=draw(ext_fields),
        )
    )


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """Draw a frame with one place changed, biased to where sizes are, or with any bytes behind."""
    frame = bytearray(draw(requests()))
    position = draw(st.one_of(st.integers(0, 12), st.integers(0, len(frame) - 1)))
    match draw(st.sampled_from(["change", "cut", "insert", "any"])):
        case "change":
            frame[position] = draw(st.sampled_from([0, 1, 127, 128, 255, frame[position] ^ 1]))
        case "cut":
            del frame[position : position + draw(st.integers(1, 8))]
        case "insert":
            frame[position:position] = draw(st.binary(min_size=1, max_size=8))
        case "any":
            frame[position:] = draw(st.binary(max_size=40))
    return bytes(frame)


streams = st.lists(st.one_of(requests(), requests(), broken()), max_size=6).map(b"".join)


def feed(connection: Connection, pieces: list[bytes]) -> list[Event]:
    """Return what comes out, and last whether the connection broke."""
    found: list[Event] = []
    for piece in pieces:
        try:
            found += [event(one) for one in connection.receive(piece)]
        except WireError:
            break
        if connection.broken is not None:
            break
    return [*found, (connection.broken is not None,)]


def event(one: Command) -> Event:
    """Return everything that a command says; ext fields that cannot be read say so."""
    try:
        ext = one.ext_map()
    except WireError:
        ext = {"unreadable": ""}
    return (
        one.code,
        one.opaque,
        one.flag,
        one.language,
        one.version,
        one.remark,
        one.body,
        one.serialize,
        ext,
    )


@given(streams, st.lists(st.integers(0, 400), max_size=30))
def test_any_split_gives_the_same_commands(stream: bytes, cuts: list[int]) -> None:
    """Whole, byte by byte, and cut anywhere: the same commands, and broken or not alike."""
    expected = feed(Connection(), [stream])
    assert expected == feed(Connection(), [stream[i : i + 1] for i in range(len(stream))])
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in itertools.pairwise(places)]
    assert expected == feed(Connection(), pieces)


@given(st.binary(max_size=300))
def test_any_bytes_give_commands_or_a_wire_error(data: bytes) -> None:
    """Nothing else is raised, and a broken connection stays broken."""
    connection = Connection()
    try:
        connection.receive(data)
    except WireError:
        assert connection.broken is not None


@given(st.sampled_from([0, 1]), st.binary(max_size=200))
def test_any_header_gives_a_command_or_a_wire_error(serialize: int, header: bytes) -> None:
    """And whatever came out can be asked for any declared header."""
    try:
        found = command.decode(serialize, header, b"", lambda: 0)
    except WireError:
        return
    ask_for_everything(found)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
names = st.sampled_from(
    ["code", "Opaque", "opaque", "flag", "language", "version", "remark", "extFields", "x"]
)
names_of_fields = st.sampled_from(
    sorted({one.encode_name for kind in KINDS for one in msgspec.structs.fields(kind)})
)


@given(
    st.dictionaries(names, json_values, max_size=6),
    st.dictionaries(names_of_fields, json_values | st.integers().map(str), max_size=6),
)
def test_any_json_in_a_header_is_read_or_refused(
    members: dict[str, Any], ext: dict[str, Any]
) -> None:
    """Members and fields of any type: a command or a WireError, a header or a refusal."""
    header = msgspec.json.encode({"extFields": ext} | members)
    try:
        found = command.decode(0, header, b"", lambda: 0)
    except WireError:
        return
    ask_for_everything(found)


def ask_for_everything(found: Command) -> None:
    """Read every declared header; what comes out can be answered with."""
    for kind in KINDS:
        try:
            header = found.header(kind)
        except WireError:
            continue
        command.response(found, 0, header, found.remark)


@given(st.data(), st.sampled_from([0, 1]))
def test_every_header_survives_both_forms(data: st.DataObject, serialize: int) -> None:
    """But for empty texts in the binary form, which are Java's null."""
    kind = data.draw(st.sampled_from(KINDS))
    values: dict[str, Any] = {}
    for one in msgspec.structs.fields(kind):
        wanted = str(one.type)
        if "bool" in wanted:
            values[one.name] = data.draw(st.booleans())
        elif "int" in wanted:
            values[one.name] = data.draw(int32s)
        else:
            values[one.name] = data.draw(texts.filter(bool))
    header = kind(**values)
    (found,) = Connection().receive(b"".join(command.request(10, 1, header, serialize=serialize)))
    assert header == found.header(kind)


@given(st.one_of(st.binary(max_size=100), json_values.map(msgspec.json.encode)))
def test_any_body_is_read_or_refused(data: bytes) -> None:
    """Every reader of bodies: a value or a WireError."""
    for decode in (
        partial(bodies.decode, TopicRoute),
        partial(bodies.decode, ClusterInfo),
        partial(bodies.decode, TopicNames),
        partial(bodies.decode, ConsumerIds),
        partial(bodies.decode, KeyValueTable),
        bodies.decode_heartbeat,
        partial(bodies.decode_request, ClientCheck),
        bodies.decode_lock,
        partial(bodies.decode, LockedQueues),
        partial(bodies.decode, TopicConfig),
        registration_body.decode,
        lambda data: registration_body.decode(data, compressed=True),
    ):
        try:
            decode(data)
        except WireError:
            continue
