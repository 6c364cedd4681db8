"""`sprocket topic`: list and create topics, over the wire."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.cli import output
from sprocket.cli.options import DEFAULT_NAMESERVER, AsJson, NameServer, TopicName

if TYPE_CHECKING:
    from sprocket.rocketmq.client.blocking import Admin

app = typer.Typer(no_args_is_help=True, help="List and create topics of a running broker.")


@app.command("ls")
def list_topics(nameserver: NameServer = DEFAULT_NAMESERVER, as_json: AsJson = False) -> None:
    """List the topics with their queues."""
    from sprocket.rocketmq.client.blocking import Admin

    with output.failing_in_one_line(), Admin(nameserver) as admin:
        rows = [row for topic in sorted(admin.topics()) for row in topic_rows(admin, topic)]
    if as_json:
        for row in rows:
            output.write_json(row)
        return
    made = output.table(
        "",
        *("topic", "broker", "read queues", "write queues"),
        right=("read queues", "write queues"),
    )
    for row in rows:
        made.add_row(*(str(value) for value in row.values()))
    output.console().print(made)


def topic_rows(admin: "Admin", topic: str) -> list[dict[str, Any]]:
    """What `ls` says of a topic, one entry a broker."""
    return [
        {
            "topic": topic,
            "broker": data.broker_name,
            "read_queues": data.read_queues,
            "write_queues": data.write_queues,
        }
        for data in admin.route(topic).queues
    ]


@app.command("create")
def create_topic(
    name: TopicName,
    queues: Annotated[int, typer.Option(min=1, max=1024, help="Queues, to read and write.")] = 8,
    nameserver: NameServer = DEFAULT_NAMESERVER,
    as_json: AsJson = False,
) -> None:
    """Create a topic on every broker, or give one that exists another number of queues."""
    from sprocket.rocketmq.client.blocking import Admin

    with output.failing_in_one_line(), Admin(nameserver) as admin:
        admin.create_topic(name, queues=queues)
        rows = topic_rows(admin, name)
    if as_json:
        for row in rows:
            output.write_json(row)
    else:
        brokers = ", ".join(row["broker"] for row in rows)
        output.console().print(f"topic {name}: {queues} queues on {brokers}")
