"""The properties of messages on the wire."""

import struct
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pamqp.commands import Basic
from tests.field_tables import tables_of

from sprocket.rabbitmq.codec.amqp import AmqpError, Envelope, ReplyCode, properties
from sprocket.rabbitmq.model.fields import Field, FieldKind, FieldTable, long_string
from sprocket.rabbitmq.model.properties import BasicProperties

FULL = BasicProperties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers=FieldTable((("h", long_string("v")), ("n", Field(FieldKind.SIGNED_INT, 5)))),
    delivery_mode=2,
    priority=7,
    correlation_id="corr",
    reply_to="back",
    expiration="60000",
    message_id="m-1",
    timestamp=1700000000,
    type="kind",
    user_id="guest",
    app_id="app",
    cluster_id="",
)

short_texts = st.none() | st.text(st.characters(codec="utf-8"), max_size=30)
octets = st.none() | st.integers(0, 255)

any_properties = st.builds(
    BasicProperties,
    content_type=short_texts,
    content_encoding=short_texts,
    headers=st.none() | tables_of(),
    delivery_mode=octets,
    priority=octets,
    correlation_id=short_texts,
    reply_to=short_texts,
    expiration=short_texts,
    message_id=short_texts,
    timestamp=st.none() | st.integers(0, (1 << 64) - 1),
    type=short_texts,
    user_id=short_texts,
    app_id=short_texts,
    cluster_id=short_texts,
)


def of_envelope(found: BasicProperties) -> tuple[object, ...]:
    """Return what an envelope should say of some properties, but for the headers."""
    return (
        found.delivery_mode,
        found.priority,
        found.expiration,
        found.reply_to,
        found.user_id,
        found.headers is None,
    )


def of(envelope: Envelope) -> tuple[object, ...]:
    """Return what one says."""
    return (
        envelope.delivery_mode,
        envelope.priority,
        envelope.expiration,
        envelope.reply_to,
        envelope.user_id,
        envelope.headers is None,
    )


@given(any_properties)
def test_any_properties_come_back(found: BasicProperties) -> None:
    """And an envelope has of them what a broker looks at."""
    wire = properties.encode(found)
    assert properties.decode(wire) == found
    assert of(properties.read_envelope(wire)) == of_envelope(found)


def test_another_implementation_writes_the_same() -> None:
    """Of whom nothing here is taken: pamqp, with every property and with each one alone."""
    theirs = {
        **{name: getattr(FULL, name) for name in FULL.__struct_fields__},
        "headers": {"h": "v", "n": 5},
        "timestamp": datetime.fromtimestamp(1700000000, UTC),
    }
    del theirs["type"], theirs["cluster_id"]
    ours = replace(FULL, type=None, cluster_id=None)
    their_headers = properties.decode(Basic.Properties(**theirs).marshal()).headers
    assert their_headers is not None
    ours = replace(ours, headers=their_headers)
    assert properties.encode(ours) == Basic.Properties(**theirs).marshal()
    for name, value in theirs.items():
        alone = BasicProperties(**{name: getattr(ours, name)})
        assert properties.encode(alone) == Basic.Properties(**{name: value}).marshal()


@pytest.mark.parametrize("cut", range(1, len(properties.encode(FULL))))
def test_cut_properties_are_refused(cut: int) -> None:
    """Wherever they end; by both readers."""
    wire = properties.encode(FULL)[:-cut]
    for read in (properties.decode, properties.read_envelope):
        with pytest.raises(AmqpError, match="malformed") as caught:
            read(wire)
        assert caught.value.code is ReplyCode.SYNTAX_ERROR


@pytest.mark.parametrize(
    "wire",
    [
        properties.encode(FULL) + b"x",
        b"\x00\x00x",
        b"",
        b"\x10",
        b"\x20\x00" + struct.pack(">I", 3) + b"\x01kV",
        b"\x20\x00\xff\xff\xff\xff",
    ],
)
def test_what_does_not_fit_the_flags_is_refused(wire: bytes) -> None:
    """By both readers, except for what is right."""
    taken = []
    for read in (properties.decode, properties.read_envelope):
        try:
            read(wire)
        except AmqpError:
            taken.append(False)
        else:
            taken.append(True)
    assert taken == ([True] * 2 if wire.endswith(b"kV") else [False] * 2)


@given(st.binary(max_size=50))
def test_both_readers_take_the_same(wire: bytes) -> None:
    """Whatever the octets."""
    try:
        found = properties.decode(wire)
    except AmqpError:
        with pytest.raises(AmqpError):
            properties.read_envelope(wire)
    else:
        assert of(properties.read_envelope(wire)) == of_envelope(found)


def test_the_last_two_flags_say_nothing() -> None:
    """Nobody looks at them."""
    assert properties.decode(b"\x10\x03\x02") == BasicProperties(delivery_mode=2)


def test_octets_that_are_no_text_are_kept() -> None:
    """As RabbitMQ does, which does not look at them."""
    wire = b"\x80\x00\x02\xff\xfe"
    assert properties.encode(properties.decode(wire)) == wire


def test_no_properties_at_all() -> None:
    """Two octets, no value."""
    assert properties.encode(BasicProperties()) == properties.NO_PROPERTIES
    assert properties.read_envelope(properties.NO_PROPERTIES) == Envelope()
