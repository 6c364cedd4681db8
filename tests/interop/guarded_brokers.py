"""Brokers with rights on, of either kind, and those who may do everything there."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.interop import link, peers

ROOT = ("root", "root-secret")
"""Who may do everything."""
NO_PERMISSION = 16
REAL = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationProvider": (
        "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider"
    ),
    "authenticationMetadataProvider": (
        "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "authorizationProvider": (
        "org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider"
    ),
    "authorizationMetadataProvider": (
        "org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider"
    ),
    "initAuthenticationUser": json.dumps({"username": ROOT[0], "password": ROOT[1]}),
    "authenticationWhitelist": link.BROKER_RUNTIME_INFO,
    "authorizationWhitelist": link.BROKER_RUNTIME_INFO,
}
"""Of a real broker; the white lists are for whoever waits until it is ready, too."""
OURS = (
    "rights.authentication=true",
    "rights.authorization=true",
    f"rights.initial_user={ROOT[0]}",
    f"rights.initial_password={ROOT[1]}",
    f"rights.unsigned_codes={link.BROKER_RUNTIME_INFO}",
    f"rights.unchecked_codes={link.BROKER_RUNTIME_INFO}",
)
OPTIONS = tuple(word for one in OURS for word in ("--set", one))


@contextmanager
def either(folder: Path) -> Iterator[peers.Broker]:
    """Run our broker, or, so that the tests are judged too, the real one; both with rights."""
    is_real = os.environ.get("SPROCKET_INTEROP_BROKER", "sprocket") == "rocketmq"
    with real(folder) if is_real else ours(folder) as broker:
        yield broker


@contextmanager
def ours(folder: Path, store: Path | None = None) -> Iterator[peers.Broker]:
    """Run our broker, on a store of its own or on one that is there."""
    with peers.Sprocket(folder, store or folder / "store", OPTIONS) as broker:
        yield broker


@contextmanager
def real(folder: Path, store: Path | None = None) -> Iterator[peers.Broker]:
    """Run the real one likewise."""
    try:
        jars = peers.library()
    except peers.PeerMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")
    store = store or folder / "store"
    with peers.RocketMQ(jars=jars, folder=folder, store=store, settings=REAL) as broker:
        yield broker


def root(broker: peers.Broker) -> link.Link:
    """Connect as somebody who may do everything."""
    return link.Link(broker.address, credentials=ROOT)


def make_user(
    connection: link.Link, name: str, entries: Mapping[str, Sequence[str]], **more: object
) -> None:
    """Make a user whose password is the name and `-secret`, and allow them something."""
    user = json.dumps({"password": f"{name}-secret", "username": name}).encode()
    connection.call(3001, {"username": name}, user)
    allowed = [
        {"resource": resource, "actions": actions, "decision": "Allow", **more}
        for resource, actions in entries.items()
    ]
    subject = f"User:{name}"
    acl = {"subject": subject, "policies": [{"policyType": "Custom", "entries": allowed}]}
    connection.call(3006, {"subject": subject}, json.dumps(acl).encode())
