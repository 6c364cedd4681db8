"""A tree is called slower only for what two equal trees do not show as well."""

from pathlib import Path

import pytest
from bench.alternation import NEW, OLD, TWIN, judge, source
from bench.goals import ASYNC, Figures, Key

ROWS = ("1 × 1", "16 × 1", "pull")


def figures(rate: float, cpu: float) -> Figures:
    """Return figures of one run."""
    return Figures(messages_per_s=rate, cpu_us_per_message=cpu, p50_ms=1.0, p99_ms=2.0)


def runs(
    *, new: Figures, twin: Figures | None = None, rows: tuple[str, ...] = ("16 × 1",)
) -> dict[Key, list[Figures]]:
    """Return three rounds: all trees have 1,000/s and 10 µs but for some rows of new and twin."""
    same = figures(1000, 10)
    found = {}
    for row in ROWS:
        of_tree = {OLD: same, TWIN: same, NEW: same}
        if row in rows:
            of_tree |= {NEW: new, TWIN: twin or same}
        for tree, one in of_tree.items():
            wild = figures(1, 1_000)  # one run in three goes wrong
            found[Key(row=row, flush=ASYNC, broker=tree)] = [one, wild, one]
    return found


def slower(made: dict[Key, list[Figures]]) -> list[str]:
    """Return what is called slower."""
    return [f"{one.row} {one.what}" for one in judge(made) if one.is_slower]


@pytest.mark.parametrize(
    ("rate", "cpu", "expected"),
    [
        (1000, 10, []),
        (2000, 5, []),
        (975, 10.25, []),
        (965, 10, ["16 × 1 messages/s"]),
        (1000, 10.35, ["16 × 1 CPU µs"]),
        (965, 10.35, ["16 × 1 CPU µs", "16 × 1 messages/s"]),
    ],
)
def test_three_percent_are_allowed_of_each_figure(
    rate: float, cpu: float, expected: list[str]
) -> None:
    """Fewer messages/s, or more CPU; better is never slower."""
    assert expected == slower(runs(new=figures(rate, cpu)))


def test_a_row_in_which_equal_trees_differ_is_allowed_as_much_more() -> None:
    """Whichever of the two was better; the old figure is that of both together."""
    for rate in (920, 1080):
        assert slower(runs(new=figures(930, 10), twin=figures(rate, 10))) == []
    assert slower(runs(new=figures(830, 10), twin=figures(920, 10))) == []
    assert slower(runs(new=figures(810, 10), twin=figures(920, 10))) == ["16 × 1 messages/s"]


def test_rows_in_which_equal_trees_are_alike_by_chance_have_the_usual_noise() -> None:
    """The middle row's, of all rows that were measured."""
    made = runs(new=figures(1000, 10), twin=figures(950, 10), rows=("1 × 1", "16 × 1"))
    made[Key(row="pull", flush=ASYNC, broker=NEW)] = [figures(930, 10)] * 3
    assert {round(one.noise, 3) for one in judge(made) if one.what == "messages/s"} == {0.05}
    assert slower(made) == []
    made[Key(row="pull", flush=ASYNC, broker=NEW)] = [figures(910, 10)] * 3
    assert slower(made) == ["pull messages/s"]
    assert str(judge(made)[-1]).split()[-1] == "SLOWER"


def test_a_commit_is_checked_out_once(tmp_path: Path) -> None:
    """Whole, below the folder of builds; a folder is taken as it is."""
    made = source("HEAD", tmp_path)
    assert (made / "sprocket/__init__.py").is_file()
    assert made.parent.parent == tmp_path
    (made / "mark").touch()
    assert (source("HEAD", tmp_path) / "mark").exists()
    assert len(list(tmp_path.iterdir())) == 1
    assert source(str(made.parent)) == made
    with pytest.raises(RuntimeError, match="neither a commit"):
        source("no-such-commit", tmp_path)
