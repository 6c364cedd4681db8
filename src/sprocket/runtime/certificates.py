"""From when to when certificates are valid, read off the files that a server has them in.

Source: RFC 7468 (PEM), RFC 5280 section 4.1 (`TBSCertificate`, `Validity`), X.690 (DER).
"""

import binascii
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from sprocket.base.errors import WireError

_PEM = re.compile(rb"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.*?)-----END ", re.DOTALL)
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_TIMES: Final = {0x17: 2, 0x18: 4}
"""UTCTime and GeneralizedTime, by the digits of the year."""
_CENTURY_BEGINS: Final = 50
"""A year of two digits from this on is in the twentieth century."""


class CertificateFile(NamedTuple):
    """A file with certificates, as it was when they were taken into use."""

    path: str
    pem: bytes


class Validity(NamedTuple):
    """When a certificate is valid, in seconds since 1970."""

    start: int
    end: int


def validities(pem: bytes) -> Sequence[Validity]:
    """Return them for the certificates of a file; what else is in it is left out.

    Raises:
        WireError: One cannot be read.
    """
    found = []
    for text in _PEM.findall(pem):
        try:
            found.append(_validity(binascii.a2b_base64(text)))
        except (binascii.Error, ValueError) as error:
            raise WireError(f"a certificate cannot be read: {error}") from error
    return found


def _validity(der: bytes) -> Validity:
    """Return it for one certificate. Raises ValueError, WireError."""
    at, _ = _inside(der, 0, len(der), _SEQUENCE)
    at, end = _inside(der, at, len(der), _SEQUENCE)
    if der[at : at + 1] == bytes([_VERSION]):
        at = _element(der, at, end)[2]
    for _ in ("serial number", "signature", "issuer"):
        at = _element(der, at, end)[2]
    at, end = _inside(der, at, end, _SEQUENCE)
    start, at = _time(der, at, end)
    return Validity(start, _time(der, at, end)[0])


def _inside(der: bytes, at: int, end: int, wanted: int) -> tuple[int, int]:
    tag, start, stop = _element(der, at, end)
    if tag != wanted:
        raise WireError(f"no certificate: tag {tag:#x} instead of {wanted:#x} at {at}")
    return start, stop


def _element(der: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Return the tag of an element, where its content begins, and where it ends."""
    if at + 2 > end:
        raise WireError(f"a certificate ends at {at}")
    tag, size = der[at], der[at + 1]
    start = at + 2
    if size >= 0x80:
        count = size & 0x7F
        size = int.from_bytes(der[start : start + count], "big")
        start += count
    if start + size > end:
        raise WireError(f"an element of a certificate is longer than that, at {at}")
    return tag, start, start + size


def _time(der: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a time, and where it ends. Raises ValueError, WireError."""
    tag, start, stop = _element(der, at, end)
    digits = _TIMES.get(tag)
    if digits is None:
        raise WireError(f"no time: tag {tag:#x} at {at}")
    text = der[start:stop].decode("ascii")
    year, rest = int(text[:digits]), text[digits:]
    if digits == 2:
        year += 1900 if year >= _CENTURY_BEGINS else 2000
    found = datetime.strptime(f"{year:04}{rest}", "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    return int(found.timestamp()), stop
