"""`sprocket rabbit-store`: look into the queues of a stopped RabbitMQ, or of ours, and repair them.

Only `recover` and `administrator` change the folder. What cannot be read is told at the end, the
rest is shown.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.base.errors import ForeignStore, SettingsError, StoreError
from sprocket.base.nearest import hint
from sprocket.cli.folder import repair
from sprocket.cli.folder.repair import AsJson
from sprocket.cli.terminal import NewPassword, asked_password, output, tables

if TYPE_CHECKING:
    from sprocket.base.disk import Disk
    from sprocket.base.progress import Step
    from sprocket.rabbitmq.model.message import BasicMessage
    from sprocket.rabbitmq.store.reading import (
        FoundDelayed,
        FoundMessage,
        FoundQueue,
        VhostReader,
    )

app = typer.Typer(
    no_args_is_help=True,
    help="Look into the folder of a stopped RabbitMQ's virtual hosts, or of ours. Only `recover` "
    "and `administrator` change it.",
)

FOLDER_HELP = "Folder of a virtual host, of all of them, or of the node's data."
Folder = Annotated[str, typer.Argument(metavar="DIR", help=FOLDER_HELP)]
Vhost = Annotated[str | None, typer.Option(help="Only this virtual host.")]
Queue = Annotated[str | None, typer.Option(help="Only this queue.")]
Exchange = Annotated[
    str | None, typer.Option(help="Only what this x-delayed-message exchange keeps.")
]

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
    with repair.disk_of(folder) as disk:
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


def write_faults(readers: "Sequence[VhostReader]", unreadable: Sequence[str] = ()) -> None:
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
    folder: Folder,
    vhost: Vhost = None,
    queue: Queue = None,
    exchange: Exchange = None,
    as_json: AsJson = False,
) -> None:
    """List the queues: how many messages, how many of them were delivered, how large they are.

    Below them the exchanges that keep messages until they are due.
    """
    with opened(folder, vhost) as readers:
        rows = []
        if exchange is None:
            rows = [_queue_row(*found) for found in queues_named(readers, queue)]
        kept = _exchange_rows(readers, exchange) if queue is None else []
        if as_json:
            for row in (*rows, *kept):
                output.write_json(row)
        else:
            if rows or not kept:
                tables.write_table("", rows, spare=("embedded", "acknowledged", "transient"))
            if kept:
                tables.write_table("delayed", kept)
        write_faults(readers)


def _exchange_rows(readers: "Sequence[VhostReader]", name: str | None) -> list[dict[str, Any]]:
    """Return what each exchange keeps."""
    from sprocket.cli.terminal import basic_message

    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for reader, found in _delayed_named(readers, name):
        row = rows.setdefault(
            (reader.name, found.exchange),
            {
                "vhost": basic_message.text(reader.name),
                "exchange": basic_message.text(found.exchange),
                "delayed": 0,
                "body_bytes": 0,
                "next_due_at_us": found.due_at_us,
            },
        )
        row["delayed"] += 1
        row["body_bytes"] += found.message.body_size if found.message else 0
    return [rows[key] for key in sorted(rows)]


def _delayed_named(
    readers: "Sequence[VhostReader]", name: str | None
) -> "Iterator[tuple[VhostReader, FoundDelayed]]":
    """Give what an exchange, or each, keeps, in the order in which it is due.

    Raises:
        QueueMissing: No exchange of that name keeps anything.
    """
    names = set()
    for reader in readers:
        for found in reader.delayed():
            names.add(found.exchange)
            if name in (None, found.exchange):
                yield reader, found
    if name is not None and name not in names:
        raise QueueMissing(f"no exchange {name!r} keeps a message{hint(name, names)}")


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
    exchange: Exchange = None,
    number: Annotated[int | None, typer.Option(min=1, help="Its number in the exchange.")] = None,
    vhost: Vhost = None,
    as_json: AsJson = False,
) -> None:
    """Show one message, by queue and number; also one that has left the queue.

    One that an exchange keeps until it is due is named by --exchange and --number.
    """
    with opened(folder, vhost) as readers:
        if exchange is not None and number is not None:
            kept = [
                (reader, one)
                for reader, one in _delayed_named(readers, exchange)
                if one.number == number
            ]
            if not kept:
                raise QueueMissing(f"exchange {exchange!r} has no message {number}")
            if len(kept) > 1:
                raise SettingsError(f"{number} is a message of several virtual hosts: say --vhost")
            _show(delayed_json(*kept[0]), kept[0][1].message, as_json=as_json)
            write_faults(readers, _unreadable_delayed(kept))
            return
        if queue is None or seq_id is None:
            raise SettingsError(
                "say which message: --queue and --seq-id, or --exchange and --number"
            )
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
        _show(message_json(found[0]), found[0].message, as_json=as_json)
        write_faults(readers, _unreadable(found))


def _show(told: dict[str, Any], message: "BasicMessage | None", *, as_json: bool) -> None:
    """Write one message."""
    from sprocket.cli.terminal import basic_message

    if as_json:
        output.write_json(told)
        return
    shown = {
        name: value if isinstance(value, bool | list) else str(value)
        for name, value in told.items()
        if value is not None and name not in ("body_hex", "properties")
    }
    if message is not None:
        for name, value in basic_message.as_json(message).get("properties", {}).items():
            shown[f"property {name}"] = str(value)
        shown["body"] = basic_message.body_text(message)
    tables.write_fields("", shown)


@app.command("dump")
def dump(
    folder: Folder,
    vhost: Vhost = None,
    queue: Queue = None,
    with_gone: Annotated[
        bool,
        typer.Option("--all", help="Also acknowledged and transient messages, as far as left."),
    ] = False,
    exchange: Exchange = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Most messages to show.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the messages of each queue, in the order in which they will be delivered.

    Then those that exchanges keep, in the order in which they are due.
    """
    from sprocket.cli.terminal import basic_message

    with opened(folder, vhost) as readers:
        unreadable: list[str] = []
        written = 0
        if not as_json and exchange is None:
            output.write_line("\t".join(_HEADS))
        for reader, one in queues_named(readers, queue) if exchange is None else ():
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
        if queue is None and written != limit:
            left = None if limit is None else limit - written
            kept = islice(_delayed_named(readers, exchange), left)
            unreadable += _dump_delayed(kept, as_json=as_json)
        write_faults(readers, unreadable)


