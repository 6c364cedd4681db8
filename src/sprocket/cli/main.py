"""The command `sprocket`: puts the command families together.

A family is one module of a room beside this one: a single command is a function, several share a
`typer.Typer` of their own. To add one, add it to `FAMILIES`. A command that was named is made
alone, so that none pays for another's imports and options: those of all take as long as a server's
start. Families import what they need inside their functions.
"""

import sys
from importlib import import_module
from typing import Annotated, Final

import typer

from sprocket import __version__
from sprocket.base.errors import SprocketError
from sprocket.runtime import standard_streams

FAMILIES: Final = {
    "up": "servers.up:up",
    "nameserver": "servers.up:nameserver",
    "broker": "servers.up:broker",
    "health": "remote.health:health",
    "settings": "servers.settings:settings",
    "produce": "remote.produce:produce",
    "consume": "remote.consume:consume",
    "topic": "remote.topic:app",
    "group": "remote.group:app",
    "user": "remote.user:app",
    "cluster": "remote.cluster:app",
    "ha": "remote.ha:app",
    "msg": "remote.msg:app",
    "store": "folder.store:app",
    "rabbit": "remote.rabbit:app",
    "rabbit-store": "folder.rabbit_store:app",
    "backup": "folder.backup:backup",
    "check": "folder.backup:check",
    "pipe": "pipe:app",
    "sql": "sql:sql",
}
"""Module and attribute of each, by name, in the order of the help."""


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        sys.stdout.write(f"sprocket {__version__}\n")
        raise typer.Exit


def app(name: str | None = None) -> typer.Typer:
    """Return the command line with one family, or with every one if none has that name."""
    root = typer.Typer(
        name="sprocket",
        help="A message system in Python, with RocketMQ's and RabbitMQ's files and protocols.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    root.callback()(common)
    for family in [name] if name in FAMILIES else FAMILIES:
        module, _, attribute = FAMILIES[family].partition(":")
        found = getattr(import_module(f"sprocket.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            root.add_typer(found, name=family)
        else:
            root.command(family)(found)
    return root


def common(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """A message system in Python, with RocketMQ's and RabbitMQ's files and protocols."""


def main() -> None:
    """Run the command line; an error of ours is one line and exit code 1."""
    standard_streams.open_closed()
    try:
        app(sys.argv[1] if len(sys.argv) > 1 else None)()
    except SprocketError as error:
        sys.stderr.write(f"sprocket: {' '.join(str(error).split())}\n")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
