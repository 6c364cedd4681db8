"""The search for functions that nobody calls."""

from pathlib import Path

from tests.dead_code import dead

SOURCE = """
class Used:
    def called(self): ...
    def alone(self): ...
    @app.command
    def by_a_shell(self): ...

def excepted(): ...

Used().called()
"""


def test_what_nobody_calls_is_named(tmp_path: Path) -> None:
    """And an exception that has nothing to except any more."""
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    found = dead(tmp_path, {"a reason": ("excepted", "called")})
    assert found[0] == f"{path}:4: nobody calls the method alone"
    assert found[1].endswith("called needs no exception")
    assert len(found) == 2
