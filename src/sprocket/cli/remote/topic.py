"""`sprocket topic`: list, create, change, delete and look at topics, over the wire."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import ClientError, SettingsError
from sprocket.cli.options import BrokerName, Cluster, TopicName, WithInternal, Yes
from sprocket.cli.remote import wire
from sprocket.cli.remote.wire import Remote, over_the_wire
from sprocket.cli.terminal import CommandAnswer, answer, output, tables
from sprocket.rocketmq.errors import NoRoute

if TYPE_CHECKING:
    from sprocket.rocketmq.client import Admin as AwaitedAdmin
    from sprocket.rocketmq.client.blocking import Admin
    from sprocket.rocketmq.codec.bodies import TopicStats
    from sprocket.rocketmq.model.topic import TopicConfig

app = typer.Typer(no_args_is_help=True, help="Topics of a running broker or cluster.")

Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute",
        metavar="NAME=VALUE",
        help="An attribute, such as message.type=FIFO; -NAME takes one away. Repeatable.",
    ),
]

PERMISSIONS = {"r": 4, "w": 2, "rw": 6, "none": 0}


@app.command("ls")
@over_the_wire
def list_topics(
    remote: Remote, cluster: Cluster = None, with_internal: WithInternal = False
) -> CommandAnswer:
    """List the topics with their queues and messages, a line a broker."""
    from sprocket.runtime import driver

    rows = driver.run(_listed(remote, cluster, with_internal=with_internal))
    shown = answer.table([_for_people(row) for row in rows], spare=("queues", "broker", "perm"))
    return replace(shown, values=rows)


@app.command("create")
@over_the_wire
def create_topic(
    remote: Remote,
    name: TopicName,
    queues: Annotated[int, typer.Option(min=1, max=1024, help="Queues, to read and write.")] = 8,
    compact: Annotated[
        bool, typer.Option("--compact", help="Keep the last message of each key, for ever.")
    ] = False,
    attribute: Attributes = None,
    cluster: Cluster = None,
    broker: BrokerName = None,
) -> CommandAnswer:
    """Create a topic on every broker, or give one that exists another number of queues."""
    admin = remote.admin()
    admin.topic.create(
        name,
        queues,
        attributes=_attributes(attribute),
        compact=compact,
        cluster=cluster,
        broker=broker,
    )
    return _how_it_is(admin, name)


@app.command("update")
@over_the_wire
def update_topic(
    remote: Remote,
    name: TopicName,
    queues: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Queues, to write to.")
    ] = None,
    read_queues: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Queues to read from, if the number differs."),
    ] = None,
    perm: Annotated[
        str | None, typer.Option(metavar="r|w|rw|none", help="What is allowed.")
    ] = None,
    attribute: Attributes = None,
    broker: BrokerName = None,
) -> CommandAnswer:
    """Change a topic that exists: its queues, attributes, or who may read and write it."""
    if perm is not None and perm not in PERMISSIONS:
        raise SettingsError(f"{perm!r} is not a permission: expected r, w, rw or none")
    attributes = _attributes(attribute)
    if (queues, read_queues, perm) == (None, None, None) and not attributes:
        raise SettingsError("say what to change: --queues, --read-queues, --perm or --attribute")
    admin = remote.admin()
    there = admin.topic.config(name)
    if broker is not None and broker not in there:
        raise NoRoute(f"topic {name} is not on broker {broker!r}; it is on {', '.join(there)}")
    for broker_name, one in there.items():
        if broker not in (None, broker_name):
            continue
        admin.topic.create(
            name,
            queues or one.write_queues,
            read_queues=read_queues or queues or one.read_queues,
            perm=one.perm if perm is None else PERMISSIONS[perm],
            attributes=attributes,
            broker=broker_name,
        )
    return _how_it_is(admin, name)


def _attributes(given: list[str] | None) -> dict[str, str]:
    """Return attributes of a topic as they were given; a name without a value is taken away."""
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not name.strip("+-") or bool(equals) == name.startswith("-"):
            raise SettingsError(f"{text!r} is not an attribute: expected NAME=VALUE, or -NAME")
        found[name] = value
    return found


def _how_it_is(admin: "Admin", name: str) -> CommandAnswer:
    rows = [{"topic": name, **row} for row in broker_rows(admin, name)]

    def show() -> None:
        for row in rows:
            output.write_line(
                f"topic {name}: {row['write_queues']} queues on {row['broker']}, {row['perm']}"
            )

    return CommandAnswer(rows, show)


@app.command("delete")
@over_the_wire
def delete_topic(remote: Remote, name: TopicName, yes: Yes = False) -> CommandAnswer:
    """Delete a topic everywhere; its messages are lost."""
    admin = remote.admin()
    admin.topic.route(name)  # an unknown name is a mistake, and no reason to ask
    deleted = yes or output.confirmed(f"Delete topic {name} with all its messages?")
    if deleted:
        admin.topic.delete(name)
    done = "deleted" if deleted else "kept"
    return answer.sentence([{"topic": name, "deleted": deleted}], f"topic {name} is {done}")


@app.command("show")
@over_the_wire
def show_topic(remote: Remote, name: TopicName) -> CommandAnswer:
    """Show where a topic is, what each queue holds, and which groups consume it."""
    admin = remote.admin()
    brokers, queues = broker_rows(admin, name), queue_rows(admin, name)
    groups = list(admin.topic.groups(name))

    def show() -> None:
        tables.write_table(f"{name}: brokers", brokers)
        tables.write_table("queues", queues, spare=("last_stored_at_ms",))
        tables.write_fields("consumers", {"groups": groups or "none"})

    told = {"topic": name, "brokers": brokers, "queues": queues, "groups": groups}
    return CommandAnswer([told], show)


def broker_rows(admin: "Admin", topic: str) -> list[dict[str, Any]]:
    """Where a topic is, one entry a broker."""
    route = admin.topic.route(topic)
    addresses = {one.name: one.addresses for one in route.brokers}
    return [
        {
            "broker": data.broker_name,
            "address": addresses.get(data.broker_name, {}).get(0, "–"),
            "read_queues": data.read_queues,
            "write_queues": data.write_queues,
            "perm": perm_text(data.perm),
        }
        for data in route.queues
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


async def _listed(
    remote: Remote, cluster: str | None, *, with_internal: bool
) -> list[dict[str, Any]]:
    """Return what `ls` says of each topic, one entry a broker.

    Queues come in one answer a broker; only the messages are asked for topic by topic.
    """
    from sprocket.rocketmq.client import Admin
    from sprocket.rocketmq.model.internal import is_internal_topic

    async with Admin(remote.nameserver, client=remote.client) as admin:
        info = await admin.cluster()
        owners = {*info.clusters, *info.brokers}
        names = {
            name
            for name in await admin.topic.names(cluster=cluster)
            if with_internal or not is_internal_topic(name, owners)
        }
        found: list[tuple[TopicConfig, str, str]] = []
        for broker, data in sorted(info.brokers.items()):
            if 0 in data.addresses and cluster in (None, data.cluster):
                configs = await admin.topic.configs(broker)
                found += [(one, broker, data.addresses[0]) for one in configs if one.name in names]
        topics = sorted({config.name for config, _, _ in found})
        counts = dict(
            zip(topics, await wire.each(topics, lambda name: _stats(admin, name)), strict=True)
        )
    found.sort(key=lambda one: (one[0].name, one[1]))
    return [
        {
            "topic": config.name,
            "broker": broker,
            "address": address,
            "read_queues": config.read_queues,
            "write_queues": config.write_queues,
            "perm": perm_text(config.perm),
            "messages": _count(counts[config.name], broker),
        }
        for config, broker, address in found
    ]


async def _stats(admin: "AwaitedAdmin", topic: str) -> "TopicStats | None":
    """Return the figures of a topic, None if it was deleted meanwhile."""
    try:
        return await admin.topic.stats(topic)
    except NoRoute:
        return None
    except ClientError:
        if topic in await admin.topic.names():
            raise
        return None


def _count(stats: "TopicStats | None", broker: str) -> int:
    """Return how many messages a broker has of a topic."""
    queues = {} if stats is None else stats.queues
    return sum(
        one.max_offset - one.min_offset
        for queue, one in queues.items()
        if queue.broker_name == broker
    )


def _for_people(row: dict[str, Any]) -> dict[str, Any]:
    """Return what people see of a line of `ls`."""
    write, read = row["write_queues"], row["read_queues"]
    return {
        "topic": row["topic"],
        "messages": row["messages"],
        "broker": row["broker"],
        "queues": str(write) if write == read else f"{write}, {read} to read",
        "perm": row["perm"],
    }
