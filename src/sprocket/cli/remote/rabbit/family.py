"""The commands of `sprocket rabbit`, put together."""

import typer

from sprocket.cli.remote.rabbit import (
    connections,
    definitions,
    exchanges,
    limits,
    messages,
    policies,
    queues,
    users,
)

app = typer.Typer(
    no_args_is_help=True,
    help="What a running RabbitMQ or Sprocket has for AMQP's clients, by its HTTP API.",
)
app.add_typer(queues.app, name="queues")
app.add_typer(exchanges.exchanges, name="exchanges")
app.add_typer(exchanges.bindings, name="bindings")
app.command("publish")(messages.publish)
app.command("get")(messages.get)
app.command("purge")(queues.purge)
app.add_typer(users.users, name="users")
app.add_typer(users.permissions, name="permissions")
app.add_typer(users.vhosts, name="vhosts")
app.add_typer(policies.app, name="policies")
app.add_typer(limits.app, name="limits")
app.add_typer(connections.app, name="connections")
app.add_typer(definitions.app, name="definitions")
