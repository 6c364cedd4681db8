"""`sprocket group`: consumer groups, how far they are, who is in them, over the wire."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import SettingsError
from sprocket.cli import output
from sprocket.cli.options import (
    DEFAULT_NAMESERVER,
    AsJson,
    BrokerName,
    Cluster,
    GroupName,
    NameServer,
    Yes,
)

if TYPE_CHECKING:
    from sprocket.rocketmq.client.blocking import Admin

app = typer.Typer(no_args_is_help=True, help="Consumer groups of a running broker or cluster.")

OnlyTopic = Annotated[str | None, typer.Option("--topic", "-t", help="Only in this topic.")]


@app.command("ls")
def list_groups(nameserver: NameServer = DEFAULT_NAMESERVER, as_json: AsJson = False) -> None:
    """List the groups: members, topics, and how many messages they have not consumed."""
    from sprocket.rocketmq.client.blocking import Admin

    with output.failing_in_one_line(), Admin(nameserver) as admin:
        rows = [group_row(admin, name) for name in sorted(admin.group.names())]
        output.write_rows(rows, as_json=as_json)


@app.command("create")
def create_group(
    name: GroupName,
    retries: Annotated[
        int, typer.Option(min=-1, help="Tries before a message is a dead letter.")
    ] = 16,
    retry_queues: Annotated[int, typer.Option(min=0, max=1024, help="Queues for retries.")] = 1,
    broadcast: Annotated[
        bool, typer.Option("--broadcast/--no-broadcast", help="Allow broadcasting.")
    ] = True,
    enabled: Annotated[
        bool, typer.Option("--enabled/--disabled", help="Allow it to consume at all.")
    ] = True,
    cluster: Cluster = None,
    broker: BrokerName = None,
    nameserver: NameServer = DEFAULT_NAMESERVER,
    as_json: AsJson = False,
) -> None:
    """Create a group, or change one that exists."""
    from sprocket.rocketmq.client.blocking import Admin
    from sprocket.rocketmq.model.group import SubscriptionGroup

    group = SubscriptionGroup(
        name=name,
        retry_times_max=retries,
        retry_queues=retry_queues,
        consume_broadcast_enable=broadcast,
        consume_enable=enabled,
    )
    with output.failing_in_one_line(), Admin(nameserver) as admin:
        admin.group.create(group, cluster=cluster, broker=broker)
        if as_json:
            output.write_rows(setup_rows(admin, name), as_json=True)
        else:
            output.say(f"group {name} is there, with {retries} tries")


@app.command("delete")
def delete_group(
    name: GroupName,
    yes: Yes = False,
    nameserver: NameServer = DEFAULT_NAMESERVER,
    as_json: AsJson = False,
) -> None:
    """Delete a group and its offsets everywhere."""
    from sprocket.rocketmq.client.blocking import Admin

    with output.failing_in_one_line(), Admin(nameserver) as admin:
        _require(admin, name)
        deleted = yes or output.confirmed(f"Delete group {name} with all its offsets?")
        if deleted:
            admin.group.delete(name)
        if as_json:
            output.write_json({"group": name, "deleted": deleted})
        elif deleted:
            output.say(f"group {name} is deleted")


@app.command("show")
def show_group(
    name: GroupName,
    topic: OnlyTopic = None,
    nameserver: NameServer = DEFAULT_NAMESERVER,
    as_json: AsJson = False,
) -> None:
    """Show how far a group is in each queue, and how many messages it lags behind."""
    from sprocket.rocketmq.client.blocking import Admin

    with output.failing_in_one_line(), Admin(nameserver) as admin:
        stats = admin.group.progress(name, topic)
        rows = [
            {
                "topic": queue.topic,
                "broker": queue.broker_name,
                "queue_id": queue.queue_id,
                "committed": one.consumer_offset,
                "end": one.broker_offset,
                "lag": one.lag,
                "consumed_up_to_at_ms": one.last_consumed_at_ms,
            }
            for queue, one in sorted(stats.queues.items())
        ]
        output.write_rows(rows, as_json=as_json)
        output.say(f"{name} lags {stats.lag:,} behind, consumes {stats.consume_tps:.1f} a second")


@app.command("reset")
def reset_group(
    name: GroupName,
    topic: Annotated[str, typer.Option("--topic", "-t", help="In which topic.")],
    to: Annotated[str, typer.Option(help="`first`, `last`, or a time.")],
    nameserver: NameServer = DEFAULT_NAMESERVER,
    as_json: AsJson = False,
) -> None:
    """Let a group go on from another place in a topic, also while it runs."""
    from sprocket.rocketmq.client.blocking import Admin

    with output.failing_in_one_line(), Admin(nameserver) as admin:
        offsets = admin.group.reset_offsets(name, topic, output.place(to))
        rows = [
            {"broker": queue.broker_name, "queue_id": queue.queue_id, "offset": offset}
            for queue, offset in offsets.items()
        ]
        output.write_rows(rows, as_json=as_json)


@app.command("clone")
def clone_group(
    source: Annotated[str, typer.Argument(help="Whose offsets are copied.")],
    target: Annotated[str, typer.Argument(help="The group that gets them; it must not run.")],
    topic: OnlyTopic = None,
    nameserver: NameServer = DEFAULT_NAMESERVER,
    as_json: AsJson = False,
) -> None:
    """Let one group go on where another one is."""
    from sprocket.rocketmq.client.blocking import Admin

    with output.failing_in_one_line(), Admin(nameserver) as admin:
        admin.group.clone_offsets(source, target, topic)
        if as_json:
            topics = [topic] if topic is not None else admin.group.topics(source)
            output.write_rows(cloned_rows(admin, target, topics), as_json=True)
        else:
            output.say(f"{target} goes on where {source} is")


@app.command("connections")
def list_connections(
    name: GroupName, nameserver: NameServer = DEFAULT_NAMESERVER, as_json: AsJson = False
) -> None:
    """List the members of a group that are connected, and what they subscribe to."""
    from sprocket.rocketmq.client.blocking import Admin

    with output.failing_in_one_line(), Admin(nameserver) as admin:
        found = admin.group.consumers(name)
        if found is None:
            raise SettingsError(f"nobody of group {name} is connected")
        subscribed = ", ".join(f"{one.topic}: {one.expression}" for one in found.subscriptions)
        rows = [
            {
                "client_id": one.client_id,
                "address": one.address,
                "language": one.language,
                "version": one.version,
                "model": found.message_model,
                "subscriptions": subscribed,
            }
            for one in found.connections
        ]
        output.write_rows(rows, as_json=as_json)


def group_row(admin: "Admin", name: str) -> dict[str, Any]:
    """What `ls` says of a group."""
    found = admin.group.consumers(name)
    topics = admin.group.topics(name)
    return {
        "group": name,
        "members": 0 if found is None else len(found.connections),
        "model": "–" if found is None else found.message_model,
        "topics": ", ".join(topics),
        "lag": admin.group.progress(name).lag if topics else 0,
    }


def setup_rows(admin: "Admin", name: str) -> list[dict[str, Any]]:
    """How a group is set up, one entry a broker; the members have the names of the options."""
    return [
        {
            "group": name,
            "broker": broker,
            "retries": one.retry_times_max,
            "retry_queues": one.retry_queues,
            "broadcast": one.consume_broadcast_enable,
            "enabled": one.consume_enable,
        }
        for broker, one in sorted(admin.group.get(name).items())
    ]


def cloned_rows(admin: "Admin", target: str, topics: Collection[str]) -> list[dict[str, Any]]:
    """Where a group goes on in each queue of some topics in which it has an offset."""
    return [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue_id": queue.queue_id,
            "offset": offset,
        }
        for topic in topics
        for queue in admin.topic.queues(topic)
        if (offset := admin.offset.committed(target, queue)) is not None
    ]


def _require(admin: "Admin", name: str) -> None:
    """Raise unless there is such a group: an unknown name is a mistake, not a success."""
    if name not in admin.group.names():
        raise SettingsError(f"there is no group {name}; see `sprocket group ls`")
