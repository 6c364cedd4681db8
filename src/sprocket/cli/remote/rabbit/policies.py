"""`sprocket rabbit policies`: settings of queues and exchanges whose names match a pattern."""

import json
from dataclasses import replace
from typing import Annotated, Any

import typer

from sprocket.base.errors import SettingsError
from sprocket.cli.remote.rabbit.broker import RabbitRemote
from sprocket.cli.remote.rabbit.failures import NoSuchResource, no_such
from sprocket.cli.remote.rabbit.queues import listed, vhosts_named
from sprocket.cli.remote.rabbit.shared import DEFAULT_VHOST, AnyVhost, Vhost, family, json_text
from sprocket.cli.remote.wire import over_the_wire
from sprocket.cli.terminal import CommandAnswer, answer

app = family("Policies of a running broker: settings of queues and exchanges, by their names.")

PolicyName = Annotated[str, typer.Argument(help="Name of the policy.")]


@app.command("ls")
@over_the_wire
def list_policies(remote: RabbitRemote, vhost: AnyVhost = None) -> CommandAnswer:
    """List the policies. Of those that match a name the one with the highest priority counts."""
    rows = [policy_row(one) for one in listed(remote.api(), "policies", vhost)]
    shown = [{**row, "definition": json_text(row["definition"])} for row in rows]
    return replace(answer.table(shown), values=rows)


@app.command("set")
@over_the_wire
def set_policy(
    remote: RabbitRemote,
    name: PolicyName,
    pattern: Annotated[str, typer.Argument(help="Regular expression for names of queues.")],
    definition: Annotated[
        str, typer.Argument(help="What it sets, as JSON: '{\"max-length\": 10000}'.")
    ],
    vhost: Vhost = DEFAULT_VHOST,
    priority: Annotated[int, typer.Option(help="The highest that matches counts.")] = 0,
    apply_to: Annotated[str, typer.Option(help="queues, exchanges or all.")] = "all",
) -> CommandAnswer:
    """Create a policy or replace it; queues that exist follow at once."""
    try:
        what = json.loads(definition)
    except ValueError:
        what = None
    if not isinstance(what, dict):
        raise SettingsError(f'{definition!r} is not a JSON object such as {{"max-length": 10000}}')
    api = remote.api()
    vhosts_named(api, vhost)
    body = {
        "pattern": pattern,
        "definition": what,
        "priority": priority,
        "apply-to": apply_to,
    }
    api.put("policies", vhost, name, body=body)
    row = policy_row(api.row("policies", vhost, name))
    return answer.sentence([row], f"policy {name} applies to names that match {pattern!r}")


@app.command("delete")
@over_the_wire
def delete_policy(
    remote: RabbitRemote, name: PolicyName, vhost: Vhost = DEFAULT_VHOST
) -> CommandAnswer:
    """Delete a policy; what it had set is as it was without."""
    api = remote.api()
    try:
        api.row("policies", vhost, name)
    except NoSuchResource:
        there = vhosts_named(api, vhost)
        raise no_such("policy", name, api.rows("policies", there), vhost) from None
    api.delete("policies", vhost, name)
    row = {"vhost": vhost, "policy": name, "deleted": True}
    return answer.sentence([row], f"policy {name} is deleted")


def policy_row(found: dict[str, Any]) -> dict[str, Any]:
    """Return what commands say of a policy."""
    return {
        "vhost": found["vhost"],
        "policy": found["name"],
        "pattern": found["pattern"],
        "apply_to": found["apply-to"],
        "priority": found["priority"],
        "definition": found["definition"],
    }
