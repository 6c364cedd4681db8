"""Methods: declared once, read and written by that."""

from typing import Any, get_type_hints

import pytest
from pamqp import commands

from sprocket.rabbitmq.codec.amqp import AmqpError, ReplyCode, methods
from sprocket.rabbitmq.codec.amqp.methods import AmqpMethod, MethodLayout
from sprocket.rabbitmq.model.fields import FieldTable, long_string

EVERY = {layout.name: layout for layout in methods.layouts()}
VALUES = {
    "octet": 9,
    "short": 0xABCD,
    "long": 0xDEADBEEF,
    "longlong": 0x0123456789ABCDEF,
    "shortstr": "queue 1",
    "longstr": b"PLAIN x",
    "table": FieldTable((("k", long_string("v")),)),
}
NOT_IN_PAMQP = {"access.request", "access.request-ok"}
"""It does not know the class."""


def sample(layout: MethodLayout, bits: int) -> AmqpMethod:
    """Return a method with something in each argument, and these bits, first one lowest."""
    values: list[object] = []
    for hint in get_type_hints(layout.kind, include_extras=True).values():
        form = hint.__metadata__[0]
        if form == "bit":
            values.append(bits & 1 == 1)
            bits >>= 1
        else:
            values.append(VALUES[form])
    return layout.kind(*values)


@pytest.mark.parametrize("bits", [0, 0b11111, 0b00001, 0b10010])
@pytest.mark.parametrize("name", EVERY)
def test_every_method_comes_back(name: str, bits: int) -> None:
    """Wherever in memory it lies."""
    method = sample(EVERY[name], bits)
    octets = methods.encode(method)
    assert methods.decode(octets, 0, len(octets)) == method
    assert methods.decode(b"\xff" * 9 + octets + b"\xff" * 9, 9, 9 + len(octets)) == method


@pytest.mark.parametrize("bits", [0, 0b11111, 0b00001, 0b10010])
@pytest.mark.parametrize("name", sorted(EVERY.keys() - NOT_IN_PAMQP))
def test_another_implementation_writes_the_same(
    monkeypatch: pytest.MonkeyPatch, name: str, bits: int
) -> None:
    """Of whom nothing here is taken: pamqp."""
    layout = EVERY[name]
    ours = sample(layout, bits)
    kind: Any = commands.INDEX_MAPPING[layout.class_id << 16 | layout.method_id]
    # It refuses values that RabbitMQ takes, such as names with a space in them.
    monkeypatch.setattr(kind, "validate", lambda _: None)
    theirs = kind.__new__(kind)
    names = list(kind.__slots__)
    values = [getattr(ours, one) for one in ours.__struct_fields__]
    assert len(names) == len(values)
    for one, value in zip(names, values, strict=True):
        setattr(theirs, one, {"k": "v"} if isinstance(value, FieldTable) else plain(value))
    assert methods.encode(ours)[4:] == theirs.marshal()
    again = kind.__new__(kind)
    again.unmarshal(methods.encode(ours)[4:])
    assert [getattr(again, one) for one in names] == [getattr(theirs, one) for one in names]


def plain(value: object) -> object:
    """Return a value as pamqp has it."""
    return value.decode() if isinstance(value, bytes) else value


def test_all_methods_that_pamqp_knows_are_declared() -> None:
    """None was forgotten."""
    ours = {layout.class_id << 16 | layout.method_id for layout in EVERY.values()}
    assert set(commands.INDEX_MAPPING) - ours == set()


@pytest.mark.parametrize("name", EVERY)
def test_arguments_that_end_too_early_or_too_late_are_refused(name: str) -> None:
    """With the octets of the arguments, and class and method of what failed."""
    layout = EVERY[name]
    octets = methods.encode(sample(layout, 0))
    for wrong in (octets + b"\x00", octets[:-1]):
        if len(wrong) < 4:
            continue
        for behind in (b"", b"\x00" * 40):
            with pytest.raises(AmqpError) as caught:
                methods.decode(wrong + behind, 0, len(wrong))
            numbers = ",".join(map(str, wrong[4:]))
            assert caught.value.explanation == f"cannot decode <<{numbers}>>"
            assert (caught.value.code, caught.value.method) == (ReplyCode.FRAME_ERROR, layout.id)


def test_an_unknown_method_is_named() -> None:
    """By class and method."""
    with pytest.raises(AmqpError) as caught:
        methods.decode(bytes.fromhex("00320063"), 0, 4)
    assert caught.value.text == "COMMAND_INVALID - unimplemented method"
    assert caught.value.method == (50, 99)


def test_a_name_must_be_text() -> None:
    """As RabbitMQ demands of arguments, not of properties."""
    octets = methods.encode(methods.BasicCancel("ab", False)).replace(b"ab", b"\xff\xfe")
    with pytest.raises(AmqpError) as caught:
        methods.decode(octets, 0, len(octets))
    assert caught.value.text == "FRAME_ERROR - Malformed UTF-8 in shortstr"
    assert caught.value.method == (0, 0)


def test_a_table_that_is_none_is_the_methods_error() -> None:
    """It has the code for syntax."""
    octets = methods.encode(
        methods.QueueUnbind(0, "q", "x", "k", FieldTable((("k", long_string("v")),)))
    ).replace(b"\x01kS", b"\xffkS")
    with pytest.raises(AmqpError) as caught:
        methods.decode(octets, 0, len(octets))
    assert (caught.value.code, caught.value.method) == (ReplyCode.SYNTAX_ERROR, (50, 50))


def test_names_are_those_of_the_protocol() -> None:
    """As errors and logs have them."""
    assert {"queue.declare-ok", "basic.get-empty", "connection.update-secret"} <= EVERY.keys()
    assert EVERY["exchange.unbind-ok"].id == (40, 51)


def test_methods_with_content() -> None:
    """Four of them, one from clients."""
    found = {name for name, layout in EVERY.items() if layout.has_content}
    assert found == {"basic.publish", "basic.return", "basic.deliver", "basic.get-ok"}
