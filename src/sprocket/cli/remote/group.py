"""`sprocket group`: consumer groups, how far they are, who their members are, over the wire."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import SettingsError
from sprocket.cli.options import BrokerName, Cluster, GroupName, WithInternal, Yes
from sprocket.cli.remote import wire
from sprocket.cli.remote.wire import Remote, over_the_wire
from sprocket.cli.terminal import CommandAnswer, answer, output, tables
from sprocket.rocketmq.errors import NoSuchGroup

if TYPE_CHECKING:
    from sprocket.rocketmq.client import Admin as AwaitedAdmin
    from sprocket.rocketmq.client import MessageQueue
    from sprocket.rocketmq.client.blocking import Admin

app = typer.Typer(no_args_is_help=True, help="Consumer groups of a running broker or cluster.")

OnlyTopic = Annotated[str | None, typer.Option("--topic", "-t", help="Only in this topic.")]


@app.command("ls")
@over_the_wire
def list_groups(remote: Remote, with_internal: WithInternal = False) -> CommandAnswer:
    """List the groups: members, topics, and how many messages they have not consumed."""
    from sprocket.runtime import driver

    rows = driver.run(_listed(remote, with_internal=with_internal))
    counted = [{**row, "topics": len(row["topics"])} for row in rows]
    return replace(answer.table(counted, spare=("model", "topics")), values=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a group is to be."""

    retries: Annotated[
        int, typer.Option(min=-1, help="Tries before a message is a dead letter.")
    ] = 16
    retry_queues: Annotated[int, typer.Option(min=0, max=1024, help="Queues for retries.")] = 1
    broadcast: Annotated[
        bool, typer.Option("--broadcast/--no-broadcast", help="Allow broadcasting.")
    ] = True
    enabled: Annotated[
        bool, typer.Option("--enabled/--disabled", help="Allow it to consume at all.")
    ] = True


@app.command("create")
@over_the_wire
def create_group(
    remote: Remote,
    name: GroupName,
    cluster: Cluster = None,
    broker: BrokerName = None,
    *,
    setup: Setup,
) -> CommandAnswer:
    """Create a group, or change one that exists."""
    from sprocket.rocketmq.model.group import SubscriptionGroup

    group = SubscriptionGroup(
        name=name,
        retry_times_max=setup.retries,
        retry_queues=setup.retry_queues,
        consume_broadcast_enable=setup.broadcast,
        consume_enable=setup.enabled,
    )
    admin = remote.admin()
    admin.group.create(group, cluster=cluster, broker=broker)
    said = f"group {name} is there, with {setup.retries} tries"
    return answer.sentence(setup_rows(admin, name), said)


@app.command("delete")
@over_the_wire
def delete_group(remote: Remote, name: GroupName, yes: Yes = False) -> CommandAnswer:
    """Delete a group and its offsets everywhere."""
    admin = remote.admin()
    admin.group.topics(name)  # an unknown name is a mistake, and no reason to ask
    deleted = yes or output.confirmed(f"Delete group {name} with all its offsets?")
    if deleted:
        admin.group.delete(name)
    done = "deleted" if deleted else "kept"
    return answer.sentence([{"group": name, "deleted": deleted}], f"group {name} is {done}")


@app.command("show")
@over_the_wire
def show_group(remote: Remote, name: GroupName, topic: OnlyTopic = None) -> CommandAnswer:
    """Show how far a group is in each queue, and how many messages it lags behind."""
    stats = remote.admin().group.progress(name, topic)
    rows = [
        {
            **offset_row(queue, one.consumer_offset),
            "max_offset": one.broker_offset,
            "lag": one.lag,
            "consumed_up_to_at_ms": one.last_consumed_at_ms,
        }
        for queue, one in sorted(stats.queues.items())
    ]
    said = f"{name} lags {stats.lag:,} behind, consumes {stats.consume_tps:.1f} a second"
    if not rows:
        said = f"{name} has consumed nothing yet"
    return CommandAnswer(rows, lambda: _write_progress(rows), said)


