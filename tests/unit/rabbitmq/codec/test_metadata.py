"""Whatever is kept is read as it was written, with the types of all arguments."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.field_tables import names, tables_of

from sprocket.base.checksum import crc32
from sprocket.base.errors import WireError
from sprocket.rabbitmq.codec import metadata
from sprocket.rabbitmq.codec.metadata import Entity
from sprocket.rabbitmq.model.binding import Destination, binding
from sprocket.rabbitmq.model.declared_queue import DeclaredQueue
from sprocket.rabbitmq.model.exchange import Exchange
from sprocket.rabbitmq.model.policy import GlobalParameter, Policy
from sprocket.rabbitmq.model.resource import ResourceKind
from sprocket.rabbitmq.model.user import TopicPermission, User, VhostPermission
from sprocket.rabbitmq.model.vhost import Vhost

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
