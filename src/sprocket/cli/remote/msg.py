"""`sprocket msg`: find messages of a running broker, look at one, and deliver it again."""

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import asdict

from sprocket.base.errors import SettingsError, StoreError
from sprocket.base.nearest import hint
from sprocket.cli.remote.wire import READER_GROUP, Remote, over_the_wire
from sprocket.cli.terminal import CommandAnswer, output, tables
from sprocket.rocketmq.model.internal import DEAD_LETTER_PREFIX, TRACE_TOPIC
from sprocket.rocketmq.settings import FOUND_MESSAGES_MAX

if TYPE_CHECKING:
    from sprocket.rocketmq.client import MessageQueue, ReceivedMessage
    from sprocket.rocketmq.client.blocking import Admin, Puller

app = typer.Typer(no_args_is_help=True, help="Find, show and resend messages of a running broker.")

Topic = Annotated[str, typer.Option("--topic", "-t", help="Its topic.")]
MessageId = Annotated[str, typer.Argument(help="Unique key, or offset message id.", metavar="ID")]


class NoSuchMessage(StoreError):
    """No broker has a message of that id, or none that was looked for."""


@app.command("get")
@over_the_wire
def get_message(remote: Remote, message_id: MessageId, topic: Topic) -> CommandAnswer:
    """Show one message, whole."""
    from sprocket.cli.terminal import message as shown

    found = find(remote.admin(), message_id, topic)
    fields = {"broker": found.queue.broker_name, **shown.fields(found.stored)}
    return CommandAnswer([shown.received_json(found)], lambda: tables.write_fields("", fields))


@app.command("find")
@over_the_wire
def find_messages(
    remote: Remote,
    topic: Topic,
    key: Annotated[str | None, typer.Option(help="One of its keys.")] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="Stored at this time or later.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="Stored before this time.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most messages.")] = FOUND_MESSAGES_MAX,
) -> CommandAnswer:
    """Find messages by key or by the time they were stored at, or both; oldest first."""
    from sprocket.cli.terminal import message as shown
    from sprocket.rocketmq.client.blocking import Puller

    if key is None and start is None:
        raise SettingsError("say what to look for: --key, or --from a time")
    begin_ms = 0 if start is None else output.time_ms(start)
    end_ms = None if end is None else output.time_ms(end)
    admin = remote.admin()
    admin.route(topic)  # an unknown name is a mistake, not an empty result
    if key is not None:
        span = {"begin_ms": begin_ms} | ({} if end_ms is None else {"end_ms": end_ms})
        found = admin.message.by_key(topic, key, count_max=limit, **span)
    else:
        with Puller(remote.nameserver, group=READER_GROUP, client=remote.client) as puller:
            found = list(stored_between(puller, topic, begin_ms, end_ms, limit))
    if not found:
        looked_for = {"key": key, "from": start, "to": end}
        told = ", ".join(f"{name} {text}" for name, text in looked_for.items() if text is not None)
        raise NoSuchMessage(f"topic {topic} has no message with {told}")

    def show() -> None:
        for one in found:
            queue = one.queue
            place = f"{queue.broker_name}/{queue.queue_id}/{one.queue_offset}"
            shown.write_entry(one.stored, place)

    return CommandAnswer(map(shown.received_json, found), show)


@app.command("trace")
@over_the_wire
def trace_message(
    remote: Remote,
    message_id: Annotated[str, typer.Argument(help="Its unique key.", metavar="ID")],
    trace_topic: Annotated[
        str, typer.Option(help="Where clients send their traces.")
    ] = TRACE_TOPIC,
) -> CommandAnswer:
    """Show what producer, broker and consumers noted about a message, in the order of time."""
    from sprocket.cli.remote.trace import timeline
    from sprocket.rocketmq.codec import trace
    from sprocket.rocketmq.model.trace import Produced

    admin = remote.admin()
    admin.route(trace_topic)
    found = admin.message.by_key(trace_topic, message_id)
    records = [one for message in found for one in trace.decode(message.body)]
    topics = {
        one.topic for one in records if isinstance(one, Produced) and one.message_id == message_id
    }
    stored = [admin.message.by_id(message_id, topic) for topic in sorted(topics)]
    rows = timeline(records, message_id, next((one for one in stored if one is not None), None))
    if not rows:
        raise NoSuchMessage(f"topic {trace_topic} has no trace of message {message_id}")
    return CommandAnswer(rows, lambda: tables.write_table(message_id, rows))


