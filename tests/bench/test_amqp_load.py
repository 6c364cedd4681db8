"""The load of the AMQP benches, against a broker in this process; and how figures are judged."""

from collections.abc import Iterator

import pytest
from bench.amqp_goals import OURS, ROWS, THEIRS, compare
from bench.amqp_load import (
    Corpus,
    LoadError,
    Run,
    Shape,
    acknowledgements,
    consume,
    declare,
    publish,
    purge,
    ready_count,
    through,
)
from bench.goals import Figures

from sprocket.testing.local_amqp import LocalAmqp

SHAPE = Shape(connections=3, unconfirmed=8, queues=2, is_persistent=True, body_bytes=300)
CORPUS = Corpus(SHAPE, 64)
ACKS = acknowledgements(2000)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Run a broker with two queues."""
    with LocalAmqp() as broker:
        declare(broker.port, 2)
        yield broker.port


@pytest.mark.slow
@pytest.mark.parametrize("connections", [1, 3])
def test_what_was_published_is_consumed(port: int, connections: int) -> None:
    """All of it is confirmed once, delivered once, and acknowledged."""
    run = publish(port, SHAPE, CORPUS, messages=500)
    assert run.messages == sum(run.weights) == 500
    assert ready_count(port, 2) == 500
    taken = consume(port, connections=connections, queues=2, messages=500, acks=ACKS)
    assert (taken.messages, ready_count(port, 2)) == (500, 0)


@pytest.mark.slow
def test_publishers_and_consumers_at_once(port: int) -> None:
    """They end when all that was published was consumed."""
    run = through(port, SHAPE, CORPUS, ACKS, seconds=0.0, unsettled_max=100)
    assert run.messages >= SHAPE.connections * SHAPE.unconfirmed
    assert ready_count(port, 2) == 0


@pytest.mark.slow
def test_what_is_no_confirm_ends_the_load(port: int) -> None:
    """The connection is closed for a frame that is none."""
    purge(port, 2)
    broken = Corpus(SHAPE, 64)
    broken.octets = memoryview(b"\x09" * len(broken.octets))
    with pytest.raises(LoadError):
        publish(port, SHAPE, broken, messages=24)


def test_percentiles_count_messages() -> None:
    """A latency that many messages share counts as often."""
    run = Run(messages=100, seconds=1, cpu_seconds=1, latencies=[3.0, 1.0], weights=[2, 98])
    assert [run.percentile(share) for share in (0.5, 0.98, 0.99)] == [1.0, 1.0, 3.0]


def test_figures_are_held_against_rabbitmq_s() -> None:
    """CPU at most; messages/s at least, where that has a limit."""

    def figures(rate: float, cpu: float) -> Figures:
        return Figures(messages_per_s=rate, cpu_us_per_message=cpu, p50_ms=1, p99_ms=1)

    persistent = ROWS[0]
    assert persistent.name == "persistent 1 KiB, 1 × 1"
    for ours, missed in (
        (figures(1300, 35), []),
        (figures(1299, 36), [f"{persistent.name}: CPU", f"{persistent.name}: messages/s"]),
    ):
        medians = {(persistent.name, OURS): ours, (persistent.name, THEIRS): figures(1000, 100)}
        assert [goal.what for goal in compare(medians) if not goal.is_met] == missed
    assert compare({(persistent.name, OURS): figures(1, 1)}) == []
