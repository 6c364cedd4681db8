"""The order of a run, and the budget, follow from what tests took before."""

import json
from pathlib import Path

import pytest
from tests import durations

pytest_plugins = ["pytester"]
RECORDED = {
    "test_a.py": [9.0],
    "test_a.py::test_long": [5.0, 4.0],
    "test_b.py": [4.0],
    "test_c.py": [7.0],
    "test_c.py::test_shares": [6.0],
    "spark": [30.0],
}
FILES = {
    "test_a": "def test_short(): pass\ndef test_long(): pass\ndef test_spark(spark): pass",
    "test_b": "def test_one(): pass\ndef test_two(spark): pass",
    "test_c": "def test_shares(wide): pass\ndef test_other(): pass",
    "conftest": """
        import pytest
        spark = pytest.fixture(scope="session")(lambda: None)
        wide = pytest.fixture(scope="module", name="wide")(lambda: None)
    """,
}


def test_units_go_out_longest_first(pytester: pytest.Pytester) -> None:
    """What shares something stays together; a long test is a unit, and leaves its file."""
    pytester.makepyfile(**FILES)
    items = pytester.inline_genitems()[0]
    units = durations.arrange(items, RECORDED)
    assert [item.nodeid for item in items] == [
        "test_a.py::test_spark",
        "test_b.py::test_two",
        "test_a.py::test_short",
        "test_c.py::test_shares",
        "test_c.py::test_other",
        "test_a.py::test_long",
        "test_b.py::test_one",
    ]
    assert list(units.values()) == [
        *("spark", "spark", "test_a.py", "test_c.py", "test_c.py"),
        *("test_a.py::test_long", "test_b.py"),
    ]


def test_two_slow_runs_are_too_slow() -> None:
    """Not one, nor what a whole file takes."""
    recorded = {
        "test_a.py": [99.0, 99.0],
        "test_a.py::test_once": [30.0, 3.0],
        "test_a.py::test_new": [30.0],
        "test_a.py::test_twice": [21.0, 25.0],
    }
    assert durations.too_slow(recorded) == ["test_a.py::test_twice: 21 s, 25 s"]


def test_a_run_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    """Of what is short only the file is recorded; who did not run is forgotten."""
    notes = {"t.py::a": 3.14, "t.py::b": 0.1, "t.py": 3.4}
    recorded = {"t.py::a": [2.0, 9.0], "t.py::gone": [4.0]}
    path = tmp_path / "record.json"
    durations.record(notes, recorded, path)
    assert json.loads(path.read_text()) == {"t.py": [3.4], "t.py::a": [3.1, 2.0]}
