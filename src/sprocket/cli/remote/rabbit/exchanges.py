"""`sprocket rabbit exchanges` and `bindings`: where messages go in, and on to which queues."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import SettingsError
from sprocket.cli.options import WithInternal, Yes
from sprocket.cli.remote.rabbit.broker import RabbitRemote
from sprocket.cli.remote.rabbit.failures import NOT_FOUND, NoSuchResource, no_such
from sprocket.cli.remote.rabbit.queues import listed, queue_of, vhosts_named
from sprocket.cli.remote.rabbit.shared import (
    DEFAULT_EXCHANGE,
    DEFAULT_VHOST,
    AnyVhost,
    Arguments,
    Vhost,
    arguments,
    family,
    flags,
    json_text,
    shown_name,
)
from sprocket.cli.remote.wire import over_the_wire
from sprocket.cli.terminal import CommandAnswer, answer, output

if TYPE_CHECKING:
    from sprocket.cli.remote.rabbit.management import Management

exchanges = family("Exchanges of a running broker.")
bindings = family("Bindings of a running broker: from an exchange to a queue or an exchange.")

ExchangeName = Annotated[str, typer.Argument(help="Name of the exchange.")]
Source = Annotated[str, typer.Argument(help="The exchange that messages come from.")]
Destination = Annotated[str, typer.Argument(help="The queue that they go to, or the exchange.")]
ToExchange = Annotated[bool, typer.Option("--to-exchange", help="The destination is an exchange.")]
PRE_DECLARED = "amq."
"""Begins the names of exchanges that every virtual host has."""


@exchanges.command("ls")
@over_the_wire
def list_exchanges(
    remote: RabbitRemote, vhost: AnyVhost = None, with_internal: WithInternal = False
) -> CommandAnswer:
    """List the exchanges; those that every virtual host has only with --all."""
    rows = [
        exchange_row(one)
        for one in listed(remote.api(), "exchanges", vhost)
        if with_internal or not (one["name"] == "" or one["name"].startswith(PRE_DECLARED))
    ]
    shown = [
        {
            "vhost": row["vhost"],
            "exchange": shown_name(row["exchange"]),
            "type": row["type"],
            "features": flags(row) + (" internal" if row["internal"] else ""),
            "policy": row["policy"] or "",
            "arguments": json_text(row["arguments"]),
        }
        for row in rows
    ]
    return replace(answer.table(shown, spare=("arguments", "policy")), values=rows)


@exchanges.command("create")
@over_the_wire
def create_exchange(
    remote: RabbitRemote,
    name: ExchangeName,
    kind: Annotated[
        str, typer.Option("--type", help="direct, fanout, topic, headers, or a plugin's.")
    ] = "direct",
    vhost: Vhost = DEFAULT_VHOST,
    transient: Annotated[bool, typer.Option("--transient", help="Gone at a restart.")] = False,
    auto_delete: Annotated[
        bool, typer.Option("--auto-delete", help="Deleted with its last binding.")
    ] = False,
    internal: Annotated[
        bool, typer.Option("--internal", help="Nobody publishes to it; exchanges are bound to it.")
    ] = False,
    argument: Arguments = None,
) -> CommandAnswer:
    """Create an exchange, durable by default; one that exists must be the same."""
    api = remote.api()
    body = {
        "type": kind,
        "durable": not transient,
        "auto_delete": auto_delete,
        "internal": internal,
        "arguments": arguments(argument),
    }
    api.put("exchanges", vhost, name, body=body)
    row = exchange_row(api.row("exchanges", vhost, name))
    return answer.sentence([row], f"exchange {name} is in {vhost}, of type {row['type']}")


@exchanges.command("delete")
@over_the_wire
def delete_exchange(
    remote: RabbitRemote,
    name: ExchangeName,
    vhost: Vhost = DEFAULT_VHOST,
    if_unused: Annotated[bool, typer.Option("--if-unused", help="Only without bindings.")] = False,
    yes: Yes = False,
) -> CommandAnswer:
    """Delete an exchange and its bindings."""
    api = remote.api()
    exchange_of(api, name, vhost)
    deleted = yes or output.confirmed(f"Delete exchange {name} of {vhost} with its bindings?")
    if deleted:
        api.delete("exchanges", vhost, name, query={"if-unused": "true"} if if_unused else {})
    done = "deleted" if deleted else "kept"
    row = {"vhost": vhost, "exchange": name, "deleted": deleted}
    return answer.sentence([row], f"exchange {name} is {done}")


@bindings.command("ls")
@over_the_wire
def list_bindings(
    remote: RabbitRemote,
    vhost: AnyVhost = None,
    queue: Annotated[str | None, typer.Option(help="Only those to this queue.")] = None,
    exchange: Annotated[str | None, typer.Option(help="Only those from this exchange.")] = None,
    with_internal: WithInternal = False,
) -> CommandAnswer:
    """List the bindings; those of the default exchange to every queue only with --all."""
    api = remote.api()
    where = vhost or DEFAULT_VHOST
    if queue is not None:
        queue_of(api, queue, where)
    if exchange is not None:
        exchange_of(api, exchange, where)
    named = vhost is not None or queue is not None or exchange is not None
    rows = [
        row
        for row in map(binding_row, listed(api, "bindings", where if named else None))
        if (with_internal or row["source"])
        and (queue is None or (row["to"], row["destination"]) == ("queue", queue))
        and exchange in (None, row["source"])
    ]
    shown = [
        {
            "vhost": row["vhost"],
            "source": shown_name(row["source"]),
            "routing_key": row["routing_key"],
            "to": row["to"],
            "destination": row["destination"],
            "arguments": json_text(row["arguments"]),
        }
        for row in rows
    ]
    return replace(answer.table(shown, spare=("arguments",)), values=rows)


@bindings.command("create")
@over_the_wire
def create_binding(
    remote: RabbitRemote,
    source: Source,
    destination: Destination,
    key: Annotated[str, typer.Option("--key", "-k", help="The routing key.")] = "",
    to_exchange: ToExchange = False,
    vhost: Vhost = DEFAULT_VHOST,
    argument: Arguments = None,
) -> CommandAnswer:
    """Bind a queue, or an exchange, to an exchange."""
    api = remote.api()
    _check_ends(api, source, destination, vhost, to_exchange=to_exchange)
    body = {"routing_key": key, "arguments": arguments(argument)}
    api.post("bindings", vhost, "e", source, _letter(to_exchange), destination, body=body)
    row = {
        "vhost": vhost,
        "source": source,
        "routing_key": key,
        "to": "exchange" if to_exchange else "queue",
        "destination": destination,
        "arguments": body["arguments"],
    }
    return answer.sentence([row], f"{destination} gets what {source} has for {key!r}")


@bindings.command("delete")
@over_the_wire
def delete_binding(
    remote: RabbitRemote,
    source: Source,
    destination: Destination,
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="Only with this key; else all between them.")
    ] = None,
    to_exchange: ToExchange = False,
    vhost: Vhost = DEFAULT_VHOST,
) -> CommandAnswer:
    """Delete the bindings between an exchange and a queue, or another exchange."""
    api = remote.api()
    _check_ends(api, source, destination, vhost, to_exchange=to_exchange)
    path = ("bindings", vhost, "e", source, _letter(to_exchange), destination)
    between = [one for one in api.rows(*path) if key in (None, one["routing_key"])]
    if not between:
        which = "" if key is None else f" with key {key!r}"
        raise NoSuchResource(
            NOT_FOUND, f"{source} has no binding to {destination}{which} in {vhost}"
        )
    rows = []
    for one in between:
        api.delete(*path, one["properties_key"])
        rows.append({**binding_row(one), "deleted": True})
    number = "1 binding" if len(rows) == 1 else f"{len(rows)} bindings"
    return answer.sentence(rows, f"{number} from {source} to {destination} deleted")


def exchange_of(api: "Management", name: str, vhost: str) -> dict[str, Any]:
    """Return what the broker says of an exchange.

    Raises:
        NoSuchResource: There is none of that name; the text suggests the nearest.
    """
    try:
        return api.row("exchanges", vhost, name or DEFAULT_EXCHANGE)
    except NoSuchResource:
        there = vhosts_named(api, vhost)
        raise no_such("exchange", name, api.rows("exchanges", there), vhost) from None


def exchange_row(found: dict[str, Any]) -> dict[str, Any]:
    """Return what commands say of an exchange."""
    return {
        "vhost": found["vhost"],
        "exchange": found["name"],
        "type": found["type"],
        "durable": bool(found.get("durable")),
        "auto_delete": bool(found.get("auto_delete")),
        "internal": bool(found.get("internal")),
        "policy": found.get("policy"),
        "arguments": found.get("arguments") or {},
    }


def binding_row(found: dict[str, Any]) -> dict[str, Any]:
    """Return what commands say of a binding."""
    return {
        "vhost": found["vhost"],
        "source": found["source"],
        "routing_key": found["routing_key"],
        "to": found["destination_type"],
        "destination": found["destination"],
        "arguments": found.get("arguments") or {},
    }


def _check_ends(
    api: "Management", source: str, destination: str, vhost: str, *, to_exchange: bool
) -> None:
    """Raise if one end of a binding is not there; nobody binds to the default exchange."""
    if not source:
        raise SettingsError("every queue is bound to the default exchange by its name already")
    exchange_of(api, source, vhost)
    (exchange_of if to_exchange else queue_of)(api, destination, vhost)


def _letter(to_exchange: bool) -> str:
    """Return what paths call the kind of a binding's destination."""
    return "e" if to_exchange else "q"
