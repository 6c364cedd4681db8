"""The fixtures work in anybody's tests: those of `docs/guides/testing.md`, run by plain pytest."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.waits import LONG_SECONDS

ROOT = Path(__file__).resolve().parents[3]
GUIDE = ROOT / "docs" / "guides" / "testing.md"
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLUGIN = "sprocket.testing.pytest_plugin"
LIGHT = {"sprocket", "sprocket.testing", PLUGIN}
"""What of Sprocket may be imported when pytest starts."""


def run_pytest(folder: Path, *arguments: str) -> str:
    """Run plain pytest in a folder, with no plugin but ours; return what it says."""
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.slow
def test_the_guides_tests_pass(tmp_path: Path) -> None:
    """Every example of the guide, and the README's, is a test module that passes as it stands."""
    examples = FENCE.findall(GUIDE.read_text("utf-8"))
    assert len(examples) >= 5
    in_readme = FENCE.findall((ROOT / "README.md").read_text("utf-8"))
    examples += [code for code in in_readme if "sprocket_broker" in code]
    for number, code in enumerate(examples, 1):
        assert "def test_" in code, f"example {number} tests nothing"
        (tmp_path / f"test_example_{number}.py").write_text(code, "utf-8")
    said = run_pytest(tmp_path, "-q")
    tests = sum(code.count("\ndef test_") for code in examples)
    assert f"{tests} passed" in said


@pytest.mark.slow
def test_the_fixtures_are_listed(tmp_path: Path) -> None:
    """`pytest --fixtures` shows them, with what they do."""
    said = run_pytest(tmp_path, "--fixtures", "-q")
    assert "sprocket_broker" in said
    assert "sprocket_settings" in said
    assert "Run a broker of the test's own" in said
    assert "sprocket_amqp" in said
    assert "sprocket_amqp_settings" in said
    assert "that RabbitMQ's clients take for RabbitMQ" in said


def test_nothing_is_imported_before_it_is_used() -> None:
    """A test run that uses no fixture of ours pays for none."""
    code = f"import sys, pytest, {PLUGIN}; print(*[m for m in sys.modules if 'sprocket' in m])"
    said = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(said.stdout.split()) == LIGHT


def test_it_is_announced_under_its_own_name() -> None:
    """So that naming the module as a plugin, too, does not register it twice."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}
