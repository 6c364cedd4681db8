"""`sprocket rabbit-store`: look into the queues of a stopped RabbitMQ, or of ours, and mend them.

Only `recover` changes the folder. What cannot be read is told at the end, the rest is shown.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import ForeignStore, SettingsError, StoreError
from sprocket.base.nearest import hint
from sprocket.cli.folder import repair
from sprocket.cli.folder.repair import AsJson
from sprocket.cli.terminal import output, tables

if TYPE_CHECKING:
    from sprocket.rabbitmq.store.reading import FoundMessage, FoundQueue, VhostReader

app = typer.Typer(
    no_args_is_help=True,
    help="Look into the folder of a stopped RabbitMQ's virtual hosts, or of ours. Only `recover` "
    "changes it.",
)

FOLDER_HELP = "Folder of a virtual host, of all of them, or of the node's data."
Folder = Annotated[str, typer.Argument(metavar="DIR", help=FOLDER_HELP)]
Vhost = Annotated[str | None, typer.Option(help="Only this virtual host.")]
Queue = Annotated[str | None, typer.Option(help="Only this queue.")]

FAULTS_SHOWN_MAX = 20


class QueueMissing(StoreError):
    """There is no such queue or message in the folder."""


class NotAllRead(StoreError):
    """Everything that can be read was shown, and some cannot."""


@contextmanager
def opened(folder: str, vhost: str | None) -> "Iterator[list[VhostReader]]":
    """Open virtual hosts for reading; every error of ours ends the command with one line."""
    from sprocket.rabbitmq.store import reading

    output.end_quietly_with_the_reader()
    with repair.looking_at(folder) as disk:
        readers = [reading.VhostReader(disk, path) for path in reading.vhost_folders(disk, folder)]
        if not readers:
            raise ForeignStore(f"{folder}: there is no virtual host of RabbitMQ")
        chosen = [one for one in readers if vhost is None or one.name == vhost]
        if not chosen:
            names = {one.name for one in readers}
            raise QueueMissing(f"there is no virtual host {vhost!r}{hint(vhost or '', names)}")
        try:
            yield chosen
        finally:
            for one in readers:
                one.close()


def queues_named(
    readers: "Sequence[VhostReader]", name: str | None
) -> "Iterator[tuple[VhostReader, FoundQueue]]":
    """Give the queues of that name, or all.

    Raises:
        QueueMissing: There is none.
    """
    names = set()
    found = False
    for reader in readers:
        for queue in reader.queues():
            names.add(queue.name)
            if name in (None, queue.name):
                found = True
                yield reader, queue
    if name is not None and not found:
        raise QueueMissing(f"there is no queue {name!r}{hint(name, names)}")


def tell_faults(readers: "Sequence[VhostReader]", unreadable: Sequence[str] = ()) -> None:
    """Say on stderr what could not be read.

    Args:
        readers: Which met faults.
        unreadable: A sentence for each message that could not be shown.

    Raises:
        NotAllRead: There was any.
    """
    told = [*(str(fault) for reader in readers for fault in reader.faults), *unreadable]
    for one in told[:FAULTS_SHOWN_MAX]:
        output.say(one)
    if told:
        more = len(told) - FAULTS_SHOWN_MAX
        rest = f", {more} of them not told here" if more > 0 else ""
        count = "1 fault" if len(told) == 1 else f"{len(told)} faults"
        raise NotAllRead(f"{count}{rest}; all else was read")


@app.command("ls")
def list_queues(
    folder: Folder, vhost: Vhost = None, queue: Queue = None, as_json: AsJson = False
) -> None:
    """List the queues: how many messages, how many of them were delivered, how large they are."""
    with opened(folder, vhost) as readers:
        rows = (_queue_row(*found) for found in queues_named(readers, queue))
        if as_json:
            for row in rows:
                output.write_json(row)
        else:
            tables.write_table("", list(rows), spare=("embedded", "acknowledged", "transient"))
        tell_faults(readers)


def _queue_row(reader: "VhostReader", queue: "FoundQueue") -> dict[str, Any]:
    from sprocket.cli.terminal import basic_message

    counts = reader.count(queue)
    return {
        "vhost": basic_message.text(queue.vhost),
        "queue": basic_message.text(queue.name),
        "version": 2 if any(part.is_v2 for part in queue.parts) else 1,
        "priorities": sum(part.queue.priority is not None for part in queue.parts),
        "messages": counts.published + counts.delivered,
        "redelivered": counts.delivered,
        "acknowledged": counts.acknowledged,
        "transient": counts.transient,
        "embedded": counts.embedded,
        "body_bytes": counts.body_bytes,
        "clean_stop": queue.stopped_cleanly,
    }


@app.command("get")
def get_message(
    folder: Folder,
    queue: Annotated[str | None, typer.Option(help="The queue.")] = None,
    seq_id: Annotated[int | None, typer.Option(min=0, help="Its number in the queue.")] = None,
    priority: Annotated[
        int | None, typer.Option(min=0, max=255, help="Of a queue with priorities: which one.")
    ] = None,
    vhost: Vhost = None,
    as_json: AsJson = False,
) -> None:
    """Show one message, by queue and number; also one that has left the queue."""
    from sprocket.cli.terminal import basic_message

    with opened(folder, vhost) as readers:
        if queue is None or seq_id is None:
            raise SettingsError("say which message: --queue and --seq-id")
        found = [
            message
            for reader, one in queues_named(readers, queue)
            for message in reader.messages(one, with_gone=True, seq_id=seq_id)
            if priority in (None, message.queue.priority)
        ]
        if not found:
            raise QueueMissing(f"queue {queue!r} has no message {seq_id}")
        if len(found) > 1:
            which = ", ".join(_place(message) for message in found)
            raise SettingsError(f"{seq_id} is a message of {which}: say --vhost and --priority")
        if as_json:
            output.write_json(message_json(found[0]))
        else:
            shown = {
                name: value if isinstance(value, bool | list) else str(value)
                for name, value in message_json(found[0]).items()
                if value is not None and name not in ("body_hex", "properties")
            }
            message = found[0].message
            if message is not None:
                for name, value in basic_message.as_json(message).get("properties", {}).items():
                    shown[f"property {name}"] = str(value)
                shown["body"] = basic_message.body_text(message)
            tables.write_fields("", shown)
        tell_faults(readers, _unreadable(found))


@app.command("dump")
def dump(
    folder: Folder,
    vhost: Vhost = None,
    queue: Queue = None,
    with_gone: Annotated[
        bool,
        typer.Option("--all", help="Also acknowledged and transient messages, as far as left."),
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Most messages to show.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the messages of each queue, in the order in which they will be delivered."""
    from sprocket.cli.terminal import basic_message

    with opened(folder, vhost) as readers:
        unreadable: list[str] = []
        written = 0
        if not as_json:
            output.write_line("\t".join(_HEADS))
        for reader, one in queues_named(readers, queue):
            for found in reader.messages(one, with_gone=with_gone):
                unreadable += _unreadable([found])
                if as_json:
                    output.write_json(message_json(found))
                else:
                    message = found.message
                    body = "" if message is None else basic_message.body_text(message)
                    key = message.routing_keys[0] if message and message.routing_keys else ""
                    cells = (
                        *(basic_message.text(found.queue.vhost), basic_message.text(one.name)),
                        *("" if found.queue.priority is None else str(found.queue.priority),),
                        *(str(found.seq_id), found.state.value, str(found.body_size)),
                        *(basic_message.text(key), body),
                    )
                    output.write_line("\t".join(cells))
                written += 1
                if written == limit:
                    break
            if written == limit:
                break
        tell_faults(readers, unreadable)


