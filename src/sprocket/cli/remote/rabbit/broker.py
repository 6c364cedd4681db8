"""The broker that commands talk to: the options that say where it is."""

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sprocket.cli.remote.rabbit.management import Management

DEFAULT_URL = "http://127.0.0.1:15672"
DEFAULT_USER = "guest"
DEFAULT_PASSWORD = "guest"  # noqa: S105 - what every RabbitMQ begins with
_option = partial(typer.Option, rich_help_panel="Connection")


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitRemote:
    """The broker that a command talks to, and how it is reached."""

    url: Annotated[
        str,
        _option(
            "--url",
            metavar="URL",
            help="Its HTTP API; https encrypts.",
            envvar="SPROCKET_RABBIT_URL",
        ),
    ] = DEFAULT_URL
    username: Annotated[
        str, _option("--username", "-u", help="Who asks.", envvar="SPROCKET_RABBIT_USER")
    ] = DEFAULT_USER
    password: Annotated[
        str,
        _option(
            "--password",
            help="Their password; better given by the variable.",
            envvar="SPROCKET_RABBIT_PASSWORD",
        ),
    ] = DEFAULT_PASSWORD
    tls_trust: Annotated[
        str,
        _option(
            "--tls-trust",
            metavar="FILE",
            help="PEM file of the authority that signed the server's certificate.",
            envvar="SPROCKET_TLS_TRUST",
        ),
    ] = ""
    timeout_ms: Annotated[
        int, _option("--timeout-ms", min=1, help="Longest wait for an answer.")
    ] = 30_000
    opened: ExitStack = field(default_factory=ExitStack, init=False)
    """What the command has open until it has answered."""

    def api(self) -> "Management":
        """Return the API, on a connection that is open until the command has answered.

        Raises:
            SettingsError: The address is wrong, or the file cannot be used.
        """
        from sprocket.cli.remote.rabbit.management import Management

        found = Management(
            self.url,
            (self.username, self.password),
            trust_path=self.tls_trust,
            timeout_seconds=self.timeout_ms / 1000,
        )
        self.opened.callback(found.close)
        return found
