"""A throw-away certificate encrypts at once, and leaves nothing behind."""

import ssl
import sys
import tempfile
from pathlib import Path

import pytest

from sprocket.base.errors import SettingsError
from sprocket.node import throw_away
from sprocket.testing.clock import FakeClock


def certify(now_ms: int) -> ssl.SSLContext:
    """Return a server's context with a certificate made at this time."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    throw_away.certify(context, now_ms)
    return context


def test_a_handshake_succeeds_with_a_client_that_checks_nobody() -> None:
    """And with no other."""
    server = certify(FakeClock().now_ms())
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    for mode in (ssl.CERT_NONE, ssl.CERT_REQUIRED):
        client.verify_mode = mode
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        near = client.wrap_bio(down, up)
        far = server.wrap_bio(up, down, server_side=True)

        def shake_hands(near: ssl.SSLObject = near, far: ssl.SSLObject = far) -> None:
            for side in (near, far, near, far):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue

        if mode == ssl.CERT_NONE:
            shake_hands()
            assert near.version() == "TLSv1.3"
        else:
            with pytest.raises(ssl.SSLCertVerificationError):
                shake_hands()


def test_nothing_is_left_of_its_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its folder is gone once OpenSSL has read it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    certify(FakeClock().now_ms())
    assert list(tmp_path.iterdir()) == []


def test_no_place_for_a_file_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """OpenSSL reads certificates from files only."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(SettingsError, match="no throw-away certificate"):
        certify(0)


def test_without_the_package_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the setting that needs none."""
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(SettingsError, match=r"tls\.cert_path.*sprocketmq\[tls\]"):
        certify(0)
