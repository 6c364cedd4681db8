"""Whatever is kept is read as it was written, with the types of all arguments."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.field_tables import names, table, tables_of

from sprocket.base.checksum import crc32
from sprocket.base.errors import WireError
from sprocket.rabbitmq.codec import metadata
from sprocket.rabbitmq.codec.entities import Entity
from sprocket.rabbitmq.model.binding import Destination, binding
from sprocket.rabbitmq.model.declared_queue import DeclaredQueue
from sprocket.rabbitmq.model.exchange import Exchange
from sprocket.rabbitmq.model.fields import FieldTable
from sprocket.rabbitmq.model.policy import GlobalParameter, Policy
from sprocket.rabbitmq.model.resource import ResourceKind
from sprocket.rabbitmq.model.user import TopicPermission, User, VhostPermission
from sprocket.rabbitmq.model.vhost import RemovedVhost, Vhost

flags = st.booleans()
json = st.recursive(
    st.none() | flags | st.integers(-(1 << 63), (1 << 63) - 1) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
limits = st.dictionaries(names, st.integers(-1, 100), max_size=2)
tags = st.lists(names, max_size=2).map(tuple)
entities: st.SearchStrategy[Entity] = st.one_of(
    st.builds(
        Vhost,
        name=names,
        description=st.none() | names,
        tags=tags,
        default_queue_type=st.none() | names,
        limits=limits,
    ),
    st.builds(
        User,
        name=names,
        password_hash=st.binary(max_size=40),
        hashing_algorithm=names,
        tags=tags,
        limits=limits,
    ),
    st.builds(VhostPermission, user=names, vhost=names, configure=names, write=names, read=names),
    st.builds(TopicPermission, user=names, vhost=names, exchange=names, write=names, read=names),
    st.builds(
        Policy,
        vhost=names,
        name=names,
        pattern=names,
        definition=st.dictionaries(names, json, max_size=3),
        apply_to=names,
        priority=st.integers(-5, 5),
        is_operator=flags,
    ),
    st.builds(GlobalParameter, name=names, value=json),
    st.builds(
        Exchange,
        vhost=names,
        name=names,
        type=names,
        is_durable=flags,
        is_auto_delete=flags,
        is_internal=flags,
        arguments=tables_of(),
    ),
    st.builds(
        DeclaredQueue,
        vhost=names,
        name=names,
        is_durable=flags,
        is_auto_delete=flags,
        arguments=tables_of(),
    ),
    st.builds(
        binding,
        names,
        names,
        st.builds(Destination, st.sampled_from(ResourceKind), names),
        names,
        tables_of(),
    ),
)


@pytest.mark.slow
@given(st.lists(entities, max_size=4), st.lists(entities, max_size=4), st.integers(1, 1 << 40))
def test_lines_and_snapshots_go_round(gone: list[Entity], put: list[Entity], number: int) -> None:
    """Equal values, the same keys."""
    line = msgspec.json.encode((number, *metadata.members(gone, put)))
    sequence, change = metadata.decode_line(line)
    assert (sequence, change.gone, change.put) == (number, tuple(gone), tuple(put))
    data = b"".join(metadata.encode_snapshot(number, put))
    assert metadata.decode_snapshot(data) == (number, tuple(put))
    assert list(map(metadata.key, change.put)) == list(map(metadata.key, put))


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_an_error(data: bytes) -> None:
    """A line is a ValueError, as its journal wants it; a snapshot a WireError."""
    with pytest.raises(ValueError, match=r"."):  # whatever msgspec says
        metadata.decode_line(data)
    with pytest.raises(WireError):
        metadata.decode_snapshot(data)


def test_arguments_that_are_no_table_make_a_line_void() -> None:
    """Though its JSON is fine."""
    line = b'[1,[],[{"kind":"queue","vhost":"/","name":"q","arguments":"AXg="}]]'
    with pytest.raises(ValueError, match="field table"):
        metadata.decode_line(line)


def test_a_snapshot_of_a_later_version_is_not_guessed_at() -> None:
    """It says which this is."""
    content = b'{"version":2,"sequence":1,"entries":[]}'
    with pytest.raises(WireError, match="version 2, this is 1"):
        metadata.decode_snapshot(content + b"\n%d\n" % crc32(content))


def test_snapshots_come_in_small_pieces() -> None:
    """So that the loop is never held for long."""
    many = [DeclaredQueue(vhost="/", name=f"q{number}") for number in range(1000)]
    pieces = list(metadata.encode_snapshot(7, many))
    assert max(map(len, pieces)) < 16_384
    assert metadata.decode_snapshot(b"".join(pieces)) == (7, tuple(many))


def test_keys_tell_entities_apart() -> None:
    """A user's policy and an operator's of one name, bindings by key and arguments."""
    to = Destination(ResourceKind.QUEUE, "q")
    rule = {"vhost": "/", "name": "p", "pattern": "", "definition": {}}
    all_of_them: list[Entity] = [
        Vhost(name="q"),
        User(name="q"),
        GlobalParameter(name="q", value=1),
        Exchange(vhost="/", name="q", type="direct"),
        DeclaredQueue(vhost="/", name="q"),
        VhostPermission(user="q", vhost="/", configure="", write="", read=""),
        TopicPermission(user="q", vhost="/", exchange="x", write="", read=""),
        msgspec.convert(rule, Policy),
        msgspec.convert({**rule, "is_operator": True}, Policy),
        binding("/", "x", to, "1"),
        binding("/", "x", to, "2"),
    ]
    assert len({metadata.key(one) for one in all_of_them}) == len(all_of_them)
    assert [metadata.vhost_of(one) for one in all_of_them] == [None] * 3 + ["/"] * 8


SOME = table({"n": 1})
RULE = {"user": "u", "vhost": "v", "write": "w", "read": "r"}
WRITTEN: list[tuple[Entity, bytes]] = [
    (
        Vhost(name="v", limits={"max-queues": 1}),
        (
            b'"vhost","entity":{"name":"v","description":null,"tags":[],"default_queue_type":null,'
            b'"limits":{"max-queues":1}}'
        ),
    ),
    (RemovedVhost(name="w"), b'"removed vhost","entity":{"name":"w"}'),
    (
        User(name="u", password_hash=b"\1"),
        (
            b'"user","entity":{"name":"u","password_hash":"AQ==",'
            b'"hashing_algorithm":"rabbit_password_hashing_sha256","tags":[],"limits":{}}'
        ),
    ),
    (
        VhostPermission(configure="c", **RULE),
        b'"permission","entity":{"user":"u","vhost":"v","configure":"c","write":"w","read":"r"}',
    ),
    (
        TopicPermission(exchange="x", **RULE),
        (
            b'"topic permission","entity":{"user":"u","vhost":"v","exchange":"x","write":"w",'
            b'"read":"r"}'
        ),
    ),
    (
        Policy(vhost="v", name="p", pattern="^", definition={"max-length": 1}),
        (
            b'"policy","entity":{"vhost":"v","name":"p","pattern":"^","definition":{"max-length":1},'
            b'"apply_to":"all","priority":0,"is_operator":false}'
        ),
    ),
    (
        GlobalParameter(name="g", value=None),
        b'"global parameter","entity":{"name":"g","value":null}',
    ),
    (
        Exchange(vhost="v", name="x", type="topic", is_durable=True, arguments=SOME),
        (
            b'"exchange","vhost":"v","name":"x","type":"topic","is_durable":true,'
            b'"arguments":"AW5JAAAAAQ=="'
        ),
    ),
    (
        Exchange(vhost="v", name="y", type="fanout", is_internal=True, arguments=FieldTable()),
        b'"exchange","vhost":"v","name":"y","type":"fanout","is_internal":true',
    ),
    (
        DeclaredQueue(vhost="v", name="q", is_auto_delete=True, arguments=SOME),
        b'"queue","vhost":"v","name":"q","is_auto_delete":true,"arguments":"AW5JAAAAAQ=="',
    ),
    (
        binding("v", "x", Destination(ResourceKind.QUEUE, "q"), "k", SOME),
        (
            b'"binding","vhost":"v","source":"x","destination_kind":"queue","destination":"q",'
            b'"key":"k","arguments":"AW5JAAAAAQ=="'
        ),
    ),
    (
        binding("v", "x", Destination(ResourceKind.EXCHANGE, "y")),
        b'"binding","vhost":"v","source":"x","destination_kind":"exchange","destination":"y"',
    ),
]


def test_entities_are_written_byte_for_byte_as_ever() -> None:
    """Those of every kind; members that are as by default are left out of three of them."""
    entities, texts = zip(*WRITTEN, strict=True)
    expected = b",".join(b'{"kind":%b}' % text for text in texts)
    assert b"[[],[%b]]" % expected == msgspec.json.encode(metadata.members((), entities))
    snapshot = b'{"version":1,"sequence":7,"entries":[%b]}' % expected.replace(
        b'},{"kind', b'},\n{"kind'
    )
    assert snapshot == b"".join(metadata.encode_snapshot(7, entities)).rsplit(b"\n", 2)[0]
