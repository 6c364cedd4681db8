"""The command `sprocket`: puts the command families together.

A family is one module of a room beside this one: a single command is a function, several share a
`typer.Typer` of their own. To add one, add it to the list at the end of `app`. Families import
what they need inside their functions, so that no command pays for another's imports.
"""

import sys
from typing import Annotated

import typer

from sprocket import __version__
from sprocket.base.errors import SprocketError
from sprocket.cli import pipe, sql
from sprocket.cli.folder import rabbit_store, store
from sprocket.cli.remote import cluster, consume, group, msg, produce, rabbit, topic
from sprocket.cli.servers import settings, up


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        sys.stdout.write(f"sprocket {__version__}\n")
        raise typer.Exit


def app() -> typer.Typer:
    """Return the command line with every family."""
    root = typer.Typer(
        name="sprocket",
        help="A message system: RocketMQ's store and protocol in Python.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    root.callback()(common)
    root.command("up")(up.up)
    root.command("nameserver")(up.nameserver)
    root.command("broker")(up.broker)
    root.command("settings")(settings.settings)
    root.command("produce")(produce.produce)
    root.command("consume")(consume.consume)
    root.add_typer(topic.app, name="topic")
    root.add_typer(group.app, name="group")
    root.add_typer(cluster.app, name="cluster")
    root.add_typer(msg.app, name="msg")
    root.add_typer(store.app, name="store")
    root.add_typer(rabbit.app, name="rabbit")
    root.add_typer(rabbit_store.app, name="rabbit-store")
    root.add_typer(pipe.app, name="pipe")
    root.command("sql")(sql.sql)
    return root


def common(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """A message system: RocketMQ's store and protocol in Python."""


def main() -> None:
    """Run the command line; an error of ours is one line and exit code 1."""
    try:
        app()()
    except SprocketError as error:
        sys.stderr.write(f"sprocket: {' '.join(str(error).split())}\n")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
