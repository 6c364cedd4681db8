"""How a command comes by a new password: from an option, unseen from a person, or from a pipe."""

import getpass
import sys
from typing import Annotated

import typer

from sprocket.base.errors import SettingsError

NewPassword = Annotated[
    str | None,
    typer.Option(
        "--new-password",
        help="Their password; asked for if it is not given.",
        envvar="SPROCKET_RABBIT_NEW_PASSWORD",
    ),
]


def asked_password(name: str) -> str:
    """Ask for a new password, unseen, or read it from a pipe.

    Raises:
        SettingsError: There is none, or the two are not the same.
    """
    if sys.stdin.isatty():
        found = getpass.getpass(f"New password of {name}: ")
        if getpass.getpass("Again: ") != found:
            raise SettingsError("the two passwords are not the same")
    else:
        found = sys.stdin.readline().rstrip("\r\n")
    if not found:
        raise SettingsError(f"user {name} needs a password")
    return found
