"""`sprocket broker`: a broker in the foreground, without a NameServer of its own.

What people read goes to stderr. Stdout gets exactly one line, when it is ready:
`ready broker=HOST:PORT data=FOLDER`.
"""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from sprocket.cli import config_file, serving, up
from sprocket.cli.config_file import FileOption
from sprocket.cli.logs import FormatOption, LevelOption, LogFormat, LogLevel, log_to_stderr
from sprocket.cli.settings import SetOption, load_given

if TYPE_CHECKING:
    from sprocket.node.run import Node


def broker(
    config: FileOption = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="Folder of the store; by default the file's storePathRootDir, or sprocket-data.",
        ),
    ] = None,
    nameserver: Annotated[
        str | None,
        typer.Option(
            "--nameserver", "-n", metavar="HOST:PORT;…", help="NameServer to register with."
        ),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option("--port", help="0 is any free port.")] = None,
    flush: Annotated[
        str | None,
        typer.Option("--flush", metavar="sync|async", help="When a message counts as stored."),
    ] = None,
    overrides: SetOption = None,
    log_format: FormatOption = LogFormat.TEXT,
    log_level: LevelOption = LogLevel.INFO,
) -> None:
    """Run a broker in the foreground. FILE may be RocketMQ's broker.conf."""
    log_to_stderr(log_format, log_level)
    from sprocket.rocketmq.aliases import read_broker_conf

    given = config_file.read(config, read_broker_conf)
    options = {
        "server.host": host,
        "server.broker_port": port,
        "broker.nameservers": nameserver,
        "store.flush": flush,
    }
    loaded = load_given(given, config, overrides, options)
    folder = os.path.abspath(data or given.folder or "sprocket-data")

    async def start() -> "Node":
        from sprocket.node.run import Node

        return await Node.start(
            loaded.root,
            folder,
            geometry=up.wanted_geometry(loaded),
            has_nameserver=False,
            say=serving.say,
        )

    def greet(node: "Node", seconds: float) -> None:
        names = ", ".join(loaded.root.broker.nameservers)
        up.greet(
            [
                ("broker", f"{node.addresses.broker} ({loaded.root.broker.name})"),
                ("NameServers", names or "none: only clients that know the address find it"),
                *up.store_rows(node, loaded.root, folder),
            ],
            seconds,
        )
        serving.ready(f"broker={node.addresses.broker} data={folder}")

    serving.serve(start, greet)
    serving.say("stopped; everything acknowledged is on the disk")