_HEADS = ("vhost", "queue", "priority", "seq id", "state", "body bytes", "routing key", "body")


def message_json(found: "FoundMessage") -> dict[str, Any]:
    """Return a message and its place, as `dump --json` writes it; the guide lists the names."""
    from sprocket.cli.terminal import basic_message
    from sprocket.rabbitmq.store.reading import MessageState

    told: dict[str, Any] = {
        "vhost": basic_message.text(found.queue.vhost),
        "queue": basic_message.text(found.queue.name),
        "priority": found.queue.priority,
        "seq_id": found.seq_id,
        "state": found.state.value,
        "redelivered": found.state is not MessageState.PUBLISHED,
        "persistent": found.is_persistent,
        "expires_at_us": found.expiry_us or None,
    }
    if found.message is None:
        return {**told, "body_len": found.body_size, "error": found.fault, **_where(found)}
    return {**told, **basic_message.as_json(found.message), **_where(found)}


def _where(found: "FoundMessage") -> dict[str, Any]:
    return {"file": found.path, "position": found.position}


def _place(found: "FoundMessage") -> str:
    priority = "" if found.queue.priority is None else f", priority {found.queue.priority}"
    return f"{found.queue.name!r} in {found.queue.vhost!r}{priority}"


def _unreadable(found: "Sequence[FoundMessage]") -> list[str]:
    return [
        f"{one.path} at {one.position}: message {one.seq_id} of {_place(one)}: {one.fault}"
        for one in found
        if one.message is None
    ]


