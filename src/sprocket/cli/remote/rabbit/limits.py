"""`sprocket rabbit limits`: how many connections, channels and queues there may be."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import SettingsError
from sprocket.base.nearest import hint
from sprocket.cli.remote.rabbit.broker import RabbitRemote
from sprocket.cli.remote.rabbit.queues import vhosts_named
from sprocket.cli.remote.rabbit.shared import family
from sprocket.cli.remote.rabbit.users import user_of
from sprocket.cli.remote.wire import over_the_wire
from sprocket.cli.terminal import CommandAnswer, answer

if TYPE_CHECKING:
    from sprocket.cli.remote.rabbit.management import Management

app = family("Limits of virtual hosts and users of a running broker.")

LIMITS: Mapping[str, tuple[str, ...]] = {
    "vhost": ("max-connections", "max-queues"),
    "user": ("max-connections", "max-channels"),
}
"""What can be limited, by whose it is."""

LimitName = Annotated[
    str, typer.Argument(metavar="LIMIT", help="max-connections, max-queues or max-channels.")
]
OfVhost = Annotated[str | None, typer.Option("--vhost", "-v", help="Of this virtual host.")]
OfUser = Annotated[str | None, typer.Option("--user", help="Of this user.")]


@app.command("ls")
@over_the_wire
def list_limits(remote: RabbitRemote, vhost: OfVhost = None, user: OfUser = None) -> CommandAnswer:
    """List the limits that were set: all, or those of a virtual host or a user."""
    api = remote.api()
    wanted = {"vhost": vhost, "user": user}
    if vhost is not None:
        vhosts_named(api, vhost)
    if user is not None:
        user_of(api, user)
    rows = [
        row
        for kind, name in wanted.items()
        if name is not None or not any(wanted.values())
        for row in _limits(api, kind)
        if name in (None, row["name"])
    ]
    return answer.table(rows)


@app.command("set")
@over_the_wire
def set_limit(
    remote: RabbitRemote,
    limit: LimitName,
    value: Annotated[int, typer.Argument(help="The most there may be; below 0 is any number.")],
    vhost: OfVhost = None,
    user: OfUser = None,
) -> CommandAnswer:
    """Set a limit of a virtual host or of a user; what is there already stays."""
    api = remote.api()
    kind, name = _whose(api, limit, vhost, user)
    api.put(f"{kind}-limits", name, limit, body={"value": value})
    row = {"kind": kind, "name": name, "limit": limit, "value": value}
    return answer.sentence([row], f"{limit} of {_WORDS[kind]} {name} is {value:,}")


@app.command("clear")
@over_the_wire
def clear_limit(
    remote: RabbitRemote, limit: LimitName, vhost: OfVhost = None, user: OfUser = None
) -> CommandAnswer:
    """Take a limit of a virtual host or of a user away, if there is one."""
    api = remote.api()
    kind, name = _whose(api, limit, vhost, user)
    api.delete(f"{kind}-limits", name, limit)
    row = {"kind": kind, "name": name, "limit": limit, "value": None}
    return answer.sentence([row], f"{limit} of {_WORDS[kind]} {name} is not limited")


_WORDS = {"vhost": "virtual host", "user": "user"}


def _whose(api: "Management", limit: str, vhost: str | None, user: str | None) -> tuple[str, str]:
    """Return whose limit is meant. Raises SettingsError, NoSuchResource."""
    if (vhost is None) == (user is None):
        raise SettingsError("whose limit? Give either --vhost or --user")
    kind, name = ("user", user) if vhost is None else ("vhost", vhost)
    assert name is not None, "one of them was given"
    if limit not in LIMITS[kind]:
        there = f"{' or '.join(LIMITS[kind])}{hint(limit, LIMITS[kind])}"
        raise SettingsError(f"{limit!r} is not a limit of a {_WORDS[kind]}: expected {there}")
    if kind == "vhost":
        vhosts_named(api, name)
    else:
        user_of(api, name)
    return kind, name


def _limits(api: "Management", kind: str) -> Iterator[dict[str, Any]]:
    """Give the limits of all virtual hosts or users, one at a time."""
    for found in api.rows(f"{kind}-limits"):
        values = found["value"] or {}  # RabbitMQ keeps an entry, an empty list, of what was cleared
        for limit, value in sorted(dict(values).items()):
            yield {"kind": kind, "name": found[kind], "limit": limit, "value": value}
