"""What the commands that serve until they are told to stop have in common.

What people read goes to stderr. Stdout gets exactly one line, when everything is ready: `ready`,
and what the products say of themselves, such as `broker=HOST:PORT data=FOLDER`.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sprocket.base.errors import SprocketError
from sprocket.cli.servers import config_file
from sprocket.cli.servers.config_file import FileOption
from sprocket.cli.servers.settings import SetOption, load
from sprocket.cli.terminal import logs
from sprocket.runtime.log_limit import limiting

if TYPE_CHECKING:
    from sprocket.node.host import Host, Product


HealthPortOption = Annotated[
    str | None,
    typer.Option(
        "--health-port",
        metavar="PORT|off",
        help="Of /health (HTTP), for probes; 0 is any free port. Off by default.",
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """The options that every command has which serves."""

    config: FileOption = None
    health_port: HealthPortOption = None
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
    with logs.serving(options.log_format, options.log_level) as voice:
        try:
            with limiting(voice.limit):
                _serve(products, options, own, data, default, known, voice)
            voice.say(goodbye)
        except SprocketError as error:
            voice.fail(" ".join(str(error).split()))
            raise SystemExit(1) from None


def _serve(
    products: "Sequence[Product]",
    options: Serving,
    own: Mapping[str, object],
    data: str | None,
    default: str,
    known: "Sequence[Product]",
    voice: logs.ServerVoice,
) -> None:
    from sprocket.node import process
    from sprocket.node.host import Host
    from sprocket.node.process import Patience
    from sprocket.runtime.settings import HostSettings

    given = config_file.read(options.config, products, voice.say)
    own = {**own, "health.port": options.health_port}
    loaded = load(known or products, given, options.overrides, own)
    seconds_max = loaded.of(HostSettings).health.refusing_seconds_max
    folder = os.path.abspath(data or given.folder or default)

    async def start() -> "Host":
        return await Host.start(products, loaded, folder, say=voice.say)

    def greet(host: "Host", seconds: float) -> None:
        running, refusals = host.running.values(), host.refusals()
        rows = [row for one in running for row in one.rows]
        voice.greet([*rows, *(("stores nothing", one) for one in refusals)], seconds)
        words = {name: text for one in running for name, text in one.ready.items()}
        voice.ready({**words, "stores": "no"} if refusals else words)

    def patience(host: "Host") -> Patience:
        return Patience(refusals=host.refusals, refusing_seconds_max=seconds_max)

    process.serve(start, greet, voice.line, patience)
