"""A certificate for a server that was given none.

It encrypts, and proves nothing. It lives as long as the process; its key lies in a folder of its
own only while OpenSSL reads it.
"""

import os
import ssl
import tempfile
from datetime import UTC, datetime, timedelta

from sprocket.base.disk import RealDisk, replace_file
from sprocket.base.errors import SettingsError, StoreError

_NAME = "sprocket throw-away"
_VALID = timedelta(days=3650)
_CLOCKS_APART = timedelta(days=1)
"""How far the clock of a client may be behind ours."""


def certify(context: ssl.SSLContext, now_ms: int) -> None:
    """Give a context a certificate that signs itself, made now.

    It takes 0.1 s the first time, most of it to import `cryptography`, so not on the event loop.

    Args:
        context: A server's, without a certificate.
        now_ms: The time, ms since 1970.

    Raises:
        SettingsError: There is no package `cryptography`, or nowhere to put the file.
    """
    try:
        pem = _make(datetime.fromtimestamp(now_ms / 1000, UTC))
    except ImportError as error:
        raise SettingsError(
            "there is no certificate: set tls.cert_path, or install the package that makes "
            "throw-away ones, pip install 'sprocketmq[tls]'"
        ) from error
    try:
        with tempfile.TemporaryDirectory(prefix="sprocket-tls-") as folder:  # for us only, 0700
            path = os.path.join(folder, "throw-away.pem")
            replace_file(RealDisk(), path, pem)  # OpenSSL reads files only
            context.load_cert_chain(path)
    except (OSError, StoreError) as error:
        raise SettingsError(f"no throw-away certificate can be made: {error}") from error


def _make(now: datetime) -> bytes:
    """Return a certificate and its key as PEM. Raises ImportError."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_APART)
        .not_valid_after(now + _VALID)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
