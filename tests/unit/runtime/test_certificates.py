"""When certificates are valid, as the standard library reads it of a connection."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import certificates

from sprocket.base.errors import WireError
from sprocket.runtime.certificates import Validity, validities


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a certificate of 40,000 days, whose end takes a year of four digits."""
    made = certificates.make(tmp_path_factory.mktemp("certificates"), days=40_000)
    return Path(made.cert).read_bytes()


def test_each_certificate_of_a_file_is_read(pem: bytes, tmp_path: Path) -> None:
    """As OpenSSL tells it; keys and words between them do not matter."""
    made = certificates.make(tmp_path)
    one = Path(made.cert)
    found = validities(b"words\n" + Path(made.key).read_bytes() + pem + one.read_bytes())
    for validity, path in ((found[0], pem), (found[1], one.read_bytes())):
        openssl = shutil.which("openssl")
        assert openssl is not None
        text = subprocess.run(
            [openssl, "x509", "-noout", "-dates"], input=path, check=True, capture_output=True
        ).stdout.decode()
        start, end = (line.partition("=")[2] for line in text.splitlines())
        assert validity == Validity(ssl.cert_time_to_seconds(start), ssl.cert_time_to_seconds(end))
    assert found[0].end - found[0].start == 40_000 * 86_400
    assert validities(b"") == []


@given(data=st.data())
def test_any_bytes_are_validities_or_an_error(pem: bytes, data: st.DataObject) -> None:
    """Changed anywhere, cut anywhere, and whatever else there is."""
    der = bytearray(ssl.PEM_cert_to_DER_cert(pem.decode()))
    for at in data.draw(st.lists(st.integers(0, len(der) - 1), max_size=4)):
        der[at] = data.draw(st.integers(0, 255))
    cut = bytes(der[: data.draw(st.integers(0, len(der)))])
    whole = data.draw(st.sampled_from([bytes(der), cut, data.draw(st.binary())]))
    try:
        (found,) = validities(ssl.DER_cert_to_PEM_cert(whole).encode())
    except WireError:
        return
    assert isinstance(found, Validity)
