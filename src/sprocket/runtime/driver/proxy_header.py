r"""The header of the PROXY protocol, in which a load balancer says which client it serves.

    text    = "PROXY " kind *(" " word) CRLF        ; at most 107 bytes
              kind: TCP4 or TCP6, then source, target, source port, target port; UNKNOWN, anything
    binary  = signature version-command family length content
              signature: CR LF CR LF NUL CR LF "QUIT" LF; then a byte each for version (2) and
              command (0 for the balancer itself, 1 for a client), and for family and transport;
              length: uint16; content: two addresses, two ports, and extensions, which are skipped

TLS begins as neither does, and no protocol may that is served here. Frames that begin with their
length in 4 bytes do not: it would be more than 200 MB.

Invariants

1. However the bytes are split, the outcome is the same, and what follows the header is in it.
2. Any bytes give an outcome or a WireError; after a WireError nothing more is read.
3. It holds no more than one header, at most 64 KiB, and what one `receive` brought.

Source: HAProxy, "The PROXY protocol, versions 1 & 2".
"""

import ipaddress
import re
import socket
import struct
from dataclasses import dataclass

from sprocket.base.errors import WireError

TEXT_START = b"PROXY "
BINARY_START = b"\r\n\r\n\0\r\nQUIT\n"
TEXT_BYTES_MAX = 107
"""The longest header in text form, its line end included."""

_BINARY = struct.Struct(">12sBBH")
_FAMILIES = {1: socket.AF_INET, 2: socket.AF_INET6}
_UNIX = 3
"""Addresses that are paths; no more of use than none."""
_TRANSPORT_MAX = 2
_ADDRESS_BYTES = {socket.AF_INET: 4, socket.AF_INET6: 16}
_PORT = re.compile(rb"[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class ProxiedClient:
    """The client behind a load balancer: an IP address as text, and a port."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOpening:
    """How a connection begins.

    Attributes:
        has_header: Whether there was a header.
        origin: Whom it named; None without one, and if it speaks for the balancer itself.
        rest: What came after it, or everything.
    """

    has_header: bool
    origin: ProxiedClient | None
    rest: bytes


class ProxyHeaderReader:
    """Reads the header, if there is one, from the first bytes of a connection."""

    def __init__(self) -> None:
        self._data = bytearray()

    def receive(self, data: bytes) -> ConnectionOpening | None:
        """Take the next bytes; return how the connection begins, None while that is open.

        Raises:
            WireError: It begins like a header, and is none.
        """
        self._data += data
        for start, read in ((TEXT_START, _read_text), (BINARY_START, _read_binary)):
            if self._data.startswith(start):
                return read(self._data)
            if start.startswith(self._data):
                return None
        return ConnectionOpening(has_header=False, origin=None, rest=bytes(self._data))


def _read_text(data: bytearray) -> ConnectionOpening | None:
    end = data.find(b"\r\n", 0, TEXT_BYTES_MAX)
    if end < 0:
        if len(data) < TEXT_BYTES_MAX:
            return None
        raise WireError(f"PROXY header: no line end in the first {TEXT_BYTES_MAX} bytes")
    kind, *words = bytes(data[len(TEXT_START) : end]).split(b" ")
    origin = None if kind == b"UNKNOWN" else _text_origin(kind, words)
    return ConnectionOpening(has_header=True, origin=origin, rest=bytes(data[end + 2 :]))


def _text_origin(kind: bytes, words: list[bytes]) -> ProxiedClient:
    if kind not in (b"TCP4", b"TCP6") or len(words) != 4:
        raise WireError(
            f"PROXY header: {kind!r} and {len(words)} words, expected TCP4 or TCP6 and 4"
        )
    parse = ipaddress.IPv4Address if kind == b"TCP4" else ipaddress.IPv6Address
    try:
        hosts = [parse(word.decode("ascii")) for word in words[:2]]
    except ValueError as error:
        raise WireError(f"PROXY header: {error}") from error
    for word in words[2:]:
        if not _PORT.fullmatch(word) or int(word) > 0xFFFF:
            raise WireError(f"PROXY header: {word!r} is not a port")
    return ProxiedClient(str(hosts[0]).partition("%")[0], int(words[2]))


def _read_binary(data: bytearray) -> ConnectionOpening | None:
    if len(data) < _BINARY.size:
        return None
    _, version_command, family_transport, length = _BINARY.unpack_from(data)
    version, command = version_command >> 4, version_command & 15
    family, transport = family_transport >> 4, family_transport & 15
    if version != 2 or command > 1:
        raise WireError(f"PROXY header: version {version}, command {command}, expected 2, 0 or 1")
    if family > _UNIX or transport > _TRANSPORT_MAX:
        raise WireError(f"PROXY header: unknown family {family} or transport {transport}")
    end = _BINARY.size + length
    size = 2 * _ADDRESS_BYTES[_FAMILIES[family]] + 4 if command and family in _FAMILIES else 0
    if length < size:
        raise WireError(f"PROXY header: {length} bytes of addresses, expected at least {size}")
    if len(data) < end:
        return None
    origin = _binary_origin(data, _FAMILIES[family]) if size else None
    return ConnectionOpening(has_header=True, origin=origin, rest=bytes(data[end:]))


def _binary_origin(data: bytearray, family: socket.AddressFamily) -> ProxiedClient:
    size = _ADDRESS_BYTES[family]
    source = bytes(data[_BINARY.size : _BINARY.size + size])
    port_at = _BINARY.size + 2 * size
    return ProxiedClient(
        socket.inet_ntop(family, source), int.from_bytes(data[port_at : port_at + 2], "big")
    )
