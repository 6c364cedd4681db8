"""Goals of the store's bench are ratios to something that was measured in the same run."""

import ast
import inspect

import pytest
from bench.store_rows import Figure

from bench import store_rows


def test_only_memory_has_a_goal_of_its_own() -> None:
    """Seconds and rates differ by machine; what is compared with them would differ as much."""
    tree = ast.parse(inspect.getsource(store_rows))
    units = {
        ast.unparse(word.value)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) == "Figure"
        and "goal" in {word.arg for word in call.keywords}
        for word in call.keywords
        if word.arg == "unit"
    }
    assert units == {"'× raw'", '"× raw\'s time"', "unit"}
    in_loops = [ast.unparse(one) for one in ast.walk(tree) if isinstance(one, ast.Tuple)]
    assert any("'MB', 300" in text for text in in_loops)


def test_a_ratio_is_of_the_time_an_item_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours may deal with more of them in a turn than raw."""
    now = [0.0]
    monkeypatch.setattr("bench.store_rows.time.perf_counter", lambda: now[0])

    def ours() -> int:
        now[0] += 6.0
        return 2

    def raw() -> int:
        now[0] += 10.0
        return 5

    times = store_rows.in_turns(ours, raw, turns=3)
    assert (times.ours, times.raw, times.ratio) == (3.0, 2.0, 1.5)


def test_a_goal_is_met_on_its_side() -> None:
    """At least or at most, the limit included."""
    assert Figure(name="", value=9, unit="", goal=9, at_least=False).is_met
    assert not Figure(name="", value=9.1, unit="", goal=9, at_least=False).is_met
    assert Figure(name="", value=9, unit="", goal=9).is_met
