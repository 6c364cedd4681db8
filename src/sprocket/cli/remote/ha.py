"""`sprocket ha`: the machines that have the same log, over the wire."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sprocket.cli.remote.wire import Remote, over_the_wire
from sprocket.cli.terminal import CommandAnswer, answer

if TYPE_CHECKING:
    from sprocket.rocketmq.codec.bodies import ReplicaStatus
    from sprocket.rocketmq.model.route import BrokerData

app = typer.Typer(no_args_is_help=True, help="Machines that have the same log.")


@app.callback()
def ha() -> None:
    """Machines that have the same log."""


@app.command("status")
@over_the_wire
def show_status(
    remote: Remote,
    broker: Annotated[
        str | None, typer.Argument(help="Name of the broker; all by default.")
    ] = None,
) -> CommandAnswer:
    """Show masters and slaves: where the log of each ends, and whether a slave keeps up."""
    admin = remote.admin()
    known = admin.cluster().brokers
    names = sorted(known) if broker is None else [broker]
    return answer.table(
        [row for name in names for row in _rows(name, admin.broker.replicas(name), known)]
    )


def _rows(
    broker: str, found: Mapping[int, "ReplicaStatus"], known: Mapping[str, "BrokerData"]
) -> Iterator[dict[str, Any]]:
    """Give what each machine of a broker says, the master first."""
    master_end = max((one.log_end for one in found.values() if one.is_master), default=None)
    for broker_id, status in sorted(found.items()):
        yield {
            "broker": broker,
            "broker_id": broker_id,
            "address": known[broker].addresses[broker_id],
            "role": "master" if status.is_master else "slave",
            "log_end": status.log_end,
            "lag_bytes": 0 if master_end is None else max(0, master_end - status.log_end),
            "slaves": len(status.slaves),
            "in_sync": keeps_up(status),
        }


def keeps_up(status: "ReplicaStatus") -> bool:
    """Say whether a slave is connected, or all slaves of a master follow closely."""
    if not status.is_master:
        return bool(status.master.is_connected)
    return all(one.is_in_sync for one in status.slaves)
