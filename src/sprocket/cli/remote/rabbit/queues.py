"""`sprocket rabbit queues`: list, show, create and delete queues; `purge` empties one."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.cli.options import Yes
from sprocket.cli.remote.rabbit.broker import RabbitRemote
from sprocket.cli.remote.rabbit.failures import NoSuchResource, no_such
from sprocket.cli.remote.rabbit.shared import (
    DEFAULT_VHOST,
    AnyVhost,
    Arguments,
    Vhost,
    arguments,
    count,
    family,
    figure,
    flags,
    json_text,
    shown_name,
)
from sprocket.cli.remote.wire import over_the_wire
from sprocket.cli.terminal import CommandAnswer, answer, output, tables

if TYPE_CHECKING:
    from sprocket.cli.remote.rabbit.management import Management

app = family("Queues of a running broker.")

QueueName = Annotated[str, typer.Argument(help="Name of the queue.")]


@app.command("ls")
@over_the_wire
def list_queues(remote: RabbitRemote, vhost: AnyVhost = None) -> CommandAnswer:
    """List the queues: what waits in them, and who consumes."""
    rows = [queue_row(one) for one in listed(remote.api(), "queues", vhost)]
    shown = [
        {
            "vhost": row["vhost"],
            "queue": row["queue"],
            "ready": figure(row["ready"]),
            "unacked": figure(row["unacked"]),
            "consumers": figure(row["consumers"]),
            "type": row["type"],
            "features": flags(row),
            "policy": row["policy"] or "",
        }
        for row in rows
    ]
    return replace(answer.table(shown, spare=("type", "features", "policy")), values=rows)


@app.command("show")
@over_the_wire
def show_queue(
    remote: RabbitRemote, name: QueueName, vhost: Vhost = DEFAULT_VHOST
) -> CommandAnswer:
    """Show a queue, what is bound to it, and who consumes from it."""
    api = remote.api()
    found = queue_of(api, name, vhost)
    row = queue_row(found)
    bound = [
        {"exchange": one["source"], "routing_key": one["routing_key"]}
        for one in api.rows("queues", vhost, name, "bindings")
    ]
    consumers = [
        {
            "consumer_tag": one.get("consumer_tag"),
            "channel": _channel(one),
            "prefetch": one.get("prefetch_count"),
            "ack_required": one.get("ack_required"),
        }
        for one in found.get("consumer_details") or []
    ]

    def show() -> None:
        figures = {
            name: figure(value) if name in FIGURES else value
            for name, value in row.items()
            if name not in ("vhost", "queue", "arguments")
        }
        tables.write_fields(
            f"queue {row['queue']} in {row['vhost']}",
            {
                **figures,
                "policy": row["policy"] or "–",
                "state": row["state"] or "–",
                "arguments": json_text(row["arguments"]) or "–",
            },
        )
        if bound:
            tables.write_table(
                "bindings",
                [{**one, "exchange": shown_name(one["exchange"])} for one in bound],
            )
        if consumers:
            tables.write_table("consumers", consumers)

    return CommandAnswer([{**row, "bindings": bound, "consumer_details": consumers}], show)


@app.command("create")
@over_the_wire
def create_queue(
    remote: RabbitRemote,
    name: QueueName,
    vhost: Vhost = DEFAULT_VHOST,
    kind: Annotated[
        str | None, typer.Option("--type", help="classic, quorum or stream, as far as served.")
    ] = None,
    transient: Annotated[bool, typer.Option("--transient", help="Gone at a restart.")] = False,
    auto_delete: Annotated[
        bool, typer.Option("--auto-delete", help="Deleted with its last consumer.")
    ] = False,
    argument: Arguments = None,
) -> CommandAnswer:
    """Create a queue, durable by default; one that exists must be the same."""
    api = remote.api()
    given = arguments(argument) | ({} if kind is None else {"x-queue-type": kind})
    body = {"durable": not transient, "auto_delete": auto_delete, "arguments": given}
    api.put("queues", vhost, name, body=body)
    row = queue_row(api.row("queues", vhost, name))
    return answer.sentence([row], f"queue {name} is in {vhost}")


@app.command("delete")
@over_the_wire
def delete_queue(
    remote: RabbitRemote,
    name: QueueName,
    vhost: Vhost = DEFAULT_VHOST,
    if_empty: Annotated[bool, typer.Option("--if-empty", help="Only without messages.")] = False,
    if_unused: Annotated[bool, typer.Option("--if-unused", help="Only without consumers.")] = False,
    yes: Yes = False,
) -> CommandAnswer:
    """Delete a queue; its messages are lost."""
    api = remote.api()
    queue_of(api, name, vhost)
    deleted = yes or output.confirmed(f"Delete queue {name} of {vhost} with all its messages?")
    if deleted:
        query = {"if-empty": "true"} if if_empty else {}
        query |= {"if-unused": "true"} if if_unused else {}
        api.delete("queues", vhost, name, query=query)
    done = "deleted" if deleted else "kept"
    row = {"vhost": vhost, "queue": name, "deleted": deleted}
    return answer.sentence([row], f"queue {name} is {done}")


@over_the_wire
def purge(
    remote: RabbitRemote, name: QueueName, vhost: Vhost = DEFAULT_VHOST, yes: Yes = False
) -> CommandAnswer:
    """Drop what is ready in a queue; what consumers have and did not acknowledge stays theirs."""
    api = remote.api()
    queue_of(api, name, vhost)
    purged = yes or output.confirmed(
        f"Drop every message that is ready in queue {name} of {vhost}?"
    )
    if purged:
        api.delete("queues", vhost, name, "contents")
    done = "purged" if purged else "kept as it was"
    row = {"vhost": vhost, "queue": name, "purged": purged}
    return answer.sentence([row], f"queue {name} is {done}")


def queue_of(api: "Management", name: str, vhost: str) -> dict[str, Any]:
    """Return what the broker says of a queue.

    Raises:
        NoSuchResource: There is none of that name; the text suggests the nearest.
    """
    try:
        return api.row("queues", vhost, name)
    except NoSuchResource:
        there = vhosts_named(api, vhost)
        raise no_such("queue", name, api.rows("queues", there), vhost) from None


def vhosts_named(api: "Management", vhost: str) -> str:
    """Return the name of a virtual host that is there.

    Raises:
        NoSuchResource: It is not; the text suggests the nearest.
    """
    try:
        api.row("vhosts", vhost)
    except NoSuchResource:
        raise no_such("virtual host", vhost, api.rows("vhosts")) from None
    return vhost


def listed(api: "Management", what: str, vhost: str | None) -> list[dict[str, Any]]:
    """Return all of a kind, of one virtual host or of all.

    Raises:
        NoSuchResource: There is no such virtual host; the text suggests the nearest.
    """
    try:
        return api.rows(what) if vhost is None else api.rows(what, vhost)
    except NoSuchResource:
        vhosts_named(api, vhost or DEFAULT_VHOST)
        raise


FIGURES = ("messages", "ready", "unacked", "consumers")


def queue_row(found: dict[str, Any]) -> dict[str, Any]:
    """Return what commands say of a queue; a figure is None until the broker has counted."""
    return {
        "vhost": found["vhost"],
        "queue": found["name"],
        "messages": count(found.get("messages")),
        "ready": count(found.get("messages_ready")),
        "unacked": count(found.get("messages_unacknowledged")),
        "consumers": count(found.get("consumers")),
        "type": found.get("type", "classic"),
        "durable": bool(found.get("durable")),
        "auto_delete": bool(found.get("auto_delete")),
        "exclusive": bool(found.get("exclusive")),
        "policy": found.get("policy"),
        "state": found.get("state"),
        "arguments": found.get("arguments") or {},
    }


def _channel(consumer: dict[str, Any]) -> str:
    details = consumer.get("channel_details")
    return str(details.get("name", "")) if isinstance(details, dict) else ""
