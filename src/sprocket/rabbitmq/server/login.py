"""How a client says who it is: PLAIN, AMQPLAIN and EXTERNAL.

Source: `rabbit_auth_mechanism_plain`, `rabbit_auth_mechanism_amqplain`, the plugin
`rabbitmq_auth_mechanism_ssl`.
"""

from typing import Final

import msgspec

from sprocket.rabbitmq.codec.amqp import AmqpError, ReplyCode, methods, tables
from sprocket.rabbitmq.model.fields import FieldKind, FieldTable

PLAIN: Final = "PLAIN"
AMQPLAIN: Final = "AMQPLAIN"
EXTERNAL: Final = "EXTERNAL"

Subject = tuple[tuple[str, str], ...]
"""Whom a certificate names: attributes by the names that the module `ssl` gives them."""

_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
_SPECIAL = ',+"\\<>;'


class Credentials(msgspec.Struct, frozen=True):
    """A user, and what shows that it is that user."""

    user: str
    password: bytes | None
    """None if the client's certificate shows it."""


def credentials(login: methods.ConnectionStartOk, certified: str | None) -> Credentials:
    """Return who a client says that it is.

    Args:
        login: What it has sent.
        certified: The user that its certificate is for; None if it has shown none.

    Raises:
        AmqpError: The mechanism is unknown, or its response is none. `EXTERNAL` without a
            certificate is a login that is refused, not an error of this kind.
    """
    match login.mechanism:
        case "PLAIN":
            return _plain(login.response)
        case "AMQPLAIN":
            return _amqplain(login.response)
        case "EXTERNAL":
            return Credentials(certified or "", None)
        case unknown:
            # RabbitMQ means 503, and tells the client nothing: whoever logs in with what is not
            # offered is refused here as for a wrong password.
            raise AmqpError(
                ReplyCode.ACCESS_REFUSED,
                f"unknown authentication mechanism '{unknown}'",
                _START_OK_ID,
            )


def distinguished_name(subject: Subject) -> str | None:
    """Return the whole name in a certificate, None if there is none.

    Args:
        subject: Whom it names, in the order of the certificate.

    Returns:
        The name as RFC 4514 has it, such as `O=client,CN=name`: the last part first.
    """
    parts = (f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in reversed(subject))
    return ",".join(parts) or None


def common_name(subject: Subject) -> str | None:
    """Return the common name in a certificate, several joined by commas, None if there is none."""
    return ",".join(value for name, value in subject if name == "commonName") or None


CERTIFIED = {"distinguished_name": distinguished_name, "common_name": common_name}
"""What gives the user that a certificate is for, by the setting; RabbitMQ's
ssl_cert_login_from."""


def _escaped(value: str) -> str:
    text = "".join(f"\\{sign}" if sign in _SPECIAL else sign for sign in value)
    if text[:1] in ("#", " "):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if text[-1:] == " " and text != "\\ " else text


def capabilities(client: FieldTable) -> frozenset[str]:
    """Return what a client says that it understands, such as `connection.blocked`."""
    found = client.get("capabilities")
    if found is None or not isinstance(found.value, FieldTable):
        return frozenset()
    return frozenset(name for name, field in found.value if field.value is True)


def given_name(client: FieldTable) -> str:
    """Return what a client calls its connection, for people; empty if it does not say."""
    found = client.get("connection_name")
    if found is None or not isinstance(found.value, bytes):
        return ""
    return found.value.decode("utf-8", "replace")


def _plain(response: bytes) -> Credentials:
    parts = response.split(b"\x00")
    if len(parts) != 3 or parts[0]:
        raise _invalid(PLAIN)
    return Credentials(_text(parts[1]), parts[2])


def _amqplain(response: bytes) -> Credentials:
    try:
        table = tables.decode_table(response, 0, len(response))
    except AmqpError:
        raise _invalid(AMQPLAIN) from None
    user, password = (_octets(table, name) for name in ("LOGIN", "PASSWORD"))
    if user is None or password is None:
        raise _invalid(AMQPLAIN)
    return Credentials(_text(user), password)


def _octets(table: FieldTable, name: str) -> bytes | None:
    found = table.get(name)
    if found is None or found.kind is not FieldKind.LONG_STRING:
        return None
    assert isinstance(found.value, bytes)
    return found.value


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")


def _invalid(mechanism: str) -> AmqpError:
    """Return the error about a response; it does not repeat it, for there may be a password."""
    return AmqpError(ReplyCode.SYNTAX_ERROR, f"response to {mechanism} invalid", _START_OK_ID)


_START_OK_ID = (10, 11)
