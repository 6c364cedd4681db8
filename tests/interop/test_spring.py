"""An application of Spring Boot with `rocketmq-spring`, unmodified, at our broker."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.interop import peers, told
from tests.interop.test_transactions import create, ours

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.xdist_group("interop-spring"),
]


def test_a_spring_application(tmp_path: Path) -> None:
    """Its listeners get what they ask for; what it commits comes once, at once or when asked."""
    try:
        jars = peers.spring_library()
    except peers.PeerMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")
    topic, out = "Spring", tmp_path / "told.txt"
    classes = peers.compile_java(jars, tmp_path / "classes", [peers.SPRING_SOURCE])
    with ours(tmp_path) as broker:
        create(broker, topic)
        command = [*peers.java(jars, home=tmp_path, classes=classes), "interop.Shop"]
        child = subprocess.Popen(
            [*command, broker.nameserver, topic, str(out)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        told.wait(child)
    lines = [line.split() for line in out.read_text("utf-8").splitlines()]
    numbers = range(30)
    later = ["delayed", "commit", "commit-check"]
    for listener, wanted in (
        ("all", [*map(str, numbers), *later]),
        ("tag", [str(number) for number in numbers if number % 3 != 1]),
        ("sql", [str(number) for number in numbers if number % 3 == 1 and number >= 20]),
    ):
        assert Counter(body for name, body in lines if name == listener) == Counter(wanted)
    assert {body for name, body in lines if name == "asked"} == {"commit-check", "rollback-check"}
