"""The comparison of the clients reads its figures right and holds them against the right limits."""

import json
import sys
from pathlib import Path

import pytest
from bench.clients import PYTHON, ClientFailed, Round, Sender, compare, medians, run

from bench import client_load
from sprocket.testing.local_broker import LocalBroker

MET = {
    "java_p50_us": 100.0,
    "p50_us": 130.0,
    "send_cpu_us": 25.0,
    "send_rate": 25_000.0,
    "push_cpu_us": 12.0,
    "push_rate": 1.0,
}
"""Figures at their limits; how fast a backlog is consumed has none."""


def missed(**figures: float) -> list[str]:
    """Return which goals are missed with some figures other than those at the limits."""
    return [goal.what for goal in compare(Round(**MET | figures)) if not goal.is_met]


def test_each_figure_has_its_limit() -> None:
    """At the limit a goal is met, beyond it that goal alone is missed."""
    assert missed() == []
    (ratio,) = missed(p50_us=130.1)
    assert [ratio] == missed(java_p50_us=99.9)
    assert "ratio to Java" in ratio
    assert missed(send_cpu_us=25.1) == ["async send: client CPU, µs/message"]
    assert missed(send_rate=24_999.0) == ["async send: messages/s"]
    assert missed(push_cpu_us=12.1) == ["push consumer: CPU, µs/message"]
    assert missed(push_rate=0.0) == []


def test_medians_are_of_each_figure() -> None:
    """The best round of one figure may be the worst of another."""
    rounds = [
        Round(**MET | {"p50_us": p50_us, "send_rate": rate})
        for p50_us, rate in ((1.0, 30.0), (2.0, 10.0), (900.0, 20.0))
    ]
    found = medians(rounds)
    assert (found.p50_us, found.send_rate, found.push_cpu_us) == (2.0, 20.0, 12.0)


def test_a_sender_s_figure_is_found_among_its_log(tmp_path: Path) -> None:
    """A line of its own, in each turn; a process that ends in its turn has failed."""
    program = "print('a |-INFO p50_us', flush=True); print(f'p50_us {input()}.5', flush=True)"
    program = f"{program}; {program}; import sys; input(); sys.exit('last words')"
    with Sender([sys.executable, "-c", program], tmp_path / "log") as sender:
        assert [sender.p50_us(412), sender.p50_us(7)] == [412.5, 7.5]
        with pytest.raises(ClientFailed, match="last words"):
            sender.p50_us(1)


def test_a_client_that_fails_is_no_figure() -> None:
    """Its code and its last words are told."""
    with pytest.raises(ClientFailed, match="code 3: last words"):
        run([sys.executable, "-c", "print('last words', end=''); raise SystemExit(3)"])


@pytest.mark.slow
def test_what_is_sent_is_consumed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One by one and in a stream, with what warms up, all of it reaches the consumer."""

    def load(kind: str, *more: str) -> dict[str, float]:
        assert client_load.main([kind, broker.nameserver, "Bench", *more]) == 0
        said: dict[str, float] = json.loads(capsys.readouterr().out.splitlines()[-1])
        return said

    with LocalBroker() as broker:
        command = [*PYTHON, "sync", broker.nameserver, "Bench"]
        with Sender(command, tmp_path / "log") as sender:
            assert min(sender.p50_us(3), sender.p50_us(20)) > 0
        many = load("soon", "--warm=7", "--messages=300")
        got = load("push", "--messages=330")
        assert many.keys() == got.keys() == {"cpu_us_per_message", "messages_per_s"}
        assert all(figure > 0 for said in (many, got) for figure in said.values())