@app.command("reset")
@over_the_wire
def reset_group(
    remote: Remote,
    name: GroupName,
    topic: Annotated[str, typer.Option("--topic", "-t", help="In which topic.")],
    to: Annotated[str, typer.Option(help="`first`, `last`, or a time.")],
) -> CommandAnswer:
    """Let a group continue from another place in a topic, also while it runs."""
    offsets = remote.admin().group.reset_offsets(name, topic, output.place(to))
    return answer.table([offset_row(queue, offset) for queue, offset in offsets.items()])


@app.command("clone")
@over_the_wire
def clone_group(
    remote: Remote,
    source: Annotated[str, typer.Argument(help="Whose offsets are copied.")],
    target: Annotated[str, typer.Argument(help="The group that gets them; it must not run.")],
    topic: OnlyTopic = None,
) -> CommandAnswer:
    """Let one group continue where another one is."""
    admin = remote.admin()
    admin.group.clone_offsets(source, target, topic)
    return answer.sentence(
        cloned_rows(admin, source, target, topic), f"{target} goes on where {source} is"
    )


@app.command("connections")
@over_the_wire
def list_connections(remote: Remote, name: GroupName) -> CommandAnswer:
    """List the members of a group that are connected, and what they subscribe to."""
    found = remote.admin().group.consumers(name)
    if found is None:
        raise SettingsError(f"nobody of group {name} is connected")
    rows = [
        {
            "client_id": one.client_id,
            "address": one.address,
            "claimed_by": one.claimed_by,
            "language": one.language,
            "version": one.version,
        }
        for one in found.connections
    ]
    common = {
        "model": found.message_model,
        "subscriptions": [f"{one.topic}: {one.expression}" for one in found.subscriptions],
    }

    def show() -> None:
        tables.write_table("", rows, spare=("claimed_by", "language", "version"))
        tables.write_fields("", common)

    return CommandAnswer([row | common for row in rows], show)


async def _listed(remote: Remote, *, with_internal: bool) -> list[dict[str, Any]]:
    """Return what `ls` says of each group."""
    from sprocket.rocketmq.client import Admin
    from sprocket.rocketmq.model.internal import is_internal_group

    async with Admin(remote.nameserver, client=remote.client) as admin:
        names = [
            name
            for name in await admin.group.names()
            if with_internal or not is_internal_group(name)
        ]
        rows = await wire.each(names, lambda name: _row(admin, name))
    return [row for row in rows if row is not None]


async def _row(admin: "AwaitedAdmin", name: str) -> dict[str, Any] | None:
    """Return what `ls` says of a group, None if it was deleted meanwhile."""
    try:
        found = await admin.group.consumers(name)
        topics = await admin.group.topics(name)
        lag = (await admin.group.progress(name)).lag if topics else 0
    except NoSuchGroup:
        return None
    return {
        "group": name,
        "members": 0 if found is None else len(found.connections),
        "model": "–" if found is None else found.message_model,
        "topics": topics,
        "lag": lag,
    }


def _write_progress(rows: list[dict[str, Any]]) -> None:
    """Write a table for each topic, so that its name takes no room in every line."""
    for topic, of_one in groupby(rows, key=itemgetter("topic")):
        shown = [{name: row[name] for name in row if name != "topic"} for row in of_one]
        tables.write_table(topic, shown, spare=("consumed_up_to_at_ms",))


def setup_rows(admin: "Admin", name: str) -> Iterator[dict[str, Any]]:
    """Ask how a group is set up, one entry a broker; members have the names of the options."""
    for broker, one in sorted(admin.group.get(name).items()):
        yield {
            "group": name,
            "broker": broker,
            "retries": one.retry_times_max,
            "retry_queues": one.retry_queues,
            "broadcast": one.consume_broadcast_enable,
            "enabled": one.consume_enable,
        }


def cloned_rows(
    admin: "Admin", source: str, target: str, topic: str | None
) -> Iterator[dict[str, Any]]:
    """Ask where a group continues in each queue in which it got an offset."""
    for one in admin.group.topics(source) if topic is None else [topic]:
        for queue in admin.topic.queues(one):
            offset = admin.offset.committed(target, queue)
            if offset is not None:
                yield offset_row(queue, offset)


def offset_row(queue: "MessageQueue", offset: int) -> dict[str, Any]:
    """Where a group is in a queue."""
    return {
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue_id": queue.queue_id,
        "committed_offset": offset,
    }
