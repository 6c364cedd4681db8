"""`sprocket settings` shows what counts and where it came from; the page is up to date."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sprocket.base.errors import DiskFailed, SettingsError
from sprocket.cli.main import app
from sprocket.cli.servers import config_file, settings
from sprocket.cli.servers.config_file import GivenSettings
from sprocket.node.products import PRODUCTS
from sprocket.rocketmq.settings import Settings

PAGE = Path(__file__).parents[4] / "docs" / "settings.md"


def test_the_page_is_what_the_declarations_say() -> None:
    """`docs/settings.md` is generated: run `sprocket settings --markdown` and commit it."""
    assert settings.page() == PAGE.read_text(encoding="utf-8")
    assert CliRunner().invoke(app(), ["settings", "--markdown"]).stdout == settings.page()


def test_values_are_shown_with_their_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the file, the environment, the command line, or the default."""
    file = tmp_path / "s.toml"
    file.write_text("[store]\ncrc_tail = false\n")
    monkeypatch.setenv("SPROCKET_BROKER__NAME", "b7")
    monkeypatch.setenv("COLUMNS", "200")
    result = CliRunner().invoke(app(), ["settings", "--config", str(file), "--set", "flush=async"])
    assert result.exit_code == 0
    lines = {tuple(line.split()) for line in result.stdout.splitlines()}
    assert ("store.crc_tail", "False", f"({file})") in lines
    assert ("broker.name", "b7", "(SPROCKET_BROKER__NAME)") in lines
    assert ("store.flush", "async", "(--set)") in lines
    assert ("pull.messages_max", "1024", "(default)") in lines


def test_values_are_shown_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """One object a setting, values of JSON's own types; not together with the page."""
    monkeypatch.setenv("SPROCKET_BROKER__NAME", "b7")
    result = CliRunner().invoke(app(), ["settings", "--set", "pull.messages_max=7", "--json"])
    assert result.exit_code == 0
    found = {row["setting"]: row for row in map(json.loads, result.stdout.splitlines())}
    assert len(found) == settings.page().count("\n| `")
    assert found["pull.messages_max"] == {
        "setting": "pull.messages_max",
        "value": 7,
        "from": "--set",
    }
    assert found["broker.name"]["from"] == "SPROCKET_BROKER__NAME"
    assert found["store.crc_tail"]["value"] is True
    assert found["store.flush"] == {"setting": "store.flush", "value": "sync", "from": "default"}
    both = CliRunner().invoke(app(), ["settings", "--markdown", "--json"])
    assert isinstance(both.exception, SettingsError)


def test_options_win_and_absent_ones_do_not_count() -> None:
    """An option that was not given is not a source."""
    own = {"store.flush": "sync", "server.broker_port": None}
    loaded = settings.load(PRODUCTS, GivenSettings(), ["flush=async"], own)
    assert loaded.of(Settings).store.flush == "sync"
    assert loaded.origins == {"store.flush": "command line"}


def test_what_cannot_be_read_is_an_error() -> None:
    """A file that is not there, and a name that is not."""
    with pytest.raises(DiskFailed):
        config_file.read("/nowhere/at/all.toml", PRODUCTS)
    with pytest.raises(SettingsError):
        settings.load(PRODUCTS, GivenSettings(), ["nothing=1"])


def test_passwords_are_not_shown() -> None:
    """Neither in the table nor as JSON; whether there is one is."""
    for more in ([], ["--json"]):
        words = ["settings", "--set", "tls.key_password=geheim", *more]
        shown = CliRunner().invoke(app(), words).output
        assert "geheim" not in shown
        assert "(not shown)" in shown
