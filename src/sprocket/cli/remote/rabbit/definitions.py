"""`sprocket rabbit definitions`: everything but messages, out of a broker and into one."""

import json
import sys
from typing import Annotated, Any

import typer

from sprocket.base.disk import RealDisk, read_file, replace_file
from sprocket.base.errors import SettingsError
from sprocket.cli.options import AsJson
from sprocket.cli.remote.rabbit.broker import RabbitRemote
from sprocket.cli.remote.rabbit.queues import vhosts_named
from sprocket.cli.remote.rabbit.shared import NO_ADMINISTRATOR, number_of
from sprocket.cli.remote.wire import over_the_wire
from sprocket.cli.terminal import CommandAnswer, answer, output

app = typer.Typer(
    no_args_is_help=True,
    help="Users, virtual hosts, permissions, policies, queues, exchanges and bindings, as a file.",
)

STDIO = "-"
OnlyVhost = Annotated[
    str | None, typer.Option("--vhost", "-v", help="Only this virtual host, without users.")
]
COUNTED = (
    *("users", "vhosts", "permissions", "policies"),
    *("queues", "exchanges", "bindings"),
)


@app.command("export")
@over_the_wire
def export_definitions(
    remote: RabbitRemote,
    file: Annotated[str, typer.Argument(help="The file; - is stdout.")] = STDIO,
    vhost: OnlyVhost = None,
    as_json: AsJson = False,
) -> None:
    """Write the definitions as JSON, as `rabbitmqctl export_definitions` does."""
    api = remote.api()
    if vhost is not None:
        vhosts_named(api, vhost)
    found = api.row("definitions", *([] if vhost is None else [vhost]))
    text = json.dumps(found, ensure_ascii=False, indent=2) + "\n"
    if file == STDIO:
        if as_json:
            output.write_json(found)
        else:
            sys.stdout.write(text)
        return
    replace_file(RealDisk(), file, text.encode())
    if as_json:
        output.write_json(counts(found))
    else:
        output.say(f"{file} has {counts_text(found)}")


@app.command("import")
@over_the_wire
def import_definitions(
    remote: RabbitRemote,
    file: Annotated[str, typer.Argument(help="The file; - is stdin.")],
    vhost: OnlyVhost = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Even if nobody is an administrator afterwards.")
    ] = False,
) -> CommandAnswer:
    """Take in definitions that this or a real RabbitMQ exported; nothing is removed."""
    data = sys.stdin.buffer.read() if file == STDIO else read_file(RealDisk(), file)
    try:
        given = json.loads(data)
    except ValueError as error:
        raise SettingsError(f"{file} is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise SettingsError(f"{file} has no definitions: expected an object")
    api = remote.api()
    if vhost is not None:
        vhosts_named(api, vhost)
    path = ["definitions", *([] if vhost is None else [vhost])]
    api.post(*path, body=given, query=NO_ADMINISTRATOR if yes else None)
    return answer.sentence([counts(given)], f"the broker took {counts_text(given)}")


def counts(found: dict[str, Any]) -> dict[str, int]:
    """Return how many there are of each kind."""
    return {name: len(found[name]) for name in COUNTED if isinstance(found.get(name), list)}


def counts_text(found: dict[str, Any]) -> str:
    """Return the same for people."""
    told = counts(found)
    return ", ".join(number_of(name, number) for name, number in told.items()) or "nothing"
