"""Certificates for a test, made by the command `openssl` and thrown away with their folder."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that signs itself, so that it is its own authority, and its key."""

    cert: str
    key: str


def make(folder: Path, name: str = "server", password: str = "", *, days: int = 2) -> Certificate:
    """Make one for 127.0.0.1; without the command the test is skipped by name."""
    if shutil.which("openssl") is None:
        pytest.skip("NOT RUN: there is no command openssl to make a certificate with")
    found = Certificate(str(folder / f"{name}.crt"), str(folder / f"{name}.key"))
    command = [
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
        *("-days", f"{days}", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"),
        *("-out", found.cert, "-keyout", found.key),
        *(["-passout", f"pass:{password}"] if password else ["-nodes"]),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return found