def _dump_delayed(
    kept: "Iterable[tuple[VhostReader, FoundDelayed]]", *, as_json: bool
) -> list[str]:
    """Write messages that exchanges keep; return a sentence for each that cannot be read."""
    from sprocket.cli.terminal import basic_message

    unreadable: list[str] = []
    has_head = as_json
    for reader, one in kept:
        unreadable += _unreadable_delayed([(reader, one)])
        told = delayed_json(reader, one)
        if as_json:
            output.write_json(told)
            continue
        if not has_head:
            output.write_line("\t".join(_DELAYED_HEADS))
            has_head = True
        body = "" if one.message is None else basic_message.body_text(one.message)
        cells = [told.get(name, "") for name in _DELAYED_NAMES]
        output.write_line("\t".join([*map(str, cells), body]))
    return unreadable


_DELAYED_NAMES = ("vhost", "delayed_by", "number", "due_at_us", "body_len", "routing_key")
_DELAYED_HEADS = ("vhost", "delayed by", "number", "due at us", "body bytes", "routing key", "body")


def delayed_json(reader: "VhostReader", found: "FoundDelayed") -> dict[str, Any]:
    """Return a message that an exchange keeps, as `dump --json` writes it."""
    from sprocket.cli.terminal import basic_message

    told: dict[str, Any] = {
        "vhost": basic_message.text(reader.name),
        "delayed_by": basic_message.text(found.exchange),
        "number": found.number,
        "due_at_us": found.due_at_us,
        "state": "delayed",
    }
    if found.message is None:
        return {**told, "error": found.fault}
    return {**told, **basic_message.as_json(found.message)}


def _unreadable_delayed(kept: "Sequence[tuple[VhostReader, FoundDelayed]]") -> list[str]:
    return [
        f"{reader.layout.delayed.root}: message {one.number} of exchange {one.exchange!r}: "
        f"{one.fault}"
        for reader, one in kept
        if one.message is None
    ]


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
    with opened(folder, vhost) as readers:
        check = partial(vhost_findings, readers[0].disk, [one.layout.root for one in readers])
        repair.write_findings(folder, [check], as_json=as_json)


def vhost_findings(
    disk: "Disk", folders: Sequence[str], step: "Step"
) -> "Iterator[dict[str, Any]]":
    """Give each broken rule of virtual hosts' files, as JSON shows it."""
    from sprocket.rabbitmq.store import repair as vhosts

    for folder in folders:
        for finding in vhosts.check_vhost(disk, folder, step=step):
            yield finding.row()


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
    from sprocket.node import backup
    from sprocket.rabbitmq.settings import VhostGeometry
    from sprocket.rabbitmq.store import geometry, recovery
    from sprocket.rabbitmq.store.reading import VhostReader

    with opened(folder, vhost) as readers:
        for reader in readers:
            disk, paths = reader.disk, reader.layout
            with output.progress() as step:
                if dry_run:
                    fixed, _ = geometry.found(disk, paths, VhostGeometry())
                    report = recovery.dry_run(disk, paths, fixed.segment_entries, step)
                else:
                    report = backup.recover_vhost(disk, paths.root, step)
            told = report.row()
            counts = told.pop("messages_by_folder")
            again = VhostReader(disk, paths.root)
            rows = [
                {**_name_row(queue), "messages": sum(counts.get(p.folder, 0) for p in queue.parts)}
                for queue in again.queues()
            ]
            again.close()
            repair.write_report(
                f"{paths.root}: {'would be recovered' if dry_run else 'recovered'}",
                report,
                as_json=as_json,
                row={"folder": paths.root, **told, "messages_by_queue": rows},
            )


def _name_row(queue: "FoundQueue") -> dict[str, Any]:
    from sprocket.cli.terminal import basic_message

    return {"vhost": basic_message.text(queue.vhost), "queue": basic_message.text(queue.name)}


@app.command("administrator")
def restore_administrator(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="Name of the user.")],
    new_password: NewPassword = None,
    as_json: AsJson = False,
) -> None:
    """Let somebody in again: a password and the tag administrator, for a new user or an old one.

    Not while a broker runs on the folder, and as the user of the system that runs it.
    """
    from sprocket.node.rabbitmq import FOLDER
    from sprocket.rabbitmq.broker import node_folder
    from sprocket.rabbitmq.broker.first_start import ADMINISTRATOR

    with repair.disk_of(folder) as disk:
        secret = asked_password(name) if new_password is None else new_password
        inside = f"{folder}/{FOLDER}"
        chosen = inside if disk.is_folder(inside) else folder
        is_new = node_folder.restore_administrator(disk, chosen, name, secret)
        if as_json:
            output.write_json({"user": name, "tags": [ADMINISTRATOR]})
        verb = "is made, and is an administrator" if is_new else "is an administrator"
        output.say(f"user {name} {verb} with the new password; start the broker")


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
                    step=step,
                )
            done.append(report)
            title = f"{reader.layout.root}: copied to {new}"
            repair.write_report(title, report, as_json=as_json)
        lost = sum(len(report.lost) + len(report.nameless) for report in done)
        if lost:
            raise NotAllRead(f"{lost} messages or folders were left behind")
