"""The command line names its commands, and turns our errors into one line."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version

import pytest
import typer
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner

from sprocket.base.errors import SettingsError
from sprocket.cli import main as module

REAL_APP = module.app


def test_help_names_the_commands() -> None:
    """Without a command there is help, not an error."""
    result = CliRunner().invoke(module.app(), ["--help"])
    assert result.exit_code == 0
    assert "up" in result.stdout
    assert "settings" in result.stdout


@pytest.mark.parametrize("words", [["-h"], ["topic", "-h"], ["topic", "ls", "-h"], ["up", "-h"]])
def test_help_has_a_short_name(words: list[str]) -> None:
    """Everywhere, and says the same as the long one."""
    short = CliRunner().invoke(module.app(), words)
    assert short.exit_code == 0, short.output
    assert short.stdout == CliRunner().invoke(module.app(), [*words[:-1], "--help"]).stdout


def test_the_version_is_told() -> None:
    """That of the package."""
    told = CliRunner().invoke(module.app(), ["--version"])
    assert (told.exit_code, told.stdout) == (0, f"sprocket {version('sprocketmq')}\n")


@pytest.mark.parametrize("name", module.FAMILIES)
def test_a_family_is_there_alone_as_among_all(name: str) -> None:
    """Called by its name, it says of itself what it says beside the others."""
    alone = CliRunner().invoke(module.app(name), [name, "-h"])
    assert alone.exit_code == 0, alone.output
    assert alone.stdout == CliRunner().invoke(module.app(), [name, "-h"]).stdout
    root = typer.main.get_command(module.app(name))
    assert isinstance(root, TyperGroup)
    assert [*root.commands] == [name]


@pytest.mark.parametrize("words", [["-h"], ["--version"], ["nonsense"], []])
def test_what_names_no_family_has_all(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """So that help lists them and completion knows them."""
    seen: list[str | None] = []
    monkeypatch.setattr(module, "app", lambda name: lambda: seen.append(name))
    monkeypatch.setattr(sys, "argv", ["sprocket", *words])
    module.main()
    root = typer.main.get_command(REAL_APP(*seen))
    assert isinstance(root, TyperGroup)
    assert sorted(root.commands) == sorted(module.FAMILIES)


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(shell: str) -> None:
    """The script that is shown for each asks the command, which knows them."""
    code = "import sys; sys.argv[0] = 'sprocket'; from sprocket.cli.main import main; main()"
    asking = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "PATH": os.environ["PATH"]}
    script = subprocess.run(
        [sys.executable, "-c", code, "--show-completion", shell],
        env=asking,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_SPROCKET_COMPLETE" in script.stdout
    words = "sprocket topic "
    asking |= {"_SPROCKET_COMPLETE": f"complete_{shell}", "COMP_WORDS": words, "COMP_CWORD": "2"}
    asking |= {"_TYPER_COMPLETE_ARGS": words, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    found = subprocess.run(
        [sys.executable, "-c", code], env=asking, capture_output=True, text=True, check=False
    )
    assert "create" in found.stdout


def test_an_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 1, whatever line ends its text has."""

    def fails() -> None:
        raise SettingsError("a\nb")

    monkeypatch.setattr(module, "app", lambda _: fails)
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "sprocket: a b\n"


WITHOUT_JSON = {
    "up": "it serves; its one line on stdout, `ready`, is for scripts as it is",
    "nameserver": "likewise",
    "broker": "likewise",
}
"""Commands that have no --json, and why."""


def commands(group: TyperGroup, before: str = "") -> Iterator[tuple[str, TyperCommand]]:
    """Every command below a group, with the words that it is called by."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, f"{before}{name} ")
        else:
            assert isinstance(command, TyperCommand)
            yield f"{before}{name}", command


def test_what_reports_something_does_so_as_json() -> None:
    """Every command has --json, off by itself, but for those that have a reason."""
    root = typer.main.get_command(module.app())
    assert isinstance(root, TyperGroup)
    found = dict(commands(root))
    assert len(found) > 30
    without = set()
    for name, command in found.items():
        options = {word: one for one in command.params for word in one.opts}
        if "--json" not in options:
            without.add(name)
            continue
        assert options["--json"].name == "as_json", name
        assert options["--json"].default is False, name
    assert without == WITHOUT_JSON.keys()


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["settings"]])
def test_what_only_tells_something_loads_no_server(words: list[str]) -> None:
    """Nor what servers log with: that takes longer than all the rest of such a command."""
    heavy = ("asyncio", "ssl", "structlog", "sprocket.rocketmq.codec", "sprocket.runtime.driver")
    code = (
        "import sys; from sprocket.cli.main import app\n"
        f"try: app()({words})\nexcept SystemExit: pass\n"
        f"print([m for m in {heavy} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


@pytest.mark.slow
def test_a_family_does_not_load_the_others() -> None:
    """They take as long as a server's start."""
    code = (
        "import sys; from sprocket.cli.main import main\n"
        "sys.argv = ['sprocket', 'up', '-h']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([m for m in sys.modules if m.startswith('sprocket.cli.remote')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


@pytest.mark.slow
def test_starting_is_light() -> None:
    """Neither Spark nor its friends are imported for the command line and the node."""
    code = (
        "import sys, sprocket.node.rocketmq; from sprocket.cli.main import app; app();"
        "print([m for m in ('pyspark', 'pandas', 'pyarrow', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
