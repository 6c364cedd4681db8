"""`sprocket msg`: find messages of a running broker, look at one, and deliver it again."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import asdict

from sprocket.base.errors import SettingsError, StoreError
from sprocket.base.nearest import hint
from sprocket.cli.remote.wire import READER_GROUP, Remote, over_the_wire
from sprocket.cli.terminal import CommandAnswer, output, tables
from sprocket.rocketmq.model.internal import DEAD_LETTER_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC
from sprocket.rocketmq.settings import FOUND_MESSAGES_MAX

if TYPE_CHECKING:
    from sprocket.rocketmq.client import Message, ReceivedMessage
    from sprocket.rocketmq.client.blocking import Admin, Puller

app = typer.Typer(no_args_is_help=True, help="Find, show and resend messages of a running broker.")

Topic = Annotated[str, typer.Option("--topic", "-t", help="Its topic.")]
MessageId = Annotated[str, typer.Argument(help="Unique key, or offset message id.", metavar="ID")]
NOT_THE_FIRST = (DEAD_LETTER_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC)
"""Topics that hold copies of messages which were sent to another one begin so."""
NOT_COPIED = frozenset(
    (
        *("KEYS", "TAGS", "UNIQ_KEY", "WAIT", "DELAY", "REAL_TOPIC", "REAL_QID", "RETRY_TOPIC"),
        *("ORIGIN_MESSAGE_ID", "RECONSUME_TIME", "MAX_RECONSUME_TIMES", "CONSUME_START_TIME"),
        *("DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "TRAN_MSG", "PGROUP", "CLUSTER"),
        *("MSG_REGION", "TRACE_ON", "MIN_OFFSET", "MAX_OFFSET", "1ST_POP_TIME", "POP_CK"),
        *("INNER_NUM", "INNER_BASE", "__CRC32#", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL"),
        *("MSG_TYPE", "ARRIVE_TIME", "PUSH_REPLY_TIME", "INSTANCE_ID", "TIMER_DELAY_SEC"),
        *("TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_OUT_MS"),
    )
)
"""Properties that tell of one delivery, made by clients and brokers; a copy gets its own."""


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
            between = stored_between(puller, topic, begin_ms, end_ms, limit)
            found = sorted(between, key=lambda one: one.stored_at_ms)[:limit]
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


@app.command("resend")
@over_the_wire
def resend_message(
    remote: Remote,
    message_id: MessageId,
    topic: Topic,
    target: Annotated[
        str | None,
        typer.Option("--to", help="Topic to send it to; by default its original topic."),
    ] = None,
) -> CommandAnswer:
    """Send a copy of a message; a dead letter goes back to the topic that it came from."""
    from sprocket.cli.remote.produce import GROUP, sent_line, sent_row
    from sprocket.rocketmq.client.blocking import Producer

    admin = remote.admin()
    copy = copied(find(admin, message_id, topic), target)
    admin.route(copy.topic)  # a topic named wrongly is not made
    with Producer(remote.nameserver, group=GROUP, client=remote.client) as producer:
        result = producer.send(copy)
    line = f"{message_id} sent to {sent_line(result)}"
    return CommandAnswer([sent_row(result)], lambda: output.write_line(line))


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
    puller: "Puller", topic: str, begin_ms: int, end_ms: int | None, limit: int
) -> "Iterator[ReceivedMessage]":
    """Give of each queue at most `limit` messages stored from one time until before another.

    Times are milliseconds since 1970; an end of None is none.
    """
    from sprocket.cli.remote.consume import decoded

    for queue in puller.queues(topic):
        offset: int = puller.offset_by_time(queue, begin_ms)
        last = puller.max_offset(queue)
        count = 0
        while offset < last and count < limit:
            answer = puller.pull(queue, offset)
            offset = max(answer.next_offset, offset + 1)
            for one in decoded(answer, queue):
                if end_ms is not None and one.stored_at_ms >= end_ms:
                    count = limit
                    break
                if one.stored_at_ms >= begin_ms:
                    count += 1
                    yield one


def copied(message: "ReceivedMessage", target: str | None) -> "Message":
    """Return a message to be sent that says the same, to where the first one was sent.

    Raises:
        SettingsError: It is a dead letter that does not say where it came from.
    """
    from sprocket.rocketmq.client import Message

    topic = target or message.topic
    if target is None and topic.startswith(NOT_THE_FIRST):
        given = message.properties
        topic = given.get("RETRY_TOPIC") or given.get("REAL_TOPIC") or ""
        if not topic:
            raise SettingsError(f"{message.message_id} does not say where it came from: name --to")
    return Message(
        topic,
        message.body,
        tag=message.tag,
        keys=message.keys,
        properties={n: v for n, v in message.properties.items() if v and n not in NOT_COPIED},
        flag=message.stored.flag,
    )
