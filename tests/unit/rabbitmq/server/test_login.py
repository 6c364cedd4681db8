"""How a client says who it is."""

import pytest

from sprocket.rabbitmq.codec.amqp import AmqpError, methods, tables
from sprocket.rabbitmq.model.fields import NO_FIELDS, Field, FieldKind, FieldTable, long_string
from sprocket.rabbitmq.server.login import (
    Credentials,
    capabilities,
    common_name,
    credentials,
    distinguished_name,
    given_name,
)


def login(mechanism: str, response: bytes) -> methods.ConnectionStartOk:
    """Return what a client sends."""
    return methods.ConnectionStartOk(NO_FIELDS, mechanism, response, "en_US")


def amqplain(*entries: tuple[str, Field]) -> bytes:
    """Return such a response: a table without its size."""
    return tables.encode_table(FieldTable(entries))[4:]


LOGIN, PASSWORD = ("LOGIN", long_string("me")), ("PASSWORD", long_string("pä"))


def test_plain() -> None:
    """User and password, each after a NUL."""
    assert credentials(login("PLAIN", b"\x00me\x00p:\xff"), None) == Credentials("me", b"p:\xff")
    assert credentials(login("PLAIN", b"\x00me\x00"), None) == Credentials("me", b"")


def test_amqplain() -> None:
    """A table with both."""
    response = amqplain(LOGIN, PASSWORD)
    assert credentials(login("AMQPLAIN", response), None) == Credentials("me", "pä".encode())


def test_external() -> None:
    """The user is the certificate's; whoever has none is nobody, and is refused as such."""
    assert credentials(login("EXTERNAL", b""), "O=us,CN=me") == Credentials("O=us,CN=me", None)
    assert credentials(login("EXTERNAL", b""), None) == Credentials("", None)


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b""),
        ("PLAIN", b"me\x00me\x00secret"),
        ("PLAIN", b"\x00me"),
        ("PLAIN", b"\x00me\x00secret\x00"),
        ("AMQPLAIN", b"\x05LOGIN"),
        ("AMQPLAIN", amqplain(LOGIN)),
        ("AMQPLAIN", amqplain(PASSWORD)),
        ("AMQPLAIN", amqplain(LOGIN, ("PASSWORD", Field(FieldKind.VOID, None)))),
    ],
)
def test_a_response_that_is_none_is_refused(mechanism: str, response: bytes) -> None:
    """Without its octets in the text: a password may be among them."""
    with pytest.raises(AmqpError) as caught:
        credentials(login(mechanism, response), None)
    assert caught.value.text == f"SYNTAX_ERROR - response to {mechanism} invalid"


def test_an_unknown_mechanism_is_named() -> None:
    """It is case-sensitive."""
    with pytest.raises(AmqpError, match="unknown authentication mechanism 'plain'"):
        credentials(login("plain", b"\x00a\x00b"), None)


def test_capabilities_are_those_that_are_true() -> None:
    """Whatever else the client says of itself."""
    understood = FieldTable(
        (("a", Field(FieldKind.BOOL, True)), ("b", Field(FieldKind.BOOL, False)))
    )
    says = FieldTable((("capabilities", Field(FieldKind.TABLE, understood)),))
    assert capabilities(says) == {"a"}
    assert capabilities(NO_FIELDS) == frozenset()
    assert capabilities(FieldTable((("capabilities", long_string("a")),))) == frozenset()


def test_a_connection_may_have_a_name() -> None:
    """For people."""
    assert given_name(FieldTable((("connection_name", long_string("bob")),))) == "bob"
    assert given_name(FieldTable((("connection_name", Field(FieldKind.BYTE, 1)),))) == ""
    assert given_name(NO_FIELDS) == ""


def test_the_user_of_a_certificate() -> None:
    """Its distinguished name, last part first, or its common names."""
    subject = (
        ("organizationName", "Us, Inc."),
        ("commonName", "first"),
        ("commonName", " né "),
        ("serialNumber", "#7"),
    )
    wanted = "serialNumber=\\#7,CN=\\ né\\ ,CN=first,O=Us\\, Inc."
    assert distinguished_name(subject) == wanted
    assert distinguished_name((("commonName", " "),)) == "CN=\\ "
    assert distinguished_name(()) is None
    assert common_name(subject) == "first, né "
    assert common_name((("organizationName", "Us"),)) is None
