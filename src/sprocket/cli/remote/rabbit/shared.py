"""What the families share: their options, how names are listed, how arguments are read."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sprocket.base.errors import SettingsError

AnyVhost = Annotated[
    str | None, typer.Option("--vhost", "-v", help="Only this virtual host; by default all.")
]
Vhost = Annotated[str, typer.Option("--vhost", "-v", help="The virtual host.")]
NO_ADMINISTRATOR = {"last-administrator": "true"}
"""In the query of a call: it is meant that nobody is an administrator afterwards."""
DEFAULT_VHOST = "/"
Arguments = Annotated[
    list[str] | None,
    typer.Option(
        "--argument",
        metavar="NAME=VALUE",
        help="An argument, as x-max-length=10; may be repeated. A value that is JSON is one.",
    ),
]
DEFAULT_EXCHANGE = "amq.default"
"""What paths call the exchange without a name."""


class Listing(TyperGroup):
    """A family whose `ls` is what it does if no command is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `ls` before options, or where nothing stands."""
        is_named = bool(args) and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
        if not is_named and not ctx.resilient_parsing:  # who completes wants all commands
            args = ["ls", *args]
        return super().parse_args(ctx, args)


def family(help_text: str) -> typer.Typer:
    """Return a family of commands that lists by default."""
    return typer.Typer(cls=Listing, help=f"{help_text} Without a command it lists them.")


def arguments(given: list[str] | None, what: str = "argument") -> dict[str, Any]:
    """Read `NAME=VALUE`; a value that is JSON is one, each other is a text.

    Raises:
        SettingsError: One has no name or no equals sign.
    """
    found: dict[str, Any] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise SettingsError(f"{what} {text!r}: expected NAME=VALUE")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def shown_name(name: str) -> str:
    """Return the name of an exchange for people; one has none."""
    return name or "(default)"


def flags(row: Mapping[str, Any]) -> str:
    """Return what an exchange or queue is, in words, most of them absent."""
    names = {"durable": "durable", "auto_delete": "auto-delete", "exclusive": "exclusive"}
    return " ".join(text for name, text in names.items() if row.get(name) is True)


def json_text(value: Any) -> str:
    """Return arguments or a definition for people: as JSON, nothing for none."""
    return json.dumps(value, ensure_ascii=False) if value else ""


def count(value: Any) -> int | None:
    """Return a figure; None while the broker has not counted yet."""
    return value if isinstance(value, int) else None


def number_of(what: str, number: int) -> str:
    """Return how many there are of something, whose name is given in the plural."""
    if number != 1:
        return f"{number:,} {what}"
    singular = what[:-3] + "y" if what.endswith("ies") else what[:-1]
    return f"1 {singular}"


def figure(value: int | None) -> str:
    """Return a figure for people."""
    return "–" if value is None else f"{value:,}"
