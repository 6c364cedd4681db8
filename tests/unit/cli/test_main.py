"""The command line names its commands, and turns our errors into one line."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from sprocket.base.errors import SettingsError
from sprocket.cli import main as module


def test_help_names_the_commands() -> None:
    """Without a command there is help, not an error."""
    result = CliRunner().invoke(module.app(), ["--help"])
    assert result.exit_code == 0
    assert "up" in result.stdout
    assert "settings" in result.stdout


def test_an_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 1, whatever line ends its text has."""

    def fails() -> None:
        raise SettingsError("a\nb")

    monkeypatch.setattr(module, "app", lambda: fails)
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "sprocket: a b\n"


@pytest.mark.slow
def test_starting_is_light() -> None:
    """Neither Spark nor its friends are imported for the command line and the node."""
    code = (
        "import sys, sprocket.cli.main, sprocket.node.run;"
        "print([m for m in ('pyspark', 'pandas', 'pyarrow', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
