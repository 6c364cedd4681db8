"""`sprocket rabbit connections`: who is connected, and how to part from them."""

from typing import Annotated, Any

import typer

from sprocket.cli.remote.rabbit.broker import RabbitRemote
from sprocket.cli.remote.rabbit.failures import NoSuchResource, no_such
from sprocket.cli.remote.rabbit.queues import vhosts_named
from sprocket.cli.remote.rabbit.shared import AnyVhost, family
from sprocket.cli.remote.wire import over_the_wire
from sprocket.cli.terminal import CommandAnswer, answer

app = family("Connections of AMQP's clients to a running broker.")


@app.command("ls")
@over_the_wire
def list_connections(remote: RabbitRemote, vhost: AnyVhost = None) -> CommandAnswer:
    """List the connections. RabbitMQ knows of one some seconds after it was opened."""
    api = remote.api()
    if vhost is not None:
        vhosts_named(api, vhost)
    rows = [
        row for row in map(connection_row, api.rows("connections")) if vhost in (None, row["vhost"])
    ]
    return answer.table(rows, spare=("tls", "client", "client_name"))


@app.command("close")
@over_the_wire
def close_connection(
    remote: RabbitRemote,
    name: Annotated[str, typer.Argument(help="Its name, as `ls` has it.")],
    reason: Annotated[str, typer.Option(help="What its client is told.")] = "closed by an operator",
) -> CommandAnswer:
    """Close a connection; what its consumers had and did not acknowledge goes to others."""
    api = remote.api()
    try:
        api.row("connections", name)
    except NoSuchResource:
        raise no_such("connection", name, api.rows("connections")) from None
    api.delete("connections", name, why=reason)
    return answer.sentence([{"connection": name, "closed": True}], f"connection {name} is closed")


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
