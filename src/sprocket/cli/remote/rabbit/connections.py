"""`sprocket rabbit connections`: who is connected, and how to part from them."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import SettingsError
from sprocket.cli.options import Yes
from sprocket.cli.remote.rabbit.broker import RabbitRemote
from sprocket.cli.remote.rabbit.failures import NoSuchResource, no_such
from sprocket.cli.remote.rabbit.queues import vhosts_named
from sprocket.cli.remote.rabbit.shared import AnyVhost, family
from sprocket.cli.remote.wire import over_the_wire
from sprocket.cli.terminal import CommandAnswer, answer, output

if TYPE_CHECKING:
    from sprocket.cli.remote.rabbit.management import Management

app = family("Connections of AMQP's clients to a running broker.")


@app.command("ls")
@over_the_wire
def list_connections(remote: RabbitRemote, vhost: AnyVhost = None) -> CommandAnswer:
    """List the connections. RabbitMQ knows of one a few seconds after it was opened."""
    api = remote.api()
    if vhost is not None:
        vhosts_named(api, vhost)
    rows = [
        row for row in map(connection_row, api.rows("connections")) if vhost in (None, row["vhost"])
    ]
    return answer.table(rows, spare=("tls", "client", "client_name"))


@app.command("close")
@over_the_wire
def close_connections(
    remote: RabbitRemote,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Names, as `ls` has them.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="All of this user instead.")] = None,
    vhost: Annotated[
        str | None, typer.Option("--vhost", "-v", help="All in this virtual host instead.")
    ] = None,
    reason: Annotated[str, typer.Option(help="What clients are told.")] = "closed by an operator",
    yes: Yes = False,
) -> CommandAnswer:
    """Close connections; what their consumers had and did not acknowledge goes to others.

    With --user and --vhost those that are both. It asks before it closes more than one.
    """
    if bool(names) == (user is not None or vhost is not None):
        raise SettingsError("which connections? Give their names, or --user or --vhost or both")
    api = remote.api()
    found = _named(api, names) if names else _chosen(api, user, vhost)
    closed = len(found) <= 1 or yes or output.confirmed(f"Close {len(found)} connections?")
    for name in found if closed else ():
        with suppress(NoSuchResource):  # it has gone by itself meanwhile
            api.delete("connections", name, why=reason)
    rows = [{"connection": name, "closed": closed} for name in found]
    done = "closed" if closed else "kept"
    if len(found) == 1:
        return answer.sentence(rows, f"connection {found[0]} is {done}")
    return answer.sentence(rows, f"{len(found)} connections are {done}")


def _named(api: "Management", names: list[str]) -> list[str]:
    for name in names:
        try:
            api.row("connections", name)
        except NoSuchResource:
            raise no_such("connection", name, api.rows("connections")) from None
    return list(dict.fromkeys(names))


def _chosen(api: "Management", user: str | None, vhost: str | None) -> list[str]:
    if vhost is not None:
        vhosts_named(api, vhost)
    return [
        row["connection"]
        for row in map(connection_row, api.rows("connections"))
        if user in (None, row["user"]) and vhost in (None, row["vhost"])
    ]


def connection_row(found: dict[str, Any]) -> dict[str, Any]:
    """Return what commands say of a connection, nothing (None) where it is half open."""
    client = found.get("client_properties") or {}
    product, version = client.get("product"), client.get("version")
    return {
        "connection": found["name"],
        "user": found.get("user"),
        "vhost": found.get("vhost"),
        "state": found.get("state"),
        "channels": found.get("channels"),
        "tls": bool(found.get("ssl")),
        "claimed_by": found.get("peer_claimed_by"),
        "client_name": found.get("user_provided_name") or client.get("connection_name"),
        "client": " ".join(str(one) for one in (product, version) if one) or None,
    }
