"""Expressions behave as PCRE does on octets, and none holds the broker."""

import pytest

from sprocket.rabbitmq.broker import patterns
from sprocket.rabbitmq.broker.patterns import BYTES_MAX, Pattern, PatternInvalid


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("", "anything", True),
        ("^a", "ba", False),
        (r"^(?!amq\.).*", "amq.x", False),
        (r"^(?!amq\.).*", "mine", True),
        ("[[:alpha:]]{3}", "ab1", False),
        ("[[:alpha:]]{3}", "abc", True),
        ("^..$", "é", True),
        ("a++b", "aab", True),
        ("(?i)ABC", "abc", True),
    ],
)
def test_expressions(pattern: str, name: str, expected: bool) -> None:
    """What stands in the documentation of RabbitMQ, and what PCRE has beyond Python's own."""
    assert Pattern(pattern).fits(name) is expected


@pytest.mark.parametrize(
    ("pattern", "why"),
    [("(", '{"missing )",1}'), ("a" * (BYTES_MAX + 1), "too large"), ("*", "nothing to repeat")],
)
def test_what_is_no_expression(pattern: str, why: str) -> None:
    """Says why."""
    with pytest.raises(PatternInvalid) as invalid:
        Pattern(pattern)
    assert why in str(invalid.value)


def test_an_expression_that_takes_for_ever_fits_nothing() -> None:
    """It would take longer than anybody lives."""
    assert not Pattern("(a|aa|aaa)+$").fits("a" * 200 + "b")


def test_what_other_threads_do_counts_for_no_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's limit is one of the whole process; if others have used it up, more is given."""

    class Compiled:
        tries = 0

        def search(self, _: bytes, **__: float) -> object:
            Compiled.tries += 1
            if Compiled.tries < 4:
                raise TimeoutError
            return self

    pattern = Pattern(".*")
    monkeypatch.setattr(pattern, "_compiled", Compiled())
    monkeypatch.setattr(patterns, "thread_time", iter([0.0, 0.001, 0.002, 0.003]).__next__)
    assert pattern.fits("q")
