"""`sprocket produce`: send messages from the command line, over the wire."""

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import SettingsError
from sprocket.cli import output
from sprocket.cli.options import DEFAULT_NAMESERVER, AsJson, NameServer, TopicName

if TYPE_CHECKING:
    from sprocket.rocketmq.client import SendResult
    from sprocket.runtime.blocking import ThreadFuture

OUTSTANDING_MAX = 1_000
"""Messages whose answers are waited for at a time, so that memory does not grow with stdin."""


def produce(
    topic: TopicName,
    body: Annotated[
        str | None, typer.Argument(help="The body; without it each line of stdin is one.")
    ] = None,
    file: Annotated[str | None, typer.Option(help="Send the content of this file.")] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="A key to find it by; may be repeated.")
    ] = None,
    tag: Annotated[str, typer.Option(help="Its tag.")] = "",
    prop: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="A property; may be repeated."),
    ] = None,
    delay: Annotated[
        int, typer.Option(min=0, help="Delay level: 1 is 1 s, 2 is 5 s, 18 is 2 h; 0 is at once.")
    ] = 0,
    sharding_key: Annotated[
        str | None, typer.Option(help="Messages with one such key stay in one queue, in order.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Send each so often.")] = 1,
    timeout_ms: Annotated[
        int, typer.Option(min=1, help="Give up on a message that nobody has stored by then.")
    ] = 10_000,
    nameserver: NameServer = DEFAULT_NAMESERVER,
    as_json: AsJson = False,
) -> None:
    """Send messages to a topic: one from the argument, one from a file, or each line of stdin."""
    from sprocket.rocketmq.client import Message, ProducerSettings
    from sprocket.rocketmq.client.blocking import Producer

    with output.failing_in_one_line():
        properties = output.pairs(prop or [], "property")
        if body is not None and file is not None:
            raise SettingsError("a body and a --file were given: send one of them")

        def messages() -> Iterator[Message]:
            for data in _bodies(body, file):
                for _ in range(count):
                    yield Message(
                        topic,
                        data,
                        tag=tag,
                        keys=key or (),
                        properties=dict(properties),
                        delay_level=delay,
                    )

        patience = ProducerSettings(timeout_ms=timeout_ms)
        with Producer(nameserver, group="sprocket-cli", settings=patience) as producer:
            answers: list[ThreadFuture[SendResult]] = []
            sent = 0
            for message in messages():
                answers.append(producer.send_soon(message, sharding_key=sharding_key))
                if len(answers) == OUTSTANDING_MAX:
                    sent += _show(topic, answers, as_json=as_json)
                    answers = []
            sent += _show(topic, answers, as_json=as_json)
        if not as_json:
            output.say(f"{sent:,} sent to {topic}")


def _show(topic: str, answers: "Sequence[ThreadFuture[SendResult]]", *, as_json: bool) -> int:
    """Wait for the answers and write a line for each; return how many there are."""
    for answer in answers:
        row = sent_row(answer.result())
        if as_json:
            output.write_json(row)
        else:
            output.write_line(
                f"{topic} queue {row['queue_id']} offset {row['queue_offset']} "
                f"id {row['message_id']}"
            )
    return len(answers)


def sent_row(result: "SendResult") -> dict[str, Any]:
    """What is said of a message that was sent."""
    return {
        "topic": result.queue.topic,
        "broker": result.queue.broker_name,
        "queue_id": result.queue.queue_id,
        "queue_offset": result.queue_offset,
        "message_id": result.message_id,
        "offset_message_id": result.offset_message_id,
        "status": result.status.name,
    }


def _bodies(body: str | None, file: str | None) -> Iterator[bytes]:
    """Give what is to be sent: the argument, the file, or stdin line by line."""
    if body is not None:
        yield body.encode()
    elif file is not None:
        from sprocket.base.disk import RealDisk
        from sprocket.base.files import read_file

        yield read_file(RealDisk(), file)
    else:
        for line in sys.stdin.buffer:
            yield line.rstrip(b"\r\n")
