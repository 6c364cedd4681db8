"""`sprocket up`: a NameServer and a broker in the foreground, until they are told to stop.

What people read goes to stderr. Stdout gets exactly one line, when everything is ready:
`ready nameserver=HOST:PORT broker=HOST:PORT data=FOLDER`.
"""

import asyncio
import gc
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from sprocket.base.settings import Loaded
from sprocket.cli.settings import ConfigOption, SetOption, load
from sprocket.rocketmq.settings import Geometry, Settings

if TYPE_CHECKING:
    from sprocket.node.run import Node
    from sprocket.rocketmq.store.recovery import RecoveryReport

GEOMETRY_GROUPS = ("log.", "queue.", "index.")

COLLECT_OBJECTS = 100_000
"""New objects between two looks of the cycle collector; about 30 MiB of garbage at the worst."""

_MEANING = {
    "sync": "on the disk (one fdatasync covers everybody who waits)",
    "async": "handed to the operating system; a power cut may lose the last half second",
}


def up(
    data: Annotated[
        str, typer.Option("--data", metavar="DIR", help="Folder of the store.")
    ] = "sprocket-data",
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
    config: ConfigOption = None,
) -> None:
    """Run a NameServer and a broker in the foreground."""
    loaded = load(
        config,
        overrides,
        {
            "server.host": host,
            "server.nameserver_port": nameserver_port,
            "server.broker_port": broker_port,
            "store.flush": flush,
        },
    )
    from sprocket.cli.logs import log_to_stderr
    from sprocket.runtime import driver

    log_to_stderr()
    _tune_collector()
    # numpy's arithmetic starts threads, one a core, that nothing here uses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    driver.run(_run(loaded, os.path.abspath(data)))


async def _run(loaded: Loaded[Settings], folder: str) -> None:
    """Start a node, say that it is ready, and stop it when a signal comes."""
    from sprocket.node.run import Node

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    started = time.perf_counter()
    node = await Node.start(loaded.root, folder, geometry=_wanted_geometry(loaded))
    try:
        _greet(node, loaded.root, folder, time.perf_counter() - started)
        await stop.wait()
        _say("stopping …")
    finally:
        await node.stop()
    _say("stopped; everything acknowledged is on the disk")


def _tune_collector() -> None:
    """Have the cycle collector look rarely: under load it took a seventh of the time.

    A message makes a few tracked objects and no cycle, so the default of a look for each 700 of
    them finds nothing again and again. What the imports made is not looked at any more.
    """
    gc.freeze()
    gc.set_threshold(COLLECT_OBJECTS, 20, 50)


def _wanted_geometry(loaded: Loaded[Settings]) -> Geometry | None:
    """Return the geometry if some source gave a part of it; else the store decides."""
    is_given = any(name.startswith(GEOMETRY_GROUPS) for name in loaded.origins)
    return loaded.root.geometry if is_given else None


def _greet(node: "Node", settings: Settings, folder: str, seconds: float) -> None:
    """Say where everything is, to people on stderr and to scripts on stdout."""
    from rich.console import Console
    from rich.table import Table

    addresses, report = node.addresses, node.report
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("NameServer", addresses.nameserver)
    table.add_row("broker", f"{addresses.broker} ({settings.broker.name})")
    table.add_row("data", folder)
    table.add_row("acknowledged means", _MEANING[settings.store.flush])
    table.add_row("recovery", _recovery_text(report))
    console = Console(stderr=True, highlight=False)
    console.print(f"[bold]Sprocket[/] is ready after {seconds:.2f} s; Ctrl-C stops it.")
    console.print(table, soft_wrap=True)
    sys.stdout.write(
        f"ready nameserver={addresses.nameserver} broker={addresses.broker} data={folder}\n"
    )
    sys.stdout.flush()


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


def _say(text: str) -> None:
    sys.stderr.write(f"sprocket: {text}\n")
