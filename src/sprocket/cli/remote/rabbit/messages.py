"""`sprocket rabbit publish` and `get`: send messages, and look at what waits in a queue."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import ClientError, SettingsError
from sprocket.base.nearest import hint
from sprocket.cli.options import AsJson
from sprocket.cli.remote.produce import LINE, Given
from sprocket.cli.remote.rabbit.broker import RabbitRemote
from sprocket.cli.remote.rabbit.exchanges import exchange_of
from sprocket.cli.remote.rabbit.failures import ForeignAnswer
from sprocket.cli.remote.rabbit.queues import queue_of
from sprocket.cli.remote.rabbit.shared import (
    DEFAULT_EXCHANGE,
    DEFAULT_VHOST,
    Vhost,
    arguments,
    json_text,
    shown_name,
)
from sprocket.cli.remote.wire import over_the_wire
from sprocket.cli.terminal import output

if TYPE_CHECKING:
    from sprocket.cli.remote.rabbit.management import Management

TEXTS = (
    *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration"),
    *("message_id", "type", "user_id", "app_id", "cluster_id"),
)
NUMBERS = ("priority", "timestamp", "delivery_mode")
PERSISTENT, TRANSIENT = 2, 1
BODY_LETTERS_SHOWN = 200
"""Of a body, for people; scripts get it whole."""
TAKEN_AT_A_TIME = 100
"""Messages that one answer takes out of the broker: little is on the way at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyOptions:
    """What each message has besides its body."""

    prop: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            metavar="NAME=VALUE",
            help="A property of AMQP, as content_type=text/plain; may be repeated.",
        ),
    ] = None
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A header; may be repeated. A value that is JSON is one.",
        ),
    ] = None
    transient: Annotated[bool, typer.Option("--transient", help="Lost at a restart.")] = False

    def made(self) -> dict[str, Any]:
        """Return them as the API takes them.

        Raises:
            SettingsError: One is not a property, or no number where there must be one.
        """
        found: dict[str, Any] = {"delivery_mode": TRANSIENT if self.transient else PERSISTENT}
        for name, value in output.pairs(self.prop or [], "property").items():
            if name in NUMBERS:
                if not value.isdecimal():
                    raise SettingsError(f"property {name}={value!r}: expected a whole number")
                found[name] = int(value)
            elif name in TEXTS:
                found[name] = value
            else:
                known = (*TEXTS, *NUMBERS)
                more = hint(name, known) or f"; there is {', '.join(known)}"
                raise SettingsError(f"there is no property {name!r}{more}")
        headers = arguments(self.header, "header")
        return found | ({"headers": headers} if headers else {})


@over_the_wire
def publish(
    remote: RabbitRemote,
    key: Annotated[
        str, typer.Argument(help="The routing key; without --exchange the name of a queue.")
    ],
    exchange: Annotated[str, typer.Option("--exchange", "-e", help="Where it goes in.")] = "",
    vhost: Vhost = DEFAULT_VHOST,
    as_json: AsJson = False,
    *,
    given: Given,
    properties: PropertyOptions,
) -> None:
    """Publish messages: one from the argument, one from a file, or each line of stdin.

    Persistent by default. A message that no queue took ends the command with exit code 1, and
    nothing after it is read.
    """
    made = properties.made()
    given.check()
    api = remote.api()
    if exchange:
        exchange_of(api, exchange, vhost)
    else:
        queue_of(api, key, vhost)
    path = ("exchanges", vhost, exchange or DEFAULT_EXCHANGE, "publish")
    sent = 0
    failure = ""
    for what, data in given.bodies():
        body = {
            "properties": made,
            "routing_key": key,
            "payload": base64.b64encode(data).decode(),
            "payload_encoding": "base64",
        }
        try:
            answer = api.post(*path, body=body)
        except ClientError as error:
            failure = f"{what}: {error}"
        else:
            if not isinstance(answer, dict) or answer.get("routed") is not True:
                failure = f"{what}: no queue took it"
        if failure:
            failure += "; nothing behind it was read" if what.startswith(LINE) else ""
            break
        sent += 1
        if as_json:
            output.write_json(
                {
                    "vhost": vhost,
                    "exchange": exchange,
                    "routing_key": key,
                    "body_len": len(data),
                    "routed": True,
                }
            )
    where = f"{shown_name(exchange)} with key {key!r}" if exchange else f"queue {key}"
    blank = f"; {given.blank_count:,} blank lines left out" if given.blank_count else ""
    if failure:
        output.say(f"{sent:,} published to {where}, then {failure}")
        raise typer.Exit(1)
    if not as_json or given.blank_count:
        output.say(f"{sent:,} published to {where}{blank}")


