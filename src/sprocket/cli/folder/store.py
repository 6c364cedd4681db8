"""`sprocket store`: look into a store's folder, of a live broker or a dead one, and repair it.

The commands here open the folder read-only, without its lock, and change nothing; those that find
and repair damage are in `repair`.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from sprocket.base.errors import SettingsError
from sprocket.base.nearest import hint
from sprocket.cli.folder import repair
from sprocket.cli.folder.repair import AsJson, Folder
from sprocket.cli.terminal import output, tables
from sprocket.rocketmq.settings import FOUND_MESSAGES_MAX

if TYPE_CHECKING:
    from sprocket.rocketmq.store.log import Damage
    from sprocket.rocketmq.store.store import Store

app = typer.Typer(
    no_args_is_help=True,
    help="Look into a store's folder, find damage, repair it. Only `recover` and `convert` "
    "change the store; all others read it, also while a broker has it open.",
)
app.command("recover")(repair.recover_store)
app.command("check")(repair.check_store)
app.command("salvage")(repair.salvage_store)
app.command("convert")(repair.convert_store)

Topic = Annotated[str | None, typer.Option(help="Topic.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Most messages to show.")]


@contextmanager
def opened(folder: str) -> "Iterator[Store]":
    """Open a store for reading; every error of ours ends the command with one line."""
    from sprocket.rocketmq.store.store import Store

    output.end_quietly_with_the_reader()
    with (
        repair.disk_of(folder) as disk,
        closing(Store.open_read_only(disk, folder)) as store,
    ):
        yield store


@app.command("ls")
def list_store(
    folder: Folder,
    topics: Annotated[
        bool, typer.Option("--topics", help="Print a line for each topic instead.")
    ] = False,
    files: Annotated[
        bool, typer.Option("--files", help="Print a line for each file instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the queues, or topics, or files: offsets, counts, sizes, times."""
    from sprocket.base.disk import RealDisk
    from sprocket.cli.folder import listing
    from sprocket.rocketmq.store.repair import check

    with opened(folder) as store:
        disk = RealDisk()
        if files:
            rows = listing.file_rows(disk, folder.rstrip("/"))
        else:
            rows = listing.topic_rows(store) if topics else listing.queue_rows(store)
        if as_json:
            for row in rows:
                output.write_json(row)
            return
        state = "open, or not closed" if check.is_open(disk, folder) else "closed"
        title = f"{folder}: log of {store.end - store.first:,} bytes from {store.first:,}, {state}"
        tables.write_table(
            title, list(rows), spare=("last_stored_at_ms", "changed_at_ms", "first_stored_at_ms")
        )


@app.command("get")
def get_message(
    folder: Folder,
    topic: Topic = None,
    queue: Annotated[int | None, typer.Option(min=0, help="Queue of the topic.")] = None,
    offset: Annotated[int | None, typer.Option(min=0, help="Offset in the queue.")] = None,
    at: Annotated[int | None, typer.Option(min=0, help="Physical offset, instead.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show one message, by topic, queue and offset or by its physical offset."""
    from sprocket.cli.folder import lookup
    from sprocket.cli.terminal import message
    from sprocket.rocketmq.model.offsets import PhysicalOffset

    with opened(folder) as store:
        if at is not None and topic is None and queue is None and offset is None:
            data = store.record_at(PhysicalOffset(at))
        elif at is None and topic is not None and queue is not None and offset is not None:
            data = lookup.queued(store, topic, queue, offset)
        else:
            raise SettingsError("say which message: --topic, --queue and --offset, or --at")
        found, crc_ok = message.decode(data)
        if as_json:
            output.write_json(message.as_json(found, crc_ok=crc_ok))
        else:
            tables.write_fields("", message.fields(found, crc_ok=crc_ok))
        lookup.require_intact([(found, crc_ok)])


@app.command("find")
def find_messages(
    folder: Folder,
    topic: Topic = None,
    key: Annotated[str | None, typer.Option(help="A key, or a unique key.")] = None,
    id: Annotated[str | None, typer.Option(help="An offset message id (32 or 56 digits).")] = None,  # noqa: A002
    time: Annotated[
        str | None, typer.Option(help="First messages stored at or after: ms or ISO 8601, UTC.")
    ] = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Find messages by key, by message id or by time."""
    from sprocket.cli.folder import lookup
    from sprocket.cli.terminal import message

    with opened(folder) as store:
        asked = [name for name, value in (("key", key), ("id", id), ("time", time)) if value]
        if len(asked) != 1:
            raise SettingsError("say what to find: one of --key, --id and --time")
        if id is not None:
            records = lookup.by_id(store, id, topic)
        elif topic is None:
            raise SettingsError(f"--{asked[0]} needs a --topic")
        elif key is not None:
            records = lookup.by_key(store, topic, key, limit or FOUND_MESSAGES_MAX)
        else:
            records = lookup.by_time(store, topic, output.time_ms(time or ""))
        if not records and topic is not None:
            lookup.require_topic(store, topic)
        messages = [message.decode(data) for data in records]
        for found, crc_ok in messages:
            if as_json:
                output.write_json(message.as_json(found, crc_ok=crc_ok))
            else:
                place = f"{found.topic}/{found.queue_id}/{found.queue_offset}"
                message.write_entry(found, place, crc_ok=crc_ok)
        if not messages:
            raise lookup.NothingFound(f"nothing found for {asked[0]} {key or id or time}")
        lookup.require_intact(messages)


@app.command("dump")
def dump(
    folder: Folder,
    topic: Topic = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """Write every message of the log, in its order; past damage, which is told at the end."""
    from sprocket.cli.folder import lookup
    from sprocket.cli.terminal import message

    with opened(folder) as store:
        damage: list[Damage] = []
        records = output.with_progress(
            store.records(damage=damage), "reading the log", store.end, lambda item: item[0]
        )
        written = wrong = 0
        others: set[str] = set()
        if not as_json:
            output.write_line("\t".join(message.LIST_HEADS))
        for _offset, data in records:
            found, crc_ok = message.decode(data)
            wrong += not crc_ok
            if topic is not None and found.topic != topic:
                others.add(found.topic)
                continue
            if as_json:
                output.write_json(message.as_json(found, crc_ok=crc_ok))
            else:
                output.write_line("\t".join(message.as_row(found)))
            written += 1
            if written == limit:
                break
        lookup.require_sound(damage, wrong)
        if topic is not None and not written:
            raise lookup.NothingFound(f"the log has no topic {topic!r}{hint(topic, others)}")
