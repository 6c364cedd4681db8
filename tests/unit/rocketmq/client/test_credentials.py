"""Credentials: where they come from, and what cannot be used."""

from pathlib import Path

import pytest

from sprocket.base.errors import SettingsError
from sprocket.rocketmq.client import ClientSettings, SessionCredentials, credentials_if_given

NOTHING: dict[str, str] = {}
FOUND = SessionCredentials("alice", "alice-pass")


def test_without_any_nobody_signs() -> None:
    """As before."""
    assert credentials_if_given(environment=NOTHING) is None
    assert ClientSettings().credentials is None


def test_options_go_before_a_file_and_a_file_before_the_environment(tmp_path: Path) -> None:
    """As far as they are given."""
    path = tmp_path / "tools.yml"
    path.write_text("accessKey: bob\nsecretKey: bob-pass\n")
    environment = {"SPROCKET_ACCESS_KEY": "carol", "SPROCKET_SECRET_KEY": "carol-pass"}
    assert (
        credentials_if_given("alice", "alice-pass", path=str(path), environment=environment)
        == FOUND
    )
    assert credentials_if_given(path=str(path), environment=environment) == SessionCredentials(
        "bob", "bob-pass"
    )
    assert credentials_if_given(environment=environment) == SessionCredentials(
        "carol", "carol-pass"
    )


def test_a_security_token_goes_along() -> None:
    """For servers that want one."""
    expected = SessionCredentials("alice", "alice-pass", "token")
    assert expected == credentials_if_given("alice", "alice-pass", security_token="token")  # noqa: S106
    environment = {
        "SPROCKET_ACCESS_KEY": "alice",
        "SPROCKET_SECRET_KEY": "alice-pass",
        "SPROCKET_SECURITY_TOKEN": "token",
    }
    assert expected == credentials_if_given(environment=environment)


@pytest.mark.parametrize(
    "text",
    [
        "accessKey: alice\nsecretKey: alice-pass\n",
        "accessKey: \"alice\"\nsecretKey: 'alice-pass'\n",
        "# who\n\n  accessKey : alice # somebody\r\nother: x\nsecretKey:alice-pass\n",
    ],
)
def test_a_file_is_that_of_rocketmqs_tools(tmp_path: Path, text: str) -> None:
    """Quotes, comments and other lines are understood."""
    path = tmp_path / "tools.yml"
    path.write_text(text)
    assert credentials_if_given(path=str(path), environment=NOTHING) == FOUND


@pytest.mark.parametrize(
    "text", ["", "accessKey: alice\n", "secretKey: alice-pass\n", "accessKey: alice\nsecretKey:\n"]
)
def test_a_file_without_both_is_an_error_that_tells_no_secret(tmp_path: Path, text: str) -> None:
    """It names the file and what was expected."""
    path = tmp_path / "tools.yml"
    path.write_text(text)
    with pytest.raises(SettingsError, match="expected lines `accessKey") as raised:
        credentials_if_given(path=str(path), environment=NOTHING)
    assert "alice-pass" not in str(raised.value)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Requests without a signature would only be refused."""
    with pytest.raises(SettingsError, match="cannot be read"):
        credentials_if_given(path=str(tmp_path / "none.yml"), environment=NOTHING)


def test_half_of_them_are_an_error() -> None:
    """Whoever gives a key forgot the other."""
    for given in (("alice", ""), ("", "alice-pass")):
        with pytest.raises(SettingsError, match="the options: an access key and a secret key"):
            credentials_if_given(*given, environment=NOTHING)
    with pytest.raises(SettingsError, match="the environment: "):
        credentials_if_given(environment={"SPROCKET_ACCESS_KEY": "alice"})
