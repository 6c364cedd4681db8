"""Contexts of PEM files: what is checked, and which file an error names."""

import ssl
from pathlib import Path

import pytest
from tests import certificates

from sprocket.base.errors import SettingsError
from sprocket.runtime.tls_files import client_context, server_checking_context


def test_without_a_trusted_authority_nobody_is_checked() -> None:
    """It encrypts, and believes whoever answers."""
    context = client_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


def test_with_one_the_certificate_is_checked_and_its_name_is_not(tmp_path: Path) -> None:
    """Brokers are known by address."""
    made = certificates.make(tmp_path)
    context = client_context(trust_path=made.cert, cert_path=made.cert, key_path=made.key)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)
    assert len(context.get_ca_certs()) == 1


def test_the_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """Missing, none at all, of another key, encrypted with another password."""
    one, two = certificates.make(tmp_path, "one"), certificates.make(tmp_path, "two")
    locked = certificates.make(tmp_path, "locked", password="secret")  # noqa: S106
    for given, text in (
        ({"trust_path": "/none.crt"}, "/none.crt cannot be used"),
        ({"trust_path": one.key}, "one.key cannot be used"),
        ({"cert_path": one.cert, "key_path": two.key}, "one.crt with the key .*two.key"),
        ({"cert_path": locked.cert, "key_path": locked.key, "key_password": "x"}, "locked.key"),
        ({"key_path": one.key}, "one.key was given without its certificate"),
    ):
        with pytest.raises(SettingsError, match=text):
            client_context(**given)


def test_servers_that_have_names_are_checked_by_them(tmp_path: Path) -> None:
    """As those of etcd."""
    made = certificates.make(tmp_path)
    context = server_checking_context(made.cert, made.cert, made.key)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
