"""Settings describe themselves and their defaults are within their ranges."""

import dataclasses
import ssl
import typing
from pathlib import Path

import msgspec
import pytest
from tests import certificates

from sprocket.base import settings as loader
from sprocket.base.errors import SettingsError
from sprocket.rocketmq.client import (
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
    tls_if_asked,
)

GROUPS = [ClientSettings, ConsumerSettings, ProducerSettings]


@pytest.mark.parametrize("group", GROUPS)
def test_every_field_has_a_sentence_and_a_legal_default(group: type) -> None:
    """`msgspec` takes the defaults back, and each field says what it does."""
    hints = typing.get_type_hints(group, include_extras=True)
    told = loader.descriptions(group)
    for field in dataclasses.fields(group):
        assert told[field.name].endswith(".")
        assert field.default == msgspec.convert(field.default, hints[field.name])
        if type(field.default) is int:
            assert any(field.name.endswith(unit) for unit in UNITS), field.name


UNITS = (
    "_ms",
    "_ms_max",
    "_bytes_max",
    "_bytes_min",
    "_messages_max",
    "_max",
    "_refused",
    "_queues",
    "_level",
    "concurrency",
)


def test_tls_is_made_where_it_is_asked_for(tmp_path: Path) -> None:
    """By the word or by any of the files; a password alone says nothing."""
    made = certificates.make(tmp_path)
    assert tls_if_asked() is None
    assert tls_if_asked(key_password=made.key) is None
    unchecked = tls_if_asked(True)
    assert unchecked is not None
    assert unchecked.verify_mode is ssl.CERT_NONE
    checked = tls_if_asked(trust_path=made.cert)
    assert checked is not None
    assert checked.verify_mode is ssl.CERT_REQUIRED
    assert tls_if_asked(cert_path=made.cert, key_path=made.key) is not None
    with pytest.raises(SettingsError, match="without its certificate"):
        tls_if_asked(key_path=made.key)
