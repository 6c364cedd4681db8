"""Rates and samples: of a clock that a test moves."""

import pytest

from sprocket.rabbitmq.server.management import samples as module
from sprocket.rabbitmq.server.management.measures import QUEUE_LENGTHS, QUEUE_STATS, RowPart
from sprocket.rabbitmq.server.management.requests import ApiError
from sprocket.rabbitmq.server.management.samples import Samples
from sprocket.testing.clock import FakeClock

NOW_MS = 1_700_000_001_000
PAIR = RowPart("msg_rates", 1, ("in", "out"))
"""Of rows of three."""


class Bench:
    """Samples, and objects whose rows a test says."""

    def __init__(self) -> None:
        self.clock = FakeClock(NOW_MS)
        self.samples = Samples(self.clock)

    def round(self, *rows: tuple[object, tuple[int, ...]], seconds: int = 5) -> None:
        """Take rows, and let time pass."""
        self.samples.begin()
        for of, row in rows:
            self.samples.record(of, row)
        self.samples.end()
        self.clock.advance(seconds * 1000)

    def told(self, values: tuple[int, ...], *of: object, **query: str) -> dict[str, object]:
        """Return what is told of `PAIR`."""
        return self.samples.rates(query).counters(PAIR, values, *of)


def rates(told: dict[str, object]) -> list[object]:
    """Return the rates of both members."""
    return [told[f"{name}_details"] for name in PAIR.names]


def test_the_first_look_has_rates() -> None:
    """Of the newest row that is five seconds old: not of one that is younger."""
    bench, queue = Bench(), object()
    bench.round((queue, (9, 100, 0)))
    bench.round((queue, (9, 110, 40)))
    bench.clock.advance(3000)
    bench.round((queue, (9, 500, 500)), seconds=2)
    # Ten seconds since the second row: the third is two seconds old.
    assert rates(bench.told((130, 20), queue)) == [{"rate": 2.0}, {"rate": -2.0}]
    assert bench.told((130, 20), queue)["in"] == 130


def test_there_are_no_rates_before_anything_was_sampled() -> None:
    """Right after the start; an object that came since then has begun with nothing."""
    bench, queue = Bench(), object()
    assert rates(bench.told((50, 10), queue)) == [{"rate": 0.0}, {"rate": 0.0}]
    bench.round()
    assert rates(bench.told((50, 10), queue)) == [{"rate": 10.0}, {"rate": 2.0}]


def test_rows_of_several_objects_are_summed() -> None:
    """As for somebody who may see some virtual hosts."""
    bench, one, other = Bench(), object(), object()
    bench.round((one, (0, 1, 2)), (other, (0, 10, 20)))
    assert rates(bench.told((16, 22), one, other)) == [{"rate": 1.0}, {"rate": 0.0}]


def test_samples_are_on_a_grid_and_the_newest_comes_first() -> None:
    """Each is what the last row before that time had; rows that are the same are kept once."""
    bench, queue = Bench(), object()
    for value in (1, 2, 2, 2, 7):
        bench.round((queue, (0, value, 0)))
    bench.clock.advance(1000)
    now = NOW_MS + 26_000
    told = bench.told((8, 0), queue, msg_rates_age="20", msg_rates_incr="10")
    last = now // 10_000 * 10_000
    # Rows are 26, 21, 16, 11 and 6 s old.
    ages = [(now - last) / 1000 + step for step in (0, 10, 20)]
    assert ages == [7, 17, 27]
    assert told["in_details"] == {
        "rate": pytest.approx(1 / 6, abs=0.001),
        "samples": [
            {"sample": 2, "timestamp": last},
            {"sample": 2, "timestamp": last - 10_000},
        ],
        "avg_rate": 0.0,
        "avg": 2.0,
    }
    (only,) = bench.told((8, 0), queue, msg_rates_age="5", msg_rates_incr="6")["in_details"][
        "samples"
    ]  # type: ignore[index]
    assert only["sample"] == 7
    assert "samples" not in bench.samples.rates({"lengths_age": "9"}).counters(PAIR, (8, 0), queue)


def test_averages_are_of_the_samples() -> None:
    """What rose between the first and the last of them, and what they are on average."""
    bench, queue = Bench(), object()
    for value in (10, 20, 60):
        bench.round((queue, (0, value, 0)))
    told = bench.told((60, 0), queue, msg_rates_age="10", msg_rates_incr="5")
    assert told["in_details"] == {
        "rate": 0.0,
        "samples": [
            {"sample": value, "timestamp": NOW_MS - 1000 + seconds * 1000}
            for value, seconds in ((60, 15), (20, 10), (10, 5))
        ],
        "avg_rate": 5.0,
        "avg": 30.0,
    }


@pytest.mark.parametrize(("age", "step"), [("0", "5"), ("60", "0"), ("-60", "5"), ("5010", "10")])
def test_ranges_that_make_no_sense_are_refused(age: str, step: str) -> None:
    """With RabbitMQ's text; what is not a number is not looked at, as there."""
    samples = Samples(FakeClock(NOW_MS))
    with pytest.raises(ApiError) as refused:
        samples.rates({"lengths_age": age, "lengths_incr": step})
    assert refused.value.body["reason"] == f"Invalid range parameters: age {age}, incr {step}"
    samples.rates({"lengths_age": "x", "lengths_incr": step})


def test_what_is_gone_is_forgotten() -> None:
    """After the next round, whose rates begin anew for what comes."""
    bench, queue = Bench(), object()
    bench.round((queue, (0, 500, 0)))
    bench.round()
    bench.round()
    assert rates(bench.told((50, 0), queue)) == [{"rate": 10.0}, {"rate": 0.0}]


def test_a_busy_node_has_a_shorter_past(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten minutes of a few objects, a minute of many, and of each at least what a rate needs."""
    queues = [object() for _ in range(10)]
    for rows_max, seconds in ((10 * 1000, 605), (10 * 20, 95), (1, 65)):
        monkeypatch.setattr(module, "ROWS_MAX", rows_max)
        bench = Bench()
        for value in range(200):
            bench.round(*[(queue, (0, value, 0)) for queue in queues])
        rates = bench.samples.rates({"msg_rates_age": "900", "msg_rates_incr": "5"})
        for queue in queues:
            details = rates.counters(PAIR, (200, 0), queue)["in_details"]
            assert isinstance(details, dict)
            assert 5 * (len(details["samples"]) - 1) == seconds
            assert details["rate"] == 0.2


def test_parts_of_a_row_have_their_names() -> None:
    """They follow each other in a row."""
    assert (QUEUE_LENGTHS.at + len(QUEUE_LENGTHS.names), len(QUEUE_STATS.names)) == (3, 9)
