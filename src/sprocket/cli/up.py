"""`sprocket up`: a NameServer and a broker in the foreground, until they are told to stop.

What people read goes to stderr. Stdout gets exactly one line, when everything is ready:
`ready nameserver=HOST:PORT broker=HOST:PORT data=FOLDER`.
"""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from sprocket.base.settings import Loaded
from sprocket.cli import config_file, serving
from sprocket.cli.config_file import FileOption
from sprocket.cli.logs import FormatOption, LevelOption, LogFormat, LogLevel, log_to_stderr
from sprocket.cli.settings import SetOption, load_given
from sprocket.rocketmq.settings import Geometry, Settings

if TYPE_CHECKING:
    from sprocket.node.run import Node
    from sprocket.rocketmq.store.recovery import RecoveryReport

GEOMETRY_GROUPS = ("log.", "queue.", "index.")

_MEANING = {
    "sync": "on the disk (one fdatasync covers everybody who waits)",
    "async": "handed to the operating system; a power cut may lose the last half second",
}


def up(
    config: FileOption = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="Folder of the store; by default the file's storePathRootDir, or sprocket-data.",
        ),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on.")] = None,
    nameserver_port: Annotated[
        int | None, typer.Option("--nameserver-port", help="0 is any free port.")
    ] = None,
    broker_port: Annotated[
        int | None, typer.Option("--broker-port", help="0 is any free port.")
    ] = None,
    flush: Annotated[
        str | None,
        typer.Option("--flush", metavar="sync|async", help="When a message counts as stored."),
    ] = None,
    overrides: SetOption = None,
    log_format: FormatOption = LogFormat.TEXT,
    log_level: LevelOption = LogLevel.INFO,
) -> None:
    """Run a NameServer and a broker in the foreground. FILE may be RocketMQ's broker.conf."""
    log_to_stderr(log_format, log_level)
    from sprocket.rocketmq.aliases import read_broker_conf

    given = config_file.read(config, read_broker_conf)
    loaded = load_given(
        given,
        config,
        overrides,
        {
            "server.host": host,
            "server.nameserver_port": nameserver_port,
            "server.broker_port": broker_port,
            "store.flush": flush,
        },
    )
    folder = os.path.abspath(data or given.folder or "sprocket-data")

    async def start() -> "Node":
        from sprocket.node.run import Node

        return await Node.start(
            loaded.root, folder, geometry=wanted_geometry(loaded), say=serving.say
        )

    def say_so(node: "Node", seconds: float) -> None:
        addresses = node.addresses
        greet(
            [
                ("NameServer", addresses.nameserver),
                ("broker", f"{addresses.broker} ({loaded.root.broker.name})"),
                *store_rows(node, loaded.root, folder),
            ],
            seconds,
        )
        serving.ready(f"nameserver={addresses.nameserver} broker={addresses.broker} data={folder}")

    serving.serve(start, say_so)
    serving.say("stopped; everything acknowledged is on the disk")


def wanted_geometry(loaded: Loaded[Settings]) -> Geometry | None:
    """Return the geometry if some source gave a part of it; else the store decides."""
    is_given = any(name.startswith(GEOMETRY_GROUPS) for name in loaded.origins)
    return loaded.root.geometry if is_given else None


def store_rows(node: "Node", settings: Settings, folder: str) -> list[tuple[str, str]]:
    """Return what people want to know of a store that was opened: name and text."""
    return [
        ("data", folder),
        ("acknowledged means", _MEANING[settings.store.flush]),
        ("recovery", _recovery_text(node.report)),
    ]


def greet(rows: list[tuple[str, str]], seconds: float) -> None:
    """Say where everything is, to people on stderr."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console = Console(stderr=True, highlight=False)
    console.print(f"[bold]Sprocket[/] is ready after {seconds:.2f} s; Ctrl-C stops it.")
    console.print(table, soft_wrap=True)


def _recovery_text(report: "RecoveryReport") -> str:
    """Return what recovery did, in one line."""
    if report.end == 0:
        return "nothing to do, the store is new"
    if report.clean:
        return f"nothing to do after a clean stop; {report.end:,} bytes of log"
    text = (
        f"after a crash: looked at {report.records:,} messages in {report.bytes_scanned:,} bytes, "
        f"cut {report.bytes_cut:,} bytes ({report.why}), rebuilt {report.units_rebuilt:,} queue "
        f"units and {report.index_entries_rebuilt:,} index entries, {report.seconds:.2f} s"
    )
    if report.damage:
        text += f"; stepped over damage in {len(report.damage)} places"
    return text
