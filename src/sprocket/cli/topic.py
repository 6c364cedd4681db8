"""`sprocket topic`: list, create, change, delete and look at topics, over the wire."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.cli import output
from sprocket.cli.options import (
    DEFAULT_NAMESERVER,
    AsJson,
    BrokerName,
    Cluster,
    NameServer,
    TopicName,
    Yes,
)

if TYPE_CHECKING:
    from sprocket.rocketmq.client.blocking import Admin

app = typer.Typer(no_args_is_help=True, help="Topics of a running broker or cluster.")

Queues = Annotated[int, typer.Option(min=1, max=1024, help="Queues, to read and write.")]
PERMISSIONS = {"r": 4, "w": 2, "rw": 6, "none": 0}


@app.command("ls")
def list_topics(
    cluster: Cluster = None, nameserver: NameServer = DEFAULT_NAMESERVER, as_json: AsJson = False
) -> None:
    """List the topics with their queues, a line a broker."""
    from sprocket.rocketmq.client.blocking import Admin

    with output.failing_in_one_line(), Admin(nameserver) as admin:
        rows = [
            row
            for topic in sorted(admin.topic.names(cluster=cluster))
            for row in topic_rows(admin, topic)
        ]
        output.write_rows(rows, as_json=as_json)


@app.command("create")
def create_topic(
    name: TopicName,
    queues: Queues = 8,
    cluster: Cluster = None,
    broker: BrokerName = None,
    nameserver: NameServer = DEFAULT_NAMESERVER,
    as_json: AsJson = False,
) -> None:
    """Create a topic on every broker, or give one that exists another number of queues."""
    from sprocket.rocketmq.client.blocking import Admin

    with output.failing_in_one_line(), Admin(nameserver) as admin:
        admin.topic.create(name, queues, cluster=cluster, broker=broker)
        _say_how_it_is(admin, name, as_json=as_json)


@app.command("update")
def update_topic(
    name: TopicName,
    queues: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Queues, to write to.")
    ] = None,
    read_queues: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Queues to read from, if not as many."),
    ] = None,
    perm: Annotated[str | None, typer.Option(help="What is allowed: r, w, rw or none.")] = None,
    broker: BrokerName = None,
    nameserver: NameServer = DEFAULT_NAMESERVER,
    as_json: AsJson = False,
) -> None:
    """Change a topic that exists: its queues, or who may read and write it."""
    from sprocket.base.errors import SettingsError
    from sprocket.rocketmq.client.blocking import Admin

    with output.failing_in_one_line():
        if perm is not None and perm not in PERMISSIONS:
            raise SettingsError(f"{perm!r} is no permission: expected r, w, rw or none")
        if (queues, read_queues, perm) == (None, None, None):
            raise SettingsError("say what to change: --queues, --read-queues or --perm")
        with Admin(nameserver) as admin:
            for one in admin.topic.config(name).items():
                if broker not in (None, one[0]):
                    continue
                write = queues or one[1].write_queues
                admin.topic.create(
                    name,
                    write,
                    read_queues=read_queues or (queues or one[1].read_queues),
                    perm=one[1].perm if perm is None else PERMISSIONS[perm],
                    broker=one[0],
                )
            _say_how_it_is(admin, name, as_json=as_json)


@app.command("delete")
def delete_topic(
    name: TopicName,
    yes: Yes = False,
    nameserver: NameServer = DEFAULT_NAMESERVER,
    as_json: AsJson = False,
) -> None:
    """Delete a topic everywhere; its messages are lost."""
    from sprocket.rocketmq.client.blocking import Admin

    with output.failing_in_one_line(), Admin(nameserver) as admin:
        admin.topic.route(name)  # an unknown name is a mistake, not a success
        deleted = yes or output.confirmed(f"Delete topic {name} with all its messages?")
        if deleted:
            admin.topic.delete(name)
        if as_json:
            output.write_json({"topic": name, "deleted": deleted})
        elif deleted:
            output.say(f"topic {name} is deleted")


@app.command("show")
def show_topic(
    name: TopicName,
    nameserver: NameServer = DEFAULT_NAMESERVER,
    as_json: AsJson = False,
) -> None:
    """Show where a topic is, what each queue holds, and which groups consume it."""
    from sprocket.rocketmq.client.blocking import Admin

    with output.failing_in_one_line(), Admin(nameserver) as admin:
        brokers, queues = topic_rows(admin, name), queue_rows(admin, name)
        groups = list(admin.topic.groups(name))
        if as_json:
            output.write_json(
                {"topic": name, "brokers": brokers, "queues": queues, "groups": groups}
            )
            return
        output.write_table(f"{name}: brokers", brokers)
        output.write_table("queues", queues)
        output.write_fields("consumers", {"groups": groups})


def topic_rows(admin: "Admin", topic: str) -> list[dict[str, Any]]:
    """What `ls` says of a topic, one entry a broker."""
    addresses = {one.name: one.addresses for one in admin.topic.route(topic).brokers}
    return [
        {
            "topic": topic,
            "broker": data.broker_name,
            "address": addresses.get(data.broker_name, {}).get(0, "–"),
            "read_queues": data.read_queues,
            "write_queues": data.write_queues,
            "perm": perm_text(data.perm),
        }
        for data in admin.topic.route(topic).queues
    ]


def queue_rows(admin: "Admin", topic: str) -> list[dict[str, Any]]:
    """What each queue of a topic holds."""
    return [
        {
            "broker": queue.broker_name,
            "queue_id": queue.queue_id,
            "min_offset": one.min_offset,
            "max_offset": one.max_offset,
            "messages": one.max_offset - one.min_offset,
            "last_stored_at_ms": one.last_update_at_ms,
        }
        for queue, one in admin.topic.stats(topic).queues.items()
    ]


def perm_text(perm: int) -> str:
    """Return what a permission allows, as `--perm` takes it."""
    return ("r" if perm & PERMISSIONS["r"] else "") + ("w" if perm & PERMISSIONS["w"] else "") or (
        "none"
    )


def _say_how_it_is(admin: "Admin", name: str, *, as_json: bool) -> None:
    rows = topic_rows(admin, name)
    if as_json:
        output.write_rows(rows, as_json=True)
        return
    for row in rows:
        output.write_line(
            f"topic {name}: {row['write_queues']} queues on {row['broker']}, {row['perm']}"
        )
