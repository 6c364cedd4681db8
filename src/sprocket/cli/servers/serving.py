"""What the commands that serve until they are told to stop have in common.

What people read goes to stderr. Stdout gets exactly one line, when everything is ready: `ready`,
and what the products say of themselves, such as `broker=HOST:PORT data=FOLDER`.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sprocket.cli.servers import config_file
from sprocket.cli.servers.config_file import FileOption
from sprocket.cli.servers.settings import SetOption, load
from sprocket.cli.terminal import logs

if TYPE_CHECKING:
    from sprocket.node.host import Host, Product


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """The options that every command has which serves."""

    config: FileOption = None
    overrides: SetOption = None
    log_format: logs.FormatOption = logs.LogFormat.TEXT
    log_level: logs.LevelOption = logs.LogLevel.INFO


def serve(
    products: "Sequence[Product]",
    options: Serving,
    own: Mapping[str, object],
    data: str | None,
    default: str,
    *,
    known: "Sequence[Product]" = (),
    goodbye: str = "stopped; everything acknowledged is on the disk",
) -> None:
    """Serve some products until a signal comes.

    Args:
        products: The table's, or some of them; a settings file that is not ours is read as the
            last one's.
        options: What was given to the command.
        own: The settings that have an option of their own, by full name; None is not given.
        data: The folder, if it was given.
        default: The folder if neither an option nor a file names one.
        known: Products whose settings may be given, too, as a file may be for all.
        goodbye: What people are told at the end.
    """
    logs.log_to_stderr(options.log_format, options.log_level)
    from sprocket.node import process
    from sprocket.node.host import Host

    given = config_file.read(options.config, products)
    loaded = load(known or products, given, options.overrides, own)
    folder = os.path.abspath(data or given.folder or default)

    async def start() -> "Host":
        return await Host.start(products, loaded, folder, say=process.say)

    def greet(host: "Host", seconds: float) -> None:
        running = host.running.values()
        _greet([row for one in running for row in one.rows], seconds)
        words = {name: text for one in running for name, text in one.ready.items()}
        process.ready(" ".join(f"{name}={text}" for name, text in words.items()))

    process.serve(start, greet)
    process.say(goodbye)


def _greet(rows: Sequence[tuple[str, str]], seconds: float) -> None:
    """Say where everything is, to people on stderr."""
    from rich.console import Console
    from rich.table import Table

    from sprocket.node import process

    if len(rows) == 1:
        ((name, text),) = rows
        process.say(f"{name} {text} is ready after {seconds:.2f} s; Ctrl-C stops it.")
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console = Console(stderr=True, highlight=False)
    console.print(f"[bold]Sprocket[/] is ready after {seconds:.2f} s; Ctrl-C stops it.")
    console.print(table, soft_wrap=True)