@app.command("resend")
@over_the_wire
def resend_messages(
    remote: Remote,
    message_id: Annotated[
        str | None, typer.Argument(help="Unique key, or offset message id.", metavar="[ID]")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Where they are.")] = None,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="The dead letters of this group.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Stored at this time or later.")] = None,
    key: Annotated[str | None, typer.Option(help="One of their keys.")] = None,
    target: Annotated[
        str | None,
        typer.Option("--to", help="Topic to send to; by default the original topic of each."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Most messages; all by default.")] = None,
    dry_run: Annotated[bool, typer.Option(help="Only say what would be sent.")] = False,
    once_more: Annotated[
        bool, typer.Option("--once-more", help="Also what was sent again before.")
    ] = False,
) -> CommandAnswer:
    """Send copies of messages, each once; dead letters go back to the topic they came from."""
    from sprocket.cli.remote.produce import GROUP
    from sprocket.cli.remote.resend import Resending
    from sprocket.rocketmq.client.blocking import Producer, Puller

    if (topic is None) == (group is None):
        raise SettingsError("say where the messages are: --topic, or --group for its dead letters")
    if message_id is not None and (since, key, limit) != (None, None, None):
        raise SettingsError("an ID names one message: leave out --since, --key and --limit")
    if (message_id, group, since, key) == (None, None, None, None):
        raise SettingsError(f"say which messages of {topic}: an ID, --since a time, or --key")
    where = topic or f"{DEAD_LETTER_PREFIX}{group}"
    admin = remote.admin()
    admin.route(where)
    if message_id is not None:
        chosen: Iterable[ReceivedMessage] = [find(admin, message_id, where)]
    else:
        puller = Puller(remote.nameserver, group=READER_GROUP, client=remote.client)
        remote.opened.enter_context(puller)
        begin_ms = 0 if since is None else output.time_ms(since)
        if key is not None:
            most = FOUND_MESSAGES_MAX if limit is None else limit
            chosen = admin.message.by_key(where, key, count_max=most, begin_ms=begin_ms)
        else:
            chosen = stored_between(puller, where, begin_ms, None, limit)
    producer = None
    if not dry_run:
        producer = Producer(remote.nameserver, group=GROUP, client=remote.client)
        remote.opened.enter_context(producer)
    resending = Resending(admin, producer, target=target, once_more=once_more)

    def show() -> None:
        for one in resending.each(chosen):
            output.write_line(one.line)

    return CommandAnswer((one.row for one in resending.each(chosen)), show)


@app.command("direct")
@over_the_wire
def deliver_directly(
    remote: Remote,
    message_id: MessageId,
    topic: Topic,
    group: Annotated[str, typer.Option("--group", "-g", help="Whose listener is to consume it.")],
    client: Annotated[
        str | None,
        typer.Option(help="Which member; by default the first. See `group connections`."),
    ] = None,
) -> CommandAnswer:
    """Have a connected member of a group consume a message now, and show what came of it."""
    admin = remote.admin()
    found = find(admin, message_id, topic)
    members = admin.group.consumers(group)
    there = [] if members is None else [one.client_id for one in members.connections]
    if not there:
        raise SettingsError(f"nobody of group {group} is connected")
    if client is not None and client not in there:
        meant = hint(client, there) or f"; there is {', '.join(there)}"
        raise SettingsError(f"no member {client} of group {group} is connected{meant}")
    client = client or there[0]
    row = {"client_id": client, **asdict(admin.group.consume_directly(group, client, found))}
    return CommandAnswer([row], lambda: tables.write_fields(message_id, row))


@app.command("recall")
@over_the_wire
def recall_message(
    remote: Remote,
    handle: Annotated[
        str, typer.Argument(help="What `produce` said of it behind `recall`.", metavar="HANDLE")
    ],
) -> CommandAnswer:
    """Take back a message that waits for its time, so that it is not delivered."""
    from sprocket.cli.remote.produce import GROUP
    from sprocket.rocketmq.client.blocking import Producer

    with Producer(remote.nameserver, group=GROUP, client=remote.client) as producer:
        row = {"unique_key": producer.recall(handle)}
    return CommandAnswer([row], lambda: output.write_line(f"id {row['unique_key']}"))


@app.command("halves")
@over_the_wire
def show_halves(
    remote: Remote,
    limit: Annotated[int, typer.Option(min=1, help="Most messages of a broker.")] = 1000,
) -> CommandAnswer:
    """Show half messages whose transactions have not ended, the oldest of each broker first."""
    rows = [_half_row(one) for one in remote.admin().message.halves(count_max=limit)]

    def show() -> None:
        tables.write_table("", rows, spare=("offset_id", "broker", "born_at_ms"))

    return CommandAnswer(rows, show)


def _half_row(half: "ReceivedMessage") -> dict[str, object]:
    from sprocket.rocketmq.codec.record import properties

    checks = half.properties.get(properties.TRANSACTION_CHECK_TIMES, "")
    return {
        "unique_key": half.stored.unique_key,
        "topic": half.properties.get(properties.REAL_TOPIC, ""),
        "group": half.properties.get(properties.PRODUCER_GROUP, ""),
        "checks": int(checks) if checks.isdecimal() else 0,
        "born_at_ms": half.born_at_ms,
        "broker": half.queue.broker_name,
        "offset_id": half.stored.offset_message_id,
    }


@app.command("resume-check")
@over_the_wire
def resume_check(remote: Remote, message_id: MessageId) -> CommandAnswer:
    """Have producers asked anew about a message whose transaction was given up."""
    found = remote.admin().message.resume_check(message_id)
    if found is None:
        raise NoSuchMessage(f"no half message {message_id} was given up")
    row = _half_row(found)
    text = f"producers of group {row['group']} will be asked about {row['unique_key']}"
    return CommandAnswer([row], lambda: output.write_line(text))


def find(admin: "Admin", message_id: str, topic: str) -> "ReceivedMessage":
    """Return a message by its id.

    Raises:
        NoSuchMessage: There is none.
    """
    found = admin.message.by_id(message_id, topic)
    if found is None:
        raise NoSuchMessage(f"topic {topic} has no message {message_id}")
    return found


def stored_between(
    puller: "Puller", topic: str, begin_ms: int, end_ms: int | None, limit: int | None
) -> "Iterator[ReceivedMessage]":
    """Give at most `limit` messages stored from one time until before another, oldest first.

    Times are milliseconds since 1970; None sets no end, or no limit.
    """
    each = [_of_queue(puller, queue, begin_ms, end_ms) for queue in puller.queues(topic)]
    return islice(merge(*each, key=lambda one: one.stored_at_ms), limit)


def _of_queue(
    puller: "Puller", queue: "MessageQueue", begin_ms: int, end_ms: int | None
) -> "Iterator[ReceivedMessage]":
    from sprocket.cli.remote.consume import decoded

    offset: int = puller.offset_by_time(queue, begin_ms)
    last = puller.max_offset(queue)
    while offset < last:
        answer = puller.pull(queue, offset)
        offset = max(answer.next_offset, offset + 1)
        for one in decoded(answer, queue):
            if end_ms is not None and one.stored_at_ms >= end_ms:
                return
            if one.stored_at_ms >= begin_ms:
                yield one