@app.command("check")
def check_folder(folder: Folder, vhost: Vhost = None, as_json: AsJson = False) -> None:
    """Read everything, and report what is damaged or disagrees; exit with 1 if there is any."""
    from sprocket.rabbitmq.store import repair as vhosts

    with opened(folder, vhost) as readers:
        count = 0
        shown = []
        with output.progress() as step:
            for reader in readers:
                found = vhosts.check_vhost(
                    reader.disk, reader.layout.root, progress=partial(step, "checking")
                )
                for finding in found:
                    count += 1
                    row = {
                        "rule": finding.rule.name,
                        "file": finding.path,
                        "position": finding.position,
                        "expected": finding.expected,
                        "found": finding.found,
                    }
                    if as_json:
                        output.write_json(row)
                    elif count <= repair.SHOWN_MAX:
                        shown.append(row)
        verdict = f"{folder}: {count:,} broken rule{'s' if count > 1 else ''}"
        if shown:
            tables.write_table(verdict, shown)
        if count:
            raise repair.Broken(verdict)
        output.say(f"{folder}: nothing is wrong")


@app.command("recover")
def recover_folder(
    folder: Folder,
    vhost: Vhost = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be done.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Do in place what a start of Sprocket does after a crash, and leave it stopped cleanly.

    RabbitMQ may then go on with it. Not while a broker runs on the folder.
    """
    import msgspec

    from sprocket.base.disk import steps
    from sprocket.rabbitmq.settings import VhostGeometry, VhostStoreSettings
    from sprocket.rabbitmq.store import geometry, recovery
    from sprocket.rabbitmq.store.reading import VhostReader
    from sprocket.rabbitmq.store.vhost import VhostPlace, VhostStore

    with opened(folder, vhost) as readers:
        for reader in readers:
            disk, paths = reader.disk, reader.layout
            with output.progress() as step:
                if dry_run:
                    fixed = geometry.found(disk, paths, VhostGeometry())
                    report = recovery.look(disk, paths, fixed.segment_entries, step)
                else:
                    name = reader.name if disk.exists(paths.name) else ""
                    store = VhostStore.open(
                        VhostPlace(disk, paths.root, name),
                        VhostStoreSettings(),
                        VhostGeometry(),
                        step,
                    )
                    try:
                        steps.run(store.close_steps())
                    finally:
                        store.close()
                    report = store.report
            told = msgspec.to_builtins(report)
            counts = told.pop("messages_by_folder")
            again = VhostReader(disk, paths.root)
            rows = [
                {**_name_row(queue), "messages": sum(counts.get(p.folder, 0) for p in queue.parts)}
                for queue in again.queues()
            ]
            again.close()
            if as_json:
                output.write_json({"folder": paths.root, **told, "messages_by_queue": rows})
                continue
            verb = "would be recovered" if dry_run else "recovered"
            tables.write_fields(
                f"{paths.root}: {verb}",
                {name: value for name, value in told.items() if not isinstance(value, list)},
            )
            for name, what in (("damage", "damaged"), ("void_log", "set aside")):
                if told[name]:
                    tables.write_table(what, [{"what": one} for one in told[name]])
            if rows:
                tables.write_table("messages", rows)


def _name_row(queue: "FoundQueue") -> dict[str, Any]:
    from sprocket.cli.terminal import basic_message

    return {"vhost": basic_message.text(queue.vhost), "queue": basic_message.text(queue.name)}


@app.command("salvage")
def salvage_folder(
    folder: Folder,
    target: Annotated[str, typer.Argument(metavar="NEW", help="Folder of the new ones.")],
    vhost: Vhost = None,
    as_json: AsJson = False,
) -> None:
    """Copy every whole message to its own place in new folders, which RabbitMQ can start on.

    NEW gets a folder for each virtual host. The old ones are only read.
    """
    import os

    import msgspec

    from sprocket.rabbitmq.store import layout
    from sprocket.rabbitmq.store import repair as vhosts

    with opened(folder, vhost) as readers:
        done = []
        new = os.path.abspath(target)
        for reader in readers:
            with output.progress() as step:
                report = vhosts.salvage_vhost(
                    reader.disk,
                    os.path.abspath(reader.layout.root),
                    f"{new}/{layout.vhost_folder(reader.name)}",
                    progress=partial(step, "copying"),
                )
            done.append(report)
            if as_json:
                output.write_json(msgspec.to_builtins(report))
                continue
            told = msgspec.to_builtins(report)
            tables.write_fields(
                f"{reader.layout.root}: copied to {new}",
                {name: value for name, value in told.items() if not isinstance(value, list)},
            )
            for name, what in (("lost", "cannot be read"), ("damage", "damaged")):
                rows = [one if isinstance(one, dict) else {"fault": one} for one in told[name]]
                if rows:
                    tables.write_table(what, rows)
        lost = sum(len(report.lost) + len(report.nameless) for report in done)
        if lost:
            raise NotAllRead(f"{lost} messages or folders were left behind")
