"""`sprocket nameserver`: a NameServer in the foreground, until it is told to stop.

What people read goes to stderr. Stdout gets exactly one line, when it is ready:
`ready nameserver=HOST:PORT`.
"""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from sprocket.cli import config_file, serving
from sprocket.cli.config_file import FileOption
from sprocket.cli.logs import FormatOption, LevelOption, LogFormat, LogLevel, log_to_stderr
from sprocket.cli.settings import SetOption, load_given

if TYPE_CHECKING:
    from sprocket.node.names import NameServerNode


def nameserver(
    config: FileOption = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option("--port", help="0 is any free port.")] = None,
    data: Annotated[
        str,
        typer.Option("--data", metavar="DIR", help="Folder for what tools store in it."),
    ] = "sprocket-names",
    overrides: SetOption = None,
    log_format: FormatOption = LogFormat.TEXT,
    log_level: LevelOption = LogLevel.INFO,
) -> None:
    """Run a NameServer in the foreground. FILE may be RocketMQ's namesrv.conf."""
    log_to_stderr(log_format, log_level)
    from sprocket.rocketmq.aliases import read_nameserver_conf

    given = config_file.read(config, read_nameserver_conf)
    options = {"server.host": host, "server.nameserver_port": port}
    settings = load_given(given, config, overrides, options).root

    async def start() -> "NameServerNode":
        from sprocket.node.names import NameServerNode

        return await NameServerNode.start(settings, os.path.abspath(data))

    def greet(node: "NameServerNode", seconds: float) -> None:
        serving.say(f"NameServer {node.address} is ready after {seconds:.2f} s; Ctrl-C stops it.")
        serving.ready(f"nameserver={node.address}")

    serving.serve(start, greet)
    serving.say("stopped")
