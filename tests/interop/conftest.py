"""Fixtures of the interop tests: the peers, or a loud skip that names what prepares them."""

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.interop import both, peers
from tests.interop.go_client import GoClient
from tests.interop.java_client import JavaClient


@pytest.fixture(scope="session")
def jars() -> Path:
    """Return the folder of the RocketMQ 5.3.3 jars; without it the test is skipped by name."""
    try:
        return peers.library()
    except peers.PeerMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")


@pytest.fixture(scope="session")
def java_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], JavaClient]:
    """Return what gives the official Java client of a version, under orders, or skips the test."""

    @functools.cache
    def prepare(version: str) -> JavaClient:
        try:
            jars = peers.library(version)
        except peers.PeerMissing as missing:
            pytest.skip(f"NOT RUN: {missing}")
        classes = peers.compile_java(jars, tmp_path_factory.mktemp("classes"))
        folder = tmp_path_factory.mktemp("java")
        return JavaClient(version=version, jars=jars, classes=classes, folder=folder)

    return prepare


@pytest.fixture(scope="module")
def java(java_of: Callable[[str], JavaClient]) -> JavaClient:
    """Return the official Java client 5.3.3, under orders."""
    return java_of("5.3.3")


@pytest.fixture(scope="session")
def go(tmp_path_factory: pytest.TempPathFactory) -> GoClient:
    """Return the official Go client, under orders, or skip the test."""
    try:
        program = peers.go_program()
    except peers.PeerMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")
    return GoClient(program=program, folder=tmp_path_factory.mktemp("go"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[peers.Broker]:
    """Run `sprocket up`, or, so that the tests are judged too, the real broker.

    The environment says which: SPROCKET_INTEROP_BROKER=sprocket (default) or rocketmq.
    """
    folder = tmp_path_factory.mktemp("broker")
    if os.environ.get("SPROCKET_INTEROP_BROKER", "sprocket") == "rocketmq":
        settings = {"enablePropertyFilter": "true"}
        jars = peers.library()
        with peers.RocketMQ(
            jars=jars, folder=folder, store=folder / "store", settings=settings
        ) as real:
            yield real
    else:
        with peers.Sprocket(folder, folder / "store") as ours:
            yield ours


@pytest.fixture(scope="session", params=["sprocket", "rocketmq"])
def peer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[both.Peer]:
    """Run one of the two brokers."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "sprocket":
        with both.OurPeer(folder) as ours:
            yield ours
        return
    jars = request.getfixturevalue("jars")
    settings = {"mappedFileSizeCommitLog": 64 << 20, "messageDelayLevel": both.DELAY_LEVELS}
    with both.RealPeer(jars=jars, folder=folder, store=folder / "store", settings=settings) as real:
        yield real


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """Return a topic of the test's own."""
    return "".join(sign if sign.isalnum() else "_" for sign in request.node.name)[:100]