@over_the_wire
def get(
    remote: RabbitRemote,
    name: Annotated[str, typer.Argument(help="Name of the queue.")],
    count: Annotated[int, typer.Option(min=1, help="Most messages.")] = 1,
    ack: Annotated[
        bool, typer.Option("--ack", help="Take them out of the queue; else they are put back.")
    ] = False,
    vhost: Vhost = DEFAULT_VHOST,
    as_json: AsJson = False,
) -> None:
    """Show the first messages of a queue, and put them back where they were.

    Those that were put back are marked as redelivered. With --ack they are taken out of the queue.
    """
    api = remote.api()
    queue_of(api, name, vhost)
    shown = 0
    for found in fetched(api, name, vhost, count, ack=ack):
        row = message_row(found)
        if as_json:
            output.write_json(row)
        else:
            output.write_line(line_of(row))
        shown += 1
    if not shown:
        output.say(f"queue {name} has nothing that is ready")


def fetched(
    api: "Management", queue: str, vhost: str, count: int, *, ack: bool
) -> Iterator[dict[str, Any]]:
    """Give the first messages of a queue.

    Those that are taken out come in small answers, and each is given before the next is asked for,
    since the broker does not have it any more. Those that are put back come in one answer: the next
    request would give the same again.

    Raises:
        ClientError: See `Management.request`.
    """
    mode = "ack_requeue_false" if ack else "ack_requeue_true"
    given = 0
    while given < count:
        wanted = min(count - given, TAKEN_AT_A_TIME) if ack else count
        body = {"count": wanted, "ackmode": mode, "encoding": "base64"}
        some = api.post("queues", vhost, queue, "get", body=body)
        if not isinstance(some, list) or not all(isinstance(one, dict) for one in some):
            raise ForeignAnswer(f"{api.address} answered with no list of messages")
        yield from some
        given += len(some)
        if not ack or len(some) < wanted:
            break


def message_row(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what commands say of a message, under the names of `rabbit-store dump`.

    Raises:
        ForeignAnswer: Its body is not what it says it is.
    """
    payload = found.get("payload", "")
    try:
        is_base64 = found.get("payload_encoding") == "base64"
        body = base64.b64decode(payload, validate=True) if is_base64 else payload.encode()
    except (binascii.Error, AttributeError):
        raise ForeignAnswer("the body of a message is not in base64") from None
    row = {
        "exchange": found["exchange"],
        "routing_key": found["routing_key"],
        "redelivered": found["redelivered"],
        "body_len": len(body),
        "body_sha256": sha256(body).hexdigest(),
        "properties": found.get("properties") or {},  # an empty list if there are none
    }
    try:
        return row | {"body": body.decode()}
    except UnicodeDecodeError:
        return row | {"body_base64": base64.b64encode(body).decode()}


def line_of(row: Mapping[str, Any]) -> str:
    """Return a message for people: where it was published, its properties, its body."""
    again = " redelivered" if row["redelivered"] else ""
    body = row.get("body", f"{row['body_len']:,} bytes, base64 {row.get('body_base64', '')}")
    more = "…" if len(body) > BODY_LETTERS_SHOWN else ""
    place = f"{shown_name(row['exchange'])} {row['routing_key']}"
    properties = json_text(row["properties"])
    return f"{place}{again} {properties} {body[:BODY_LETTERS_SHOWN]}{more}"
