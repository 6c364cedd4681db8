"""Certificates that suites expect: those of their trees, or ones made where a tree has none."""

import subprocess
from pathlib import Path

from tests.interop.suites.servers import Certificates

DAYS = "3650"


def of_aiormq(source: Path) -> Certificates:
    """Return those of aiormq's tree, which lies beside that of aio-pika."""
    folder = next(source.parent.glob("aiormq-*")) / "tests" / "certs"
    return Certificates(folder / "ca.pem", folder / "server.pem", folder / "server.key")


def of_py_amqp(source: Path) -> Certificates:
    """Make what py-amqp's package lacks, in the folder `t/certs` where its tests look.

    The `broken` pair is signed by an authority of its own.
    """
    folder = source / "t" / "certs"
    folder.mkdir(exist_ok=True)
    authority = folder / "ca_certificate.pem", folder / "ca_key.pem"
    stranger = folder / "stranger_certificate.pem", folder / "stranger_key.pem"
    server = folder / "server_certificate.pem", folder / "server_key.pem"
    if not server[0].exists():
        _authority(*authority)
        _authority(*stranger)
        for name, signer in (("server", authority), ("client", authority)):
            _signed(folder / f"{name}_certificate.pem", folder / f"{name}_key.pem", *signer)
        _signed(
            folder / "client_certificate_broken.pem",
            folder / "client_key_broken.pem",
            *stranger,
        )
    return Certificates(authority[0], *server)


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _authority(certificate: Path, key: Path) -> None:
    _openssl(
        *("req", "-x509", *_NEW_KEY, "-days", DAYS, "-subj", f"/CN={certificate.stem}"),
        *("-out", str(certificate), "-keyout", str(key)),
    )


def _signed(certificate: Path, key: Path, authority: Path, authority_key: Path) -> None:
    _openssl(
        *("req", "-x509", *_NEW_KEY, "-days", DAYS, "-subj", f"/CN={certificate.stem}"),
        *("-addext", "basicConstraints=critical,CA:FALSE"),
        *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        *("-CA", str(authority), "-CAkey", str(authority_key)),
        *("-out", str(certificate), "-keyout", str(key)),
    )


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
