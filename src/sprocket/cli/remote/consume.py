"""`sprocket consume`: follow a topic on the command line, alone or as a member of a group.

Alone it reads the queues and changes nothing at the broker. With a group it gets its share of the
queues, as any member does, and the messages that it wrote are consumed.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sprocket.base.errors import SettingsError
from sprocket.cli.options import AsJson, Tags, TopicName
from sprocket.cli.remote.wire import READER_GROUP, Remote, over_the_wire
from sprocket.cli.terminal import logs, output

if TYPE_CHECKING:
    from sprocket.rocketmq.client import MessageQueue, Puller, PullResult, ReceivedMessage, Sql

HOLD_MS = 10_000
"""How long a broker may keep a request for messages that are not there yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """When enough was shown."""

    count: Annotated[int | None, typer.Option(min=1, help="End after this many messages.")] = None
    until_end: Annotated[
        bool, typer.Option("--until-end", help="End when all messages that are there were shown.")
    ] = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be shown of a topic."""

    topic: str
    start: output.Place
    expression: "str | Sql"
    until_end: bool
    """Only what is there when it begins."""


@over_the_wire
def consume(
    remote: Remote,
    topic: TopicName,
    group: Annotated[
        str | None, typer.Option(help="Consume as a member of this group, and commit.")
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            "--from", help="Begin at the `first` message, after the `last`, or at a time."
        ),
    ] = "last",
    tag: Tags = "*",
    sql: Annotated[
        str | None,
        typer.Option(help="Instead of tags: a condition on properties, `amount > 100`, in SQL92."),
    ] = None,
    as_json: AsJson = False,
    *,
    end: End,
    log: logs.LogOptions,
) -> None:
    """Show the messages of a topic as they come, until Ctrl-C."""
    from sprocket.rocketmq.client import Sql
    from sprocket.runtime import driver

    if sql is not None and tag != "*":
        raise SettingsError("--sql stands instead of --tag: TAGS = 'new' asks for a tag")
    if group is not None and end.until_end:
        raise SettingsError("--until-end is for reading without a --group: others may share it")
    show = Shown(end.count, as_json=as_json)
    expression = tag if sql is None else Sql(sql)
    wanted = Wanted(topic, output.place(start), expression, end.until_end)
    if group is None:
        work = _alone(remote, wanted, show)
    else:
        work = _with_group(remote, group, wanted, show)
    try:
        with log.told():
            driver.run(work)
    except KeyboardInterrupt:
        output.say(f"{show.written:,} shown")


class Shown:
    """Writes messages, an object or a line of text each, until there were enough, if ever."""

    def __init__(self, count: int | None, *, as_json: bool) -> None:
        import asyncio

        self.written = 0
        self.enough = asyncio.Event()
        self._count = count
        self._as_json = as_json

    def write(self, messages: "Sequence[ReceivedMessage]") -> int:
        """Write messages; return how many of them, fewer than given if that was enough."""
        from sprocket.cli.terminal import message as shown

        if self.enough.is_set():
            return 0
        room = len(messages) if self._count is None else self._count - self.written
        begun = self.written
        try:
            for message in messages[:room]:
                if self._as_json:
                    output.write_json(shown.received_json(message))
                else:
                    output.write_line(shown.received_line(message))
            sys.stdout.flush()  # who follows a topic through a pipe wants to see it now
            self.written += len(messages[:room])
        except BrokenPipeError:
            output.stop_writing()
            self.enough.set()
        if self.written == self._count:
            self.enough.set()
        return self.written - begun


async def _alone(remote: Remote, wanted: Wanted, show: Shown) -> None:
    """Pull from every queue at once until there were enough, or all was shown."""
    import asyncio

    from sprocket.rocketmq.client import Puller

    await _require(remote, wanted.topic)
    async with Puller(remote.nameserver, group=READER_GROUP, client=remote.client) as puller:
        queues = await puller.queues(wanted.topic)
        try:
            async with asyncio.TaskGroup() as group:
                readers = [
                    group.create_task(_read(puller, queue, wanted, show)) for queue in queues
                ]
                enough = group.create_task(show.enough.wait())
                enough.add_done_callback(lambda _: [reader.cancel() for reader in readers])
                await asyncio.wait(readers)
                enough.cancel()
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None


async def _read(puller: "Puller", queue: "MessageQueue", wanted: Wanted, show: Shown) -> None:
    """Show what a queue holds, and then what comes."""
    offset = await _first_offset(puller, queue, wanted.start)
    end = await puller.max_offset(queue) if wanted.until_end else None
    hold_ms = 0 if wanted.until_end else HOLD_MS
    while end is None or offset < end:
        found = await puller.pull(queue, offset, tags=wanted.expression, hold_ms=hold_ms)
        messages = [one for one in decoded(found, queue) if _is_wanted(one, wanted.expression)]
        messages = [one for one in messages if one.queue_offset >= offset]  # a batch comes whole
        if end is not None:
            messages = [one for one in messages if one.queue_offset < end]
        show.write(messages)
        offset = max(offset, found.next_offset)


async def _first_offset(puller: "Puller", queue: "MessageQueue", start: output.Place) -> int:
    if start == "first":
        return await puller.min_offset(queue)
    if start == "last":
        return await puller.max_offset(queue)
    return await puller.offset_by_time(queue, start)


def decoded(found: "PullResult", queue: "MessageQueue") -> "list[ReceivedMessage]":
    """Return the messages of an answer."""
    from sprocket.rocketmq.client import ReceivedMessage
    from sprocket.rocketmq.codec.record import batch

    return [ReceivedMessage(stored, queue) for stored in batch.decode_messages(found.body)]


def _is_wanted(message: "ReceivedMessage", expression: "str | Sql") -> bool:
    """Compare the tag itself: the broker compares hashes, which others may share."""
    if not isinstance(expression, str):
        return True  # the broker has looked at its properties
    return expression.strip() == "*" or message.tag in {
        tag.strip() for tag in expression.split("||")
    }


async def _require(remote: Remote, topic: str) -> None:
    """Raise NoSuchTopic unless the topic is there; one that vanishes later is waited for."""
    from sprocket.rocketmq.client import Admin

    async with Admin(remote.nameserver, client=remote.client) as admin:
        await admin.route(topic)


async def _with_group(remote: Remote, group: str, wanted: Wanted, show: Shown) -> None:
    """Be a member of the group; what was not shown stays for the others."""
    import asyncio

    from sprocket.rocketmq.client import ConsumerSettings, PushConsumer

    async def listener(messages: "list[ReceivedMessage]") -> None:
        if show.write(messages) < len(messages):
            await asyncio.Event().wait()  # not consumed: others get it when this member has left

    await _require(remote, wanted.topic)
    consumer = PushConsumer(
        remote.nameserver,
        group=group,
        listener=listener,
        start=wanted.start,
        settings=ConsumerSettings(batch_messages_max=1, close_wait_ms=0),
        client=remote.client,
    )
    await consumer.start()
    try:
        await consumer.subscribe(wanted.topic, wanted.expression)
        await show.enough.wait()
    finally:
        with logs.only_errors():  # a member that leaves with messages in its hands is meant
            await consumer.close()
