"""The HTTP API answers what a real RabbitMQ 3.10.8 has answered to the same requests, in order."""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from tests.management import comparison
from tests.management.requests import STEPS

from sprocket.testing.local_amqp import LocalAmqp

RECORDED = Path(__file__).parents[5] / "data" / "rabbitmq-3.10.8" / "management.json.xz"


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalAmqp]:
    """Run one broker."""
    with LocalAmqp() as running:
        yield running


@pytest.mark.slow
def test_answers_are_rabbitmqs(broker: LocalAmqp) -> None:
    """Status, headers and every member, but for those that are named with a reason."""
    found = json.loads(lzma.decompress(RECORDED.read_bytes()))
    told = [(one["step"][0], one["step"][1]) for one in found]
    assert told == [(step.method, step.path) for step in STEPS]
    wrong = []
    with requests.Session() as session:
        for step, theirs in zip(STEPS, comparison.recorded(found), strict=True):
            ours = comparison.ask(session, broker.http_url, step)
            wrong += [
                (step.method, step.path, one)
                for one in comparison.differences(theirs, ours)
                if not comparison.is_known(step, one)
            ]
    assert wrong == []
